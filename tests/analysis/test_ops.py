"""Facts of library ops: the table is torch's, and what draws random numbers is told by it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import wrapper_ir as wir
from tools import make_ops
from wrapper_ir.analysis.ops import draws, fits_product, is_pointwise_out, out_op
from wrapper_ir.interpreter.fake import FakeCalls
from wrapper_ir.lines import ExternKernel

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "wrapper_ir" / "analysis" / "ops.txt"


def entries() -> list[tuple[str, str]]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    pairs = (li.removeprefix("pointwise ").split(" | ") for li in lines if " | " in li)
    return [(op, out) for op, out in pairs]


def installed(schema: str) -> object:
    name, _, overload = schema.partition("(")[0].removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, name, None), overload or "default", None)


def test_the_table_is_what_the_installed_torch_says() -> None:
    assert len(entries()) > 300
    for pair in entries():
        for schema in pair:
            op = installed(schema)
            if op is not None:  # an older torch may lack some
                assert torch.Tag.generated not in op.tags, schema  # type: ignore[attr-defined]
    assert make_ops.table() == TABLE.read_text(encoding="utf-8")


def test_ops_whose_out_overload_allocates_inside_are_not_in_it() -> None:
    ops = {op.partition("(")[0] for op, _ in entries()}
    assert {"aten::mm", "aten::addmm", "aten::cat", "aten::add.Tensor"} <= ops
    assert ops.isdisjoint({"aten::convolution", "aten::native_layer_norm", "aten::bernoulli"})
    neg = out_op("aten::neg(Tensor self) -> Tensor")
    assert neg is not None
    assert is_pointwise_out(neg.schema)
    assert out_op("aten::neg(Tensor self, int more) -> Tensor") is None


ATTENTION = (
    "aten::_scaled_dot_product_efficient_attention(Tensor self, Tensor other, float dropout_p=0.0)"
    " -> Tensor"
)


@pytest.mark.parametrize(
    ("schema", "args", "is_random"),
    [
        ("aten::bernoulli(Tensor self, *, Generator? generator=None) -> Tensor", "", True),
        ("aten::native_dropout(Tensor self, float p, bool? train) -> Tensor", ", 0.5, true", True),
        # The state is given: another run draws the same.
        ("aten::_philox_like(Tensor self, SymInt seed) -> Tensor", ", 3", False),
        (
            "aten::fractional_max_pool2d(Tensor self, Tensor random_samples) -> Tensor",
            ", %x",
            False,
        ),
        # By its type, though no table has such an op.
        ("aten::fresh(Tensor self, *, Generator? generator=None) -> Tensor", "", True),
        (ATTENTION, ", %x", False),
        (ATTENTION, ", %x, 0.0", False),
        (ATTENTION, ", %x, 0.25", True),
        ("mine::relu(Tensor self) -> Tensor", "", True),
        ("aten::relu(Tensor self) -> Tensor", "", False),
    ],
)
def test_what_draws_random_numbers(schema: str, args: str, *, is_random: bool) -> None:
    op = schema.partition("(")[0]
    program = wir.parse(f"""\
wir 2
program @p inference logical

input %x : f32[8] @cpu

extern {schema}

  %y = {op}(%x{args}) : f32[8] @cpu
return %y
""")
    (call,) = [line for line in program.body if isinstance(line, ExternKernel)]
    assert draws(program, call) is is_random


PRODUCT = """\
wir 2
program @product inference logical

symbol s0 : int [2, 64]
{inputs}

extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)
extern aten::bmm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)
extern aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, \
Tensor(a!) out) -> Tensor(a!)
extern aten::baddbmm.out(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, \
Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)

  s0 = size %rows, 0
  %z = allocate : {out} @cpu
  aten::{op}.out({args}, out=out %z)
return %z
"""


@pytest.mark.parametrize(
    ("op", "layouts", "out", "fits"),
    [
        ("mm", ["f32[4, 8]", "f32[8, 2]"], "f32[4, 2]", True),
        ("mm", ["f32[s0, 8]{1, s0}", "f32[8, 2]"], "f32[s0, 2]{1, s0}", True),
        ("mm", ["f32[4, 8]", "f32[8, 2]"], "f32[2, 4]", False),
        ("mm", ["f32[4, 8]", "f32[8, 2]"], "f32[8]", False),
        ("mm", ["f32[s0, 8]", "f32[8, 2]"], "f32[4, 2]", False),
        ("mm", ["f32[4, 8]", "f32[4, 2]"], "f32[4, 2]", False),
        ("mm", ["f32[4, 8]", "f32[8, 2]"], "f64[4, 2]", False),
        ("mm", ["f32[4, 8]", "f16[8, 2]"], "f32[4, 2]", False),
        ("bmm", ["f32[3, 4, 8]", "f32[3, 8, 2]"], "f32[3, 4, 2]", True),
        ("bmm", ["f32[3, 4, 8]", "f32[1, 8, 2]"], "f32[3, 4, 2]", False),
        ("addmm", ["f32[2]", "f32[s0, 8]", "f32[8, 2]"], "f32[s0, 2]", True),
        ("addmm", ["f32[4, 1]", "f32[4, 8]", "f32[8, 2]"], "f32[4, 2]", True),
        ("addmm", ["f32[4]", "f32[4, 8]", "f32[8, 2]"], "f32[4, 2]", False),
        ("addmm", ["f32[1, 4, 2]", "f32[4, 8]", "f32[8, 2]"], "f32[4, 2]", False),
        ("baddbmm", ["f32[1, 4, 1]", "f32[3, 4, 8]", "f32[3, 8, 2]"], "f32[3, 4, 2]", True),
    ],
)
def test_products_fit_their_buffers_as_torch_says(
    op: str, layouts: list[str], out: str, fits: bool
) -> None:
    named = {f"x{n}": layout for n, layout in enumerate(layouts)}
    every = {**named, "rows": "f32[s0]"}
    inputs = "\n".join(f"input %{name} : {layout} @cpu" for name, layout in every.items())
    args = ", ".join(f"%{name}" for name in named)
    program = wir.parse(PRODUCT.format(inputs=inputs, out=out, op=op, args=args))
    (line,) = (line for line in program.body if isinstance(line, ExternKernel))
    assert fits_product(program, line) == fits
    assert FakeCalls(program).fixes(line) or not fits
