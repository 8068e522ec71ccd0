"""Passes of a made-up vendor: library ops become kernels in its language, ``loops``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import torch

from wrapper_ir.errors import UnsupportedError
from wrapper_ir.lines import (
    CPU,
    Access,
    Allocate,
    AnyLine,
    BufferArg,
    BufferParam,
    Comment,
    DeviceKernel,
    DType,
    ExternKernel,
    KernelCall,
    KernelDefinition,
    Layout,
    Program,
    ScalarArg,
    ScalarParam,
    rewrite_lines,
)
from wrapper_ir.text import parse

if TYPE_CHECKING:
    from wrapper_ir.lines.expr import Dim

MM = """\
void mm(int64_t at, const float* a, const float* b, float* out, int64_t n, int64_t k,
        int64_t a_0, int64_t a_1, int64_t b_0, int64_t b_1, int64_t out_0, int64_t out_1) {
    const int64_t i = at / n, j = at % n;
    float sum = 0;
    for (int64_t l = 0; l < k; ++l) sum += a[i * a_0 + l * a_1] * b[l * b_0 + j * b_1];
    out[i * out_0 + j * out_1] = sum;
}
"""

RELU = """\
void relu(int64_t at, const float* a, float* out) {
    out[at] = a[at] < 0 ? 0 : a[at];
}
"""


def lower(program: Program) -> Program:
    """Replace products of matrices and relu by kernels of the language."""
    kernels: dict[str, KernelDefinition] = {
        name: each
        for name, each in program.kernels.items()
        if isinstance(each.source, DeviceKernel)
    }
    known = set(kernels)

    def rewrite(line: AnyLine) -> list[AnyLine]:
        if not isinstance(line, ExternKernel):
            return [line]
        if line.op == "aten::mm.out":
            call = _product(line, program, kernels)
        elif line.op == "aten::relu":
            call = _relu(line, program, kernels)
        else:
            call = None
        return [line] if call is None else call

    body = rewrite_lines(program.body, rewrite)
    made = tuple(each for name, each in kernels.items() if name not in known)
    return program.replace(body=(*made, *body)) if body != program.body else program


def _product(
    line: ExternKernel, program: Program, kernels: dict[str, KernelDefinition]
) -> list[AnyLine] | None:
    buffers = [arg.buffer for arg in line.args if isinstance(arg, BufferArg)]
    buffers += [arg.buffer for _, arg in line.kwargs if isinstance(arg, BufferArg)]
    layouts = [program.layout(name) for name in buffers]
    if len(buffers) != 3 or not all(map(_is_ours, layouts)):
        return None
    a, b, out = layouts
    numbers: tuple[Dim, ...] = (out.size[1], a.size[1], *a.stride, *b.stride, *out.stride)
    return [_call("mm", MM, buffers, numbers, out, line, kernels)]


def _relu(
    line: ExternKernel, program: Program, kernels: dict[str, KernelDefinition]
) -> list[AnyLine] | None:
    (arg,), (result,) = line.args, line.results
    if not isinstance(arg, BufferArg):
        return None
    a, out = program.layout(arg.buffer), program.layout(result.out)
    if not (_is_ours(a) and _is_ours(out)) or a.stride != out.stride:
        return None
    call = _call("relu", RELU, [arg.buffer, result.out], (), out, line, kernels)
    return [Allocate(result.out, origin=line.origin), call]


def _is_ours(layout: Layout) -> bool:
    return layout.device == CPU and layout.dtype is DType.FLOAT32


def _call(
    name: str,
    code: str,
    buffers: list[str],
    numbers: tuple[Dim, ...],
    out: Layout,
    line: ExternKernel,
    kernels: dict[str, KernelDefinition],
) -> KernelCall:
    name = f"loops_{name}"
    access = [*(Access.READ for _ in buffers[1:]), Access.WRITE]
    params = [
        *(BufferParam(f"p{n}", DType.FLOAT32, each) for n, each in enumerate(access)),
        *(ScalarParam(f"n{n}") for n in range(len(numbers))),
    ]
    source = DeviceKernel("loops", code, name.removeprefix("loops_"))
    kernels.setdefault(name, KernelDefinition(name, tuple(params), source))
    args = [
        *(BufferArg(buffer, each) for buffer, each in zip(buffers, access, strict=True)),
        *map(ScalarArg, numbers),
    ]
    return KernelCall(name, tuple(args), grid=(out.numel,), origin=line.origin)


@dataclass(frozen=True)
class Remark:
    """A pass with an option: it puts a comment first, once."""

    name: ClassVar[str] = "remark"

    text: str = "lowered"

    def __call__(self, program: Program) -> Program:
        remark = Comment(self.text)
        return program if remark in program.body else program.replace(body=(remark, *program.body))


def needs_what_is_not_there(program: Program) -> Program:
    raise UnsupportedError(what=program.name, where="the made-up device")


DOUBLED = parse("""
wir 2
program @doubled inference planned
input %x : f32[1] @cpu
constant %two : f32[1] @cpu = tensor "two"
extern aten::mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)
  aten::mul_.Tensor(inout %x, %two)
return
""")


def doubles_products(program: Program) -> Program:
    """Double products of matrices, by a constant of its own."""
    if "two" in program.constants:
        return program
    declared, call = DOUBLED.body

    def rewrite(line: AnyLine) -> list[AnyLine]:
        if not (isinstance(line, ExternKernel) and line.op == "aten::mm.out"):
            return [line]
        ((_, out),) = line.kwargs
        assert isinstance(out, BufferArg)
        arg = BufferArg(out.buffer, Access.READ_WRITE)
        return [line, replace(call, args=(arg, BufferArg("two")), origin=line.origin)]

    return program.replace(
        body=(declared, *rewrite_lines(program.body, rewrite)),
        constants={**program.constants, **DOUBLED.constants},
        buffers={**program.buffers, "two": DOUBLED.layout("two")},
        data={**program.data, "two": torch.full((1,), 2.0)},
    )


def remarks_each_time(program: Program) -> Program:
    return program.replace(body=(Comment("again"), *program.body))


def defines_twice(program: Program) -> Program:
    return program.replace(body=program.body * 2)


def forgets_results(program: Program) -> Program:
    return program.replace(results=program.results[:0])


def plans(program: Program) -> Program:
    import wrapper_ir.planning

    return wrapper_ir.planning.plan_memory(program)


def returns_nothing(program: Program) -> None:
    pass


def fails(program: Program) -> Program:
    raise KeyError(program.name)


NO_PASS = 3
