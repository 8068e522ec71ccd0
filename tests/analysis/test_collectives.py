"""Facts about collectives: each registered op has them, and lines say what they send and write."""

from __future__ import annotations

import pytest
import torch
import torch.distributed
import torch.distributed._functional_collectives  # registers ops
import torch.distributed._symmetric_memory  # registers ops
import torch.distributed.tensor  # registers ops

import wrapper_ir as wir
from tests.distributed import externs
from wrapper_ir.analysis.collectives import (
    NAMESPACES,
    UNKNOWN,
    Kind,
    begins_work,
    call_of,
    facts_of,
    why_unknown,
    worked_on,
)
from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.lines import ExternKernel, Program, effects, parse_schema

REGISTERED = {
    schema.name: str(schema)
    for schema in torch._C._jit_get_all_schemas()
    if schema.name.startswith(NAMESPACES)
}

SCHEMAS = {**externs.SCHEMAS, **REGISTERED}


def test_every_op_that_ranks_talk_through_has_facts_or_a_reason() -> None:
    assert len(REGISTERED) > 60
    unknown = {op for op in REGISTERED if facts_of(op) is None}
    assert {op for op in unknown if why_unknown(op) == "has no facts here"} == set()
    assert not [op for op in UNKNOWN if facts_of(op)]
    assert why_unknown("symm_mem::of_tomorrow") == "has no facts here"
    assert why_unknown("aten::relu") == ""


@pytest.mark.parametrize("op", sorted(op for op in REGISTERED if facts_of(op)))
def test_a_schema_names_what_the_facts_ask_for(op: str) -> None:
    facts, schema = facts_of(op), parse_schema(REGISTERED[op])
    assert facts is not None
    names = {a.name for a in schema.args}
    tensors = {a.name for a in schema.args if a.type.base == "Tensor"}
    assert not facts.sends or facts.sends in tensors
    if facts.kind is Kind.WAIT:
        return
    assert names & {"group_name", "ranks"}
    if facts.kind in (Kind.ALL_REDUCE, Kind.REDUCE):
        assert names & {"reduce_op", "reduceOp"}
    if facts.kind in (Kind.BROADCAST, Kind.REDUCE):
        assert names & {"src", "root", "roots"}
    if facts.one_piece:
        assert any(a.type.writes for a in schema.args)


def program(*lines: str) -> Program:
    """Return a program of calls of these ops."""
    ops = dict.fromkeys(line.partition("(")[0].rpartition(" ")[2].strip() for line in lines)
    externs = [f"extern {SCHEMAS[op]}" for op in ops]
    head = ["wir 2", "program @p inference logical", "input %x : f32[8] @cpu"]
    return wir.parse("\n".join([*head, "input %y : f32[8] @cpu", *externs, *lines, "return"]))


def first(made: Program) -> ExternKernel:
    """Return the first call."""
    return next(line for line in made.body if isinstance(line, ExternKernel))


@pytest.mark.parametrize(
    ("line", "kind", "sent", "written", "flies"),
    [
        (
            '%z = _c10d_functional::all_reduce(%x, "SUM", "g") : f32[8] @cpu',
            *("all_reduce", "x", "z", True),
        ),
        ('_c10d_functional::all_reduce_(inout %x, "avg", "g")', *("all_reduce", "x", "x", True)),
        (
            '%z = _c10d_functional::all_to_all_single(%x, [3, 5], [8, 0], "g") : f32[8] @cpu',
            *("all_to_all", "x", "z", True),
        ),
        ('_c10d_functional::irecv(%x, 1, 7, "g")', "messages", "x", "x", True),
        (
            '_c10d_functional::batch_p2p_ops(["isend", "irecv"], [1, 1], [0, 0], [%x, %y], "g")',
            *("messages", "x y", "y", True),
        ),
        (
            'symm_mem::one_shot_all_reduce_copy_out(%x, %y, "sum", "g", out %x)',
            *("all_reduce", "y", "x", False),
        ),
        (
            '%z = symm_mem::fused_matmul_reduce_scatter(%x, %y, "sum", 0, "g") : f32[8] @cpu',
            *("reduce_scatter", "x", "z", False),
        ),
        (
            '%z = symm_mem::_low_contention_all_gather(%x, "g") : f32[8] @cpu',
            *("all_gather", "x", "z", True),
        ),
    ],
)
def test_a_line_says_what_it_sends_and_writes(
    line: str, kind: str, sent: str, written: str, flies: bool
) -> None:
    made = program(line)
    call = call_of(made, first(made))
    assert call is not None
    assert (call.facts.kind.value, call.group, " ".join(call.sent)) == (kind, "g", sent)
    assert worked_on(first(made), effects(first(made))) == written.split()
    assert begins_work(first(made)) is flies


def test_what_a_call_states_besides() -> None:
    made = program('%z = _c10d_functional::reduce_scatter_tensor(%x, "SUM", 4, "g") : f32[2] @cpu')
    call = call_of(made, first(made))
    assert call is not None
    assert (call.reduction, call.size, call.root) == ("sum", 4, "")
    made = program('%z = _c10d_functional::broadcast(%x, 3, "g") : f32[8] @cpu')
    call = call_of(made, first(made))
    assert call is not None
    assert (call.root, call.size) == ("3", None)


WAIT = "_c10d_functional::wait_tensor(%y)"
RECEIVE = '_c10d_functional::batch_p2p_ops(["isend", "irecv"], [1, 1], [0, 0], [%x, %y], "g")'


@pytest.mark.parametrize(
    "start",
    [
        RECEIVE,
        '_c10d_functional::irecv(%y, 1, 0, "g")',
        '%y2 = _c10d_functional_autograd::all_gather_into_tensor(%y, 2, "g") : f32[16] @cpu',
        '%y2 = symm_mem::_low_contention_reduce_scatter(%y, "sum", "g") : f32[4] @cpu',
    ],
)
def test_what_is_in_flight_is_not_read_or_written(start: str) -> None:
    wait = WAIT.replace("%y", "%y2") if "%y2" in start else WAIT
    touch = "aten::relu_(inout %y)"
    assert wir.diagnose(program(start, wait, touch)) == ()
    assert {each.code for each in wir.diagnose(program(start, touch, wait))} == {"WIR1090"}


def test_what_is_sent_lives_until_the_wait_on_what_comes() -> None:
    made = program(RECEIVE, WAIT)
    liveness = Liveness(made.region, made)
    (sent,) = liveness.of("x")
    assert sent.last_use == len(made.body) - 1


def test_a_program_does_not_end_while_an_input_is_written() -> None:
    start = '_c10d_functional::all_reduce_(inout %x, "sum", "g")'
    found = wir.diagnose(program(start))
    assert [(each.code, each.place) for each in found] == [("WIR1090", "results")]
    assert wir.diagnose(program(start, WAIT.replace("%y", "%x"))) == ()
