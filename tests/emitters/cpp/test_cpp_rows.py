"""Which products of matrices copy the vector that they add themselves, and what that gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from tests.emitters.cpp.compiling import check_syntax

HEAD = """
wir 2
program @rows inference logical
"""
OP = """
extern aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, \
Tensor(a!) out) -> Tensor(a!)
"""


def program(
    *, out: str = "f32[4, 8]", vector: str = "f32[8]", seen: str = "", factors: str = ""
) -> Any:
    view = f"  %seen = reinterpret %b : {seen} @cpu\n" if seen else ""
    return wir.parse(f"""{HEAD}
input %b : {vector} @cpu
input %x : f32[4, 3] @cpu
input %w : f32[3, 8] @cpu
{OP}
  assert_layout %b, "input"
  assert_layout %x, "input"
  assert_layout %w, "input"
{view}  %c = allocate : {out} @cpu
  aten::addmm.out(%{"seen" if seen else "b"}, %x, %w{factors}, out=out %c)
return %c
""")


def source(made: Any) -> str:
    emitted: Any = wir.emit(wir.plan_memory(made, "none"), "cpp")
    return str(emitted.source)


def test_how_it_reads() -> None:
    text = source(program(seen="f32[4, 8]{0, 1}"))
    assert "#include <wir/rows.h>\n" in text
    assert """\
  float* c_ptr = wir::data<float>(c);
  float* seen_ptr = wir::data<float>(b);
  wir::addmm(c, x, w, c_ptr, seen_ptr, 4, 32, 1.0);
""" in text
    assert "wir::view" not in text
    check_syntax(text)


@pytest.mark.parametrize(
    "seen", ["", "f32[1, 8]", "f32[4, 8]{0, 1}", "f32[8]{1}"], ids=["plain", "one", "rows", "view"]
)
@pytest.mark.parametrize("factors", ["", ", beta=1, alpha=0.5"])
def test_the_same_bits(seen: str, factors: str) -> None:
    made = program(seen=seen, factors=factors)
    assert "wir::addmm" in source(made)
    b, x, w = torch.randn(8), torch.randn(4, 3), torch.randn(3, 8)
    b[0], x[1, 1] = torch.nan, torch.inf
    (found,) = wir.compile(made, "cpp")(b, x, w)
    wanted = torch.addmm(b, x, w, alpha=0.5 if factors else 1)
    assert torch.equal(found.view(torch.int32), wanted.view(torch.int32))


@pytest.mark.parametrize(
    "changed",
    [
        {"out": "f32[4, 8]{1, 4}"},
        {"out": "f32[4, 8]{16, 1}"},
        {"vector": "f32[8]{2}"},
        {"vector": "f32[4, 8]"},
        {"vector": "f32[4, 1]", "seen": "f32[4, 8]{1, 0}"},
        {"factors": ", beta=0, alpha=1"},
        {"factors": ", beta=2, alpha=1"},
    ],
    ids=str,
)
def test_what_aten_adds_as_ever(changed: dict[str, str]) -> None:
    text = source(program(**changed))
    assert "wir::addmm" not in text
    assert "aoti_torch_cpu_addmm_out(c, " in text


def test_large_results_are_left_to_threads() -> None:
    def text(rows: int) -> str:
        made = f"{program(out=f'f32[{rows}, 8]')}".replace("f32[4, 3]", f"f32[{rows}, 3]")
        return source(wir.parse(made))

    assert "wir::addmm" in text(4096)
    assert "wir::addmm" not in text(4097)


def test_a_result_in_memory_of_the_caller() -> None:
    text = source(wir.parse(f"""{HEAD}
input %c : f32[4, 8] @cpu
input %b : f32[8] @cpu
input %x : f32[4, 3] @cpu
input %w : f32[3, 8] @cpu
{OP}
  assert_layout %c, "input"
  assert_layout %b, "input"
  assert_layout %x, "input"
  assert_layout %w, "input"
  aten::addmm.out(%b, %x, %w, out=out %c)
return %c
"""))
    assert "wir::addmm" not in text


def test_a_model() -> None:
    """Bits of stock, with the first layer's vector changed between calls."""
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 2))
    compiled = torch.compile(
        model, backend="wrapper_ir", options={"emitter": "cpp", "build": "wait"}
    )
    stock = torch.compile(model)
    x: Tensor = torch.randn(3, 5)
    with torch.no_grad(), wir.record() as programs:
        for _ in range(3):
            assert torch.equal(compiled(x), stock(x))
            model[0].bias.add_(1)
    (made,) = programs
    emitted: Any = wir.emit(made, "cpp")
    assert emitted.source.count("wir::addmm") == 2
