"""The constants of an emitted module: named tensors in a safetensors file beside it.

How they are stored is in :mod:`wrapper_ir.tensors_file`. The file describes its layouts, so that it
can be read without the program; modules in exported folders read the one that ``Program.save``
writes, which has the same form. Names of the same tensor (tied weights) are one tensor after
loading, and tensors that shared memory share it again. Constants are detached, and are loaded to
the CPU or to the requested device.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError, safe_open

from wrapper_ir.outputs import replacing, sidecar
from wrapper_ir.runtime.errors import ConstantsError
from wrapper_ir.tensors_file import (
    IDENTITY,
    OWNER,
    REPLACED,
    Layout,
    Packed,
    Reader,
    TensorsFileError,
    in_layout,
    owner_of,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    import torch

    from wrapper_ir.runtime.checks import TensorSpec


def save_constants(
    path: str | os.PathLike[str],
    tensors: Mapping[str, torch.Tensor],
    *,
    owner: str | os.PathLike[str] | None = None,
) -> str:
    """Write named tensors to a file, replacing it atomically, and return their hash.

    Modules that have loaded the old file keep its values. The hash is in the file, too. A module
    that names it (:meth:`wrapper_ir.emitters.NamesConstants.naming`) takes no other values.

    Args:
        path: The file.
        tensors: The constants; strided tensors of any element type, size, stride and device.
        owner: The module that they belong to. A file of another module is not overwritten.

    Raises:
        OverwriteError: The file exists and does not belong to ``owner``.
        ConstantsError: A tensor cannot be stored, or the file cannot be written.
    """
    file = Path(path)
    kind = sidecar(Path(owner or file), owner_of)._replace(made_up=owner is not None)
    about = {} if owner is None else {OWNER: Path(owner).name}
    try:
        packed = Packed(tensors)
        packed.describe(tensors)
        identity = packed.identity()
        with replacing(file, kind) as unfinished:
            packed.write(unfinished, {**about, IDENTITY: identity})
    except (OSError, ValueError) as error:
        raise ConstantsError(file=str(file), reason=f"cannot be written: {error}") from error
    return identity


def load_constants(
    module_file: str | os.PathLike[str],
    name: str,
    expected: Iterable[TensorSpec] = (),
    identity: str = "",
) -> dict[str, torch.Tensor]:
    """Read the constants of a module.

    Args:
        module_file: The module's ``__file__``; the constants are beside it.
        name: The name of the file with the constants.
        expected: The specs of the constants to read, with their devices. If empty, all are read, to
            the CPU.
        identity: The hash of the values, which the module has as ``CONSTANTS_HASH``. If empty, any
            that fit are accepted.

    Returns:
        The tensors by name, in the order of ``expected``. Names saved from one tensor share one.

    Raises:
        ConstantsError: The file is missing or damaged, has other values, lacks a constant, or has
            one whose dtype or size is not as expected.
    """
    file = Path(module_file).resolve().parent / name
    home = f"keep it beside {module_file}"
    other = ConstantsError(
        file=str(file),
        reason=f"they are not the values that were written with {module_file}",
        hint="put back the file that was written with it; if other values are meant, delete the"
        f" line 'CONSTANTS_HASH' from {module_file}",
    )
    return _load(file, tuple(expected), {}, home, identity, other)


def load_program_constants(
    file: Path, expected: Sequence[TensorSpec], names: Mapping[str, str], identity: str = ""
) -> dict[str, torch.Tensor]:
    """Read constants of a program from the file that ``Program.save`` writes beside it.

    ``names`` are those in the program of constants that are renamed. ``identity`` is the hash that
    the program's text gives; if empty, any values that fit are accepted.

    Raises:
        ConstantsError: As for :func:`load_constants`.
    """
    home = "Program.save writes it, beside the program's own file"
    reason = "they are not the values that were saved with the program"
    other = ConstantsError(file=str(file), reason=reason, hint=REPLACED)
    return _load(file, expected, names, home, identity, other)


def _load(
    file: Path,
    expected: Sequence[TensorSpec],
    names: Mapping[str, str],
    home: str,
    identity: str,
    other: ConstantsError,
) -> dict[str, torch.Tensor]:
    """Read the constants of these specs, or all.

    ``home`` is the hint if there is no file, and ``other`` the error if it has other values.
    """
    found: dict[str, torch.Tensor] = {}
    made: dict[object, torch.Tensor] = {}
    try:
        with safe_open(file, framework="pt", device="cpu") as opened:
            reader = Reader(opened)
            if identity and reader.about.get(IDENTITY, "") != identity:
                raise other
            wanted: dict[str, TensorSpec | None] = {spec.name: spec for spec in expected}
            for name, spec in (wanted or dict.fromkeys(sorted(reader.names))).items():
                root = names.get(name, name)
                root = reader.same.get(root, root)
                key = (root, *((spec.size, spec.stride, spec.device) if spec else ()))
                if key not in made:
                    made[key] = _value(reader, root, spec)
                found[name] = made[key]
    except FileNotFoundError as error:
        raise ConstantsError(file=str(file), reason="there is no such file", hint=home) from error
    except TensorsFileError as error:
        hint = "the file belongs to another version of the module" if expected else None
        reason = f"cannot be read: {error}"
        raise ConstantsError(file=str(file), reason=reason, hint=hint) from error
    except (SafetensorError, OSError, ValueError, RuntimeError, TypeError) as error:
        raise ConstantsError(file=str(file), reason=f"cannot be read: {error}") from error
    return found


def _value(reader: Reader, name: str, spec: TensorSpec | None) -> torch.Tensor:
    """Return a constant in the layout and on the device of its spec."""
    value: torch.Tensor
    if spec is None:
        value = reader.value(name)
        return value
    size, stride = (tuple(int(n or 0) for n in row) for row in (spec.size, spec.stride))
    layout = Layout(str(spec.dtype).removeprefix("torch."), size, stride)
    value = reader.value(name, layout)
    if value.stride() != stride:  # a view of shared memory
        value = in_layout(value, layout)
    return value if spec.device is None else value.to(spec.device)
