"""Conformance tests of behaviour that results do not show: memory, calls, undefined names.

The results of corpus programs cannot show that memory is freed early, that calls run with autograd
off, or that a launch gets its grid in the right order. Witness programs do, through kernels and ops
of the kit that record memory use, addresses, and the order and state of calls.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import ctypes
import gc
import symtable
import weakref
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest
import torch

from wrapper_ir.api import compile as compile_program
from wrapper_ir.api import emit
from wrapper_ir.devices import KernelLanguage, accelerators, kind_of, register_device
from wrapper_ir.emitters import EmitError
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.traits import calls_kernel, calls_op
from wrapper_ir.planning import plan_memory
from wrapper_ir.testing.corpus_files import accelerator_files
from wrapper_ir.testing.equivalence import assert_equivalent
from wrapper_ir.text import parse
from wrapper_ir.verify import VerificationError, verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import Tensor

    from wrapper_ir.lines.program import AnyLine, Program


BYTES: Final = 4 << 20
"""The size of the large buffers in these programs, too large for emitters to keep between calls."""

_FOLDER: Final = Path(__file__).parent / "kit"
"""The programs. Measuring ones take ``%w``, and the kernels write to it."""


def witness(name: str) -> Program:
    """Parse one of the programs; those for a GPU are for the first accelerator there is."""
    text = (_FOLDER / f"{name}.wir").read_text("utf-8")
    return parse(text.replace("@accelerator:", f"@{next(accelerators()).type}:"))


# Memory of the process.


def in_use() -> int:
    """Return the number of bytes allocated on this process's heap."""
    libc = _libc()
    assert libc is not None
    usage = libc.mallinfo2()
    return int(usage.uordblks) + int(usage.hblkhd)


def can_measure() -> bool:
    """Return whether the C library reports allocated memory and can fill it."""
    return _libc() is not None


@contextlib.contextmanager
def poisoned() -> Iterator[None]:
    """Fill allocated and freed memory with garbage, if the C library supports that.

    Then memory that should be zeroed is not zero by luck, and a use after free reads other values.
    """
    libc = _libc()
    if libc is None:
        yield
        return
    libc.mallopt(_M_PERTURB, 0x5A)
    try:
        yield
    finally:
        libc.mallopt(_M_PERTURB, 0)


_M_PERTURB: Final = -6

_FIELDS: Final = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS.split()]


@cache
def _libc() -> ctypes.CDLL | None:
    """Return the C library if it is glibc 2.33 or newer."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return None
    libc.mallinfo2.restype = _Mallinfo
    return libc


# Ops of the kit.


class Notes:
    """Recorded calls of the op ``note``: number, tensor, autograd state, autocast state."""

    found: list[tuple[int, list[float], bool, bool]] = []  # noqa: RUF012 - an op has no state


@cache
def declare_ops() -> object:
    """Register the kit's ops with torch for the rest of the process."""
    made: Any = torch.library.Library  # untyped
    library = made("wrapper_ir_kit", "FRAGMENT")
    library.define("note(Tensor x, int at) -> ()")
    library.define("made(Tensor x, int n) -> Tensor")
    library.impl("note", _note, "CompositeExplicitAutograd")
    library.impl("made", _made, "CompositeExplicitAutograd")
    return library


def _note(x: Tensor, at: int) -> None:
    # This kernel runs below autograd, so the tensor has to tell whether autograd was on.
    autograd = torch.is_grad_enabled() or x.requires_grad
    Notes.found.append((at, x.tolist(), autograd, torch.is_autocast_enabled("cpu")))


#: The result of ``made`` by its number: the declared layout for 4, other layouts otherwise.
LIES: Final[Mapping[int, Callable[[Tensor], Tensor]]] = {
    4: lambda x: x.clone(),
    5: lambda x: x.double(),
    6: lambda x: x.t().clone(memory_format=torch.preserve_format),
    7: lambda x: x.new_zeros((8, 4)),
}


def _made(x: Tensor, n: int) -> Tensor:
    return LIES[n](x)


# Launches of the kit.


