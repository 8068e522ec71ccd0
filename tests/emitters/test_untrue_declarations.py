"""Programs that declare what ops, constants and kernels are not: errors in every emitter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.interpreter import BrokenPromiseError
from wrapper_ir.runtime import InputLayoutError
from wrapper_ir.runtime.errors import ResultLayoutError
from wrapper_ir.toolchain.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Iterator

EMITTERS = ("python", "fx", "cpp")


@pytest.fixture(scope="module", autouse=True)
def _library() -> Iterator[None]:
    library: Any = torch.library.Library("untrue", "DEF")
    library.define("half(Tensor x) -> Tensor")
    library.impl("half", lambda x: x[: len(x) // 2].clone(), "CompositeExplicitAutograd")
    torch.library.register_fake("untrue::half", torch.empty_like, lib=library)
    yield
    library._destroy()


PROGRAM = """\
wir 2
program @untrue inference logical

{symbols}input %x : {input} @cpu

extern {schema}

kernel @total(x: in f32, out: out f32, n: i64) cpp
  | extern "C" void kernel(const float* x, float* out, long n) {{
  |   double sum = 0;
  |   for (long i = 0; i < n; ++i) sum += x[i];
  |   out[0] = (float)sum;
  | }}
  |

{body}
  %o = allocate : f32[1] @cpu
  call @total(%a, out %o, {count})
return %o
"""

RELU = "aten::relu(Tensor self) -> Tensor"
FULL = (
    "aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None,"
    " Device? device=None, bool? pin_memory=None) -> Tensor"
)
SUM = (
    "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None)"
    " -> Tensor"
)
MAX = "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"
CLONE = "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"
ARGMAX = "aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"
NONZERO = "aten::nonzero(Tensor self) -> Tensor"

#: A schema, the body, the number of elements that the kernel reads, the difference.
UNTRUE: dict[str, tuple[str, str, str, str]] = {
    "a size": (RELU, "  %a = aten::relu(%x) : f32[400, 400] @cpu", "160000", "size"),
    "a symbolic size": (
        RELU,
        "  s0 = size %x, 0\n  %a = aten::relu(%x) : f32[400*s0, 4] @cpu",
        "1600*s0",
        "size",
    ),
    "a size that a symbol hides": (
        RELU,
        "  s0 = size %x, 0\n  %a = aten::relu(%x) : f32[Max(s0, 8), 4] @cpu",
        "32",
        "size",
    ),
    "a rank": (SUM, "  %a = aten::sum.dim_IntList(%x, [1]) : f32[2, 4] @cpu", "8", "rank"),
    "a sum": (SUM, "  %a = aten::sum.dim_IntList(%x, [1]) : f32[8] @cpu", "8", "size"),
    "a device": (
        FULL,
        "  %a = aten::full([4, 4], 1.0, dtype=f32, device=@meta) : f32[4, 4] @cpu",
        "16",
        "device",
    ),
    "a type": (ARGMAX, "  %a = aten::argmax(%x, 1) : f32[4] @cpu", "4", "dtype"),
    "strides": (CLONE, "  %a = aten::clone(%x) : f32[4, 4]{1, 4} @cpu", "16", "stride"),
    "one of two results": (
        MAX,
        "  (%a, %at) = aten::max.dim(%x, 1) : (f32[64] @cpu, i64[4] @cpu)",
        "64",
        "size",
    ),
    "a size that depends on data": (
        NONZERO,
        "  %at = aten::nonzero(%x) : i64[64, 2] @cpu\n  %a = reinterpret %at : f32[256] @cpu",
        "256",
        "size",
    ),
    "an op of one's own": (
        "untrue::half(Tensor x) -> Tensor",
        "  %a = untrue::half(%x) : f32[4, 4] @cpu",
        "16",
        "size",
    ),
}


def program(name: str) -> wir.Program:
    schema, body, count, _ = UNTRUE[name]
    is_symbolic = "s0" in body
    text = PROGRAM.format(
        symbols="symbol s0 : int [2, 512]\n" if is_symbolic else "",
        input="f32[s0, 4]" if is_symbolic else "f32[4, 4]",
        schema=schema,
        body=body,
        count=count,
    )
    return wir.parse(text)


@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize("name", sorted(UNTRUE))
def test_a_result_of_another_layout_than_declared_is_refused(name: str, emitter: str) -> None:
    run = wir.compile(program(name), emitter)
    with pytest.raises(ResultLayoutError, match=f"another {UNTRUE[name][3]}:") as caught:
        run(torch.ones(4, 4))
    assert "register_fake" in str(caught.value.hint)


@pytest.mark.parametrize("name", sorted(UNTRUE))
def test_so_does_the_interpreter(name: str) -> None:
    with pytest.raises(BrokenPromiseError, match="does not do what the program says"):
        wir.interpret(program(name), torch.ones(4, 4))


class Half(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.relu(torch.ops.untrue.half(x))


@pytest.mark.parametrize("emitter", EMITTERS)
def test_a_fake_kernel_that_says_something_else_is_named(emitter: str) -> None:
    exported = torch.export.export(Half(), (torch.ones(4, 4),)).run_decompositions()
    run = wir.compile(wir.from_fx(exported), emitter)
    with pytest.raises(ResultLayoutError, match="'untrue::half' returned") as caught:
        run(torch.ones(4, 4))
    assert "fake kernel" in str(caught.value.hint)


IN_A_REGION = """\
wir 2
program @untrue inference logical

