"""The conformance kit for devices: compares the corpus on a device with the corpus on the CPU.

A test file like this one checks a third-party device::

    from wrapper_ir.testing.device_conformance import DeviceConformance

    class TestMine(DeviceConformance):
        device = "npu:0"

Programs go through the passes that the device's kind names, as they always do, and results are
compared with those of the corpus as it is. Programs with kernels in a language that the device does
not run must be refused. For programs that draw random numbers only metadata is compared, since each
device has its own generator.
"""

from __future__ import annotations

import itertools
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest
import torch

from wrapper_ir.analysis.ops import draws
from wrapper_ir.api import compile as compile_program
from wrapper_ir.devices import named
from wrapper_ir.emitters import EmitError
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.interpreter import interpret
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.layout import CPU, Device
from wrapper_ir.lines.program import FrozenMap, Program
from wrapper_ir.lines.traits import calls_kernel, calls_op
from wrapper_ir.lines.walk import walk
from wrapper_ir.passes import legalisation_for, lowering_for, plan_memory
from wrapper_ir.runtime.probes import difference
from wrapper_ir.testing import corpus
from wrapper_ir.testing.equivalence import copy_of, run_on_copies
from wrapper_ir.text import parse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


NAMES: Final = tuple(corpus.corpus_files())

_SIZES: Final = ((), (1,), (7,), (0, 3), (33, 5), (129, 3, 2))
_LONG: Final = 1 << 16
_DTYPES: Final = (torch.float32, torch.uint8, torch.int64, torch.bool)


_REALIGNED: Final = """\
wir 2
program @realigned inference logical
input %x : {layout} realigned 16
extern aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  %y = aten::add.Tensor(%x, %x) : {layout}
return %y
"""


def on_device(program: Program, device: str) -> Program:
    """Return a program with everything on the CPU, including constants, moved to a device."""
    place = Device.parse(device)

    def moved(value: Any) -> Any:  # noqa: ANN401 - a line, or any part of one
        if value == CPU and isinstance(value, Device):
            return place
        if isinstance(value, FrozenMap):
            return FrozenMap({name: moved(each) for name, each in value.items()})
        if type(value) is tuple:
            return tuple(map(moved, value))
        if not is_dataclass(value) or isinstance(value, type):
            return value
        parts = ((each.name, getattr(value, each.name)) for each in fields(value) if each.init)
        changes = {name: new for name, old in parts if (new := moved(old)) is not old}
        return replace(value, **changes) if changes else value

    tables = ("inputs", "body", "results", "buffers", "symbols", "constants")
    there = {id(value): copy_of(value, device) for value in program.data.values()}
    data = {name: there[id(value)] for name, value in program.data.items()}
    changes = {name: moved(getattr(program, name)) for name in tables}
    return program.replace(**changes, data=data)


