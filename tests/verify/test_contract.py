"""A program is compared with what its graph says of the caller's memory."""

from __future__ import annotations

import pytest

from wrapper_ir.text import parse
from wrapper_ir.verify.contract import Contract, breaches

_HEAD = """wir 2
program @p inference logical

input %a : f32[4] @cpu
input %b : f32[4] @cpu{donated}
constant %w : f32[4] @cpu = buffer "w" mutable

extern aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)
extern aten::relu(Tensor self) -> Tensor
extern aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)
"""

#: The memory of %a, %b and %w, which is all different.
_APART = {"inputs": (1, 2), "constants": {"w": 3}}


def found(
    body: str, results: str, contract: Contract, *, donated: bool = False
) -> list[tuple[str, str]]:
    """The codes and places of the breaches of a program."""
    text = f"{_HEAD}\n{body}\nreturn {results}\n".replace(
        "{donated}", " donated" if donated else ""
    )
    return [(each.code, each.place) for each in breaches(parse(text), contract)]


def test_only_what_the_graph_writes_to_may_be_written() -> None:
    body = """
      %v = reinterpret %a : f32[2] @cpu
      aten::add_.Scalar(inout %v, 1)
      aten::add_.Scalar(inout %a, 1)
      aten::add_.Scalar(inout %w, 1)
      %r = aten::relu(%a) : f32[4] @cpu
    """
    both = [("WIR1123", "body[4]"), ("WIR1123", "body[6]")]
    assert found(body, "%r", Contract(**_APART, results=(9,))) == both  # each once, by any name
    assert found(body, "%r", Contract(**_APART, results=(9,), written=frozenset({1, 3}))) == []
    assert found(body, "%r", Contract(**_APART, results=(9,), written=frozenset({3}))) == both[:1]
    unknown = Contract(inputs=(None, 2), results=(9,), constants={})
    assert found(body, "%r", unknown) == []


def test_what_the_caller_gives_up_may_be_written() -> None:
    body = "  aten::add_.Scalar(inout %b, 1)\n  %r = aten::relu(%a) : f32[4] @cpu"
    contract = Contract(**_APART, results=(9,))
    assert found(body, "%r", contract) == [("WIR1123", "body[3]")]
    assert found(body + "\n  free %b", "%r", contract, donated=True) == []


def test_only_results_that_share_memory_in_the_graph_may_share_it() -> None:
    body = "  %v = reinterpret %a : f32[2] @cpu\n  %r = aten::relu(%b) : f32[4] @cpu"
    assert found(body, "%v, %r", Contract(**_APART, results=(1, 9))) == []
    assert found(body, "%v, %r", Contract(**_APART, results=(8, 9))) == [("WIR1124", "results[0]")]
    assert found(body, "%a, %r", Contract(**_APART, results=(2, 9))) == [("WIR1124", "results[0]")]
    assert found(body, "%w, %r", Contract(**_APART, results=(8, 9))) == [("WIR1124", "results[0]")]
    assert found(body, "%r, %r", Contract(**_APART, results=(9, 9))) == []
    assert found(body, "%r, %r", Contract(**_APART, results=(8, 9))) == [("WIR1124", "results[1]")]
    assert found(body, "%r, %a", Contract(**_APART, results=(None, None))) == []


def test_results_may_be_parts_of_one_storage_that_do_not_touch() -> None:
    parts = """
      %r = aten::relu(%a) : f32[4] @cpu
      %v = reinterpret %r : f32[2] @cpu
      %w1 = reinterpret %r : f32[2]+2 @cpu
      %w2 = reinterpret %r : f32[2]+1 @cpu
      %w3 = reinterpret %r : f32[2]{2} @cpu
    """
    apart = Contract(**_APART, results=(8, 9, 10))
    assert found(parts, "%v, %w1, none", apart) == []
    assert found(parts, "%w1, %v, none", apart) == []
    assert found(parts, "%v, %w1, %w2", apart) == [("WIR1124", "results[2]")]
    assert found(parts, "none, %w3, %w1", apart) == [("WIR1124", "results[2]")]
    assert found(parts, "%v, %r, %w1", apart) == [
        ("WIR1124", "results[1]"),
        ("WIR1124", "results[2]"),
    ]


def test_what_may_share_memory_gets_the_benefit_of_the_doubt() -> None:
    body = "  %v = aten::reshape(%a, [4]) : f32[4] @cpu may_alias(%a)"
    assert found(body, "%v", Contract(**_APART, results=(8,))) == []


def test_a_contract_is_for_a_program_of_the_same_shape() -> None:
    with pytest.raises(ValueError, match="zip"):
        found("", "%a", Contract(inputs=(1,), results=(1,)))
