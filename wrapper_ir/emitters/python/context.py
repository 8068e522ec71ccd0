"""State of one run of the Python emitter: the program, its names and expressions, imports."""

from __future__ import annotations

from keyword import kwlist, softkwlist
from typing import TYPE_CHECKING, Final

import wrapper_ir.lines as ir
from wrapper_ir.analysis.cuda_graphs import pieces
from wrapper_ir.analysis.devices import devices_in, is_relative, only_accelerator
from wrapper_ir.emitters.names import NamePlan, as_identifier
from wrapper_ir.emitters.python import literals
from wrapper_ir.emitters.python.exprs import MATH_FUNCTIONS, PythonExprs
from wrapper_ir.emitters.python.literals import Group, Node, call, keyword, statement, tuple_of
from wrapper_ir.emitters.regions import TextRun, wanted_names

if TYPE_CHECKING:
    from wrapper_ir.analysis.cuda_graphs import Piece
    from wrapper_ir.analysis.kept import Kept
    from wrapper_ir.emitters.base import Problems
    from wrapper_ir.emitters.python.options import PythonOptions


HELPERS: Final = frozenset("""
    BranchStream CppKernels CudaGraphs CutGraphs InputChecks KeptArena KeptGpuArena KeptHeap
    KeptViews Outputs branch_event OwnMemoryPool OwnStream PeerMemory Realigned Scratch SourceFolder
    TensorSpec TritonKernels
    check_apart check_layout check_length check_number check_object check_result check_symbol
    check_that
    current_device current_stream
    empty_for_peers empty_strided_cpu empty_strided_cuda make_constants make_probe on_device once
    past_autograd
    random_tensor refuse_misaligned reinterpret_as reinterpret_tensor result_check run_main
    run_while run_while_stacked shown_gpu_range shown_range user_object
    """.split()) | frozenset(MATH_FUNCTIONS)  # noqa: SIM905 - one name a line would take the page
"""Everything that emitted files may import from the runtime package."""

FOLDER: Final = "folder"
"""The file's name for the folder that it lies in, if kernels have files of their own."""

#: Names that the file uses itself, and the keywords of ``check_that``.
_FILE_NAMES: Final = frozenset("""
    CONSTANTS CONSTANTS_HASH args call check_inputs cpu cuda_constants cuda_graphs device_kernels
    folder holds kept_views kernels make_inputs realign relation release scratch spare torch
    triton_kernels
    """.split())  # noqa: SIM905 - one name a line would take the page

#: Further ones if callers may provide memory for results.
_OUT_NAMES: Final = frozenset(("out", "outputs", "outs"))

_BUILTINS: Final = frozenset(
    ("abs", "bool", "complex", "float", "getattr", "globals", "int", "max", "min", "round", "type")
)

_RESERVED: Final = HELPERS | _FILE_NAMES | {*kwlist, *softkwlist}

_DUNDERS: Final = frozenset("""
    __annotations__ __builtins__ __cached__ __debug__ __dict__ __doc__ __file__ __loader__ __main__
    __name__ __package__ __path__ __spec__
    """.split())  # noqa: SIM905 - one name a line would take the page


def caller(device: ir.Device) -> ir.Device:
    """Return the device that a C++ kernel is compiled for: one for all that call it alike."""
    return ir.CPU if device.kind.calls_plainly else ir.Device(device.type)


