"""A long synthetic program for the scaling benchmarks, made of the lines that real programs have.

It is a tower of layers over a dynamic batch ``s0``. Each layer has views of weights, library ops
that write into a buffer, library ops that allocate their results, fused kernels with sizes as
arguments, two kernels that fill the halves of one buffer, asserts and comments. Every sixteenth
layer computes a symbol. Frees and reuses are left to the planner, so the planned program is longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wrapper_ir.lines import (
    Access,
    Allocate,
    AssertLayout,
    BindSymbol,
    BufferArg,
    BufferInput,
    BufferParam,
    BufferValue,
    Comment,
    ComputeSymbol,
    Constant,
    ConstantKind,
    CppKernel,
    DType,
    ExternKernel,
    FrozenMap,
    KernelCall,
    KernelDefinition,
    Layout,
    NamedArg,
    NoneArg,
    Program,
    Reinterpret,
    ResultBuffer,
    ScalarArg,
    ScalarParam,
    SizeOf,
    SymbolInfo,
    TorchOp,
    contiguous_strides,
    symbol,
)
from wrapper_ir.lines.layout import CPU

if TYPE_CHECKING:
    from wrapper_ir.lines import AnyLine

__all__ = ["long_program"]

WIDTH = 64

#: Number of distinct kernels. Calls share them, as in deep models.
KERNELS = 200

ADDMM = (
    "aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, "
    "Tensor(a!) out) -> Tensor(a!)"
)
SORT = (
    "aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) "
    "-> (Tensor values, Tensor indices)"
)

_CODE = """\
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C" void {name}(const float* in_ptr0, float* out_ptr0, const int64_t ks0)
{{
    for (int64_t x0 = 0; x0 < {width} * ks0; x0 += 16)
    {{
        auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + x0, 16);
        auto tmp1 = at::vec::Vectorized<float>({factor}.0);
        auto tmp2 = tmp0 * tmp1;
        tmp2.store(out_ptr0 + x0);
    }}
}}
"""


def long_program(lines: int) -> Program:
    """Return a program with at least ``lines`` and fewer than ``lines + 100`` lines."""
    tower = _Tower()
    while len(tower.body) < lines:
        tower.layer()
    return tower.program()


class _Tower:
    """A builder that collects lines and layouts layer by layer."""

    def __init__(self) -> None:
        self.batch = symbol("s0")
        self.rows = (self.batch, WIDTH)
        self.buffers: dict[str, Layout] = {"x": self._layout()}
        self.symbols = {"s0": SymbolInfo(lower=2, hint=8)}
        self.constants: dict[str, Constant] = {}
        self.body: list[AnyLine] = [
            KernelDefinition("aten::addmm.out", (), TorchOp(ADDMM)),
            KernelDefinition("aten::sort.stable", (), TorchOp(SORT)),
            *(_kernel(number) for number in range(KERNELS)),
            BindSymbol("s0", SizeOf("x", 0)),
            AssertLayout("x"),
        ]
        self.hidden = "x"
        self.depth = 0

    def program(self) -> Program:
        """Return the program built so far."""
        return Program(
            name="tower",
            inputs=(BufferInput("x"),),
            results=(BufferValue(self.hidden),),
            body=tuple(self.body),
            buffers=FrozenMap(self.buffers),
            symbols=FrozenMap(self.symbols),
            constants=FrozenMap(self.constants),
        )

    def layer(self) -> None:
        """Add one layer: about twenty lines that advance the hidden state."""
        number, start = self.depth, self.hidden
        self.body.append(Comment(f"layer {number}: projection, activation, sort, two halves"))
        product = self._projection(number, start)
        active = self._allocate(f"active{number}")
        self._call(number, product, active)
        ordered = self._sort(number, active)
        joined = f"joined{number}"
        self._define(joined, self._layout(rows=2 * self.batch))
        self.body.append(Allocate(joined))
        halves = [self._half(number, joined, side) for side in (0, 1)]
        self._call(number + 1, active, halves[0])
        self._call(number + 2, ordered, halves[1])
        if number % 16 == 0:
            self._symbol(number, product)
        self.hidden = self._allocate(f"hidden{number}")
        self._call(number + 3, halves[1], self.hidden)
        self.depth += 1

    def _projection(self, number: int, source: str) -> str:
        weight, bias, turned = f"w{number}", f"b{number}", f"wt{number}"
        self._define(weight, Layout(DType.FLOAT32, CPU, (WIDTH, WIDTH), (WIDTH, 1)))
        self._define(bias, Layout(DType.FLOAT32, CPU, (WIDTH,), (1,)))
        self._define(turned, Layout(DType.FLOAT32, CPU, (WIDTH, WIDTH), (1, WIDTH)))
        for name, kind in ((weight, "weight"), (bias, "bias")):
            self.constants[name] = Constant(f"layers.{number}.{kind}", ConstantKind.PARAMETER)
        product = self._allocate(f"product{number}")
        kwargs: tuple[NamedArg, ...] = (
            ("beta", ScalarArg(1)),
            ("alpha", ScalarArg(1)),
            ("out", BufferArg(product, Access.WRITE)),
        )
        args = (BufferArg(bias), BufferArg(source), BufferArg(turned))
        self.body.append(Reinterpret(turned, weight))
        self.body.append(ExternKernel("aten::addmm.out", args, kwargs))
        return product

    def _sort(self, number: int, source: str) -> str:
        values, indices = f"sorted{number}", f"order{number}"
        self._define(values, self._layout())
        self._define(indices, self._layout(dtype=DType.INT64))
        results = (ResultBuffer(values, (0,)), ResultBuffer(indices, (1,)))
        kwargs: tuple[NamedArg, ...] = (("stable", NoneArg()), ("dim", ScalarArg(-1)))
        op = "aten::sort.stable"
        self.body.append(ExternKernel(op, (BufferArg(source),), kwargs, results))
        self.body.append(AssertLayout(values, subject=op))
        return values

    def _half(self, number: int, whole: str, side: int) -> str:
        name = f"half{number}_{side}"
        offset = side * WIDTH * self.batch
        size = self.rows
        self._define(
            name, Layout(DType.FLOAT32, CPU, size, contiguous_strides(size), offset=offset)
        )
        self.body.append(Reinterpret(name, whole))
        return name

    def _symbol(self, number: int, source: str) -> None:
        name = f"s{number + 1}"
        self.symbols[name] = SymbolInfo(lower=2, hint=9)
        self.body.append(ComputeSymbol(name, self.batch * (number + 1) + 1))
        wide = f"wide{number}"
        self._define(wide, self._layout(rows=symbol(name)))
        self.body.append(Allocate(wide))
        self._call(number, source, wide)

    def _call(self, number: int, source: str, target: str) -> None:
        args = (BufferArg(source), BufferArg(target, Access.WRITE), ScalarArg(self.batch))
        self.body.append(KernelCall(f"fused_mul_{number % KERNELS}", args))

    def _allocate(self, name: str) -> str:
        self._define(name, self._layout())
        self.body.append(Allocate(name))
        return name

    def _define(self, name: str, layout: Layout) -> None:
        self.buffers[name] = layout

    def _layout(self, rows: object = None, dtype: DType = DType.FLOAT32) -> Layout:
        return Layout.contiguous(dtype, (self.batch if rows is None else rows, WIDTH))


def _kernel(number: int) -> KernelDefinition:
    name = f"fused_mul_{number}"
    params = (
        BufferParam("in_ptr0", DType.FLOAT32, Access.READ),
        BufferParam("out_ptr0", DType.FLOAT32, Access.WRITE),
        ScalarParam("ks0"),
    )
    code = _CODE.format(name=name, width=WIDTH, factor=number)
    return KernelDefinition(name, params, CppKernel(code, entry=name))
