"""Hypothesis strategy of programs without a fault, made with the builder step by step.

Each step does something legal in the state that the steps before left: it knows which storages are
alive, who owns them and which names see them. What comes out can be verified, planned, emitted and,
being for the CPU and made of real kernels and ops, run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

import wrapper_ir as wir
from wrapper_ir import lines as ir

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import DrawFn

    from wrapper_ir.build import Buffer

_HEAD = '#include <torch/csrc/inductor/cpp_prefix.h>\nextern "C" void kernel('
_RELU = (
    f"{_HEAD}const float* x, float* y, const int64_t n)\n"
    "{\n    for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;\n}\n"
)
_ADD = (
    f"{_HEAD}const float* a, const float* b, float* y, const int64_t n)\n"
    "{\n    for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];\n}\n"
)
_SCALE = (
    f"{_HEAD}float* x, const int64_t n, const double f)\n"
    "{\n    for (int64_t i = 0; i < n; ++i) x[i] *= static_cast<float>(f);\n}\n"
)
_ADD_OP = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
_RELU_OUT = "aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"
_MUL_ = "aten::mul_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)"
_TRANSPOSE = "aten::t(Tensor(a) self) -> Tensor(a)"
_CONTIGUOUS = "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)"
_MAX = "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"
_SUM = "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"

_words = st.text("abc */\"'\\\n{}%é", max_size=8)


class _Scope:
    """The buffers of a region: which see what storage, and which storages are the region's own."""

    def __init__(self) -> None:
        self.root: dict[str, str] = {}
        self.names: dict[str, Buffer] = {}
        self.owned: list[str] = []
        self.pinned: set[str] = set()

    def add(self, buffer: Buffer, *, owned: bool = False) -> Buffer:
        self.names[buffer.name] = buffer
        self.root[buffer.name] = buffer.name
        if owned:
            self.owned.append(buffer.name)
        return buffer

    def add_view(self, buffer: Buffer, source: Buffer) -> Buffer:
        self.names[buffer.name] = buffer
        self.root[buffer.name] = self.root[source.name]
        return buffer

    def end(self, root: str) -> None:
        """A storage is gone, with all that see it."""
        self.owned.remove(root)
        for name in [n for n, r in self.root.items() if r == root]:
            del self.names[name], self.root[name]