class Launches:
    """A launcher for kernels in the kit's own language that only records the launches."""

    found: list[tuple[object, ...]] = []  # noqa: RUF012 - the launcher is made by emitted text

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._names: list[tuple[str, tuple[str, ...], tuple[int, ...]]] = []

    def add(
        self,
        name: str,
        params: Sequence[str],
        code: str,
        *,
        entry: str,
        group: tuple[int, ...] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a kernel."""
        assert (code.strip(), options or {}) == ("nothing", {})
        self._names.append((entry, tuple(params), tuple(group)))

    def load(self) -> tuple[Callable[..., None], ...]:
        """Return a callable for each kernel."""
        return tuple(self._launch(name) for name in self._names)

    def _launch(self, kernel: tuple[object, ...]) -> Callable[..., None]:
        def launch(grid: tuple[int, ...], *args: object) -> None:
            numbers = tuple(arg for arg in args if not isinstance(arg, torch.Tensor))
            Launches.found.append((self._device.type, *kernel, tuple(grid), numbers))

        return launch


@contextlib.contextmanager
def launcher_known() -> Iterator[None]:
    """Register the kit's kernel language for the CPU within a block."""
    language = KernelLanguage("wrapper_ir_kit", has_grid=True, launcher=f"{__name__}:Launches")
    before = kind_of("cpu")
    taught = replace(before, languages=(*before.languages, language))
    register_device(taught, over=before)
    try:
        yield
    finally:
        register_device(before, over=taught)


_SLACK = BYTES // 8
"""Bytes that other code may allocate during a measurement."""

_MEASURES = pytest.mark.skipif(not can_measure(), reason="the C library does not report memory use")


class WatchedPrograms:
    """Tests with the kit's own programs. A program that the emitter refuses is skipped."""

    target: ClassVar[str]
    options: ClassVar[Mapping[str, object]] = {}
    has_branches: ClassVar[bool] = True

    # Memory.

    @_MEASURES
    def test_memory_is_freed_where_the_program_says(self) -> None:
        """A ``free`` releases the memory at once, not at the end of the call."""
        bytes_ = self._measured("frees", 8)
        used = [each - bytes_[0] for each in bytes_]
        assert used[1] > BYTES - _SLACK, "the buffer took no memory"
        assert used[2] < _SLACK, "%a is in use after its end"
        assert used[3] < BYTES + _SLACK, "%a is in use beside %b"

    @_MEASURES
    def test_donated_inputs_are_freed_where_the_program_says(self) -> None:
        """A donated input is freed during the call."""
        program, w = witness("donated"), torch.zeros(4, dtype=torch.int64)
        function = self._compiled(program, boxed=True)
        function([torch.ones(1 << 20), torch.zeros_like(w)])  # a first call may set things up
        inputs = [torch.ones(1 << 20), w]
        function(inputs)
        before, after = w.tolist()[:2]
        assert before - after > BYTES - _SLACK, "%x is in use after its end"

    @_MEASURES
    def test_reused_memory_is_the_donors(self) -> None:
        """``reuse`` and ``reinterpret`` name existing memory at the right offset."""
        first, used, second, then, part = self._measured("reused", 8)[:5]
        assert first == second, "%b has memory of its own, not %a's"
        assert then - used < _SLACK, "%b took memory besides %a's"
        assert part == first + 1024 * 4, "%c does not begin where its offset says"

    @_MEASURES
    def test_slices_are_in_their_pool(self) -> None:
        """Slices of a pool allocate nothing and have the right offsets."""
        before, first, second, within, after = self._measured("pooled", 8)[:5]
        assert second - first == BYTES, "the slices are not where their offsets say"
        assert within - before < 2 * BYTES + _SLACK, "slices took memory of their own"
        assert after - before < _SLACK, "the pool is in use after its end"

    @_MEASURES
    def test_rounds_of_loops_leave_nothing(self) -> None:
        """After a loop, only its results are in use, and nothing else from its iterations."""
        before, after = self._measured("looped", 4)[:2]
        assert after - before < BYTES + _SLACK, "rounds of the loop left memory in use"

    def test_memory_is_aligned(self) -> None:
        """Allocations start at multiples of the device's alignment."""
        addresses = self._measured("aligned", 8)
        assert [address % 64 for address in addresses[:4]] == [0, 0, 0, 0]

    @pytest.mark.parametrize("boxed", [False, True])
    def test_inputs_are_realigned(self, boxed: bool) -> None:  # noqa: FBT001 - pytest names it
        """A ``realigned`` input is copied, with its strides, if it has to be, and only then."""
        function = self._compiled(witness("realigned"), boxed=boxed)
        for n, x_offset, y_offset in ((5, 1, 0), (6, 0, 2), (5, 4, 7), (6, 0, 0)):
            x = _after(x_offset, torch.randn(3 * n)).view(3, n).t()
            y = _after(y_offset, torch.randn(4, dtype=torch.float64))
            w, before = torch.zeros(2, dtype=torch.int64), (x.clone(), y.clone())
            inputs = [n, x, y, w]
            results = function(inputs) if boxed else function(*inputs)
            for place, start in zip(w.tolist(), (x.data_ptr(), y.data_ptr()), strict=True):
                assert place % 64 == 0, "a kernel gets an input at another address than it may"
                assert place == start or start % 64, "an input is copied without need"
            for found, expected, tensor in zip(results, before, (x, y), strict=True):
                assert torch.equal(found, expected), "the copy has other contents, or other strides"
                assert torch.equal(tensor, expected), "the caller's tensor has changed"

    @_MEASURES
    def test_calls_leave_nothing(self) -> None:
        """No allocation of a call outlives its results, even if the call raises."""
        function = self._compiled(witness("reused"))
        w = torch.zeros(8, dtype=torch.int64)
        function(w)
        before = in_use()
        for _ in range(3):
            function(w)
            with pytest.raises((WrapperIRError, TypeError)):
                function(w, w)
        gc.collect()
        assert in_use() - before < _SLACK, "calls leave memory in use"

    def test_what_callers_drop_dies(self) -> None:
        """Inputs and results die when the caller drops them after the call."""
        function = self._compiled(witness("aligned"))
        w = torch.zeros(8, dtype=torch.int64)
        values = [w, *function(w)]
        storages = [weakref.ref(value.untyped_storage()) for value in values]
        del values, w
        gc.collect()
        assert not any(storage() for storage in storages), "values of a call live on after it"

    # Calls.

    def test_numbers_arrive_whole(self) -> None:
        """Kernels get exact numbers: large, negative, and at the precision of their types."""
        program = witness("numbers")
        self._compiled(program)
        for n, z in ((1 << 40, 0.1), (-3, 1e300), (0, -0.0)):
            assert_equivalent(program, n, z, targets=(self.target,), options=self.options)

    def test_copies_are_made_in_order(self) -> None:
        """The later of two copies to the same buffer wins."""
        program = witness("copies")
        self._compiled(program)
        assert_equivalent(program, targets=(self.target,), options=self.options)

    def test_ops_are_called_in_order_with_autograd_off(self) -> None:
        """Each op is called once, in program order, even if it only has side effects."""
        declare_ops()
        function = self._compiled(witness("notes"))
        Notes.found.clear()
        x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.enable_grad():
            function(x)
        numbers = [[1.0, 2.0, 3.0, 4.0], [1.0, 4.0, 9.0, 16.0]]
        expected = [(1, numbers[0]), (2, numbers[1]), (3, numbers[0])]
        assert [note[:2] for note in Notes.found] == expected
        assert not any(autocast for *_, autocast in Notes.found), "autocast is on inside"

    def test_results_of_ops_are_checked(self) -> None:
        """An op result that differs from the asserted layout is an error."""
        declare_ops()
        function = self._compiled(witness("lies"))
        x = torch.randn(4, 4)
        assert torch.equal(function(4, x)[0], x)
        for n in (5, 6, 7):
            with pytest.raises(WrapperIRError):
                function(n, x)

    def test_launches_are_as_written(self) -> None:
        """Kernels in third-party languages get their grid, group and arguments."""
        with launcher_known():
            function = self._compiled(witness("launches"))
            Launches.found.clear()
            function(5, torch.zeros(8))
        kernel = ("watched", ("inout f32", "i64"), (3, 5, 7))
        assert Launches.found == [("cpu", *kernel, (5, 11, 13), (7,))]

    # Devices.

    def test_memory_is_on_the_programs_device(self) -> None:
        """Memory of a program for another device is on that device."""
        function = self._compiled(witness("on_meta"))
        for result in function(torch.empty(4, 3, device="meta")):
            assert result.device.type == "meta"
        with pytest.raises((WrapperIRError, TypeError)):
            function(torch.empty(4, 3))

    @pytest.mark.parametrize("name", ["streamed", *accelerator_files()])
    def test_what_orders_streams_is_rendered(self, name: str) -> None:
        """The text depends on every wait, event and stream of a launch.

        Python text must have no undefined names. Nothing runs it here.
        """
        file = accelerator_files().get(name)
        program = parse(file.read_text("utf-8")) if file else witness(name)
        if program.stage.value == "logical":
            program = plan_memory(program)
        streams = program.streams
        if streams and not self.has_branches and all(each.captured for each in streams):
            pytest.skip("its calls are not captured, so they have no branches")
        text, changes = self._text(program), 0
        assert len(names_missing(text)) <= len(program.constants)
        for index, changed in _without_order(program):
            # Emitters only ever see programs that pass the verifier.
            try:
                verify(changed)
            except VerificationError:
                continue
            line, changes = program.body[index], changes + 1
            assert self._text(changed) != text, f"body[{index}], '{line.mnemonic}', is not rendered"
        if not changes:
            pytest.skip("the verifier allows no other order")

    # Helpers.

    def _compiled(self, program: Program, *, boxed: bool = False) -> Callable[..., Any]:
        with self._refusing():
            if boxed:
                return emit(program, self.target, **self.options).load_boxed()
            return compile_program(program, self.target, debug="off", **self.options)

    def _text(self, program: Program) -> str:
        with self._refusing():
            return emit(program, self.target, **self.options).source

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except EmitError as error:
            pytest.skip(f"{self.target} refuses it: {error.problems[0].reason}")

    def _measured(self, name: str, count: int) -> list[int]:
        """Return the measurements in ``%w`` of the second call, since a first may set things up."""
        program = witness(name)
        function = self._compiled(program)
        others = [torch.tensor(0)] if len(program.inputs) > 1 else []
        function(*others, torch.zeros(count, dtype=torch.int64))
        w = torch.zeros(count, dtype=torch.int64)
        function(*others, w)
        return list(map(int, w.tolist()))


def _after(offset: int, values: Tensor) -> Tensor:
    """Return values that begin that many elements after memory that is aligned to 64 bytes."""
    size = values.element_size()
    memory = values.new_empty(values.numel() + offset + 64 // size)
    skipped = -memory.data_ptr() % 64 // size
    return memory[skipped + offset :][: values.numel()].copy_(values)


def _without_order(program: Program) -> Iterator[tuple[int, Program]]:
    """Yield programs that lack one ordering between streams, each with the index of its line."""
    body = program.body
    for index, line in enumerate(body):
        changes: list[tuple[AnyLine, ...]] = []
        if line.runs.orders:
            changes = [()]
        elif (calls_op(line) or calls_kernel(line)) and line.stream:
            numbers = range(len(program.streams) + 1)
            others = [number for number in numbers if number != line.stream]
            changes = [(replace(line, stream=number),) for number in others]
        for changed in changes:
            yield index, program.replace(body=(*body[:index], *changed, *body[index + 1 :]))


# Undefined names in Python text.

_OF_MODULES: Final = frozenset({*dir(builtins), "__file__"})


def names_missing(text: str) -> list[str]:
    """Return the names that a module reads but never defines, regardless of order.

    There are none in a text that is no module of Python, nor in a lone expression: JSON and other
    data may read like one.
    """
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return []
    if len(body) == 1 and isinstance(body[0], ast.Expr):
        return []
    top = symtable.symtable(text, "<emitted>", "exec")
    defined = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    symbols = [(symbol, table) for table in (top, *_inside(top)) for symbol in table.get_symbols()]
    # A function with "global x" may define x.
    defined |= {s.get_name() for s, _ in symbols if s.is_declared_global() and s.is_assigned()}
    read = {
        symbol.get_name()
        for symbol, table in symbols
        if symbol.is_referenced() and (symbol.is_global() or table is top)
    }
    return sorted(read - defined - _OF_MODULES)


def _inside(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _inside(child)
