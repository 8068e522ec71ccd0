"""The whole file: header, definitions, ``call``, and the code that runs it as a script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.analysis.borders import example_symbols, spent_inputs
from wrapper_ir.analysis.kept import kept_around_calls
from wrapper_ir.analysis.ops import PRODUCTS
from wrapper_ir.emitters.artifact import CONSTANTS_FILE, WRAPPER, SourceFiles
from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.artifact import PythonArtifact
from wrapper_ir.emitters.python.context import FOLDER, Context
from wrapper_ir.emitters.python.cuda_graphs import render_graphs
from wrapper_ir.emitters.python.device_kernels import DeviceSection, TritonSection
from wrapper_ir.emitters.python.entry import Entry, keep_arenas, keep_heap, render_release
from wrapper_ir.emitters.python.kernels import CppSection, OpSection, Section
from wrapper_ir.emitters.python.lines import RegionRenderer
from wrapper_ir.emitters.python.region import begin_streams
from wrapper_ir.emitters.writer import CodeWriter, header_lines, header_title, prose
from wrapper_ir.lines.control import BufferInput, Input, ObjectInput, ScalarInput
from wrapper_ir.lines.program import ConstantKind, Program
from wrapper_ir.lines.traits import calls_op
from wrapper_ir.lines.walk import Path, regions_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wrapper_ir.emitters.base import Problems
    from wrapper_ir.emitters.python.options import PythonOptions


#: The sections of definitions, in the order of the file.
_DEFINITIONS: tuple[type[Section], ...] = (OpSection, CppSection, TritonSection, DeviceSection)

#: Sections at the head of the file, in order, with the comment above each.
_SECTIONS = (
    (
        "folder",
        "Kernels and constants are in files beside this one; it checks that they can run here.",
    ),
    ("devices", ""),
    *((section.name, section.title) for section in _DEFINITIONS),
    ("streams", "Streams and memory pools besides the caller's."),
    ("constants", ""),
    ("checks", "Checks of inputs and results."),
    ("kept", "Memory and views kept between calls."),
    ("probes", "Probes: they print values during calls."),
)


def build_artifact(
    program: Program, problems: Problems, options: PythonOptions, given: Mapping[str, object]
) -> PythonArtifact:
    """Render a planned and verified program.

    ``given`` are the options that are not at their defaults.
    """
    is_checked = options.checks == "always"
    kept = kept_around_calls(program, arena=options.arena, is_checked=is_checked)

    def rendered(*, apart: bool, identity: str = "") -> tuple[CodeWriter, Context]:
        context = Context(program, kept, problems, options, apart=apart, identity=identity)
        return render_module(context), context

    def files() -> SourceFiles:
        writer, context = rendered(apart=True)
        texts = {WRAPPER: writer.text(), **(context.files or {})}
        return SourceFiles(texts, {WRAPPER: writer.source_map()}, "python", given)

    writer, context = rendered(apart=False)
    constants = {context.buffer(name): name for name in (*program.constants, *program.objects)}
    return PythonArtifact(
        writer.text(),
        writer.source_map(),
        program,
        constants,
        files,
        lambda identity: rendered(apart=False, identity=identity)[0].text(),
        takes_out=options.out,
    )


def render_module(context: Context) -> CodeWriter:
    """Render a program as a Python file."""
    if context.files is not None:
        context.define("folder", FOLDER, literals.call(context.helper("SourceFolder"), "__file__"))
    definitions = {section.source: section(context) for section in _DEFINITIONS}
    body = CodeWriter()
    last = context.kept.storages.last
    renderer = RegionRenderer(context, context.program.region, body, last, definitions)
    renderer.show_origins = context.options.origins
    renderer.spent = spent_inputs(context.program)
    _constants(context)
    kept = keep_arenas(context, renderer)
    if context.kept.buffers:
        kept.append("scratch")
    graphs = render_graphs(context)
    if graphs is not None:
        kept.append(graphs)
    heap = keep_heap(context)
    if heap is not None:
        kept.append(heap)
        body.line(f"@{heap}.serves")
    _call(context, renderer, body, graphs)
    for section in definitions.values():
        section.finish()
    return _spliced(context, body, _main(context), [*kept, *context.keepers])


def _spliced(context: Context, body: CodeWriter, main: CodeWriter, kept: list[str]) -> CodeWriter:
    """Join the sections and functions into the file."""
    file = CodeWriter()
    file.lines(*_header(context.program))
    file.blank()
    _imports(context, file)
    for name, remark in _SECTIONS:
        if name in context.sections and not context.sections[name].is_empty:
            file.blank()
            if remark:
                file.line(f"# {remark}")
            file.extend(context.sections[name])
    if "functions" in context.sections:
        file.extend(context.sections["functions"])
    file.blank(2)
    file.extend(body)
    file.blank(2)
    if kept:
        render_release(kept, file)
        file.blank(2)
    file.extend(main)
    return file


def _imports(context: Context, file: CodeWriter) -> None:
    file.line("import torch")
    if context.used | context.exprs.used or context.calls_own_ops:
        file.blank()
    if context.calls_own_ops:
        file.line("import wrapper_ir.runtime.own_ops  # registers some of the ops below")
    if context.used | context.exprs.used:
        names = sorted(context.used | context.exprs.used, key=_import_order)
        file.lines(*_import("wrapper_ir.runtime", names))
    if context.imports:
        file.blank()
    for place, name in sorted(context.imports.items()):
        module, _, wanted = place.partition(":")
        file.line(f"from {module} import {wanted if wanted == name else f'{wanted} as {name}'}")


def _import_order(name: str) -> tuple[bool, str]:
    """Return a sort key that puts classes before functions, as import sorters do."""
    return (not name[0].isupper(), name)


def _import(module: str, names: Sequence[str]) -> list[str]:
    whole = f"from {module} import {', '.join(names)}"
    if len(whole) <= 88:
        return [whole]
    return [f"from {module} import (", *(f"    {name}," for name in names), ")"]


# The header.


def _header(program: Program) -> list[str]:
    title = header_title(program, prose)
    lines = [f'"""{title}', "", "Written by wrapper_ir, to be read and edited."]
    return [*lines, *header_lines(program, prose, "    "), '"""']


