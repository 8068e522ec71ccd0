"""A Python module for a program in C++, in the form that caches of compiled graphs can store.

PyTorch's caches store text and run it again, in this process or a later one. The text generated
here contains everything that the library is built from. Running it looks the library up in the
toolchain's disk cache by that content, and builds it only if it is missing. A second process thus
compiles nothing, and a cache that was moved to another machine, or partly cleared, still works.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.analysis.borders import example_symbols
from wrapper_ir.analysis.devices import declared_devices, is_relative
from wrapper_ir.aot.build.gpu_kernels import VARIABLE
from wrapper_ir.devices import CPU as HOST
from wrapper_ir.emitters.artifact import CONSTANTS_FILE, ModuleText
from wrapper_ir.lines.control import BufferInput, ScalarInput
from wrapper_ir.lines.expr import substitute
from wrapper_ir.lines.layout import CPU, Layout

if TYPE_CHECKING:

    from wrapper_ir.emitters.cpp.renderer import CppSources
    from wrapper_ir.lines.program import Program
    from wrapper_ir.toolchain.source import KernelUnit


def module_text(
    artifact: CppSources, *, apart: bool = False, meanwhile: ModuleText | None = None
) -> str:
    """Return a module that defines ``call``, which takes one list and empties it.

    The loader of the module must set the program's constants in it, by their names in the program,
    before the first call. If ``apart``, it is part of an exported folder, with texts and constants
    in files beside it. The module ``meanwhile`` serves calls while the library is built.
    """
    program, launched = artifact.program, artifact.gpu_kernels
    texts = {name: _text(name, text, apart=apart) for name, text in artifact.sources.items()}
    kind = artifact.manifest.type
    is_here = apart and _is_here(program)
    own = f"# Ranks of a launcher take a device each.\ncurrent_device({_value(kind)}, __name__)\n"
    lines = [
        f'"""{_quoted(program.name)}: a program in C++, built and called by wrapper_ir."""',
        "",
        *_imports(artifact, apart=apart, served=meanwhile is not None),
        "",
        *(_FOLDER if apart else ()),
        *([own] if is_here else ()),
        "_files = {",
        *(f"    {_value(name)}: {text}," for name, text in texts.items()),
        "}",
        "",
        *(_ROWS if apart else ()),
        "_kernels = [",
        *(_kernel_literal(kernel, apart=apart) for kernel in artifact.kernels),
        "]",
        "",
        *(_specs(program) if apart else [f"_constants = {_value([*program.constants])}"]),
        "",
    ]
    if launched:
        rows = (_kernel_literal(kernel, apart=apart) for kernel in launched)
        lines += [f"{VARIABLE} = [", *rows, "]", ""]
    made = _calls(artifact, apart=apart)
    if meanwhile is not None:
        made = _served(made, meanwhile, VARIABLE if launched else "None")
    return "\n".join([*lines, *made, *(_main(program) if apart else ())])


def _calls(artifact: CppSources, *, apart: bool) -> list[str]:
    """Return the lines that define ``call``."""
    program = artifact.program
    more = f", {VARIABLE}" if artifact.gpu_kernels else ""
    if artifact.manifest.type != HOST.type:
        more += f", device={_value(artifact.manifest.type)}"
    if artifact.manifest.parts:
        more += f", parts={_value(sorted(map(str, artifact.manifest.parts)))}"
    if program.objects:
        more += f", objects={_value([*program.objects])}, inputs={len(program.inputs)}"
    if apart:
        more += ", apart=True"
    call = f"boxed_call({_value(program.name)}, _files, _kernels, _constants, globals(){more})"
    made = [f"call = {call}", ""]
    if artifact.graphs is not None:
        made += [f"call = captured(call, {artifact.graphs!r}, globals())", ""]
    return made


def _served(made: Sequence[str], meanwhile: ModuleText, launched: str) -> list[str]:
    """Return the end of a module in which another one serves calls while the library is built."""
    return [
        f"_meanwhile = {_literal(meanwhile.source)}",
        "",
        f"_names = {_value(dict(meanwhile.constants))}",
        "",
        "",
        "def _build():",
        *(f"    {line}" for line in made if line),
        "    return call",
        "",
        "",
        f"_sources = (_files, _kernels, {launched})",
        "",
        "call = served(_build, _sources, _meanwhile, _names, globals())",
        "",
    ]


def kernel_files(artifact: CppSources) -> dict[str, str]:
    """Return the text of each kernel by its path in a program's folder."""
    every: Iterable[KernelUnit[Any]] = (*artifact.kernels, *artifact.gpu_kernels)
    return {each.file: each.source.code for each in every}


def _is_here(program: Program) -> bool:
    """Return whether a program runs on the device that is current when it is loaded."""
    return any(map(is_relative, declared_devices(program)))


