"""Several ranks in one process: collectives compute what they should, and misuse shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from tests.distributed import in_flight
from tests.distributed.externs import externs
from wrapper_ir.errors import OptionValueError, UnsupportedError
from wrapper_ir.interpreter import CallFailedError, DeadlockError, RaceError, run_ranks
from wrapper_ir.runtime import InputCountError

if TYPE_CHECKING:
    from torch import Tensor

    from wrapper_ir.lines import Program

PROGRAMS = Path(__file__).parents[1] / "programs"

HEAD = """
wir 2
program @p inference logical
input %x : f32[4, 2] @cpu
input %n : i64[4] @cpu
input %y : f32[4, 2] @cpu
symbol i : int
symbol m : int
symbol j : int
"""


def program(*lines: str, end: str = "") -> Program:
    """Return a program of these lines."""
    text = "\n".join(lines)
    return wir.parse("\n".join([HEAD, *externs(text), text, f"return {end}\n"]))


def call(out: str, op: str, *args: str, layout: str = "f32[4, 2]") -> str:
    """Return a call of a collective."""
    return f"  %{out} = _c10d_functional::{op}({', '.join(args)}) : {layout} @cpu"


def wait(*names: str) -> str:
    """Return lines that wait for work."""
    return "\n".join(f"  _c10d_functional::wait_tensor(%{name})" for name in names)


def given(rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return what a rank is given."""
    x = torch.arange(8.0).reshape(4, 2) * (rank + 1) - rank
    return x, torch.arange(4) * (3 - 2 * rank), torch.zeros(4, 2)


def outcome(made: Program | list[Program], ranks: int = 3, **options: Any) -> list[Tensor]:
    """Return the one result of each rank."""
    programs = made if isinstance(made, list) else [made] * ranks
    found = run_ranks(programs, [given(rank) for rank in range(len(programs))], **options)
    assert all(len(each) == 1 for each in found)
    return [each[0] for each in found]


XS, NS = ([given(rank)[at] for rank in range(3)] for at in (0, 1))
LEAST, MOST = torch.stack(NS).amin(0), torch.stack(NS).amax(0)
GROUP = '"0"'
NEG = "  %a = aten::neg(%x) : f32[4, 2] @cpu\n"


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (call("a", "all_reduce", "%x", '"sum"', GROUP), [sum(XS)] * 3),
        (call("a", "all_reduce", "%x", '"avg"', GROUP), [sum(XS) / 3] * 3),
        (call("a", "all_reduce", "%x", '"product"', GROUP), [XS[0] * XS[1] * XS[2]] * 3),
        (call("a", "all_reduce", "%n", '"min"', GROUP, layout="i64[4]"), [LEAST] * 3),
        (call("a", "all_reduce", "%n", '"max"', GROUP, layout="i64[4]"), [MOST] * 3),
        (
            call("a", "all_gather_into_tensor", "%x", "3", GROUP, layout="f32[12, 2]"),
            [torch.cat(XS)] * 3,
        ),
        (call("a", "broadcast", "%x", "2", GROUP), [XS[2]] * 3),
        (
            "  %z = aten::neg(%x) : f32[4, 2] @cpu\n"
            "  %h = reinterpret %z : f32[3, 2] @cpu\n"
            + call("a", "reduce_scatter_tensor", "%h", '"sum"', "3", GROUP, layout="f32[1, 2]"),
            [-sum(XS)[r : r + 1] for r in range(3)],
        ),
        (
            NEG + '  _c10d_functional::all_reduce_(inout %a, "sum", "0")',
            [-sum(XS)] * 3,
        ),
        (
            NEG + '  _c10d_functional::broadcast_(inout %a, 1, "0")',
            [-XS[1]] * 3,
        ),
        (
            (
                "  %a = allocate : f32[12, 2] @cpu\n"
                '  _c10d_functional::all_gather_into_tensor_out(%x, 3, "0", out=out %a)'
            ),
            [torch.cat(XS)] * 3,
        ),
        (
            '  (%a, %b) = _c10d_functional::all_reduce_coalesced([%x, %n], "sum", "0") '
            ": (f32[4, 2] @cpu at [0], i64[4] @cpu at [1])\n" + wait("b"),
            [sum(XS)] * 3,
        ),
        (
            '  (%b, %a) = _c10d_functional::all_gather_into_tensor_coalesced([%x, %n], 3, "0") '
            ": (f32[12, 2] @cpu at [0], i64[12] @cpu at [1])\n" + wait("b"),
            [torch.cat(NS)] * 3,
        ),
        (
            NEG + "  %b = aten::neg(%n) : i64[4] @cpu\n"
            '  _c10d_functional::all_reduce_coalesced_([inout %a, inout %b], "sum", "0")\n'
            + wait("b"),
            [-sum(XS)] * 3,
        ),
        ('  %a = symm_mem::one_shot_all_reduce(%x, "sum", "0") : f32[4, 2] @cpu', [sum(XS)] * 3),
    ],
)
def test_collectives_compute_what_they_should(line: str, wanted: list[Tensor]) -> None:
    made = program(line, wait("a"), end="%a")
    for seed in range(3):
        for found, right in zip(outcome(made, seed=seed), wanted, strict=True):
            assert torch.equal(found, right)