class _Maker:
    """Makes one program."""

    def __init__(self, draw: DrawFn, *, planned: bool) -> None:
        self.draw = draw
        self.planned = planned
        stage = ir.Stage.PLANNED if planned else ir.Stage.LOGICAL
        self.b = wir.Builder("made", stage=stage, check_inputs=draw(st.booleans()))
        rows = self.b.symbol("s0", min=1, max=64, hint=3) if draw(st.booleans()) else 3
        self.size: tuple[Any, ...] = (rows, 4)
        self.numbers: list[Any] = [1, 2.5, rows, 4 * rows]
        self.relu = self.b.cpp_kernel(
            "relu", _RELU, reads=[("x", "f32")], writes=[("y", "f32")], scalars=["n"]
        )
        self.add = self.b.cpp_kernel(
            "add", _ADD, reads=[("a", "f32"), ("b", "f32")], writes=[("y", "f32")], scalars=["n"]
        )
        self.scale = self.b.cpp_kernel(
            "scale", _SCALE, updates=[("x", "f32")], scalars=["n", ("f", "f64")]
        )
        self.scope = _Scope()
        self.depth = 0

    def program(self) -> ir.Program:
        b, draw = self.b, self.draw
        for index in range(draw(st.integers(1, 3))):
            donated = draw(st.booleans())
            self.scope.add(b.input(f"x{index}", "f32", self.size, donated=donated), owned=donated)
        if draw(st.booleans()):
            self.scope.add(b.constant("w", layout=ir.Layout.contiguous(ir.DType.FLOAT32, (4, 4))))
            self.scope.pinned.add("w")
        self.steps(draw(st.integers(1, 8)))
        results = draw(st.lists(st.sampled_from(self.scope_values()), max_size=4))
        self.leave(results)
        b.returns(*results)
        return b.build(verify=False)

    def scope_values(self) -> list[Any]:
        return [*self.scope.names.values(), *self.numbers, None]

    def steps(self, count: int) -> None:
        choices: list[Callable[[], None]] = [
            *(self.unary, self.binary, self.in_place, self.op, self.op_out, self.op_in_place),
            *(self.turn, self.part, self.flat, self.alias, self.maybe, self.several, self.number),
            *(self.remark, self.check, self.free, self.reuse, self.pool, self.zeroed),
        ]
        if self.depth < 2:
            choices += [self.choice, self.loop]
        for _ in range(count):
            self.draw(st.sampled_from(choices))()

    def leave(self, results: list[Any]) -> None:
        """At the end of a planned region every storage of its own is freed, unless it leaves."""
        if not self.planned:
            return
        roots = {self.scope.root[r.name] for r in results if isinstance(r, wir.build.Buffer)}
        for root in list(self.scope.owned):
            if root not in roots and not root.startswith("x"):
                self.b.free(self.scope.names[root])
                self.scope.end(root)

    def pick(self, *, writable: bool = False) -> Buffer | None:
        """A buffer of the common size, row-major."""
        fits = [
            buffer
            for buffer in self.scope.names.values()
            if buffer.size == self.size and buffer.layout.is_contiguous
            if not writable or self.scope.root[buffer.name] not in self.scope.pinned
        ]
        return self.draw(st.sampled_from(fits)) if fits else None

    def fresh(self) -> Buffer:
        return self.scope.add(self.b.allocate("f32", self.size), owned=True)

    @property
    def count(self) -> Any:
        return self.size[0] * self.size[1]

    # Steps. Each does nothing where nothing fits.

    def unary(self) -> None:
        source = self.pick()
        if source is not None:
            self.b.call(self.relu, source, self.fresh(), self.count)

    def binary(self) -> None:
        a, c = self.pick(), self.pick()
        if a is not None and c is not None:
            self.b.call(self.add, a, c, self.fresh(), self.count)

    def in_place(self) -> None:
        target = self.pick(writable=True)
        if target is not None:
            factor = self.draw(st.floats(-2, 2))
            self.b.call(self.scale, target, self.count, factor)

    def op(self) -> None:
        a, c = self.pick(), self.pick()
        if a is not None and c is not None:
            alpha = self.draw(st.sampled_from([1, 0.5, -2]))
            self.scope.add(self.b.extern(_ADD_OP, a, c, alpha=alpha, result=a), owned=True)

    def op_out(self) -> None:
        source = self.pick()
        if source is not None:
            self.b.extern(_RELU_OUT, source, out=self.fresh())

    def op_in_place(self) -> None:
        target = self.pick(writable=True)
        if target is not None:
            self.b.extern(_MUL_, target, self.draw(st.sampled_from([2, 0.5])))

    def turn(self) -> None:
        source = self.pick()
        if source is not None:
            self.scope.add_view(self.b.permute(source, (1, 0)), source)

    def part(self) -> None:
        source = self.pick()
        if source is not None:
            view = self.b.narrow(source, 1, self.draw(st.integers(0, 3)), 1)
            self.scope.add_view(view, source)

    def flat(self) -> None:
        source = self.pick()
        if source is not None:
            self.scope.add_view(self.b.view(source, (self.count,)), source)

    def alias(self) -> None:
        source = self.pick()
        if source is not None:
            layout = ir.Layout(
                source.dtype,
                source.device,
                source.size[::-1],
                source.layout.stride[::-1],
                source.layout.offset,
            )
            self.scope.add_view(self.b.extern(_TRANSPOSE, source, result=layout), source)

    def maybe(self) -> None:
        source = self.pick()
        if source is not None:
            result = self.b.extern(_CONTIGUOUS, source, result=source.layout, may_alias=True)
            self.scope.add_view(result, source)

    def several(self) -> None:
        source = self.pick()
        if source is not None:
            rows = (self.size[0],)
            wanted: list[Any] = [("f32", rows), ("i64", rows)]
            if self.draw(st.booleans()):
                wanted[self.draw(st.integers(0, 1))] = None
            for result in self.b.extern(_MAX, source, 1, results=wanted):
                self.scope.add(result, owned=True)

    def number(self) -> None:
        kind = self.draw(st.integers(0, 3))
        source = self.pick()
        if kind == 0 and source is not None:
            self.numbers.append(self.b.size(source, 0))
        elif kind == 1 and source is not None:
            total = self.scope.add(self.b.extern(_SUM, source, result=("f32", ())), owned=True)
            self.numbers.append(self.b.item(total))
        else:
            value = self.draw(st.sampled_from(self.numbers))
            self.numbers.append(self.b.compute(value * 2 + 1))

    def remark(self) -> None:
        if self.draw(st.booleans()):
            self.b.comment(self.draw(_words))
            return
        shown = self.draw(st.lists(st.sampled_from([*self.scope.names.values(), *self.numbers])))
        level = self.draw(st.sampled_from(list(ir.ProbeLevel)))
        when = self.draw(st.sampled_from(list(ir.When)))
        self.b.probe(self.draw(_words), *shown, level=level, when=when)

    def check(self) -> None:
        source = self.pick()
        if source is not None:
            self.b.check_layout(source, self.draw(_words))
        self.b.check(ir.scalar(self.count > 0) if self.count != 12 else True, self.draw(_words))

    def zeroed(self) -> None:
        self.scope.add(self.b.allocate("f32", self.size, zeroed=True), owned=True)

    def free(self) -> None:
        if self.scope.owned:
            root = self.draw(st.sampled_from(self.scope.owned))
            self.b.free(self.scope.names[root])
            self.scope.end(root)

    def reuse(self) -> None:
        if self.scope.owned:
            root = self.draw(st.sampled_from(self.scope.owned))
            donor = self.scope.names[root]
            size = (donor.numel,) if self.draw(st.booleans()) else donor.size
            taken = self.b.reuse(donor, donor.dtype, size)
            self.scope.end(root)
            self.scope.add(taken, owned=True)

    def pool(self) -> None:
        source = self.pick()
        if source is None:
            return
        nbytes = 4 * self.count
        pool = self.b.allocate_pool(2 * nbytes)
        first = self.b.allocate_from_pool(pool, 0, "f32", self.size)
        self.b.call(self.relu, source, first, self.count)
        second = self.b.allocate_from_pool(pool, nbytes, "f32", (self.count,))
        self.b.call(self.relu, first, second, self.count)
        self.b.free(first)
        self.b.call(self.relu, second, self.fresh(), self.count)
        self.b.free(second)
        self.b.free(pool)

    def region(self, *params: Any) -> _Scope:
        """Enters a region; its parameters are the caller's and are not written."""
        outer, self.scope = self.scope, _Scope()
        for param in params:
            if isinstance(param, wir.build.Buffer):
                self.scope.add(param)
                self.scope.pinned.add(param.name)
        self.depth += 1
        return outer

    def body(self, source: Any, *others: Any) -> Any:
        """Builds a region that gives one new buffer of the common size."""
        outer, numbers = self.region(source, *others), list(self.numbers)
        self.steps(self.draw(st.integers(0, 2)))
        out = self.b.allocate("f32", self.size)
        self.b.call(self.relu, source, out, self.count)
        self.leave([])
        self.scope, self.numbers = outer, numbers
        self.depth -= 1
        return out

    def choice(self) -> None:
        source = self.pick()
        if source is not None:
            condition = self.draw(st.sampled_from([True, self.count > 8]))
            result = self.b.cond(condition, [source], self.body, self.body)
            self.scope.add(result, owned=True)

    def loop(self) -> None:
        source, other = self.pick(), self.pick()
        if source is not None and other is not None:
            rounds = self.draw(st.integers(0, 3))
            count, result = self.b.while_loop(
                [0, source],
                [other],
                lambda i, *_: i < rounds,
                lambda i, carried, captured: (i + 1, self.body(carried, captured)),
            )
            self.numbers.append(count)
            self.scope.add(result, owned=True)


@st.composite
def programs(draw: DrawFn, planned: bool | None = None) -> ir.Program:
    """A program that breaks no rule; ``planned`` or not, or either."""
    is_planned = draw(st.booleans()) if planned is None else planned
    return _Maker(draw, planned=is_planned).program()
