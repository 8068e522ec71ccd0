"""The constants of an emitted module: named tensors in a safetensors file beside it.

The file's metadata has a JSON object per name for what safetensors cannot express. Element types
that it does not know, complex ones among them, are stored as bytes; strides that are not contiguous
are restored; names of the same tensor (tied weights) share one entry, and one tensor after loading.
Constants are detached, and are loaded to the CPU or to the requested device.

The file beside a ``.wir`` (``wrapper_ir.text.constants``) has another format, since it is read with
a program, which has the layouts. Both formats are in use.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from wrapper_ir.outputs import replacing, sidecar
from wrapper_ir.runtime.checks import TensorSpec, check_layout
from wrapper_ir.runtime.errors import ConstantsError, InputLayoutError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

#: Element types stored as they are: those that every version of safetensors supports.
_NATIVE = frozenset(
    {
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    }
)
_VERSION = "1"

#: The metadata key with the name of the module that owns the file.
_OWNER = "of"


def save_constants(
    path: str | os.PathLike[str],
    tensors: Mapping[str, torch.Tensor],
    *,
    owner: str | os.PathLike[str] | None = None,
) -> None:
    """Write named tensors to a file, replacing it atomically.

    Modules that have loaded the old file keep its values.

    Args:
        path: The file.
        tensors: The constants; strided tensors of any element type, size, stride and device.
        owner: The module that they belong to. A file of another module is not overwritten.

    Raises:
        OverwriteError: The file exists and does not belong to ``owner``.
        ConstantsError: A tensor cannot be stored, or the file cannot be written.
    """
    file = Path(path)
    stored: dict[str, torch.Tensor] = {}
    notes: dict[str, dict[str, Any]] = {}
    first_of: dict[tuple[object, ...], str] = {}
    for name, tensor in tensors.items():
        _check_storable(file, name, tensor)
        same = first_of.setdefault(_identity(tensor, name), name)
        if same != name:
            notes[name] = {"same_as": same}
            continue
        stored[name], note = _encode(tensor)
        if note:
            notes[name] = note
    _write(file, stored, notes, None if owner is None else Path(owner))


def _check_storable(file: Path, name: str, tensor: torch.Tensor) -> None:
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
        reason = f"{name!r} is not an ordinary tensor with elements (it is stored as "
        kind = "meta" if tensor.is_meta else str(tensor.layout)
        raise ConstantsError(file=str(file), reason=f"{reason}{kind})")
    if _overlaps(tensor):
        raise ConstantsError(file=str(file), reason=f"elements of {name!r} overlap in memory")
    if name == "__metadata__":
        raise ConstantsError(file=str(file), reason=f"{name!r} is a name of the file format's own")


def _identity(tensor: torch.Tensor, name: str) -> tuple[object, ...]:
    """Return a key that is equal for names of the same tensor."""
    if tensor.numel() == 0:  # the addresses of empty tensors do not identify them
        return (name,)
    lazy = (tensor.is_conj(), tensor.is_neg())
    where = (tensor.device, tensor.data_ptr())
    return (*where, tensor.dtype, tensor.shape, tensor.stride(), *lazy)


def _encode(tensor: torch.Tensor) -> tuple[torch.Tensor, dict[str, Any]]:
    """Return the tensor to store and the metadata to restore the original from it."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    note: dict[str, Any] = {}
    if not tensor.is_contiguous():
        note["stride"] = list(tensor.stride())
    plain = plain.cpu().contiguous()
    if plain.dtype not in _NATIVE:
        note["dtype"] = str(plain.dtype).removeprefix("torch.")
        note["size"] = list(plain.shape)
        plain = plain.reshape(-1).view(torch.uint8)
    # safetensors refuses tensors that share storage.
    return plain.clone(), note


def _decode(stored: torch.Tensor, note: dict[str, Any]) -> torch.Tensor:
    tensor = stored
    if "dtype" in note:
        tensor = tensor.view(getattr(torch, note["dtype"])).reshape(note["size"])
    if "stride" in note:
        return _with_strides(tensor, note["stride"])
    return tensor


def _with_strides(tensor: torch.Tensor, stride: list[int]) -> torch.Tensor:
    result = torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype)
    target = result
    for dim, step in enumerate(stride):
        # A dimension of stride 0 is stored once, so writing its first element writes all.
        if step == 0 and tensor.shape[dim] > 1:
            tensor, target = tensor.narrow(dim, 0, 1), target.narrow(dim, 0, 1)
    target.copy_(tensor)
    return result


def _overlaps(tensor: torch.Tensor) -> bool:
    """Return whether elements may share memory, apart from dimensions of stride 0."""
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    reach = 0
    for step, size in sorted((step, size) for step, size in pairs if step > 0 and size > 1):
        if step <= reach:
            return True
        reach += step * (size - 1)
    return False


def _owner_of(metadata: Mapping[str, str]) -> str | None:
    return metadata.get(_OWNER, "") if metadata.get("wrapper_ir") == _VERSION else None


def _write(
    file: Path,
    stored: dict[str, torch.Tensor],
    notes: dict[str, dict[str, Any]],
    owner: Path | None,
) -> None:
    metadata = {"wrapper_ir": _VERSION, "format": "pt", "notes": json.dumps(notes, sort_keys=True)}
    if owner is not None:
        metadata[_OWNER] = owner.name
    kind = sidecar(owner or file, _owner_of)._replace(made_up=owner is not None)
    try:
        with replacing(file, kind) as unfinished:
            save_file(stored, unfinished, metadata)
    except (OSError, SafetensorError) as error:
        raise ConstantsError(file=str(file), reason=f"cannot be written: {error}") from error


