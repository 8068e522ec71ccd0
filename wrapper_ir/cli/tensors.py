"""Inputs of a program, read from a file, and its results."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir import lines
from wrapper_ir.cli.errors import FileError, InputsError, file_errors
from wrapper_ir.cli.files import replacing
from wrapper_ir.lines.control import input_name
from wrapper_ir.outputs import Kind, contains, reading, safetensors_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


_MARK: Final = "wrapper_ir"

#: The comment of the zip archive, which marks a file of inputs as ours.
_INPUTS_REMARK: Final = b"inputs, written by wrapper_ir"

RESULTS: Final = Kind(
    "a file of results", lambda file: safetensors_metadata(file).get(_MARK) == "results"
)
INPUTS: Final = Kind("a file of inputs that we wrote", contains(_INPUTS_REMARK), made_up=True)


def names_of_inputs(program: lines.Program) -> tuple[str, ...]:
    """Return the names of a program's inputs, in order."""
    return tuple(map(input_name, program.inputs))


def read_inputs(program: lines.Program, file: str) -> tuple[Any, ...]:
    """Read a program's inputs from a ``.safetensors`` or ``.pt`` file of plain data.

    A mapping holds them by name, a sequence in order.
    """
    names = names_of_inputs(program)
    values = _read(file)
    if isinstance(values, dict):
        missing = [name for name in names if name not in values]
        extra = [str(name) for name in values if name not in names]
        if missing or extra:
            parts = {"missing": missing, "unknown": extra}
            reason = "; ".join(f"{key}: {', '.join(each) or 'none'}" for key, each in parts.items())
            hint = f"the program takes {', '.join(names) or 'nothing'}"
            raise InputsError(reason=reason, hint=hint)
        values = [values[name] for name in names]
    if len(values) != len(names):
        raise InputsError(reason=f"the program takes {len(names)}, but {len(values)} were given")
    return tuple(_input(program, *each) for each in zip(program.inputs, values, strict=True))


def write_results(path: Path, results: Sequence[Any]) -> None:
    """Write the tensors among the results to a safetensors file: ``result0``, ``result1``, ..."""
    from safetensors.torch import save_file

    tensors = {
        f"result{number}": value.detach().clone(memory_format=torch.contiguous_format)
        for number, value in enumerate(results)
        if isinstance(value, torch.Tensor)
    }
    save_file(tensors, path, {_MARK: "results"})


def write_inputs(file: str, inputs: Sequence[Any]) -> None:
    """Write inputs, tensors and numbers, to a ``.pt`` file for :func:`read_inputs`."""
    with replacing(file, INPUTS) as temporary:
        torch.save(list(inputs), temporary)
        with zipfile.ZipFile(temporary, "a") as archive:
            archive.comment = _INPUTS_REMARK


def summary(value: object) -> dict[str, Any]:
    """Summarise one result as data."""
    if not isinstance(value, torch.Tensor):
        return {"type": type(value).__name__, "value": value}
    about: dict[str, Any] = {"type": f"{value.dtype}".removeprefix("torch.")}
    about["shape"] = list(value.shape)
    if value.numel() and not value.is_complex():
        numbers = value.detach().double()
        about |= {key: float(getattr(numbers, key)()) for key in ("min", "max", "mean")}
    return about


def _read(file: str) -> dict[str, Any] | Sequence[Any]:
    path = Path(file)
    reading(path)
    try:
        with file_errors("read", repr(file)):
            if path.suffix == ".safetensors":
                from safetensors.torch import load_file

                return load_file(path)
            # weights_only: unpickling could otherwise run arbitrary code.
            values = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, ValueError, EOFError) as error:
        # torch's own message explains how to load unsafe files, which is not possible here.
        reason = "it is neither a .safetensors file nor a .pt file of plain data"
        raise FileError(verb="read", file=repr(file), reason=reason) from error
    except Exception as error:
        if type(error).__module__.startswith("safetensors"):
            raise FileError(verb="read", file=repr(file), reason=str(error)) from error
        raise
    return values if isinstance(values, (dict, list, tuple)) else [values]


def _input(program: lines.Program, declared: lines.Input, value: object) -> Tensor | float | None:
    if isinstance(declared, lines.ObjectInput):
        raise _no_object(declared)
    is_tensor = isinstance(declared, lines.BufferInput)
    if isinstance(value, torch.Tensor) and (is_tensor or value.numel() == 1):
        return value if is_tensor else value.item()
    if isinstance(declared, lines.ScalarInput):
        is_none = value is None and program.symbols[declared.symbol].kind is lines.SymbolKind.NONE
        if is_none or isinstance(value, (bool, int, float)):
            return value  # type: ignore[return-value]  # None is what the program takes
    what = "a tensor" if is_tensor else "a number"
    given = type(value).__name__
    raise InputsError(reason=f"{input_name(declared)} is {what}, but {given} was given")


def _no_object(declared: lines.ObjectInput) -> InputsError:
    reason = f"{declared.object} is an object of class {declared.class_name}"
    hint = "objects cannot be read from a file: call the program from Python"
    return InputsError(reason=reason, hint=hint)