# Constants.


def _constants(context: Context) -> None:
    objects = context.program.objects
    if not context.program.constants and not objects:
        return
    writer = context.section("constants")
    is_apart = context.files is not None
    source = f", from {CONSTANTS_FILE}" if is_apart else ", set by the code that loads this file"
    writer.line(f"# Constants{source}.")
    for name in objects:
        writer.line(f"{context.buffer(name)} = None")
    if not context.program.constants:
        return
    specs: list[literals.Node] = []
    renamed: list[tuple[str, str]] = []
    for name, constant in context.program.constants.items():
        variable = context.buffer(name)
        writer.line(f"{variable} = None")
        if variable != name:
            renamed.append((variable, literals.string(name)))
        if constant.kind is ConstantKind.PACKED:
            continue  # it has no layout to check or to make up values for
        specs.append(context.spec(context.buffer(name), context.program.layout(name)))
    context.define("constants", "CONSTANTS", literals.tuple_of(specs))
    if context.identity:
        digest = literals.string(context.identity)
        writer.line(f"CONSTANTS_HASH = {digest}  # delete the line to take others")
    if is_apart:
        names = [literals.dict_of(renamed)] if renamed else []
        writer.lines(
            *literals.statement(
                literals.call(f"{FOLDER}.fill", "globals()", "CONSTANTS", *names), 0
            )
        )


# The function.


def _call(context: Context, renderer: RegionRenderer, body: CodeWriter, graphs: str | None) -> None:
    entry = Entry(context, renderer)
    if graphs is not None:
        body.line(f"@{graphs}")
    if (device := context.accelerator) is not None:
        body.line(f"@{context.imported(device.kind.python.guard)}({context.device(device)})")
    # Autograd must see writes to memory that the caller provides.
    if _may_pass_autograd(context) and not context.takes_out:
        body.line(f"@{context.helper('past_autograd')}")
    body.line("def call(args, out=None):" if context.takes_out else "def call(args):")
    with body.indent():
        if context.takes_out:
            body.line('"""Run the program on a list of inputs, which is emptied.')
            body.blank()
            body.line("Results for which ``out`` has a tensor, in a list, are written to that.")
            body.line('"""')
        else:
            body.line('"""Run the program on a list of inputs, which is emptied."""')
        entry.unpack()
        for index in range(len(context.program.body)):
            if index == entry.end:
                entry.finish()
                begin_streams(context, body)
            renderer.render(index, Path().then("body", index))
        if entry.end == len(context.program.body):
            entry.finish()
        renderer.end_block()
        entry.leave()
        renderer.returned()


#: With fewer library ops, bypassing autograd costs more than it saves.
_WORTH_PASSING: Final = 4


def _may_pass_autograd(context: Context) -> bool:
    """Return whether all library ops are plain ones, and bypassing autograd pays for them."""
    program, storages = context.program, context.kept.storages
    ops = [line.op for line in program.body if calls_op(line)]
    if len(ops) < _WORTH_PASSING or not PRODUCTS.issuperset(ops):
        return False
    if any(map(regions_of, program.body)):
        return False
    outer = {i.name for i in program.inputs if isinstance(i, BufferInput)} | set(program.constants)
    written = storages.lives.storages(storages.written_by_ops)
    return written.isdisjoint(storages.lives.storages(outer))


# The code that runs the file as a script.


def _main(context: Context) -> CodeWriter:
    writer, program = CodeWriter(), context.program
    writer.line("def make_inputs():")
    with writer.indent():
        writer.line('"""Make inputs with random contents."""')
        for name, number in example_symbols(context.program).items():
            writer.line(f"{context.symbol(name)} = {number}")
        items = [_made(context, param) for param in context.program.inputs]
        writer.lines(*literals.statement(literals.list_of(items), writer.width, head="return "))
    writer.blank(2)
    writer.line('if __name__ == "__main__":')
    with writer.indent():
        if context.program.objects or any(isinstance(i, ObjectInput) for i in program.inputs):
            # Objects have state that cannot be made up.
            writer.line('raise SystemExit("load this file and give it the objects that it needs")')
            return writer
        if context.program.constants and context.files is None:
            writer.line(f"{context.helper('make_constants')}(globals(), CONSTANTS)")
        writer.line(f"{context.helper('run_main')}(call, make_inputs)")
    return writer


def _made(context: Context, param: Input) -> literals.Node:
    match param:
        case ScalarInput():
            return context.symbol(param.symbol)
        case ObjectInput():
            return "None"
        case BufferInput():
            layout = context.program.layout(param.name)
            return literals.call(context.helper("random_tensor"), *context.layout_args(layout))
