"""Faults that take the programs of several ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import wrapper_ir as wir

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir import Program

_HEAD = """\
wir 2
program @step inference logical

input %x : f32[8] @cpu
input %y : f32[8] @cpu
{more}
extern _c10d_functional::all_reduce(Tensor input, str reduce_op, Any group_name) -> Tensor
extern _c10d_functional::irecv(Tensor tensor, int src, int tag, Any group_name) -> Tensor
extern _c10d_functional::isend(Tensor tensor, int dst, int tag, Any group_name) -> Tensor
extern _c10d_functional::wait_tensor(Tensor tensor) -> Tensor
"""


def _program(*lines: str, results: str, more: str = "") -> Program:
    return wir.parse(_HEAD.format(more=more) + "\n".join((*lines, f"return {results}\n")))


def hoisted_receives() -> list[Program]:
    """Return a ring of ranks that all receive before they send."""

    def rank(number: int) -> Program:
        return _program(
            f'  _c10d_functional::irecv(%y, {(number + 3) % 4}, 0, "0")',
            "  _c10d_functional::wait_tensor(%y)",
            f'  %s = _c10d_functional::isend(%x, {(number + 1) % 4}, 0, "0") : f32[0] @cpu',
            "  _c10d_functional::wait_tensor(%s)",
            results="%y",
        )

    return [rank(number) for number in range(4)]


def _sum(name: str, of: str, group: str, where: str = "") -> str:
    return f'  %{name} = _c10d_functional::all_reduce(%{of}, "sum", "{group}"){where} : f32[8] @cpu'


def groups_in_both_orders() -> list[Program]:
    """Return two ranks that wait in one group before they call another, each in its own order."""

    def rank(first: str, second: str) -> Program:
        return _program(
            _sum("a", "x", first),
            "  _c10d_functional::wait_tensor(%a)",
            _sum("b", "y", second),
            "  _c10d_functional::wait_tensor(%b)",
            results="%a, %b",
        )

    return [rank("rows", "replicas"), rank("replicas", "rows")]


#: By issue and what it is: the programs of the ranks.
FAULTS: dict[tuple[str, str], Callable[[], list[Program]]] = {
    ("pytorch 189454", "receives are moved before sends, and all ranks wait"): hoisted_receives,
    ("torchrec 4149", "ranks wait in two groups, in both orders"): groups_in_both_orders,
}
