"""A module of Python for a program in C++: what caches of compiled graphs can keep.

PyTorch's caches keep text and run it again, in this process or a later one. The text made here
holds everything that the library is built from. Running it looks the library up in the toolchain's
disk cache by that content, and builds it only where it is not found; so a second process compiles
nothing, and a cache that was carried to another machine, or cleared by half, is no trouble.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wrapper_ir.aot.gpu_kernels import VARIABLE, units_of
from wrapper_ir.aot.load import load_library, with_objects
from wrapper_ir.devices import CPU
from wrapper_ir.emitters.cpp.artifact import KernelUnit, Manifest, Sources
from wrapper_ir.toolchain.parts import Part
from wrapper_ir.toolchain.source import CppSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import DataclassInstance

    from wrapper_ir.emitters.cpp.artifact import BoxedCall, CppArtifact


def module_text(artifact: CppArtifact) -> str:
    """Return a module that defines ``call``: it takes one list, which it empties.

    Whoever loads the module sets the program's constants in it, by their names in the program,
    before the first call.
    """
    program = artifact.program
    lines = [
        f'"""{_quoted(program.name)}: a program in C++, built and called by wrapper_ir."""',
        "",
        "from wrapper_ir.aot.module_text import boxed_call",
        "",
        "_files = {",
        *(f"    {name!r}: {_literal(text)}," for name, text in artifact.sources.items()),
        "}",
        "",
        "_kernels = [",
        *(_kernel_literal(kernel.symbol, kernel.source) for kernel in artifact.kernels),
        "]",
        "",
        f"_constants = {list(program.constants)!r}",
        "",
    ]
    more = ""
    if launched := artifact.gpu_kernels:
        more = f", {VARIABLE}"
        rows = [_kernel_literal(kernel.symbol, kernel.source) for kernel in launched]
        lines += [f"{VARIABLE} = [", *rows, "]", ""]
    if artifact.manifest.type != CPU.type:
        more += f", device={artifact.manifest.type!r}"
    if artifact.manifest.parts:
        more += f", parts={sorted(map(str, artifact.manifest.parts))!r}"
    if program.objects:
        more += f", objects={list(program.objects)!r}, inputs={len(program.inputs)}"
    made = f"boxed_call({program.name!r}, _files, _kernels, _constants, globals(){more})"
    lines += [f"call = {made}", ""]
    if artifact.graphs is not None:
        lines.insert(2, f"from {type(artifact.graphs).__module__} import CaptureFacts")
        lines.insert(3, "from wrapper_ir.aot.load import captured")
        lines += [f"call = captured(call, {artifact.graphs!r}, globals())", ""]
    return "\n".join(lines)


def boxed_call(  # noqa: PLR0913 - what the text of a module passes
    name: str,
    files: Mapping[str, str],
    kernels: Sequence[tuple[Any, ...]],
    constants: Sequence[str],
    variables: Mapping[str, Any],
    gpu_kernels: Sequence[tuple[Any, ...]] = (),
    *,
    device: str = CPU.type,
    parts: Sequence[str] = (),
    objects: Sequence[str] = (),
    inputs: int = 0,
) -> BoxedCall:
    """Return the function of such a module.

    Args:
        name: Of the program.
        files: The generated files.
        kernels: The kernels, each as a tuple of its symbol and the fields of its source.
        constants: Names of the program's constants.
        variables: The module's, where the constants are when the first call comes.
        gpu_kernels: The Triton kernels, likewise.
        device: Torch's type of the device that it runs on.
        parts: The parts of the runtime that the generated files use.
        objects: Names of the program's objects.
        inputs: How many inputs a program with objects has besides.

    Raises:
        WrapperIRError: The library cannot be built or loaded.
    """
    from wrapper_ir.aot.build import build_loadable  # noqa: PLC0415 - only to build

    units = tuple(KernelUnit(symbol, CppSource(*fields)) for symbol, *fields in kernels)
    manifest = Manifest(frozenset(map(Part, parts)), type=device)
    library = build_loadable(Sources(files, units, units_of(gpu_kernels), manifest))
    function: BoxedCall = load_library(
        library,
        (lambda: tuple(variables[each] for each in constants)) if constants else (),
        name=name,
        boxed=True,
    )
    if objects:
        function = with_objects(
            function, lambda: tuple(variables[each] for each in objects), inputs, boxed=True
        )
    return function


def _kernel_literal(symbol: str, source: DataclassInstance) -> str:
    """Return a kernel as a tuple of its symbol and the fields of its source."""
    names = [field.name for field in dataclasses.fields(source)]
    values = [(_literal if name == "code" else _value)(getattr(source, name)) for name in names]
    return f"    ({symbol!r}, {', '.join(values)}),"


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {_value(each)}' for key, each in value.items())}}}"
    odd = isinstance(value, float) and not math.isfinite(value)
    return f"float({str(value)!r})" if odd else repr(value)


def _literal(text: str) -> str:
    """Return a Python literal that shows a text line by line."""
    if all(character == "\n" or character.isprintable() for character in text):
        return f'"""\\\n{_quoted(text)}"""'
    return repr(text)


def _quoted(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return quoted[:-1] + '\\"' if quoted.endswith('"') else quoted
