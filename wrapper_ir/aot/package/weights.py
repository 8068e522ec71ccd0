"""The weights of packages: those in the file, and those that a caller gives instead."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import Tensor

from wrapper_ir.aot.package.archive import Archive, Model, PackageError, models_of, opened
from wrapper_ir.errors import OptionValueError, did_you_mean
from wrapper_ir.runtime.devices import current_device
from wrapper_ir.runtime.subclass_parts import with_parts
from wrapper_ir.toolchain.manifest import ALIGNMENT

if TYPE_CHECKING:

    AnyPath = str | os.PathLike[str]
    Weights = Mapping[str, Tensor] | AnyPath | Sequence[AnyPath]

#: The number of constants that a message names.
_MOST_SHOWN: Final = 8


class Given(NamedTuple):
    """Weights that the caller gives."""

    tensors: Mapping[str, Tensor]
    is_package: bool = False
    """Whether a package is among them, which may have other models besides."""


def given_weights(weights: Weights | None) -> Given | None:
    """Return weights by name; those in files are mapped into memory."""
    if weights is None:
        return None
    if isinstance(weights, Mapping) and all(isinstance(each, Tensor) for each in weights.values()):
        return Given(with_parts(weights))
    if isinstance(weights, (list, tuple)):
        files = [each for each in map(given_weights, weights) if each is not None]
        tensors = {name: value for file in files for name, value in file.tensors.items()}
        return Given(tensors, any(file.is_package for file in files))
    path = Path(weights) if isinstance(weights, (str, os.PathLike)) else Path()
    if path.name.endswith(".safetensors.index.json"):
        return given_weights([path.parent / file for file in _files_of(path)])
    if path.suffix == ".safetensors":
        return Given(_of_safetensors(path))
    if path.suffix == ".pt2":
        models = [variants[0] for variants in models_of(opened(path)).values()]
        pairs = [pair for model in reversed(models) for pair in _mapped(model)]
        return Given({row["model_name"]: value for row, value in pairs}, is_package=True)
    expected = "tensors by name, .safetensors or .pt2 files, or an index of such files"
    raise OptionValueError(option="weights", value=weights, expected=expected)


def _files_of(index: Path) -> list[str]:
    """Return the files that an index of weights lists."""
    try:
        return sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"it is not an index of weights: {type(error).__name__}: {error}"
        raise PackageError(file=str(index), problem=problem) from error


def _of_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - seldom wanted

    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        problem = f"its weights cannot be read: {error}"
        raise PackageError(file=str(path), problem=problem) from error


# The names of what is given, against those of the model.


def names_in(archive: Archive) -> set[str]:
    """Return the names of tensors in the models of a package."""
    abouts = [variant.about for variants in models_of(archive).values() for variant in variants]
    names = {row["model_name"] for about in abouts for row in about["constants"]}
    return names.union(*(about.get("unread", ()) for about in abouts))


def check_names(file: Path, given: Given, names: Collection[str]) -> None:
    """Refuse names that no model of the file has."""
    unknown = [name for name in given.tensors if name not in names]
    if unknown and not given.is_package:
        problem = f"its model has no {_listed(unknown)}"
        general = "weights have the names of the model's state_dict"
        hint = did_you_mean(unknown[0], names) or general
        raise PackageError(file=str(file), problem=problem, hint=hint)


def check_missing(
    file: Path, rows: Sequence[Mapping[str, Any]], given: Given, *, partial: bool
) -> None:
    """Refuse weights that lack a parameter, unless it is said that they may."""
    covered = {_place(row) for row in rows if row["model_name"] in given.tensors}
    wanted = {
        _place(row): row["model_name"]
        for row in reversed(rows)
        if row["kind"] == "parameter" and row["bytes"]
    }
    missing = [name for place, name in wanted.items() if place not in covered]
    if missing and not partial:
        problem = f"the weights lack {_listed([*reversed(missing)])}"
        hint = (
            "pass all parameters of the model, or partial=True to take the others from the package"
        )
        raise PackageError(file=str(file), problem=problem, hint=hint)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_MOST_SHOWN]))
    return shown + (f" and {len(names) - _MOST_SHOWN} more" if names[_MOST_SHOWN:] else "")


def _place(row: Mapping[str, Any]) -> tuple[int, int, str]:
    """Return the place of a constant's bytes, which tied constants have in common."""
    return row["offset"], row["bytes"], row["device"]


def known_values(model: Model, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights by their names in the program, on its devices."""
    return {
        row["name"]: weights[row["model_name"]].detach().to(row["device"])
        for row in model.about["constants"]
        if row["model_name"] in weights
    }


def all_values(model: Model, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the value of every constant of a package, by its name in the program."""
    values, rows = known_values(model, weights), model.about["constants"]
    covered = {_place(row) for row in rows if row["bytes"] and row["name"] in values}
    rest = [row for row in rows if row["name"] not in values and _place(row) not in covered]
    if rest:
        stored = {row["name"]: value for row, value in _mapped(model)}
        values |= {row["name"]: stored[row["name"]] for row in rest if row["name"] in stored}
    missing = [row["model_name"] for row in rest if row["name"] not in values]
    if missing:
        problem = f"it has no weights, and none were given for {_listed(missing)}"
        model.archive.refuse(problem, "load it with weights=, such as the model's state_dict()")
    return values


# The weights of a package, mapped into memory.

_moving = threading.Lock()
_moved: Final[weakref.WeakValueDictionary[tuple[Archive, int, str], Tensor]] = (
    weakref.WeakValueDictionary()
)


def _mapped(model: Model) -> Iterator[tuple[Mapping[str, Any], Tensor]]:
    """Yield the constants of a package, each with its row of the index.

    CPU constants are views of the mapped file; others are copied to their device, once for all
    models of the package.
    """
    path = model.weights
    if path is None:
        return
    blob = model.archive.bytes_of(path)
    storages: dict[tuple[int, int, str], Tensor] = {}
    for row in model.about["constants"]:
        place = _place(row)
        if place not in storages:
            storages[place] = _storage(model.archive, blob, row)
        dtype = getattr(torch, row["dtype"])
        memory = storages[place]
        typed = memory[: len(memory) // dtype.itemsize * dtype.itemsize].view(dtype)
        yield row, typed.as_strided(row["size"], row["stride"], row["storage_offset"])


def _storage(archive: Archive, blob: memoryview, row: Mapping[str, Any]) -> Tensor:
    """Return the bytes of a constant, and of those tied to it, on its device."""
    start, size, device = row["offset"], row["bytes"], current_device(row["device"])
    if not size:
        return torch.empty(0, dtype=torch.uint8, device=device)
    bytes_ = torch.frombuffer(blob[start : start + size], dtype=torch.uint8)
    if device.type == "cpu":
        is_aligned = bytes_.data_ptr() % ALIGNMENT == 0  # false if other tools repacked the file
        return bytes_ if is_aligned and not row["written"] else bytes_.clone()
    if row["written"]:
        return bytes_.to(device)
    key = (archive, start, str(device))
    with _moving:
        if (moved := _moved.get(key)) is None:
            moved = _moved[key] = bytes_.to(device)
        return moved
