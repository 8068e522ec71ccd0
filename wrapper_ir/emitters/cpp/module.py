"""The files of a program: one for most; several with a shared header for long ones.

Compiling a function of ten thousand calls takes minutes and gigabytes. So the lines of a long
program are distributed over functions of bounded length, which share their variables through a
*frame*, and the functions over files, which are compiled side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wrapper_ir.analysis.borders import spent_inputs
from wrapper_ir.analysis.ordering import has_users_queues, is_branched, needs_queues
from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.context import PROGRAM
from wrapper_ir.emitters.cpp.entry import Entry
from wrapper_ir.emitters.cpp.lines import RegionRenderer
from wrapper_ir.emitters.cpp.literals import HERE, UNIT, device_index, device_parts, statement
from wrapper_ir.emitters.cpp.tables import Tables
from wrapper_ir.emitters.writer import CodeWriter, header_lines, header_title
from wrapper_ir.lines.kernels import KernelDefinition
from wrapper_ir.lines.walk import Path
from wrapper_ir.toolchain.manifest import Part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.emitters.cpp.kernels import CppRun


LONG: Final = 400
"""The number of lines, not counting definitions, above which a program is split."""

FUNCTION: Final = 150
"""Lines per function of a long program."""

FILE: Final = 6
"""Functions per file of a long program."""

CREATE: Final = 300
"""Lines per function that makes a part of the state."""

_HEADERS: Final = ("arena", "blas", "heap", "control", "generated")
"""Headers of the runtime, in the order in which files include them."""

_LATER: Final = ("launch", "mark", "out", "python_side", "queues")
"""Headers of the runtime that come after those of devices."""

_RUN: Final = "void* opaque, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs"
_CREATE_PART: Final = "State& state, const AtenTensorHandle* constants"
_PART: Final = (
    "State& state, wir::Call& call, const wir::Slot* inputs, wir::Slot* outputs, Frame& frame"
)


def render_files(context: CppRun, *, origins: bool) -> dict[str, CodeWriter]:
    """Return the files of a program in reading order."""
    return _Module(context, origins=origins).files()


class _Module:
    def __init__(self, context: CppRun, *, origins: bool) -> None:
        self._context = context
        self._open = f'namespace [[gnu::visibility("hidden")]] {context.namespace} {{'
        self._close = f"}}  // namespace {context.namespace}"
        self._main_file = f"{context.unit}.cpp"
        self._header = f"{context.unit}_parts.h"
        self._prefix = "" if context.unit == PROGRAM else f"{context.unit}_"
        self._tables, self._info = CodeWriter(UNIT), CodeWriter(UNIT)
        self._program = context.program
        count = sum(not isinstance(line, KernelDefinition) for line in self._program.body)
        self._is_long = count > LONG
        self._renderer = RegionRenderer(
            context,
            self._program.region,
            CodeWriter(UNIT),
            context.kept.storages.last,
            framed=self._is_long,
        )
        self._renderer.show_origins = origins
        self._renderer.spent = spent_inputs(self._program)

    def files(self) -> dict[str, CodeWriter]:
        """Return the program's files."""
        parts = self._parts()
        tables = Tables(self._context)
        tables.write(self._tables)
        tables.write_info(self._info)
        return self._long(parts) if self._is_long else {self._main_file: self._short(parts[0])}

    # The program's lines.

    def _parts(self) -> list[CodeWriter]:
        """Return the bodies of the functions that the program's own lines become."""
        if self._context.kept.needs_heap:
            self._context.state.heap()
        entry = Entry(self._context, self._renderer)
        parts = [self._next_part()]
        entry.unpack()
        count = 0
        for index, line in enumerate(self._program.body):
            if index == entry.end:
                entry.finish()
            if self._is_long and count >= FUNCTION:
                parts.append(self._next_part())
                count = 0
            count += not isinstance(line, KernelDefinition)
            self._renderer.render(index, Path().then("body", index))
            if index >= entry.end:
                entry.follow(line)
        if entry.end == len(self._program.body):
            entry.finish()
        entry.give()
        return parts

    def _next_part(self) -> CodeWriter:
        self._renderer.writer = CodeWriter(UNIT, depth=1)
        return self._renderer.writer

    # Files.

    def _short(self, body: CodeWriter) -> CodeWriter:
        file = CodeWriter(UNIT)
        file.lines(*_title(self._context))
        self._includes(file)
        self._definitions(file)
        file.line("namespace {")
        self._declarations(file)
        if "functions" in self._context.sections:
            file.extend(self._context.section("functions"))
        create = self._context.section("create")
        if create.is_empty:
            file.blank()
            file.line("void* create_state(const AtenTensorHandle*) { return new State(); }")
            self._destroy(file)
            file.blank()
        else:
            self._create(file, create)
        file.line(f"void run({_RUN}) {{")
        with file.indent():
            if self._context.kept.needs_heap or self._renderer.uses_state:
                file.line("State& state = *static_cast<State*>(opaque);")
            self._serve(file)
        file.extend(body)
        return self._ended(file)

    def _long(self, parts: list[CodeWriter]) -> dict[str, CodeWriter]:
        header = CodeWriter(UNIT)
        header.lines(*_title(self._context))
        header.line("#pragma once")
        header.blank()
        self._includes(header)
        self._definitions(header)
        header.line("// Variables shared by the functions.")
        header.line("struct Frame {")
        with header.indent():
            header.extend(_indented(self._context.section("frame")))
        header.line("};")
        header.blank()
        self._declarations(header)
        names = [f"part_{number}" for number in range(1, len(parts) + 1)]
        for name in names:
            header.lines(f"void {name}(State&, wir::Call&, const wir::Slot*, wir::Slot*, Frame&);")
        creates = list(self._context.section("create").split(CREATE, ";"))
        for number in range(1, len(creates) + 1):
            header.line(f"void create_{number}(State&, const AtenTensorHandle*);")
        header.blank()
        header.line(self._close)
        files = {self._header: header, self._main_file: self._main(names, len(creates))}
        functions = [(f"{name}({_PART})", body) for name, body in zip(names, parts, strict=True)]
        for number, first in enumerate(range(0, len(functions), FILE), start=1):
            files[f"{self._prefix}part_{number}.cpp"] = self._functions_file(
                functions[first : first + FILE]
            )
        if creates:
            heads = (f"create_{n}({_CREATE_PART})" for n in range(1, len(creates) + 1))
            files[f"{self._prefix}state.cpp"] = self._functions_file(
                zip(heads, creates, strict=True)
            )
        return files

    def _main(self, names: list[str], creates: int) -> CodeWriter:
        file = self._opened()
        if "functions" in self._context.sections:
            file.extend(self._context.section("functions"))
            file.blank()
        file.line("namespace {")
        calls = CodeWriter(UNIT, depth=1)
        calls.lines(*(f"create_{n}(*made, constants);" for n in range(1, creates + 1)))
        self._create(file, calls)
        file.line(f"void run({_RUN}) {{")
        with file.indent():
            file.line("State& state = *static_cast<State*>(opaque);")
            self._serve(file)
            file.line("Frame frame;")
            for name in names:
                file.line(f"{name}(state, call, inputs, outputs, frame);")
        return self._ended(file)

    def _ended(self, file: CodeWriter) -> CodeWriter:
        """End ``run`` and add the tables, and outside of any namespace what leads to them."""
        file.line("}")
        file.extend(self._tables)
        file.blank()
        file.lines("}  // namespace", self._close, "")
        file.extend(self._info)
        return file

    def _serve(self, file: CodeWriter) -> None:
        """Write what is active while ``run`` runs: the device guard, queues, and the heap."""
        file.lines(*self._context.guard())
        program, device = self._program, self._context.accelerator
        if device is not None and needs_queues(program):
            side = device.kind.cpp
            by_python = side is not None and not side.queues
            where = f"{{{', '.join(device_parts(device))}}}" if by_python else device_index(device)
            args = ["call", where, *self._queues(has_users=has_users_queues(program))]
            if by_python:
                self._context.headers.add("python_side")
                self._context.parts.add(Part.OPS)
            kind = device.kind.cpp_queues
            if side is not None and has_users_queues(program):
                kind = side.user_queues
            file.line(f"{kind} queues({', '.join(args)});")
            file.line("call.queues = &queues;")
        if self._context.kept.needs_heap:
            file.line("const wir::Heap::Call serving(state.heap);")

    def _queues(self, *, has_users: bool) -> tuple[str, ...]:
        """Return which streams and events the queues are made of: their numbers, or the user's."""
        program, events = self._program, self._context.spare_event
        if not has_users:
            counts = (str(len(program.streams)), str(events))
            return (*counts, "true") if is_branched(program) else counts
        own: Final = -1
        streams = [own if s.user_object is None else s.user_object for s in program.streams]
        numbers = [own if e.user_object is None else e.user_object for e in program.events]
        numbers += [own] * (events - len(numbers))
        return tuple(f"{{{', '.join(map(str, each))}}}" for each in (streams, numbers))

    def _functions_file(self, functions: Iterable[tuple[str, CodeWriter]]) -> CodeWriter:
        file = self._opened()
        for head, body in functions:
            file.lines(*statement(f"void {head} {{"))
            file.extend(body)
            file.line("}")
            file.blank()
        file.line(self._close)
        return file

    def _opened(self) -> CodeWriter:
        file = CodeWriter(UNIT)
        file.lines(f'#include "{self._header}"', "", self._open, "")
        return file

    # Sections.

    def _includes(self, file: CodeWriter) -> None:
        needed = self._context.headers
        file.lines("#include <memory>", "#include <utility>", "")
        names = (*_HEADERS, *sorted(needed.difference(_HEADERS, _LATER)), *_LATER)
        file.lines(*(f"#include <wir/{name}.h>" for name in names if name in needed))
        file.lines(*(f'#include "{name}"' for name in self._context.own_headers))
        file.blank()
        if "externs" in self._context.sections:
            file.extend(self._context.section("externs"))
            file.blank()

    def _definitions(self, file: CodeWriter) -> None:
        """Open the namespace and write the definitions that every function may use."""
        file.lines(self._open, "")
        for name, remark in (
            ("kernels", "Kernels."),
            ("ops", "Library ops called by schema."),
            ("constants", "Sizes and strides, types and devices."),
            ("shared", "Memory that all states share, kept between calls."),
        ):
            if name in self._context.sections:
                file.line(f"// {remark}")
                file.extend(self._context.section(name))
                file.blank()
        file.line("// Memory and views kept between calls.")
        file.line("struct State {" if "state" in self._context.sections else "struct State {};")
        if "state" in self._context.sections:
            file.extend(_indented(self._context.section("state")))
            file.line("};")
        file.blank()

    def _declarations(self, file: CodeWriter) -> None:
        if "declarations" in self._context.sections:
            file.blank()
            file.extend(self._context.section("declarations"))

    def _create(self, file: CodeWriter, fills: CodeWriter) -> None:
        """Write the functions that create a state, filled by some statements, and destroy it."""
        file.blank()
        file.line("void* create_state(const AtenTensorHandle* constants) {")
        with file.indent():
            if self._context.is_here:
                file.line(f"const wir::OnDevice on_device({HERE});")
            file.line("auto made = std::make_unique<State>();")
            if self._context.state.fills and not self._is_long:
                file.line("State& state = *made;")
        file.extend(fills)
        with file.indent():
            file.line("return made.release();")
        file.line("}")
        self._destroy(file)
        file.blank()

    def _destroy(self, file: CodeWriter) -> None:
        file.blank()
        file.line("void destroy_state(void* state) { delete static_cast<State*>(state); }")
        if keepers := self._context.keepers:
            terms = " + ".join(f"{name}.release()" for name in keepers)
            file.blank()
            file.lines(*statement("std::size_t release_shared() {"))
            with file.indent():
                self._context.put(file, f"return {terms};")
            file.line("}")
        held = self._context.state.kept_bytes()
        if held is None:
            return
        file.blank()
        if not self._context.state.grows:
            file.line(f"std::size_t kept_bytes(const void*) {{ return {held}; }}")
            return
        file.line("std::size_t kept_bytes(const void* opaque) {")
        with file.indent():
            file.line("const State& state = *static_cast<const State*>(opaque);")
            self._context.put(file, f"return {held};")
        file.line("}")


def _indented(writer: CodeWriter) -> CodeWriter:
    """Return the text indented by one more step."""
    indented = CodeWriter(UNIT, depth=1)
    indented.lines(*writer.text().splitlines())
    return indented


# The title.


def _title(context: CppRun) -> list[str]:
    title = header_title(context.program, literals.prose)
    text = [title, "Written by wrapper_ir, to be read and edited."]
    text += header_lines(context.program, literals.prose, "  ", context.inputs)
    return [*(f"// {line}".rstrip() for line in text), ""]