input %x : f32[4] @cpu
input %p : bool[] @cpu

extern untrue::half(Tensor x) -> Tensor

  %a = cond %p with (%x) : f32[4] @cpu
    then (%b : f32[4] @cpu) {
      %c = untrue::half(%b) : f32[4] @cpu
      yield %c
    }
    else (%d : f32[4] @cpu) {
      %e = untrue::half(%d) : f32[4] @cpu
      yield %e
    }
return %a
"""


@pytest.mark.parametrize("emitter", EMITTERS)
def test_results_in_regions_are_checked_too(emitter: str) -> None:
    run = wir.compile(wir.parse(IN_A_REGION), emitter)
    with pytest.raises(ResultLayoutError, match="'untrue::half'"):
        run(torch.ones(4), torch.tensor(True))


# Constants.

CONSTANT = wir.parse("""\
wir 2
program @untrue inference logical

input %x : f32[4] @cpu
constant %c : f32[4] @cpu = buffer "c"

extern aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor

  %a = aten::add.Tensor(%x, %c) : f32[4] @cpu
return %a
""")

VALUES: dict[str, torch.Tensor] = {
    "device": torch.ones(4, device="meta"),
    "dtype": torch.ones(4, dtype=torch.int64),
    "size": torch.ones(1),
    "rank": torch.ones(400, 400),
    "stride": torch.ones(8)[::2],
    "storage layout": torch.ones(4).to_sparse(),
}


def run(program: wir.Program, target: str) -> Any:
    if target == "interpreter":
        return wir.interpret(program, torch.ones(4))
    return wir.compile(program, target)(torch.ones(4))


@pytest.mark.parametrize("target", [*EMITTERS, "interpreter"])
@pytest.mark.parametrize("difference", sorted(VALUES))
def test_a_constant_unlike_its_layout_is_refused(difference: str, target: str) -> None:
    program = CONSTANT.replace(data={"c": VALUES[difference]})
    with pytest.raises(InputLayoutError, match=f"'c' has the wrong {difference}"):
        run(program, target)


# Kernels.

KERNEL = """\
wir 2
program @untrue inference logical

input %x : f32[4] @cpu

kernel @plus(x: in f32, out: out f32, n: {declared}) cpp
  | extern "C" void kernel(const float* x, float* out, {taken} n) {{
  |   for (int i = 0; i < 4; ++i) out[i] = x[i] + n;
  | }}
  |

  %a = allocate : f32[4] @cpu
  call @plus(%x, out %a, {value})
return %a
"""


@pytest.mark.parametrize(
    ("declared", "taken", "value"),
    [
        ("i64", "const long&", "3"),
        ("f64", "const double&", "3.5"),
        ("f64", "float", "3.5"),
        ("i32", "long", "3"),
    ],
)
def test_cpp_refuses_a_kernel_that_takes_a_number_in_another_way(
    declared: str, taken: str, value: str
) -> None:
    program = wir.parse(KERNEL.format(declared=declared, taken=taken, value=value))
    with pytest.raises(CompileError, match="'plus' takes other parameters than the program"):
        wir.compile(program, "cpp")


@pytest.mark.parametrize(("declared", "taken"), [("i64", "const long"), ("i64", "int")])
def test_cpp_takes_numbers_by_value(declared: str, taken: str) -> None:
    program = wir.parse(KERNEL.format(declared=declared, taken=taken, value="3"))
    (result,) = wir.compile(program, "cpp")(torch.ones(4))
    assert torch.equal(result, torch.full((4,), 4.0))