def load_constants(
    module_file: str | os.PathLike[str],
    name: str,
    expected: Iterable[TensorSpec] = (),
) -> dict[str, torch.Tensor]:
    """Read the constants of a module.

    Args:
        module_file: The module's ``__file__``; the constants are beside it.
        name: The name of the file with the constants.
        expected: The specs of the constants to read, with their devices. If empty, all are read, to
            the CPU.

    Returns:
        The tensors by name, in the order of ``expected``. Names saved from one tensor share one.

    Raises:
        ConstantsError: The file is missing or damaged, lacks a constant, or has one whose dtype,
            size or stride is not as expected.
    """
    file = Path(module_file).resolve().parent / name
    specs = {spec.name: spec for spec in expected}
    try:
        with safe_open(file, framework="pt", device="cpu") as opened:
            metadata = opened.metadata() or {}
            reader = _Reader(file, opened, json.loads(metadata.get("notes", "{}")))
            return {each: reader.read(each, specs.get(each)) for each in specs or reader.names()}
    except FileNotFoundError as error:
        raise ConstantsError(
            file=str(file), reason="there is no such file", hint=f"keep it beside {module_file}"
        ) from error
    except (SafetensorError, OSError, ValueError) as error:
        raise ConstantsError(file=str(file), reason=f"cannot be read: {error}") from error


def load_program_constants(
    file: Path, expected: Sequence[TensorSpec], names: Mapping[str, str]
) -> dict[str, torch.Tensor]:
    """Read constants of a program from the file that ``Program.save`` writes beside it.

    Args:
        file: The file.
        expected: The specs of the constants, by their new names.
        names: The names in the program of constants that are renamed.

    Returns:
        The tensors, in the order of ``expected``. Names of one tensor in the program share one.

    Raises:
        ConstantsError: The file is missing or damaged, lacks a constant, or has one whose dtype or
            size is not as expected.
    """
    found: dict[str, torch.Tensor] = {}
    made: dict[tuple[str, TensorSpec], torch.Tensor] = {}
    try:
        with safe_open(file, framework="pt", device="cpu") as opened:
            about = json.loads((opened.metadata() or {})["wrapper_ir"])
            stored = _Stored(opened, about["pieces"])
            for spec in expected:
                name = names.get(spec.name, spec.name)
                key = (about["same"].get(name, name), replace(spec, name=""))
                if key not in made:
                    made[key] = stored.value(key[0], spec)
                found[spec.name] = made[key]
    except FileNotFoundError as error:
        hint = "Program.save writes it, beside the program's own file"
        raise ConstantsError(file=str(file), reason="there is no such file", hint=hint) from error
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise ConstantsError(file=str(file), reason=f"cannot be read: {error}") from error
    return found


class _Stored:
    """Values in an open file, each stored under its own name or as a view of shared bytes."""

    def __init__(self, opened: _Opened, pieces: Mapping[str, Any]) -> None:
        self._opened = opened
        self._pieces = pieces
        self._memory: dict[str, torch.Tensor] = {}

    def value(self, name: str, spec: TensorSpec) -> torch.Tensor:
        """Return a value in the program's layout."""
        piece = self._pieces.get(name)
        size, stride = ([int(n or 0) for n in row] for row in (spec.size, spec.stride))
        if piece is None:
            stored = self._opened.get_tensor(name)
            if (stored.dtype, [*stored.shape]) != (spec.dtype, size):
                got = f"{stored.dtype}{[*stored.shape]}"
                raise ValueError(f"{name!r} is {got}, not {spec.dtype}{size}")
            value = stored if [*stored.stride()] == stride else _with_strides(stored, stride)
        else:
            key, start = piece["key"], piece["offset"] // spec.dtype.itemsize
            if key not in self._memory:
                self._memory[key] = self._opened.get_tensor(key).clone()
            memory = self._memory[key]
            whole = memory[: memory.numel() // spec.dtype.itemsize * spec.dtype.itemsize]
            value = whole.view(spec.dtype).as_strided(size, piece["stride"], start)
        return value if spec.device is None else value.to(spec.device)


class _Opened(Protocol):
    """The interface of an open safetensors file, whose own class is untyped."""

    def keys(self) -> list[str]: ...

    def get_tensor(self, name: str) -> torch.Tensor: ...


class _Reader:
    """An open file of constants."""

    def __init__(self, file: Path, opened: _Opened, notes: dict[str, dict[str, Any]]) -> None:
        self._file = file
        self._opened = opened
        self._notes = notes
        self._stored = frozenset(opened.keys())
        self._made: dict[tuple[str, str], torch.Tensor] = {}

    def names(self) -> list[str]:
        """Return every name in the file, sorted."""
        return sorted(self._stored | self._notes.keys())

    def read(self, name: str, spec: TensorSpec | None) -> torch.Tensor:
        """Return one constant, checked against its spec."""
        source = self._notes.get(name, {}).get("same_as", name)
        if source not in self._stored:
            raise ConstantsError(file=str(self._file), reason=f"there is no constant {name!r}")
        device = "cpu" if spec is None else str(spec.device)
        if (source, device) not in self._made:
            tensor = _decode(self._opened.get_tensor(source), self._notes.get(source, {}))
            self._made[source, device] = tensor.to(device)
        tensor = self._made[source, device]
        if spec is not None:
            self._check(tensor, spec)
        return tensor

    def _check(self, tensor: torch.Tensor, spec: TensorSpec) -> None:
        try:
            check_layout(tensor, spec.name, spec.dtype, spec.device, spec.size, spec.stride)
        except InputLayoutError as error:
            reason = error.message.removeprefix("input ")
            raise ConstantsError(
                file=str(self._file),
                reason=f"constant {reason}",
                hint="the file belongs to another version of the module",
            ) from error
