"""From a planned program to C++, under the options of the C++ emitter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import wrapper_ir.lines as ir
from wrapper_ir.analysis.cuda_graphs import pieces
from wrapper_ir.analysis.devices import accelerators_of, is_on_one_stream
from wrapper_ir.analysis.kept import kept_in_state
from wrapper_ir.devices import registered
from wrapper_ir.emitters.cpp.context import FOLDING
from wrapper_ir.emitters.cpp.kernels import CppRun
from wrapper_ir.emitters.cpp.module import render_files
from wrapper_ir.emitters.regions import capture_facts
from wrapper_ir.emitters.writer import CodeWriter, SourceMap
from wrapper_ir.lines.base import Trait
from wrapper_ir.lines.traits import binds, is_view
from wrapper_ir.options import declared as take
from wrapper_ir.options.gpu import MATMUL, Captures
from wrapper_ir.toolchain.manifest import CaptureFacts, Manifest, Sources

if TYPE_CHECKING:
    from wrapper_ir.emitters.base import Problems


_KEEP: Final = 1024 * 1024

_QUANTISED: Final = (ir.DType.QINT32, ir.DType.QINT8, ir.DType.QUINT8)


@dataclass(frozen=True)
class CppRenderer(Captures):
    """Renders C++ that calls the program's kernels and library ops over PyTorch's C shim.

    Attributes:
        origins: Whether comments say where in the model the code comes from.
        arena: Whether pools last for a ``"call"``, or are ``"kept"`` for the next one and grown if
            a call needs more; there is one set for each call that may run at a time.
        scratch_bytes: How many bytes of memory that never leaves a call may be kept for the next
            one, and 4 times as many on a GPU; 0 for none. It is kept once for each call that may
            run at a time.
        out: Whether callers may provide memory for results: ``function(*inputs, out=[...])``.
        gpu_matmul: Who computes matrix products on a GPU: ``"cublas"`` calls cuBLAS as PyTorch's
            ops would, for the same bits in less time; ``"aten"`` calls these ops.
        profile: Whether PyTorch's profiler is shown each call of a kernel or op, by its name, and
            each allocation, by its buffer's name.

    The options for CUDA graphs are those of :class:`Captures`.
    """

    origins: bool = take.ORIGINS.field()
    arena: str = take.ARENA.field()
    scratch_bytes: int = take.SCRATCH_BYTES.field(_KEEP)
    out: bool = take.OUT.field()
    gpu_matmul: str = MATMUL.field()
    profile: bool = take.PROFILE.field()

    def sources(self, program: ir.Program, problems: Problems) -> CppSources:
        """Return a planned and verified program in C++; record what C++ cannot express."""
        context = self._context(program, problems)
        _refuse_devices(program, problems)
        if problems.found:  # rendering assumes supported devices
            return CppSources({}, (), source="", source_map=SourceMap(()), program=program)
        writers, runs = render_files(context, origins=self.origins), [context]
        if program.folding is not None:
            runs.append(self._folding(program.folding, problems))
            writers |= render_files(runs[-1], origins=self.origins)
        texts = {name: writer.text() for name, writer in writers.items()}
        whole = CodeWriter()
        for name, writer in writers.items():
            if len(writers) > 1:
                whole.line(f"// {name}")
                whole.blank()
            whole.extend(writer)
        levels = dict.fromkeys(row.line.level.value for row in context.probes)
        return CppSources(
            {**context.own_headers, **texts},
            tuple({unit.symbol: unit for run in runs for unit in run.callees.units}.values()),
            tuple({unit.symbol: unit for run in runs for unit in run.launched.units}.values()),
            Manifest(
                frozenset().union(*(run.parts for run in runs)),
                tuple(levels),
                ir.CPU.type if context.accelerator is None else context.accelerator.type,
            ),
            source=whole.text(),
            source_map=whole.source_map(),
            program=program,
            maps={name: writer.source_map() for name, writer in writers.items()},
            graphs=context.graphs,
        )

    def _folding(self, program: ir.Program, problems: Problems) -> CppRun:
        """Return the state of a run for the program that computes folded constants.

        It runs once for each set of constants, so it keeps nothing and is not captured.
        """
        _refuse_devices(program, problems)
        return CppRun(
            program,
            kept_in_state(program),
            problems,
            takes_out=False,
            multiplies=False,
            graphs=None,
            pieces={},
            profiles=self.profile,
            unit=FOLDING,
        )

    def _context(self, program: ir.Program, problems: Problems) -> CppRun:
        """Return the state of a run."""
        is_one, options = is_on_one_stream(program), self.graphs
        found = {} if options is None else pieces(program, options)
        return CppRun(
            program,
            kept_in_state(program, keep_arenas=self.arena == "kept", accelerated=is_one),
            problems,
            takes_out=self.out,
            multiplies=self.gpu_matmul == "cublas" and is_one,
            graphs=None if options is None or found else capture_facts(program, options),
            pieces=found,
            profiles=self.profile,
        )


def _refuse_devices(program: ir.Program, problems: Problems) -> None:
    """Record the lines that touch buffers on devices that C++ programs cannot run on.

    Quantised tensors are supported only between ops: one may define them and another use them.
    Tensors without data (``meta``) may be inputs as well.
    """
    _refuse_mixtures(program, problems)
    away = {name for name, each in program.buffers.items() if each.device.kind.cpp is None}
    quantised = {name for name, layout in program.buffers.items() if layout.dtype in _QUANTISED}
    if not away and not quantised:
        return
    inputs = {item.name for item in program.inputs if isinstance(item, ir.BufferInput)}
    without_data = {name for name in away if program.layout(name).device.type == "meta"}
    for path, line in ir.walk(program):
        found = ir.effects(line, program)
        passes_on = Trait.ANY_KIND in line.traits
        looks = passes_on or is_view(line) or binds(line)
        for name in (*found.defines, *found.touched):
            if name in without_data and looks and (passes_on or name not in found.reads):
                continue
            if name in quantised - inputs and passes_on:
                continue
            if name in away:
                device = program.layout(name).device
                where = " and ".join(kind.plural for kind in registered() if kind.cpp is not None)
                reason = f"'{name}' is on {device}; C++ programs run on {where} (docs/devices.md)"
                problems.add(line, path, reason)
            elif name in quantised:
                problems.add(line, path, f"'{name}' is quantised, which C++ does not support yet")


def _refuse_mixtures(program: ir.Program, problems: Problems) -> None:
    """Record the first line on a second type of device: a call has the guard of only one."""
    first, *others = dict.fromkeys(each.type for each in accelerators_of(program)) or ("",)
    for path, line in ir.walk(program) if others else ():
        found = ir.effects(line, program)
        for name in (*found.defines, *found.touched):
            if program.layout(name).device.type in others:
                reason = f"'{name}' is on {program.layout(name).device}, and others on {first}; "
                reason += "a C++ program runs on one type of device besides the CPU"
                problems.add(line, path, reason)
                return


# A program emitted as C++, as data: source files, and kernels to compile beside them.


MAIN_FILE = "program.cpp"
"""The file with the tables and the entry, which every program has."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CppSources(Sources):
    """An emitted program; ``wrapper_ir.aot`` builds, loads and packages it.

    Attributes:
        source: The text of the whole program for readers: the files of ``sources``, concatenated.
        source_map: The map from lines of ``source`` to lines of the program.
        program: The program that it was made from. Values of constants are in ``program.data``.
        maps: The source map of each file of ``sources``.
        options: The emitter's options that are not at their defaults.
        graphs: How the loaded program captures its calls as CUDA graphs; None if it does not.
    """

    source: str
    source_map: SourceMap
    program: ir.Program
    maps: Mapping[str, SourceMap] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    graphs: CaptureFacts | None = None
