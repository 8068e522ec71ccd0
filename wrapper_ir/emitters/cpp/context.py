"""State of one run of the C++ emitter: the program, its names and expressions, shared tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import wrapper_ir.lines as ir
from wrapper_ir.analysis.borders import free_region_symbols, placed_results
from wrapper_ir.analysis.devices import accelerators_of, is_relative
from wrapper_ir.analysis.ordering import needs_queues
from wrapper_ir.devices import registered
from wrapper_ir.emitters.cpp import literals
from wrapper_ir.emitters.cpp.exprs import CppExprs
from wrapper_ir.emitters.cpp.products import product_of
from wrapper_ir.emitters.cpp.rows import Rows, rows_of
from wrapper_ir.emitters.names import NamePlan
from wrapper_ir.emitters.regions import Key, TextRun, wanted_names
from wrapper_ir.toolchain.manifest import CaptureFacts, Part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wrapper_ir.analysis.cuda_graphs import Piece
    from wrapper_ir.analysis.kept import Kept
    from wrapper_ir.devices import CppSide
    from wrapper_ir.emitters.base import Problems
    from wrapper_ir.emitters.writer import CodeWriter


# Identifiers of generated C++: how a program's names are spelled, and which are reserved.

_KEYWORDS: Final = frozenset("""
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
    char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
    co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
    nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
    return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename typeof union unsigned using virtual void
    volatile wchar_t while xor xor_eq final override import module
    """.split())  # noqa: SIM905 - one name a line would take the page

#: Lower-case words that headers or systems define as macros.
_MACROS: Final = frozenset("""
    assert errno linux unix i386 stdin stdout stderr major minor makedev signbit offsetof setjmp
    alloca math_errhandling assert_perror issubnormal sched_priority strdupa strndupa
    be16toh be32toh be64toh htobe16 htobe32 htobe64 htole16 htole32 htole64 le16toh le32toh le64toh
    pthread_cleanup_pop pthread_cleanup_pop_restore_np pthread_cleanup_push
    pthread_cleanup_push_defer_np
    """.split())  # noqa: SIM905 - as above

#: Names that the files use themselves.
_FILE_NAMES: Final = frozenset("""
    around at c10 call constants create_state destroy_state frame heap here inputs kConstants
    kFolded kFolding kFoldingConstants kInputs kLines kOutputs kProbeOperands kProbes kept_bytes
    main mark outputs queues run serving state State Frame std torch wir wir_folding
    wir_folding_info wir_program wir_program_info
    """.split())  # noqa: SIM905 - as above

PROGRAM: Final = "program"
"""What the names of the generated files, of their namespace and of their table begin with."""

FOLDING: Final = "folding"
"""The same for the program that computes folded constants."""

_RESERVED: Final = _KEYWORDS | _MACROS | _FILE_NAMES


def _wanted(name: str) -> str:
    """Return a similar name that is not reserved for the implementation nor looks like a macro."""
    plain = name
    while "__" in plain:
        plain = plain.replace("__", "_")
    first = plain.partition("_")[0]
    is_risky = not first or (first.isalnum() and first.isupper())
    return f"v_{plain.strip('_')}" if is_risky else plain


def make_names(program: ir.Program) -> NamePlan[Key]:
    """Return the identifiers of everything that a program names."""
    guards = {kind.cpp.guard[1] for kind in registered() if kind.cpp is not None}
    return NamePlan(wanted_names(program, _wanted), _RESERVED | guards)


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """A probe: its line, its place in the model, and name and kind of each value that it shows."""

    line: ir.Probe
    source: str
    operands: tuple[tuple[str, str], ...]


class Context(TextRun):
    """What one run of the emitter knows (see ``kernels.CppRun``).

    Attributes:
        kept: Memory and views that last from call to call.
        accelerator: The device besides the host that the program runs on (the first of several), or
            None.
        side: The C++ side of the accelerator's kind.
        graphs: How a library captures its calls as CUDA graphs; None if it does not.
        inputs: What a call is given: the program's inputs, then the objects that belong to it.
        placed: Allocations that are results, name to position, if callers may provide memory.
        unit: What the generated names begin with: ``program``, or ``folding`` for the program that
            computes folded constants.
    """

    def __init__(  # noqa: PLR0913 - all but three are named
        self,
        program: ir.Program,
        kept: Kept,
        problems: Problems,
        *,
        takes_out: bool,
        multiplies: bool,
        graphs: CaptureFacts | None,
        pieces: Mapping[int, Piece],
        profiles: bool,
        unit: str = PROGRAM,
    ) -> None:
        names = make_names(program)
        super().__init__(
            program, problems, names, unit=literals.UNIT, takes_out=takes_out, profiles=profiles
        )
        self.kept = kept
        #: Symbols that something depends on. A number that is passed in and is not among them may
        #: be anything: an exported model has one where it was given None.
        inside = ir.Region((), program.body, program.results)
        self.symbols: frozenset[str] = frozenset(free_region_symbols(inside, program))
        self._multiplies = multiplies
        self.graphs = graphs
        #: The pieces that are captured one by one, by the position of their switches.
        self.pieces = pieces
        objects = (ir.ObjectInput(name, each.class_name) for name, each in program.objects.items())
        self.inputs: tuple[ir.Input, ...] = (*program.inputs, *objects)
        self.unit = unit
        self.placed: dict[str, int] = placed_results(program) if takes_out else {}
        #: Prints expressions of regions, whose symbols are parameters.
        self.exprs: CppExprs = self.printer("")
        device = next(iter(accelerators_of(program)), None)
        self.accelerator: ir.Device | None = device
        self.side: CppSide | None = None if device is None else literals.side_of(device)
        #: Headers of the runtime that the files include, and its parts that they use.
        self.headers: set[str] = {"generated"}
        self.parts: set[Part] = set()
        #: Names and overloads of the ops that neither PyTorch nor the runtime brings.
        self.foreign_ops: list[tuple[str, str]] = []
        self._need_what_is_known()
        #: Rows of the table of lines: path, description, place in the model.
        self.lines: list[tuple[str, str, str]] = []
        self.probes: list[ProbeRow] = []
        self._line_numbers: dict[str, int] = {}
        self._arrays: dict[tuple[int, ...], str] = {}
        self._options: dict[tuple[ir.DType, ir.Device], str] = {}
        self._specs: dict[tuple[ir.Layout, bool], str] = {}
        if self.is_here:
            self.section("constants").line(f"inline wir::Here {literals.HERE};")

    @cached_property
    def mixes_streams(self) -> bool:
        """True if streams belong to several devices, the caller's included."""
        streams = (each.device for each in self.program.streams)
        return len({*accelerators_of(self.program), *streams}) > 1

    @cached_property
    def own_headers(self) -> dict[str, str]:
        """Vendors' headers, name to text."""
        sides = [side for side in (ir.CPU.kind.cpp, self.side) if side is not None]
        return {name: text for side in sides for name, text in side.headers.items()}

    @cached_property
    def spare_event(self) -> int:
        """The number of events, with one after the program's own if freeing memory needs it."""
        ends_early = any(isinstance(line, ir.Free) and line.after for line in self.program.body)
        return len(self.program.events) + ends_early

    @cached_property
    def has_complex(self) -> bool:
        """True if a tensor of the program is complex."""
        return any(each.dtype.is_complex for each in self.program.buffers.values())

    @property
    def namespace(self) -> str:
        """The namespace of the generated code; its table is this name and ``_info``."""
        return f"wir_{self.unit}"

    def guard(self) -> list[str]:
        """Return the statement that makes the program's device current during a call, if any."""
        if self.accelerator is None or self.side is None or not all(self.side.guard):
            return []
        type_, name = self.side.guard
        return [f"const {type_} {name}(call, {literals.device_index(self.accelerator)});"]

    @property
    def is_here(self) -> bool:
        """True if the program runs on the device that is current when it is loaded."""
        return self.accelerator is not None and is_relative(self.accelerator)

    def _need_what_is_known(self) -> None:
        """Record the headers and parts that the files need whatever their lines are."""
        own = "" if self.side is None else self.side.part
        for is_needed, header, part in (
            (bool(own), own, Part(own) if own else None),
            (self.profiles, "mark", None),
            (needs_queues(self.program), "queues", None),
            (self.takes_out, "out", None),
            (self.graphs is not None, None, Part.GRAPHS),
            (bool(self.program.objects), None, Part.OBJECTS),
        ):
            if is_needed:
                self.headers |= {header} if header else set()
                self.parts |= {part} if part else set()

    def printer(self, prefix: str) -> CppExprs:
        """Return a printer of expressions; ``prefix`` leads to the variables of symbols."""
        return CppExprs(
            lambda name: prefix + self.symbol(name), lambda name: self.program.symbols[name].kind
        )

    # Numbers.

    def array(self, values: Sequence[ir.Dim]) -> str | None:
        """Return the name of a table of numbers; None if some are known only at run time."""
        return self.spec_array(values) if all(isinstance(v, int) for v in values) else None

    def spec_array(self, values: Sequence[ir.Dim]) -> str:
        """Return the name of a table of numbers in which unknown ones are marked as dynamic."""
        if not values:
            return "nullptr"
        key = tuple(v if isinstance(v, int) else _DYNAMIC for v in values)
        if key not in self._arrays:
            words = ["n" if value == _DYNAMIC else str(value).replace("-", "m") for value in key]
            short = "_".join(words)
            preferred = f"dims_{short}" if len(short) <= 24 else f"dims_of_{len(key)}"
            name = self._arrays[key] = self.names.fresh(preferred)
            numbers = ", ".join(
                "wir::kDynamic" if value == _DYNAMIC else literals.integer(value) for value in key
            )
            self._constant(f"std::int64_t {name}[] = {{{numbers}}};")
        return self._arrays[key]

    def options(self, layout: ir.Layout) -> str:
        """Return the name of the options of a new storage."""
        key = (layout.dtype, layout.device)
        if key not in self._options:
            preferred = f"{layout.device.type}_{layout.dtype.torch_name}"
            name = self._options[key] = self.names.fresh(preferred)
            number = literals.device_constant(layout.device)
            where = f"{literals.device_type(layout.device)}, {number}"
            self._constant(f"wir::Options {name}{{{literals.dtype(layout.dtype)}, {where}}};")
        return self._options[key]

    def _constant(self, text: str) -> None:
        self.put(self.section("constants"), f"inline constexpr {text}")

    def tensor_spec(
        self,
        layout: ir.Layout,
        dims: Sequence[str] = (),
        *,
        anywhere: bool = False,
        plain: bool = False,
    ) -> str:
        """Return the braces of a ``wir::TensorSpec``.

        ``dims`` are rank, sizes and strides as text; by default, sizes that vary are left open.
        """
        if not dims:
            dims = (str(layout.rank), *map(self.spec_array, (layout.size, layout.stride)))
        device = literals.ANYWHERE if anywhere else literals.device_parts(layout.device)
        parts = (literals.dtype(layout.dtype), *device, *dims, *(["true"] if plain else ()))
        return f"{{{', '.join(parts)}}}"

    def shared_spec(self, layout: ir.Layout, *, anywhere: bool = False) -> str:
        """Return the name of a ``wir::TensorSpec`` of a static layout."""
        key = (layout, anywhere)
        if key not in self._specs:
            name = self._specs[key] = self.names.fresh(f"{layout.dtype.torch_name}_layout")
            braces = self.tensor_spec(layout, anywhere=anywhere)
            self._constant(f"wir::TensorSpec {name}{braces};")
        return self._specs[key]

    # Lines.

    def product(self, line: ir.AnyLine) -> tuple[str, ...] | None:
        """Return the product for which a line calls cuBLAS itself (``product_of``), if any."""
        return product_of(self.program, line) if self._multiplies else None

    def rows(self, line: ir.AnyLine) -> Rows | None:
        """Return what a line is rendered as that adds a vector to each row, if it is (``rows``)."""
        if self.has_complex:  # matrices may be conjugated lazily, which the dispatcher handles
            return None
        return rows_of(self.program, line, self.kept.storages.lives)

    def line_number(self, path: ir.Path, line: ir.AnyLine) -> int:
        """Return the line's index in the table of lines."""
        return self.row(str(path), _what(line), line_source(self.program, line))

    def row(self, path: str, what: str, source: str = "") -> int:
        """Return the index of a row of the table of lines, adding it if it is new."""
        if path not in self._line_numbers:
            self._line_numbers[path] = len(self.lines)
            self.lines.append((path, what, source))
        return self._line_numbers[path]

    def probe(self, row: ProbeRow) -> int:
        """Add a row to the table of probes and return its index."""
        self.parts.add(Part.PROBES)
        self.probes.append(row)
        return len(self.probes) - 1

    @staticmethod
    def put(writer: CodeWriter, text: str) -> None:
        """Write a statement, broken over lines if it is long."""
        writer.lines(*literals.statement(text, writer.width))


_DYNAMIC = -(2**63)


def _what(line: ir.AnyLine) -> str:
    """Return a short description of a line."""
    if isinstance(line, ir.ExternKernel):
        return line.op
    if isinstance(line, ir.KernelCall):
        return f"kernel {line.kernel}"
    if isinstance(line, ir.Probe):
        return f"probe {line.when.value} {line.label}"
    for field in ("out", "buffer", "symbol"):
        name = getattr(line, field, None)
        if isinstance(name, str):
            return f"{line.mnemonic} {name}"
    return line.mnemonic


def line_source(program: ir.Program, line: ir.AnyLine) -> str:
    """Return the place in the model that a line comes from: ``package/file.py:12 in forward``.

    Libraries carry this text to other machines and must not depend on where they are built, so a
    file's path is cut to the part below ``site-packages``, or to the last directory.
    """
    origin = program.origin_of(line)
    if origin is None or not origin.frames:
        return "" if origin is None else origin.module
    frame = origin.frames[-1].portable
    place = f"{frame.file.removeprefix('site-packages/')}:{frame.line}"
    return f"{place} in {frame.function}" if frame.function else place