def test_an_uneven_all_to_all() -> None:
    """Rows of rank r: how many go to each; what comes is what the others give."""
    rows = [(2, 1, 1), (0, 4, 0), (1, 1, 2)]
    taken = list(zip(*rows, strict=True))
    programs = [
        program(
            call(
                *("a", "all_to_all_single", "%x", str(list(out)), str(list(to)), GROUP),
                layout=f"f32[{sum(out)}, 2]",
            ),
            wait("a"),
            end="%a",
        )
        for to, out in zip(rows, taken, strict=True)
    ]
    parts = [x.split(list(to)) for x, to in zip(XS, rows, strict=True)]
    for rank, found in enumerate(outcome(programs)):
        assert torch.equal(found, torch.cat([part[rank] for part in parts]))
    assert wir.verify_ranks(programs).proved


def test_a_rank_without_rows_takes_some() -> None:
    """As one whose expert gets tokens, and whose own tokens are none."""
    given, taken = ((0, 3), (0, 0)), ((0, 0), (3, 0))
    programs = []
    for to, out in zip(given, taken, strict=True):
        args = "a", "all_to_all_single", "%h", str(list(out)), str(list(to)), GROUP
        part = f"  %h = reinterpret %x : f32[{sum(to)}, 2] @cpu"
        lines = part, call(*args, layout=f"f32[{sum(out)}, 2]"), wait("a")
        programs.append(program(*lines, end="%a"))
    assert wir.verify_ranks(programs).proved
    none, rows = outcome(programs)
    assert (none.shape, rows.tolist()) == ((0, 2), XS[0][:3].tolist())


def test_messages() -> None:
    def ring(rank: int) -> Program:
        peers = f"[{(rank + 1) % 3}, {(rank + 2) % 3}]"
        line = (
            '  %s = _c10d_functional::batch_p2p_ops(["isend", "irecv"], '
            f'{peers}, [0, 0], [%x, %y], "0") : f32[0] @cpu at [0]'
        )
        return program(line, wait("s", "y"), end="%y")

    for seed in range(5):
        found = outcome([ring(rank) for rank in range(3)], seed=seed)
        assert all(torch.equal(found[rank], XS[rank - 1]) for rank in range(3))
    sends = program(call("s", "isend", "%x", "1", "0", GROUP, layout="f32[0]"), wait("s"), end="%x")
    takes = program('  _c10d_functional::irecv(%y, 0, 0, "0")', wait("y"), end="%y")
    assert torch.equal(outcome([sends, takes])[1], XS[0])


def test_many_ranks_in_groups_of_a_mesh() -> None:
    """Rows sum up, then columns: everybody has the sum of all."""
    programs, groups = [], {}
    for rank in range(64):
        row, column = divmod(rank, 8)
        groups.setdefault(f"row{row}", []).append(rank)
        groups.setdefault(f"column{column}", []).append(rank)
        lines = call("a", "all_reduce", "%x", '"sum"', f'"row{row}"'), wait("a")
        more = call("b", "all_reduce", "%a", '"sum"', f'"column{column}"'), wait("b")
        programs.append(program(*lines, *more, end="%b"))
    assert wir.verify_ranks(programs, groups=groups).proved
    found = outcome(programs, groups=groups)
    wanted = sum(given(rank)[0] for rank in range(64))
    assert all(torch.equal(each, wanted) for each in found)


def test_a_planned_program_with_work_in_flight_does_the_same_as_over_gloo() -> None:
    """``in_flight.py`` runs this program over gloo."""
    made = wir.parse(in_flight.TEXT.replace("Any group_name", "str group_name"))
    for seed in range(10):
        for found in run_ranks([made, made], [in_flight.given(rank) for rank in (0, 1)], seed=seed):
            assert all(map(torch.equal, found, in_flight.wanted()))


def test_memory_that_peers_address() -> None:
    text = (PROGRAMS / "not_cpu" / "collectives.wir").read_text(encoding="utf-8")
    text = text.replace("@cuda:0", "@cpu").replace("Any group_name", "str group_name")
    made = wir.parse(text)
    (total, both), _ = run_ranks([made, made], [(torch.ones(8),), (torch.ones(8) * 2,)])
    assert total.tolist() == [3.0] * 8
    assert both.tolist() == [3.0] * 16


LOOP = """  (m, %a) = while (0, %x) : (symbol, f32[4, 2] @cpu)
    condition (i, %h : f32[4, 2] @cpu) {
      yield i < 2
    }
    body (j, %k : f32[4, 2] @cpu) {
      %l = _c10d_functional::all_reduce(%k, "sum", "0") : f32[4, 2] @cpu
      _c10d_functional::wait_tensor(%l)
      yield j + 1, %l
    }"""


