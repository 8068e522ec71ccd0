"""Programs of several ranks: what does not fit together is found, and nothing else."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import wrapper_ir as wir
from tests.distributed.externs import externs
from wrapper_ir.errors import OptionValueError
from wrapper_ir.lines.program import Frame, Origin
from wrapper_ir.verify.ranks import GroupsError, RanksDisagreeError

if TYPE_CHECKING:
    from wrapper_ir.lines import Program

COLLECTIVES = Path(__file__).parents[1] / "programs" / "not_cpu" / "collectives.wir"

HEAD = """
wir 2
program @p inference logical
symbol s0 : int [1, inf]
symbol s1 : int [1, inf]
symbol i : int
symbol n : int
symbol j : int
input %x : f32[8] @cpu
input %y : f32[8] @cpu
input %p : bool[] @cpu
input %v : f32[s0] @cpu
input %w : f32[2*s0] @cpu
"""


def program(*lines: str, end: str = "") -> Program:
    """Return a program of these lines."""
    text = "\n".join(lines)
    head = [HEAD, *externs(text), "  s0 = size %v, 0"]
    return wir.parse("\n".join([*head, text, f"return {end}\n"]))


def start(out: str, op: str, *args: str, group: str = "0", layout: str = "f32[8]") -> str:
    """Return a line that starts a collective."""
    given = ", ".join([*args, f'"{group}"'])
    return f"  %{out} = _c10d_functional::{op}({given}) : {layout} @cpu"


def wait(*names: str) -> str:
    """Return lines that wait for work."""
    return "\n".join(f"  _c10d_functional::wait_tensor(%{name})" for name in names)


SUM = start("a", "all_reduce", "%x", '"sum"')
GATHER = start("b", "all_gather_into_tensor", "%x", "2", layout="f32[16]")
BOTH = program(SUM, GATHER, wait("a", "b"), end="%a, %b")


def of(layout: str) -> tuple[str, str]:
    """Return the sum of something else of %x."""
    view = f"  %h = reinterpret %x : {layout} @cpu"
    return view, start("a", "all_reduce", "%h", '"sum"', layout=layout)


def found(*programs: Program, **options: Any) -> list[str]:
    """Return the kinds of problems of ranks."""
    return [each.kind for each in wir.verify_ranks(programs, **options).problems]


def open_kinds(*programs: Program) -> list[str]:
    """Return the kinds of what is not shown of ranks without problems."""
    report = wir.verify_ranks(programs)
    assert report.ok, str(report)
    return [each.kind for each in report.not_shown]


def test_ranks_that_do_the_same_fit_together() -> None:
    report = wir.verify_ranks([BOTH, BOTH])
    assert report.ok
    assert report.proved
    assert report.check() is report
    assert (report.ranks, report.collectives) == (2, 4)
    assert str(report) == "2 ranks, 4 calls: no problems"
    corpus = wir.load(COLLECTIVES)
    assert wir.verify_ranks([corpus, corpus]).proved


def test_in_place_or_not_is_each_ranks_own_affair() -> None:
    other = program(
        "  %a = aten::neg(%x) : f32[8] @cpu",
        '  _c10d_functional::all_reduce_(inout %a, "sum", "0")',
        GATHER,
        wait("b", "a"),
        end="%a, %b",
    )
    assert found(BOTH, other) == []


@pytest.mark.parametrize(
    ("lines", "kind", "word"),
    [
        ([GATHER, SUM], "order", "in another order"),
        ([SUM], "missing", "rank 1 lacks a call"),
        ([SUM, GATHER, start("c", "broadcast", "%x", "0"), wait("c")], "extra", "one call more"),
        ([SUM, SUM.replace("%a", "%c"), GATHER, wait("c")], "extra", "one call more"),
        ([SUM.replace("sum", "max"), GATHER], "reduction", "another reduction"),
        ([start("a", "broadcast", "%x", "0"), GATHER], "op", "another op"),
        ([SUM.replace('"0"', '"1"'), GATHER], "group", "'1' is used by rank 1, not by rank 0"),
        ([*of("f32[4]"), GATHER], "size", "another size"),
        ([*of("i32[8]"), GATHER], "dtype", "another dtype"),
    ],
)
def test_ranks_that_disagree(lines: list[str], kind: str, word: str) -> None:
    """The first difference is named, at the line of each rank."""
    text = "\n".join(lines)
    waits = [name for name in "ab" if f"%{name} =" in text]
    end = ", ".join(f"%{name}" for name in waits)
    other = program(*lines, wait(*waits), end=end)
    assert wir.diagnose(other) == ()
    report = wir.verify_ranks([BOTH, other])
    assert [each.kind for each in report.problems] == [kind], str(report)
    assert word in str(report)
    assert not report
    assert {place.rank for place in report.problems[0].where} <= {0, 1}
    with pytest.raises(RanksDisagreeError, match=word) as raised:
        report.check()
    again = pickle.loads(pickle.dumps(raised.value))
    assert str(again) == str(raised.value)


def test_most_ranks_are_right_and_the_odd_one_is_named() -> None:
    odd = program(SUM.replace("sum", "min"), wait("a"), end="%a")
    usual = program(SUM, wait("a"), end="%a")
    (problem,) = wir.verify_ranks([odd, *[usual] * 7]).problems
    assert problem.message.startswith("rank 0 calls something with another reduction")
    assert "unlike ranks 1-7" in problem.message


def test_the_source_of_a_line_is_shown() -> None:
    origins = (Origin(frames=(Frame("model.py", 12),)),)

    def known(made: Program) -> Program:
        body = tuple(replace(line, origin=0) if hasattr(line, "op") else line for line in made.body)
        return made.replace(body=body, origins=origins)

    other = program(SUM, wait("a"), end="%a")
    (problem,) = wir.verify_ranks([known(BOTH), known(other)]).problems
    assert problem.where[0].source == "model.py:12"
    assert "rank 0 at body[5] (model.py:12): all_gather of %x (f32[8]) in '0'" in str(problem)


def test_another_order_of_what_looks_alike_mixes_tensors_up() -> None:
    made = "  %z = aten::neg(%x) : f32[8] @cpu"
    second = SUM.replace("%a", "%c").replace("%x", "%z")
    one = program(made, SUM, second, wait("a", "c"), end="%a, %c")
    other = program(made, second, SUM, wait("a", "c"), end="%a, %c")
    (problem,) = wir.verify_ranks([one, other]).problems
    assert problem.kind == "order"
    assert "mixed up" in problem.message
    assert ["%x" in each.says for each in problem.where] == [True, False]


def test_roots_rows_and_protocols() -> None:
    root = [program(start("a", "broadcast", "%x", n), wait("a"), end="%a") for n in "01"]
    assert found(*root) == ["root"]
    rows = [
        program(start("a", "all_to_all_single", "%x", out, given), wait("a"), end="%a")
        for out, given in (("[3, 5]", "[3, 5]"), ("[5, 3]", "[5, 3]"), ("[4, 4]", "[5, 3]"))
    ]
    assert found(*rows[:2]) == []
    assert found(rows[0], rows[2]) == ["splits"]
    halves = start("a", "all_to_all_single", "%h", "[s0, s0]", "[s0, s0]", layout="f32[2*s0]")
    even = program("  %h = reinterpret %w : f32[2*s0] @cpu", halves, wait("a"), end="%a")
    assert wir.verify_ranks([even, even]).assumed == ("s0",)
    assert open_kinds(even, even) == []
    plain = program(halves.join(["  %h = reinterpret %w : f32[2*s0] @cpu\n", ""]), wait("a"))
    other = plain.replace(body=plain.body)
    assert open_kinds(plain, other) == []
    for sent in (rows[0], program(start("a", "all_to_all_single", "%x", "[]", "[]"), wait("a"))):
        smaller = program(
            *of("f32[4]")[:1],
            start("a", "all_to_all_single", "%h", "[]", "[]", layout="f32[4]"),
            wait("a"),
        )
        assert found(sent, smaller) == ["splits"]
    one_shot = program(
        '  %a = symm_mem::one_shot_all_reduce(%x, "sum", "0") : f32[8] @cpu', end="%a"
    )
    assert found(one_shot, one_shot) == []
    assert found(one_shot, program(SUM, wait("a"), end="%a")) == ["op"]


def test_what_is_wrong_with_one_program_is_said_for_its_ranks() -> None:
    early = program(SUM, GATHER, wait("b"), end="%a, %b")
    report = wir.verify_ranks([BOTH, early, early], groups={"0": [0, 1, 2]})
    assert [each.kind for each in report.problems] == ["program", "group"]
    assert "WIR1090" in report.problems[0].message
    assert [place.rank for place in report.problems[0].where] == [1, 2]
    broken = BOTH.replace(results=(), body=BOTH.body[-1:])
    problem, *_ = wir.verify_ranks([BOTH, broken]).problems
    assert problem.kind == "program"


# Groups.


TWO = [start("a", "all_reduce", "%x", '"sum"', group=name) for name in ("even", "odd")]


def test_who_is_in_a_group_is_said_or_follows_from_sizes() -> None:
    mesh = [program(TWO[rank % 2], wait("a"), end="%a") for rank in range(4)]
    assert found(*mesh) == ["group", "group"]
    assert found(*mesh, groups={"even": [0, 2], "odd": [1, 3]}) == []
    assert found(*mesh, groups={"even": [0, 2], "odd": [1, 2]}) == ["group"]
    assert found(*mesh, groups={"even": [0, 2]}) == ["group"]
    gather = [program(GATHER.replace('"0"', f'"g{r % 2}"'), wait("b"), end="%b") for r in range(4)]
    assert found(*gather) == []
    assert found(BOTH, BOTH, BOTH) == ["group"]


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        ([0, 1], "a list maps no names to ranks"),
        ({0: [0, 1]}, "0 is not the name of a group"),
        ({"0": "01"}, "'0' has '01', which is not a list of ranks"),
        ({"0": [0, 2]}, "'0' has rank 2; there are 2 programs"),
        ({"0": [0, True]}, "'0' has rank True; there are 2 programs"),
        ({"0": [0, 0]}, "'0' has a rank twice"),
        ({"0": []}, "'0' has no ranks"),
    ],
)
def test_groups_that_are_none_are_refused(groups: Any, reason: str) -> None:
    with pytest.raises(GroupsError) as raised:
        wir.verify_ranks([BOTH, BOTH], groups=groups)
    assert raised.value.fields["reason"] == reason


def test_ranks_that_wait_for_each_other_across_groups() -> None:
    tp, dp = (start(n, "all_reduce", "%x", '"sum"', group=n) for n in ("tp", "dp"))
    ends = {"end": "%tp, %dp"}
    one = program(tp, dp, wait("tp", "dp"), **ends)
    other = program(dp, tp, wait("tp", "dp"), **ends)
    (problem,) = wir.verify_ranks([one, other]).problems
    assert problem.kind == "deadlock"
    assert "ranks 0-1 wait for each other" in problem.message
    assert "blocking='wait'" in problem.hint
    assert "needs rank 1" in problem.where[0].says
    assert problem.where[1].path == "body[3]"
    assert found(one, other, blocking="wait") == []
    late = program(dp, wait("dp"), tp, wait("tp"), **ends)
    early = program(tp, wait("tp"), dp, wait("dp"), **ends)
    assert found(early, late, blocking="wait") == ["deadlock"]
    with pytest.raises(OptionValueError):
        wir.verify_ranks([one, other], blocking="never")


# Messages.


def batch(*ends: str) -> str:
    """Return a batch of messages: ``>1`` sends %x to rank 1, ``<0`` receives %y from rank 0."""
    ops = ", ".join('"isend"' if each[0] == ">" else '"irecv"' for each in ends)
    peers = ", ".join(each[1] for each in ends)
    tensors = ", ".join("%x" if each[0] == ">" else "%y" for each in ends)
    tags = ", ".join("0" for _ in ends)
    call = f'_c10d_functional::batch_p2p_ops([{ops}], [{peers}], [{tags}], [{tensors}], "0")'
    return f"  {call}\n{wait('y')}"


def test_each_message_has_a_receiver() -> None:
    ring = [program(batch(f">{(r + 1) % 3}", f"<{(r + 2) % 3}"), end="%y") for r in range(3)]
    assert wir.verify_ranks(ring).proved
    assert set(found(ring[0], ring[2], ring[1])) == {"message"}
    assert found(program(batch(">5", "<1")), program(batch(">0", "<0"))) == ["message"] * 2
    sends = program(start("s", "isend", "%x", "1", "0", layout="f32[0]"), wait("s"))
    takes = program('  _c10d_functional::irecv(%y, 0, 0, "0")', wait("y"))
    tags = program('  _c10d_functional::irecv(%y, 0, 3, "0")', wait("y"))
    assert found(sends, takes) == []
    assert found(sends, tags) == ["message"] * 2
    halves = program(
        "  %h = reinterpret %y : f32[4] @cpu",
        '  _c10d_functional::irecv(%h, 0, 0, "0")',
        wait("h"),
    )
    assert found(sends, halves) == ["message"]


def test_two_that_receive_first_wait_forever() -> None:
    def swap(peer: int) -> Program:
        take = f'  _c10d_functional::irecv(%y, {peer}, 0, "0")'
        give = start("s", "isend", "%x", str(peer), "0", layout="f32[0]")
        return program(take, wait("y"), give, wait("s"))

    (problem,) = wir.verify_ranks([swap(1), swap(0)]).problems
    assert problem.kind == "deadlock"
    assert [place.says for place in problem.where] == [
        f"wait for receive from {n} in '0', needs rank {n}" for n in (1, 0)
    ]


def test_a_ring_whose_receives_were_hoisted_over_its_sends() -> None:
    """Pytorch 189454: a pass moved them, so that no rank sends first."""

    def rank(number: int, *, hoisted: bool) -> Program:
        right, left = (number + 1) % 4, (number + 3) % 4
        sends = start("s", "isend", "%x", str(right), "0", layout="f32[0]"), wait("s")
        takes = f'  _c10d_functional::irecv(%y, {left}, 0, "0")', wait("y")
        order = (*takes, *sends) if hoisted or number % 2 else (*sends, *takes)
        return program(*order)

    assert wir.verify_ranks([rank(number, hoisted=False) for number in range(4)]).proved
    (problem,) = wir.verify_ranks([rank(number, hoisted=True) for number in range(4)]).problems
    assert problem.kind == "deadlock"
    assert "ranks 0-3 wait for each other" in problem.message


def test_some_ranks_call_two_groups_in_the_other_order() -> None:
    """Torchrec 4149: shards of a mesh exchange rows, replicas sum up, and some waited too early."""

    def rank(number: int, *, late: bool) -> Program:
        shard, replica = f'"shard{number // 4}"', f'"replica{number % 4}"'
        rows = f"  %a = _c10d_functional::all_to_all_single(%x, [], [], {shard}) : f32[8] @cpu"
        total = f'  %b = _c10d_functional::all_reduce(%y, "sum", {replica}) : f32[8] @cpu'
        order = (total, wait("b"), rows, wait("a")) if late else (rows, wait("a"), total, wait("b"))
        return program(*order, end="%a, %b")

    groups = {f"shard{n}": [4 * n + at for at in range(4)] for n in range(2)}
    groups |= {f"replica{n}": [n, n + 4] for n in range(4)}

    def some(*late: int) -> list[Program]:
        return [rank(number, late=number in late) for number in range(8)]

    for blocking in ("start", "wait"):
        for harmless in (some(), some(6, 7)):  # the others of their replicas come to them
            assert wir.verify_ranks(harmless, groups=groups, blocking=blocking).proved
        (problem,) = wir.verify_ranks(some(3, 6), groups=groups, blocking=blocking).problems
        assert problem.kind == "deadlock"
        assert [place.rank for place in problem.where] == [2, 3, 6, 7]
        assert all("needs rank" in place.says for place in problem.where)


# What is not shown.


def branch(then: str, other: str) -> str:
    """Return a branch that calls a collective or none."""
    sums = '      %{0} = _c10d_functional::all_reduce(%{1}, "{2}", "0") : f32[8] @cpu\n'
    sums += "      _c10d_functional::wait_tensor(%{0})\n"
    none = "      %{0} = aten::neg(%{1}) : f32[8] @cpu\n"
    parts = [
        (sums if word else none).format(name, param, word)
        for name, param, word in (("t", "t0", then), ("e", "e0", other))
    ]
    return (
        "  %q = cond %p with (%x) : f32[8] @cpu\n"
        f"    then (%t0 : f32[8] @cpu) {{\n{parts[0]}      yield %t\n    }}\n"
        f"    else (%e0 : f32[8] @cpu) {{\n{parts[1]}      yield %e\n    }}"
    )


LOOP = """  (n, %q) = while (0, %x) : (symbol, f32[8] @cpu)
    condition (i, %h : f32[8] @cpu) {
      yield i < 3
    }
    body (j, %k : f32[8] @cpu) {
      %l = _c10d_functional::all_reduce(%k, "sum", "0") : f32[8] @cpu
      _c10d_functional::wait_tensor(%l)
      yield j + 1, %l
    }"""


def test_branches_and_loops_are_not_shown_and_raise_no_alarm() -> None:
    same = program(branch("sum", "sum"), end="%q")
    assert wir.verify_ranks([same, same]).proved
    choice, other = (program(branch("sum", word), end="%q") for word in ("", "max"))
    assert open_kinds(choice, choice, choice) == ["branch"]
    assert open_kinds(choice, other) == ["branch"]
    assert open_kinds(same, choice) == ["branch"]
    loop = program(LOOP, end="%q")
    assert open_kinds(loop, loop) == ["loop"]
    assert open_kinds(loop, program(LOOP.replace("sum", "max"), end="%q")) == ["loop"]
    before = program(SUM, wait("a"), LOOP, end="%a, %q")
    assert found(before, program(SUM.replace("sum", "max"), wait("a"), LOOP, end="%a, %q")) == [
        "reduction"
    ]


def test_sizes_with_symbols_are_equal_assumed_or_not_shown() -> None:
    def gathers(size: str) -> Program:
        layout = f"f32[{size}]"
        line = start("a", "all_reduce", "%h", '"sum"', layout=layout)
        return program(f"  %h = reinterpret %v : {layout} @cpu", line, wait("a"), end="%a")

    report = wir.verify_ranks([gathers("s0"), gathers("s0")])
    assert (report.ok, report.proved, report.assumed) == (True, False, ("s0",))
    assert "assumed: s0 on all ranks alike" in str(report)
    odd = program(SUM, wait("a"), end="%a")
    assert open_kinds(gathers("s0"), odd) == ["size"]


def test_what_nothing_is_known_of_is_said() -> None:
    made = program("  symm_mem::memset32_(inout %x, 0, 0, 1)")
    (unknown,) = wir.verify_ranks([made, made]).not_shown
    assert [place.rank for place in unknown.where] == [0, 1]
    foreign = program("extern comms::send(Tensor x) -> ()", "  comms::send(%x)")
    (unknown,) = wir.verify_ranks([foreign]).not_shown
    assert "comms::send does: it is not torch's, and may talk" in unknown.message


# The command.


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from click.testing import CliRunner

    from wrapper_ir.cli.app import main

    files = []
    for rank, made in enumerate([BOTH, program(SUM, wait("a"), end="%a")]):
        files.append(str(tmp_path / f"r{rank}.wir"))
        made.save(files[-1])

    def run(*args: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["verify-ranks", *args])
        return done.exit_code, done.output

    assert run(files[0], files[0]) == (0, "2 ranks, 4 calls: no problems\n")
    status, text = run(*files)
    assert status == 1
    assert "rank 1 lacks a call in group '0'" in text
    status, text = run(*files, "--json")
    data = json.loads(text)
    assert (status, data["ok"], data["problems"][0]["kind"]) == (1, False, "missing")
    assert data["problems"][0]["where"][0]["path"] == "body[5]"
    groups = tmp_path / "groups.json"
    groups.write_text('{"0": [0, 1]}', encoding="utf-8")
    assert run(files[0], "--ranks", "2", "--groups", str(groups))[0] == 0
    assert run(files[0], "--ranks", "3", "--groups", str(groups))[0] == 1
    groups.write_text("no", encoding="utf-8")
    assert run(files[0], "--ranks", "2", "--groups", str(groups))[0] == 2
    groups.write_text('{"0": [7]}', encoding="utf-8")
    assert run(files[0], "--ranks", "2", "--groups", str(groups))[0] == 2
    assert run(*files, "--ranks", "2")[0] == 2
    (tmp_path / "loop.wir").write_text(str(program(LOOP, end="%q")), encoding="utf-8")
    loop = str(tmp_path / "loop.wir")
    assert run(loop, loop)[0] == 0
    assert run(loop, loop, "--proved")[0] == 1
