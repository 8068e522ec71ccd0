"""Arguments that ops do not read: the table against the ops, and what ``validate`` makes of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.analysis.unread import unread_arguments
from wrapper_ir.lines import BufferArg, ExternKernel, Program

_OP = "aten::_embedding_bag_backward"
_TENSORS = {1: "indices", 2: "offsets", 3: "offset2bag", 4: "bag_size", 5: "maximum_indices"}


def _programs(mode: str) -> Any:
    """Return the programs and graphs of a bag of embeddings, forward and backward."""
    torch.manual_seed(0)
    torch.compiler.reset()
    model = torch.nn.EmbeddingBag(10, 4, mode=mode)
    indices, offsets = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4, 4])
    with wir.record() as programs:
        torch.compile(model, backend="wrapper_ir")(indices, offsets).sum().backward()
    return programs


def _call(program: Program) -> tuple[int, ExternKernel]:
    (found,) = (
        (n, line)
        for n, line in enumerate(program.body)
        if isinstance(line, ExternKernel) and line.op == _OP
    )
    return found


def _given(mode: str) -> list[Any]:
    """Return arguments for the op; sums in a mode of their own need no ``offset2bag``."""
    torch.manual_seed(0)
    weight = torch.randn(10, 4)
    indices, offsets = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4, 4])
    number = ("sum", "mean", "max").index(mode)
    out, *others = torch.ops.aten._embedding_bag(weight, indices, offsets, False, number)
    return [torch.randn_like(out), indices, offsets, *others, 10, False, number, False, None]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_an_op_reads_what_the_table_does_not_name(mode: str) -> None:
    programs, given = _programs(mode), _given(mode)
    unread = unread_arguments(programs[1], _call(programs[1])[1])
    expected = torch.ops.aten._embedding_bag_backward(*given)
    for position, name in _TENSORS.items():
        others = [torch.full_like(given[position], n) for n in (0, 1, 2)]
        results = []
        for other in others:
            changed = [*given[:position], other, *given[position + 1 :]]
            results.append(torch.ops.aten._embedding_bag_backward(*changed))
        is_same = all(torch.equal(each, expected) for each in results)
        if given[position].numel():
            assert is_same == (position in unread), name


def test_other_values_are_passed_where_nobody_reads_them_and_found_elsewhere() -> None:
    programs = _programs("mean")
    program, graph = programs[1], programs.graphs[1]
    index, line = _call(program)
    assert unread_arguments(program, line) == {2, 5}

    def with_argument(position: int, other: int) -> Program:
        args = list(line.args)
        args[position] = args[other]
        changed = dataclasses.replace(line, args=tuple(args))
        body = (*program.body[:index], changed, *program.body[index + 1 :])
        return program.replace(body=body)

    assert isinstance(line.args[2], BufferArg)
    assert not wir.validate(program, graph).faults
    assert not wir.validate(with_argument(5, 2), graph).faults
    assert not wir.validate(with_argument(2, 4), graph).faults
    found = wir.validate(with_argument(4, 2), graph)
    assert [fault.rule.code for fault in found.faults] == ["WIR1129"]