class Context(TextRun):
    """One run of the emitter.

    Attributes:
        kept: Memory and views that last from call to call.
        options: The emitter's options.
        identity: The hash of the values of constants, if the file names it.
        files: The texts of kernels that get files of their own, by path; None if the module
            holds them.
    """

    def __init__(
        self,
        program: ir.Program,
        kept: Kept,
        problems: Problems,
        options: PythonOptions,
        *,
        apart: bool,
        identity: str,
    ) -> None:
        reserved = _RESERVED | _BUILTINS | _DUNDERS | (_OUT_NAMES if options.out else set())
        names = NamePlan(wanted_names(program, str), reserved)
        super().__init__(
            program, problems, names, unit="    ", takes_out=options.out, profiles=options.profile
        )
        self.options = options
        #: The pieces that are captured one by one, by the position of their switches.
        self.pieces: dict[int, Piece] = pieces(program, options) if options.graphs else {}
        self.kept = kept
        self.identity = identity
        self.files: dict[str, str] | None = {} if apart else None
        self.exprs: PythonExprs = PythonExprs(self.symbol)
        self.used: set[str] = set()
        #: Whether an op is called that the runtime package registers when asked to.
        self.calls_own_ops = False
        #: Imports from vendors' packages, and their names in the file.
        self.imports: dict[str, str] = {}
        #: Variables of streams, events and memory pools, by kind and number; those of the caller's
        #: streams by device.
        self.queues: dict[tuple[str, int | ir.Device], str] = {}
        #: Functions that check results, by the text of the check.
        self.shared_checks: dict[str, str] = {}
        self._dims: dict[tuple[ir.Dim, ...], Group] = {}
        self._devices: dict[ir.Device, str] = {}
        #: The devices that stand for the current one when the file is loaded.
        self.current: frozenset[ir.Device] = frozenset(filter(is_relative, devices_in(program)))
        self._kernels: dict[tuple[str, ir.Device], str] = {}
        #: The program's only accelerator; None if there are several, or none.
        self.accelerator: ir.Device | None = only_accelerator(program)

    def define(self, section: str, name: str, value: Node) -> None:
        """Write the definition of a file-level variable into a section."""
        self.section(section).lines(*statement(value, 0, head=f"{name} = "))

    def helper(self, name: str) -> str:
        """Return the name of a function of the runtime package, and have the file import it."""
        assert name in HELPERS, name
        self.used.add(name)
        return name

    def imported(self, place: str) -> str:
        """Return the file's name for ``package.module:name``, and have the file import it.

        A name without a module belongs to the runtime package.
        """
        if ":" not in place:
            return self.helper(place)
        if place not in self.imports:
            self.imports[place] = self.names.fresh(place.partition(":")[2])
        return self.imports[place]

    def stream(self, number: int, device: ir.Device) -> str:
        """Return the variable of a stream; 0 is the caller's on that device."""
        return self.queues["stream", number or device]

    def queued(self, part: str, device: ir.Device) -> str:
        """Return the file's name for a part of a device's queues; torch's by default."""
        if place := getattr(device.kind.queues, part, ""):
            return self.imported(place)
        defaults = {"event": "Event", "current": f"{device.type}.current_stream"}
        return f"torch.{defaults.get(part, f'{device.type}.{part}')}"

    def kernel(self, name: str, device: ir.Device = ir.CPU) -> str:
        """Return the identifier of a compiled kernel, which may have one per device."""
        key = (name, device)
        if key not in self._kernels:
            first = all(name != other for other, _ in self._kernels)
            plain = self.names["kernel", name]
            self._kernels[key] = plain if first else self.names.fresh(plain)
        return self._kernels[key]

    def launched_on(self, kernel: str) -> list[ir.Device]:
        """Return the devices that a kernel is launched on, by default the only accelerator."""
        none = {} if self.accelerator is None else {self.accelerator: None}
        return list(self.launches.get(kernel, none))

    def source(self, line: ir.KernelDefinition) -> Node:
        """Return the text of a kernel: a literal, or a call that reads it from its file."""
        assert not isinstance(line.source, ir.TorchOp)
        if self.files is None:
            return literals.source_literal(line.source.code)
        path = line.source.language.file(line.name)
        self.files[path] = line.source.code
        return call(f"{FOLDER}.text", literals.string(path))

    def expr(self, value: ir.Scalar) -> str:
        """Return a number or expression as text."""
        return self.exprs.print(value)

    def dims(self, values: tuple[ir.Dim, ...]) -> Group:
        """Return a tuple of sizes or strides. Many buffers have the same."""
        found = self._dims.get(values)
        if found is None:
            found = self._dims[values] = tuple_of([self.expr(value) for value in values])
        return found

    def device(self, device: ir.Device) -> str:
        """Return the identifier of a device object, created once in the file."""
        if device not in self._devices:
            name = "cpu" if device == ir.CPU else self.names.fresh(as_identifier(str(device)))
            self._devices[device] = name
            args = literals.string(str(device))
            make = f"torch.device({args})"
            if device in self.current:
                make = f"{self.helper('current_device')}({args}, __name__)"
            self.section("devices").line(f"{name} = {make}")
        return self._devices[device]

    def layout_args(self, layout: ir.Layout) -> list[Node]:
        """Return dtype, size, stride and, if it is not the CPU, device, for most helpers."""
        args: list[Node] = [
            literals.dtype(layout.dtype),
            self.dims(layout.size),
            self.dims(layout.stride),
        ]
        if layout.device != ir.CPU:
            args.append(keyword("device", self.device(layout.device)))
        return args

    def spec(self, name: str, layout: ir.Layout, *, plain: bool = False) -> Group:
        """Return a ``TensorSpec``; sizes and strides with symbols become ``None``."""

        def number(value: ir.Dim) -> str:
            return str(value) if isinstance(value, int) else "None"

        args: list[Node] = [
            literals.string(name),
            literals.dtype(layout.dtype),
            tuple_of([number(value) for value in layout.size]),
            tuple_of([number(value) for value in layout.stride]),
        ]
        is_saved = self.program.role is ir.GraphRole.BACKWARD and name in self.program.buffers
        if is_saved and name in self.random_states:
            args.append(keyword("device", "None"))
        elif layout.device != ir.CPU:
            args.append(keyword("device", self.device(layout.device)))
        if plain:
            args.append(keyword("plain", "True"))
        return call(self.helper("TensorSpec"), *args)
