"""Made-up logical programs that break no rule, of all that matters to a planner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from wrapper_ir.lines import (
    Access,
    Allocate,
    AnyLine,
    AssertLayout,
    BufferArg,
    BufferInput,
    BufferParam,
    BufferValue,
    Cond,
    CppKernel,
    DType,
    ExternKernel,
    Free,
    FrozenMap,
    GraphRole,
    KernelCall,
    KernelDefinition,
    Layout,
    Program,
    Region,
    Reinterpret,
    Relation,
    ResultBuffer,
    Reuse,
    ScalarArg,
    Switch,
    TorchOp,
)

SIZES = ((64,), (8, 8), (16,), (4, 4), (24,), (256,))
DTYPES = (DType.FLOAT32, DType.INT32, DType.FLOAT64)

_SCHEMAS = {
    "test::fresh": "test::fresh(Tensor self) -> Tensor",
    "test::view": "test::view(Tensor(a) self) -> Tensor(a)",
    "test::change": "test::change(Tensor(a!) self) -> ()",
}


def _kernel(name: str, dtype: DType, *accesses: Access) -> KernelDefinition:
    params = tuple(BufferParam(f"p{n}", dtype, a) for n, a in enumerate(accesses))
    return KernelDefinition(f"{name}_{dtype.short}", params, CppKernel("// made up"))


KERNELS = (
    *(_kernel("copy", d, Access.READ, Access.WRITE) for d in DTYPES),
    *(_kernel("bump", d, Access.READ_WRITE) for d in DTYPES),
    *(KernelDefinition(name, (), TorchOp(schema)) for name, schema in _SCHEMAS.items()),
)


@dataclass
class _Writer:
    """Draws the lines of one region."""

    draw: Callable[[st.SearchStrategy[object]], object]
    buffers: dict[str, Layout]
    prefix: str
    depth: int
    scale: int = 1
    body: list[AnyLine] = field(default_factory=list)
    storage: dict[str, str] = field(default_factory=dict)
    """Name -> owner of its storage, for what is alive."""
    ours: set[str] = field(default_factory=set)
    count: int = 0

    def pick(self, options: list[str]) -> str:
        return str(self.draw(st.sampled_from(options)))

    def name(self, layout: Layout, owner: str | None = None) -> str:
        name = f"{self.prefix}{self.count}"
        self.count += 1
        self.buffers[name] = layout
        self.storage[name] = owner or name
        return name

    def layout(self) -> Layout:
        *outer, last = self.draw(st.sampled_from(SIZES))
        size = (*outer, last * self.scale)
        return Layout.contiguous(self.draw(st.sampled_from(DTYPES)), size)

    def alive(self) -> list[str]:
        return list(self.storage)

    def end(self, owner: str) -> None:
        self.storage = {n: o for n, o in self.storage.items() if o != owner}
        self.ours.discard(owner)

    # Each adds lines that are right after those before.

    def allocate(self) -> None:
        layout = self.layout()
        out = self.name(layout)
        self.ours.add(out)
        self.body.append(Allocate(out))
        self.fill(out)

    def fill(self, out: str) -> None:
        """Writes all of a buffer, from something of its dtype if there is anything."""
        dtype = self.buffers[out].dtype
        like = [n for n in self.alive() if self.buffers[n].dtype is dtype and n != out]
        source = self.pick(like) if like else out
        args = (BufferArg(source, Access.READ), BufferArg(out, Access.WRITE))
        if source == out:
            self.body.append(ExternKernel("test::change", (BufferArg(out, Access.WRITE),)))
        else:
            self.body.append(KernelCall(f"copy_{dtype.short}", args))

    def bump(self) -> None:
        name = self.pick(self.alive())
        kernel = f"bump_{self.buffers[name].dtype.short}"
        self.body.append(KernelCall(kernel, (BufferArg(name, Access.READ_WRITE),)))

    def view(self) -> None:
        source = self.pick(self.alive())
        owner = self.storage[source]
        whole = self.buffers[owner]
        half = int(whole.numel) // 2
        offset = int(self.draw(st.sampled_from([0, half])))
        layout = Layout(whole.dtype, whole.device, (half,), (1,), offset)
        self.body.append(Reinterpret(self.name(layout, owner), source))

    def may_alias(self) -> None:
        source = self.pick(self.alive())
        owner = self.storage[source]
        out = self.name(self.buffers[source], owner)
        result = ResultBuffer(out, (), Relation.MAY_ALIAS, (source,))
        self.body.append(ExternKernel("test::view", (BufferArg(source),), results=(result,)))

    def fresh(self) -> None:
        source = self.pick(self.alive())
        out = self.name(self.layout())
        self.ours.add(out)
        results = (ResultBuffer(out),)
        self.body.append(ExternKernel("test::fresh", (BufferArg(source),), results=results))
        if self.draw(st.booleans()):
            alignment = self.draw(st.sampled_from([0, 16]))
            self.body.append(AssertLayout(out, "test.fresh", alignment))

    def in_place(self) -> None:
        owners = sorted(self.ours)
        if owners:
            donor = self.pick(owners)
            self.end(donor)
            out = self.name(self.buffers[donor])
            self.ours.add(out)
            self.body.append(Reuse(out, donor))

    def free(self) -> None:
        """A free that the front end gives."""
        owners = sorted(self.ours)
        if len(owners) > 1:
            owner = self.pick(owners)
            self.end(owner)
            self.body.append(Free(owner))

    def cond(self) -> None:
        if self.depth:
            return
        operand = self.pick(self.alive())
        layout = self.buffers[operand]
        layout = Layout(layout.dtype, layout.device, layout.size, layout.stride)
        out_layout = self.layout()
        sides = self.pick(["te", "abc"])
        regions = [
            self.branch(f"{self.prefix}{self.count}{side}_", layout, out_layout) for side in sides
        ]
        out = self.name(out_layout)
        self.ours.add(out)
        results, operands = (ResultBuffer(out),), (BufferArg(operand, Access.READ_WRITE),)
        if sides == "te":
            self.body.append(Cond(results, ScalarArg(True), operands, *regions))
        else:
            self.body.append(Switch(results, ScalarArg(0), operands, tuple(regions)))

    def branch(self, prefix: str, layout: Layout, out_layout: Layout) -> Region:
        inner = _Writer(self.draw, self.buffers, prefix, self.depth + 1, self.scale)
        param = inner.name(layout)
        inner.steps(4)
        out = inner.name(out_layout)
        inner.body.append(Allocate(out))
        inner.fill(out)
        return Region((BufferInput(param),), tuple(inner.body), (BufferValue(out),))

    def steps(self, most: int) -> None:
        kinds = [self.allocate] * 4 + [self.bump, self.view, self.may_alias, self.fresh]
        kinds += [self.in_place, self.free, self.cond]
        for _ in range(int(self.draw(st.integers(0, most)))):
            step = self.draw(st.sampled_from(range(len(kinds))))
            kinds[step]()


@st.composite
def programs(draw: Callable[[st.SearchStrategy[object]], object], scale: int = 1) -> Program:
    """Logical programs of static sizes, with up to twenty steps; ``scale`` multiplies sizes."""
    writer = _Writer(draw, {}, "b", 0, scale)
    inputs = tuple(BufferInput(writer.name(writer.layout())) for _ in range(2))
    writer.steps(20)
    results = draw(st.lists(st.sampled_from(writer.alive()), max_size=4))
    return Program(
        inputs=inputs,
        results=tuple(BufferValue(name) for name in results),  # type: ignore[attr-defined]
        body=(*KERNELS, *writer.body),
        buffers=FrozenMap(writer.buffers),
        role=draw(st.sampled_from(GraphRole)),
    )