def test_collectives_in_loops() -> None:
    assert all(torch.equal(each, sum(XS) * 3) for each in outcome(program(LOOP, end="%a")))


SUM = call("a", "all_reduce", "%x", '"sum"', GROUP)
OTHER = call("b", "all_reduce", "%x", '"sum"', '"1"')


def test_who_waits_for_whom_is_said() -> None:
    both = [
        program(*lines, wait("a", "b"), "  %c = aten::neg(%a) : f32[4, 2] @cpu", end="%c")
        for lines in ((SUM, OTHER), (OTHER, SUM))
    ]
    with pytest.raises(DeadlockError) as raised:
        outcome(both)
    text = str(raised.value)
    assert "ranks wait forever" in text
    assert "rank 1 at body[3], waits in all_reduce 'sum' in '1' at body[3] for rank 0" in text
    outcome(both, blocking="wait")
    short = program(end="%x")
    with pytest.raises(DeadlockError, match="for rank 1; rank 1 at the end already"):
        outcome([program(SUM, wait("a"), end="%a"), short], groups={"0": [0, 1]})
    unlike = program(call("a", "broadcast", "%x", "0", GROUP), wait("a"), end="%a")
    with pytest.raises(DeadlockError, match="where rank 1 calls broadcast in '0' at body"):
        outcome([program(SUM, wait("a"), end="%a"), unlike])


def test_reading_before_the_wait_shows() -> None:
    early = program(SUM, "  %c = aten::neg(%a) : f32[4, 2] @cpu", wait("a"), end="%c")
    assert [each.code for each in wir.diagnose(early)] == ["WIR1090"]
    right = -sum(XS)
    found = [outcome(early, verify=False, seed=seed)[0] for seed in range(12)]
    assert not all(torch.equal(each, right) for each in found)
    never = program(SUM, end="%a")
    assert all(torch.isnan(each).all() for each in outcome(never, verify=False))


def test_writing_what_is_in_flight_shows() -> None:
    changed = program(
        "  %z = aten::neg(%x) : f32[4, 2] @cpu",
        SUM.replace("%x", "%z"),
        "  aten::zero_(inout %z)",
        wait("a"),
        end="%a",
    )
    found = [outcome(changed, verify=False, seed=seed)[0] for seed in range(12)]
    assert not all(torch.equal(each, -sum(XS)) for each in found)


def test_races_with_collectives_name_both_lines() -> None:
    early = program(SUM, "  %c = aten::neg(%a) : f32[4, 2] @cpu", wait("a"), end="%c")
    said = r"%a: the read at body\[4\] may come before all_reduce 'sum' in '0' at body\[3\]"
    with pytest.raises(RaceError, match=said):
        outcome(early, verify=False, check_races=True)
    with pytest.raises(RaceError, match="%a: what the caller does next may come before all_reduce"):
        outcome(program(SUM, end="%a"), verify=False, check_races=True)
    lines = "  %z = aten::neg(%x) : f32[4, 2] @cpu", SUM.replace("%x", "%z")
    zeroed = "  aten::zero_(inout %z)"
    with pytest.raises(RaceError, match=r"%z: the write at body\[6\] may come before"):
        outcome(program(*lines, zeroed, wait("a"), end="%a"), verify=False, check_races=True)
    for seed in range(12):
        outcome(program(*lines, wait("a"), zeroed, end="%a"), seed=seed, check_races=True)


def test_one_seed_gives_one_run() -> None:
    early = program(SUM, "  %c = aten::neg(%a) : f32[4, 2] @cpu", wait("a"), end="%c")
    runs = [[outcome(early, verify=False, seed=n)[0].isnan().any() for n in range(8)] for _ in "ab"]
    assert runs[0] == runs[1]


def test_mistakes() -> None:
    made = program(SUM, wait("a"), end="%a")
    with pytest.raises(UnsupportedError, match="1 lists of inputs for 2 programs"):
        run_ranks([made, made], [given(0)])
    with pytest.raises(InputCountError):
        run_ranks([made], [given(0)[:1]])
    with pytest.raises(OptionValueError):
        run_ranks(made, [given(0)])
    with pytest.raises(wir.VerificationError):
        outcome(program(SUM, end="%a"))
    with pytest.raises(CallFailedError, match="rank 1 is not in group '0'") as one:
        outcome(made, ranks=2, groups={"0": [0]})
    assert one.value.__notes__ == ["on rank 1"]
    fused = '  %a = symm_mem::fused_matmul_reduce_scatter(%x, %y, "sum", 0, "0") : f32[4, 2] @cpu'
    with pytest.raises(UnsupportedError, match="fused_matmul_reduce_scatter"):
        outcome(program(fused, end="%a"))
    with pytest.raises(UnsupportedError, match="memset32_, which touches memory"):
        outcome(program("  symm_mem::memset32_(inout %y, 0, 0, 1)", end="%y"))