def _chain(device: str, links: int) -> Program:
    """Return a program of additions on two alternating streams, each waiting for the one before."""
    layout = f"f32[{_LONG}] @{device}"
    lines = ["wir 2", "program @chain inference logical", f"input %v0 : {layout}"]
    lines += [f"stream {n} @{device}" for n in (1, 2)]
    lines += [f"event {n}" for n in range(1, links + 2)]
    lines += ["extern aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"]
    last = 0
    for n in range(1, links + 1):
        stream = n % 2 + 1
        lines += [
            f"record_event {n} @{device}" + (f" stream {last}" if last else ""),
            f"wait_event {n} @{device} stream {stream}",
            f"%v{n} = aten::add.Tensor(%v{n - 1}, %v{n - 1}) @{device} stream {stream} : {layout}",
        ]
        last = stream
    lines += [f"record_event {links + 1} @{device} stream {last}"]
    lines += [f"wait_event {links + 1} @{device}"]
    lines += [f"%r = aten::add.Tensor(%v{links}, %v{links}) @{device} : {layout}", "return %r"]
    return parse("\n".join(lines))


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.filterwarnings("ignore:.*appears to be a view operator:UserWarning")
class DeviceConformance:
    """Tests that every device must pass. A subclass names the device.

    Attributes:
        device: The device, such as ``npu:0``.
        target: The emitter that renders programs for it.
        refused: The corpus programs whose ops torch does not support on the device.
        tolerance: Relative and absolute tolerance for the device's kernels. By default, results
            must match the CPU's bit by bit.
        op_tolerance: The same for programs that call library ops, which torch implements.
    """

    device: ClassVar[str]
    target: ClassVar[str] = "python"
    refused: ClassVar[frozenset[str]] = frozenset()
    tolerance: ClassVar[tuple[float, float]] = (0.0, 0.0)
    op_tolerance: ClassVar[tuple[float, float]] = (1e-5, 1e-6)

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Run each test in its own folder, since programs that save values write files."""
        monkeypatch.chdir(tmp_path)

    def program(self, name: str) -> Program:
        """Return a program of the corpus on the device, after its passes, and planned."""
        return plan_memory(on_device(corpus.logical_program(name), self.device))

    # Programs.

    @pytest.mark.parametrize("name", NAMES)
    def test_results_are_the_cpus(self, name: str) -> None:
        """Compiled and interpreted programs agree in results, layouts and written inputs."""
        program = self._running(name)
        function = compile_program(program, self.target)
        reference = corpus.corpus_program(name)
        is_random = any(draws(reference, line) for _, line in walk(reference))
        calls_ops = any(calls_op(line) for _, line in walk(program))
        tolerance = self.op_tolerance if calls_ops else self.tolerance
        for seed in (0, 1):
            inputs = corpus.corpus_inputs(name, seed=seed)
            args = [copy_of(value, self.device) for value in inputs]
            expected = run_on_copies(partial(interpret, reference), inputs)
            actual = run_on_copies(function, args)
            self._compare(actual, expected, None if is_random else tolerance)
            again = run_on_copies(partial(interpret, self.program(name)), args)
            self._compare(again, expected, None if is_random else tolerance)

    @pytest.mark.parametrize("name", NAMES)
    def test_inputs_of_other_devices_are_refused(self, name: str) -> None:
        """Host tensors are rejected."""
        program = self._running(name)
        inputs = corpus.corpus_inputs(name)
        if not any(isinstance(value, torch.Tensor) for value in inputs):
            pytest.skip("the program takes no tensors")
        function = compile_program(program, self.target)
        with pytest.raises((WrapperIRError, TypeError)):
            function(*inputs)

    @pytest.mark.parametrize("name", NAMES)
    def test_kernels_that_do_not_run_are_refused(self, name: str) -> None:
        """A program with an unsupported kernel is an error before anything runs."""
        if self._runs_kernels(name):
            pytest.skip("the device runs its kernels")
        with pytest.raises(WrapperIRError):
            compile_program(self.program(name), self.target)

    # Passes.

    def test_passes_obey_the_rules(self) -> None:
        """The device's passes are pure, and leave alone what went through them."""
        kind = Device.parse(self.device).kind
        if not (kind.lowering or kind.legalisation):
            pytest.skip("the device has no passes")
        for name in NAMES:
            program = on_device(corpus.logical_program(name), self.device)
            lowered = corpus.obeying(lowering_for(program), program)
            planned = plan_memory(lowered)
            corpus.obeying(legalisation_for(planned), planned)

    # Memory.

    @pytest.mark.parametrize("size", _SIZES, ids=str)
    @pytest.mark.parametrize("dtype", _DTYPES, ids=str)
    def test_copies_keep_what_is_there(self, size: tuple[int, ...], dtype: torch.dtype) -> None:
        """Copies to and from the device, of transposes and of slices, preserve the values.

        They do so even if the source is overwritten right after the copy.
        """
        value = torch.randint(0, 2, size).to(dtype)
        if size:
            value[:1] = 1  # overwriting a row of zeros would not show
        source = value.clone()
        there = source.to(self.device)
        source.fill_(1)
        assert (there.device.type, there.dtype) == (self._type, dtype)
        back = there.cpu()
        there.fill_(0)
        assert torch.equal(back, value), "a copy changes with its source"
        assert not there.cpu().any(), "fill_ did not write everything"
        turned = copy_of(value.movedim(0, -1) if size else value, self.device)
        there = value.to(self.device)
        turned_back = torch.empty_like(there).copy_(turned.movedim(-1, 0) if size else turned)
        assert torch.equal(turned_back.cpu(), value), "a copy of a view is not like the view"
        if size and size[0] > 1:
            there[1:].copy_(torch.zeros_like(value[1:]))
            assert torch.equal(there[:1].cpu(), value[:1]), "a copy wrote outside its target"
            assert not there[1:].cpu().any()

    def test_buffers_are_as_they_are_asked_for(self) -> None:
        """Allocations have the requested sizes, strides and type, and are disjoint."""
        kind = Device.parse(self.device).kind

        def plainly(
            size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype
        ) -> torch.Tensor:
            return torch.empty_strided(size, stride, dtype=dtype, device=self.device)

        make = named(kind.python.allocator) if kind.python.allocator else plainly
        spans, kept = [], []
        for size, stride in (((5, 3), (3, 1)), ((5, 3), (1, 8)), ((0,), (1,)), ((), ())):
            for dtype in _DTYPES:
                buffer = make(size, stride, dtype)
                assert (buffer.shape, buffer.stride(), buffer.dtype) == (size, stride, dtype)
                assert buffer.device.type == self._type
                start = buffer.data_ptr()
                assert start % kind.memory.alignment == 0, "a buffer is less aligned than declared"
                if buffer.numel():
                    spans.append((start, start + buffer.untyped_storage().nbytes()))
                kept.append(buffer)
        spans.sort()
        apart = all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
        assert apart, "live buffers overlap"

    def test_inputs_begin_anywhere(self) -> None:
        """A realigned input that begins at an odd address is copied, with its strides."""
        layout = f"f32[3, 5]{{1, 3}} @{self.device}"
        try:
            run = compile_program(parse(_REALIGNED.format(layout=layout)), self.target)
        except EmitError as error:
            pytest.skip(f"{self.target} calls no library ops there: {error.problems[0].reason}")
        for offset in (0, 1, 3):
            memory = torch.arange(15 + offset, dtype=torch.float32)
            x, there = (each[offset:].view(5, 3).t() for each in (memory, memory.to(self.device)))
            (found,) = run(there)
            assert torch.equal(found.cpu(), x + x), f"it begins after {offset} elements"
            assert torch.equal(there.cpu(), x), "the caller's tensor has changed"

    # Queues.

    @pytest.mark.parametrize("links", [1, 2, 16])
    def test_events_order_streams(self, links: int) -> None:
        """A stream that waits for an event sees all earlier work on the other stream."""
        if Device.parse(self.device).kind.queues is None:
            pytest.skip("the device has no queues")
        run = compile_program(_chain(self.device, links), self.target)
        x = torch.arange(_LONG, dtype=torch.float32)
        for n in range(4):
            (y,) = run((x + n).to(self.device))
            assert torch.equal(y.cpu(), (x + n) * 2 ** (links + 1)), f"call {n}"

    @property
    def _type(self) -> str:
        return Device.parse(self.device).type

    def _reason(self, name: str) -> str:
        """Return the reason to skip a corpus program on the device, or an empty string."""
        if name in self.refused:
            return "it is listed in `refused`"
        program = corpus.corpus_program(name)
        for _, line in walk(program):
            line_effects = effects(line, program)
            defines = set(line_effects.defines)
            if calls_op(line) and defines and defines.issuperset(line_effects.touched):
                return "an op without tensor arguments creates a tensor on the host"
        return "" if self._runs_kernels(name) else "the device does not run its kernels"

    def _runs_kernels(self, name: str) -> bool:
        program = self.program(name)
        called = {line.kernel for _, line in walk(program) if calls_kernel(line)}
        languages = [program.kernels[kernel].source.language for kernel in called]
        kind = Device.parse(self.device).kind
        return all(each is None or kind.runs(each) for each in languages)

    def _running(self, name: str) -> Program:
        if reason := self._reason(name):
            pytest.skip(reason)
        return self.program(name)

    def _compare(
        self,
        actual: Sequence[tuple[str, Any]],
        expected: Sequence[tuple[str, Any]],
        tolerance: tuple[float, float] | None,
    ) -> None:
        assert [name for name, _ in actual] == [name for name, _ in expected]
        for (name, got), (_, right) in zip(actual, expected, strict=True):
            if not isinstance(right, torch.Tensor):
                assert got == right or (got != got and right != right), name
                continue
            assert got.device.type == self._type, f"{name} is on {got.device}"
            facts = [(each.shape, each.dtype) for each in (got, right)]
            assert facts[0] == facts[1], name
            if right.numel():
                assert got.stride() == right.stride(), name
            if tolerance is not None:
                words = difference(got.cpu(), right, tolerance)
                assert not words, f"{name} {words}"
