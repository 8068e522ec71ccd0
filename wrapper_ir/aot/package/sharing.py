"""Several programs in one package, with their constants in one file.

A library finds its constants by a table of offsets that is compiled into it. For several libraries
to share one file, every program gets the constants of all, in one order: its own under their names,
and those of the others, which it never reads. Equal bytes are stored once. Torch's own loaders take
such a package like any other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wrapper_ir.aot.build.constants import group_bytes, memory_of
from wrapper_ir.aot.errors import ExportPathError
from wrapper_ir.aot.package.archive import MODEL_NAME
from wrapper_ir.emitters.cpp.constants import constant_table
from wrapper_ir.errors import OptionValueError, UnsupportedError
from wrapper_ir.lines.fields import as_program
from wrapper_ir.lines.layout import DType, Layout
from wrapper_ir.lines.program import Constant, ConstantKind, FrozenMap, Program
from wrapper_ir.outputs import ending

if TYPE_CHECKING:
    import os

    from wrapper_ir.aot.build.work import BuildOptions


class _Key(NamedTuple):
    """The identity of bytes that programs may share; distinct for the constants of one program."""

    digest: bytes
    size: int
    occurrence: int


def with_shared_constants(programs: Sequence[Program]) -> list[Program]:
    """Return programs whose constants have the same layout, in one file for all.

    Raises:
        UnsupportedError: A program has objects of custom classes, which cannot be shared.
        ConstantValueError: The value of a constant is missing, or does not fit.
    """
    for program in programs:
        if program.objects:
            what = f"the object '{next(iter(program.objects))}' of program {program.name!r}"
            where, hint = "a package of several programs", "export it into a package of its own"
            raise UnsupportedError(what=what, where=where, hint=hint)
    own = [_roots(program) for program in programs]
    values: dict[_Key, Any] = {}
    for roots in own:
        for key, (_, value) in roots.items():
            values.setdefault(key, value)
    return [
        _with_others(program, {key: name for key, (name, _) in roots.items()}, values)
        for program, roots in zip(programs, own, strict=True)
    ]


def _roots(program: Program) -> dict[_Key, tuple[str, Any]]:
    """Return the constants that have bytes of their own: names and bytes."""
    import torch  # noqa: PLC0415 - imported already, as values are its tensors

    roots: dict[_Key, tuple[str, Any]] = {}
    for root, value in group_bytes(program, constant_table(program)):
        with memory_of(value) as memory:
            digest = hashlib.sha256(memory).digest()
        seen = sum(key.digest == digest for key in roots)
        roots[_Key(digest, root.data_bytes, seen)] = root.name, value.flatten().view(torch.uint8)
    return roots


def _with_others(program: Program, own: dict[_Key, str], values: dict[_Key, Any]) -> Program:
    """Return a program with the constants of all programs, in the order of ``values``."""
    groups: dict[str, list[str]] = {}
    for name, constant in program.constants.items():
        groups.setdefault(constant.tied_to or name, []).append(name)
    without_bytes = [name for name in groups if name not in own.values()]  # packed ones
    constants = {name: program.constants[name] for root in without_bytes for name in groups[root]}
    buffers, data = dict(program.buffers), dict(program.data)
    for index, (key, value) in enumerate(values.items()):
        if key in own:
            constants |= {name: program.constants[name] for name in groups[own[key]]}
            continue
        name = _free(f"shared_{index}", program.buffers)
        constants[name] = Constant(name, ConstantKind.TENSOR)
        buffers[name] = Layout.contiguous(DType.UINT8, (key.size,))
        data[name] = value
    return program.replace(constants=FrozenMap(constants), buffers=FrozenMap(buffers), data=data)


def _free(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "_"
    return name


# The content of a package: models by name, each in one or several variants.


def arranged(
    programs: Program | Sequence[Program] | Mapping[str, Program | Sequence[Program]],
    path: str | os.PathLike[str],
    options: BuildOptions,
) -> dict[str, list[Program]]:
    """Return the programs of an export by name, each in variants.

    ``programs`` are one program, its variants, or either by the names of models; for a folder, a
    forward and its backward. The constants of a package's programs get the same layout.

    Raises:
        NotAProgramError: Something is not a program.
        ExportPathError: Several programs are to be exported to neither a package nor a folder.
        OptionValueError: A model's name is not allowed, or an option does not support several
            programs.
        WrapperIRError: As for :func:`with_shared_constants`.
    """
    by_name: Any = programs if isinstance(programs, Mapping) else {MODEL_NAME: programs}
    is_folder = not ending(path)
    if is_folder and isinstance(programs, (list, tuple)):
        # A folder has no variants to choose from, so these are a forward and its backward.
        roles = [as_program(each, "wir.export").role.value for each in programs]
        if len({*roles}) == len(roles):
            by_name = dict(zip(roles, programs, strict=True))
    models: dict[str, list[Program]] = {
        name: [*each] if isinstance(each, (list, tuple)) else [each]
        for name, each in by_name.items()
    }
    flat = [as_program(each, "wir.export") for variants in models.values() for each in variants]
    if is_folder:
        _check_folders(models)
        return models
    if len(flat) == 1:
        _check_names(models)
        return models
    _check_several(models, Path(path), options)
    if options.constants != "none":
        shared = iter(with_shared_constants(flat))
        return {name: [next(shared) for _ in variants] for name, variants in models.items()}
    return models


def _check_several(
    models: Mapping[str, Sequence[Program]], path: Path, options: BuildOptions
) -> None:
    """Refuse paths and options that do not support several programs."""
    if path.suffix != ".pt2":
        reason = "several programs need a package (.pt2) or a folder"
        raise ExportPathError(target=str(path), reason=reason)
    for option, value in (("constants", "embedded"), ("debug_info", True)):
        if getattr(options, option) == value:
            expected = "another value for several programs"
            raise OptionValueError(option=option, value=value, expected=expected)
    _check_names(models)


def _check_folders(models: Mapping[str, Sequence[Program]]) -> None:
    """Refuse models that cannot be subpackages of a Python package, one for each program."""
    names = [*models]
    if any(len(programs) != 1 for programs in models.values()) or not names:
        expected = "one program, a forward and its backward, or programs by name, one for a name"
        raise OptionValueError(option="programs", value=names, expected=expected)
    if not all(name.isidentifier() and not iskeyword(name) for name in names):
        expected = "names that Python can import"
        raise OptionValueError(option="programs", value=names, expected=expected)


def _check_names(models: Mapping[str, Sequence[Program]]) -> None:
    """Refuse names that torch's loaders could confuse: they compare the beginnings of paths."""
    names = sorted(models)
    for name in names:
        others = [other for other in names if other != name and other.startswith(name)]
        is_plain = _MODEL_NAME.fullmatch(name) is not None
        if not is_plain or others or not models[name]:
            expected = "names of letters, digits and '_-.', none a prefix of another"
            raise OptionValueError(option="programs", value=names, expected=expected)
    if not names:
        raise OptionValueError(option="programs", value=names, expected="one program or more")


#: The form of a model's name in a package.
_MODEL_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