def _imports(artifact: CppSources, *, apart: bool, served: bool) -> list[str]:
    program, has_graphs = artifact.program, artifact.graphs is not None
    takes_tensors = any(isinstance(each, BufferInput) for each in program.inputs)
    names = ["boxed_call", *(["captured"] if has_graphs else [])]
    lines = [f"from wrapper_ir.aot.load import {', '.join(names)}"]
    if served:
        lines.append("from wrapper_ir.aot.meanwhile import served")
    if apart:
        names = ["SourceFolder", *(["TensorSpec"] if program.constants else [])]
        names += ["current_device"] if _is_here(program) else []
        names += [*(["random_tensor"] if takes_tensors else []), "run_main"]
        lines.append(f"from wrapper_ir.runtime import {', '.join(names)}")
    if has_graphs:
        lines.append("from wrapper_ir.toolchain.manifest import CaptureFacts")
    needs_torch = apart and (takes_tensors or program.constants)
    return ["import torch", "", *lines] if needs_torch else lines


# A module in an exported folder: texts and constants are in files beside it, and it can be run.

_FOLDER: Final = (
    "# Kernels and constants are in files beside this one; it checks that they can run here.",
    "_folder = SourceFolder(__file__)",
    "",
)


_ROWS: Final = (
    "# For each kernel: symbol, name, text, argument types, the function in the text, the",
    "# instruction set that it was written for, and compiler flags.",
)


def _text(file: str, text: str, *, apart: bool) -> str:
    """Return the expression for a text: a literal, or a read of its file."""
    return f"_folder.text({_value(file)})" if apart else _literal(text)


def _specs(program: Program) -> list[str]:
    """Return the lines that describe and load the constants."""
    if not program.constants:
        return ["_constants = []"]
    layouts = {name: program.layout(name) for name in program.constants}
    return [
        f"# Constants, from {CONSTANTS_FILE}.",
        "_specs = [",
        *(
            f"    TensorSpec({_value(n)}, {_like(x, x.size, x.stride)}),"
            for n, x in layouts.items()
        ),
        "]",
        "_constants = [spec.name for spec in _specs]",
        "_folder.fill(globals(), _specs)",
    ]


def _main(program: Program) -> list[str]:
    """Return the lines that run the program on random inputs."""
    numbers = example_symbols(program)
    known = {name: n for name, n in numbers.items() if type(n) is int}
    rows = []
    for each in program.inputs:
        if isinstance(each, BufferInput):
            layout = program.layout(each.name)
            size = [int(substitute(number, known)) for number in layout.size]
            stride = [int(substitute(number, known)) for number in layout.stride]
            rows.append(f"        random_tensor({_like(layout, size, stride)}),")
        elif isinstance(each, ScalarInput):
            rows.append(f"        {numbers[each.symbol]},")
    return [
        "",
        "def make_inputs():",
        '    """Make inputs with random contents."""',
        "    return [",
        *rows,
        "    ]",
        "",
        "",
        'if __name__ == "__main__":',
        "    run_main(call, make_inputs)",
        "",
    ]


def _like(layout: Layout, size: Iterable[object], stride: Iterable[object]) -> str:
    """Return a layout as arguments: element type, size, stride, and the device if not the CPU."""
    text = f"torch.{layout.dtype.torch_name}, {tuple(size)}, {tuple(stride)}"
    return text if layout.device == CPU else f"{text}, torch.device({_value(str(layout.device))})"


def _kernel_literal(kernel: KernelUnit[Any], *, apart: bool) -> str:
    """Return a kernel as a tuple of its symbol and the fields of its source."""
    values = [_value(kernel.symbol)]
    for field in dataclasses.fields(kernel.source):
        value = getattr(kernel.source, field.name)
        is_text = field.name == "code"
        values.append(_text(kernel.file, value, apart=apart) if is_text else _value(value))
    if apart:
        rows = (row for value in values for row in _broken(value))
        return "\n".join(["    (", *(f"        {row}" for row in rows), "    ),"])
    return f"    ({', '.join(values)}),"


def _broken(value: str) -> list[str]:
    """Return the lines of a list item; a long tuple is split over several."""
    if len(value) <= _WIDTH or not value.startswith('("'):
        return [f"{value},"]
    return ["(", *(f"    {item}," for item in value[1:-1].split(", ")), "),"]


#: The longest item, in characters, that stays on one line.
_WIDTH: Final = 79


def _value(value: object) -> str:
    if isinstance(value, str):
        is_plain = value.isascii() and value.isprintable() and not {*value} & {'"', "\\"}
        return f'"{value}"' if is_plain else repr(value)
    if isinstance(value, tuple | list):
        inside = ", ".join(map(_value, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(value) == 1)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_value(key)}: {_value(each)}' for key, each in value.items())}}}"
    odd = isinstance(value, float) and not math.isfinite(value)
    return f"float({str(value)!r})" if odd else repr(value)


def _literal(text: str) -> str:
    """Return a Python literal of a text, line by line if it is printable."""
    if all(character == "\n" or character.isprintable() for character in text):
        return f'"""\\\n{_quoted(text)}"""'
    return repr(text)


def _quoted(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return quoted[:-1] + '\\"' if quoted.endswith('"') else quoted
