"""``python -m tests.distributed.disorders``: what ``wir.verify_ranks`` finds of disorders.

Good programs of several ranks are disordered on one rank. Those whose ranks then wait forever, or
compute something else, in one of a few random runs, have to be found before launch.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import torch

import wrapper_ir as wir
from tests.distributed.schedules import REDUCTIONS, Made, Maker, Step
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.interpreter import run_ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Change = Callable[[Made, list[Step], int, random.Random], list[Step] | None]

#: Ways of blocking, in turns.
WAYS: tuple[Literal["start", "wait"], ...] = ("start", "wait")

#: Random runs in which harm may show.
RUNS = 4

#: Collectives whose result has the size of what is given.
_SAME = ("all_reduce", "broadcast")


def _swap(made: Made, steps: list[Step], at: int, _: random.Random) -> list[Step] | None:
    """Call a collective before another one that came before it."""
    starts = [n for n, step in enumerate(steps) if step.is_collective and n < at]
    for before in reversed(starts):
        known = {"x", *(step.out for step in steps[:before] if not step.is_collective)}
        in_place = steps[at].out in steps[at].of
        if set(steps[at].of) <= known and (in_place or steps[at].kind != "messages"):
            return [*steps[:before], steps[at], *steps[before:at], *steps[at + 1 :]]
    return None


def _drop(made: Made, steps: list[Step], at: int, _: random.Random) -> list[Step] | None:
    """Compute something alone that a collective should have made."""
    step = steps[at]
    waits = {step.out, f"{step.out}_too"}
    rest = [each for each in steps[at + 1 :] if each.kind != "wait" or each.out not in waits]
    members = len(made.groups[step.group])
    alone = {
        "all_reduce": [Step("neg", step.out, step.of)],
        "broadcast": [Step("neg", step.out, step.of)],
        "coalesced": [Step("neg", step.out, step.of[:1])],
        "all_gather": [Step("cat", step.out, step.of * members)],
        "reduce_scatter": [Step("part", step.out, step.of)],
        "in place": list[Step](),
        "messages": list[Step](),
    }.get(step.kind)
    return None if alone is None else [*steps[:at], *alone, *rest]


def _duplicate(made: Made, steps: list[Step], at: int, _: random.Random) -> list[Step] | None:
    """Call a collective twice."""
    step = steps[at]
    if step.kind in ("in place", "messages", "coalesced"):
        return None
    again = replace(step, out=f"{step.out}_again")
    for sizes in made.sizes:
        sizes[again.out] = sizes[step.out]
    return [*steps[:at], again, Step("wait", again.out), *steps[at:]]


def _changed(steps: list[Step], at: int, **changes: object) -> list[Step]:
    return [*steps[:at], replace(steps[at], **changes), *steps[at + 1 :]]


def _group(made: Made, steps: list[Step], at: int, draw: random.Random) -> list[Step] | None:
    own, members = steps[at].group, len(made.groups[steps[at].group])
    others = [g for g, ranks in made.groups.items() if g != own and len(ranks) == members]
    return _changed(steps, at, group=draw.choice(others)) if others else None


def _op(_: Made, steps: list[Step], at: int, __: random.Random) -> list[Step] | None:
    kind = steps[at].kind
    if kind not in _SAME:
        return None
    return _changed(steps, at, kind=_SAME[1 - _SAME.index(kind)])


def _dtype(_: Made, steps: list[Step], at: int, __: random.Random) -> list[Step] | None:
    if steps[at].kind not in (*_SAME, "all_gather", "reduce_scatter"):
        return None
    if steps[at].reduction == "avg":
        return None
    without = [each for n, each in enumerate(steps) if n <= at or not _is_wait(each, steps[at])]
    return _changed(without, at, as_type="i32")


def _size(made: Made, steps: list[Step], at: int, _: random.Random) -> list[Step] | None:
    step = steps[at]
    rows = made.sizes[0][step.of[0]], made.sizes[0][step.out]
    if step.kind not in (*_SAME, "all_gather") or any(n % 2 for n in rows) or 0 in rows:
        return None
    without = [each for n, each in enumerate(steps) if n <= at or not _is_wait(each, step)]
    return _changed(without, at, part=2)


def _is_wait(each: Step, step: Step) -> bool:
    return each.kind == "wait" and each.out == step.out


def _reduction(_: Made, steps: list[Step], at: int, draw: random.Random) -> list[Step] | None:
    step = steps[at]
    if step.kind not in ("all_reduce", "in place", "reduce_scatter", "coalesced"):
        return None
    others = [each for each in REDUCTIONS if each != step.reduction]
    return _changed(steps, at, reduction=draw.choice(others))


def _root(made: Made, steps: list[Step], at: int, _: random.Random) -> list[Step] | None:
    if steps[at].kind != "broadcast":
        return None
    members = len(made.groups[steps[at].group])
    return _changed(steps, at, root=(steps[at].root + 1) % members)


def _rows(made: Made, steps: list[Step], at: int, draw: random.Random) -> list[Step] | None:
    step = steps[at]
    if step.kind != "all_to_all":
        return None
    given, taken = step.rows
    other = tuple(given[1:] + given[:1])
    if draw.random() < 0.5:
        other = tuple(taken[1:] + taken[:1])
        return None if other == taken else _changed(steps, at, rows=(given, other))
    return None if other == given else _changed(steps, at, rows=(other, taken))


def _peer(made: Made, steps: list[Step], at: int, draw: random.Random) -> list[Step] | None:
    step = steps[at]
    if step.kind != "messages":
        return None
    if draw.random() < 0.5:
        return _changed(steps, at, tag=1)
    members = len(made.groups[step.group])
    peers = (step.peers[0] + 1) % members, step.peers[1]
    return _changed(steps, at, peers=peers)


def _wait(_: Made, steps: list[Step], at: int, __: random.Random) -> list[Step] | None:
    return [each for each in steps if not _is_wait(each, steps[at])]


DISORDERS: dict[str, Change] = {
    "swap": _swap,
    "drop": _drop,
    "duplicate": _duplicate,
    "group": _group,
    "op": _op,
    "dtype": _dtype,
    "size": _size,
    "reduction": _reduction,
    "root": _root,
    "rows": _rows,
    "peer": _peer,
    "wait": _wait,
}


def disorders(made: Made, seed: int) -> Iterator[tuple[str, Made]]:
    """Yield a schedule with each kind of disorder, on one rank and at one collective."""
    draw = random.Random(seed)
    for kind, change in DISORDERS.items():
        rank = draw.randrange(len(made.ranks))
        steps = made.ranks[rank]
        starts = [at for at, step in enumerate(steps) if step.is_collective]
        for at in draw.sample(starts, len(starts)):
            other = Made([*made.ranks], made.groups, [dict(s) for s in made.sizes], made.results)
            changed = change(other, steps, at, draw)
            if changed is not None:
                other.ranks[rank] = changed
                yield kind, other
                break


def outcomes(made: Made, blocking: Literal["start", "wait"], runs: int) -> list[str]:
    """Return what random runs give: results as text, or how they fail."""
    found = []
    for seed in range(runs):
        programs, inputs = made.programs(), made.inputs()
        options = {"groups": made.groups, "blocking": blocking, "seed": seed, "verify": False}
        try:
            results = run_ranks(programs, inputs, **options)
        except WrapperIRError as error:
            found.append(error.code)
            continue
        every = zip(results, inputs, strict=True)
        found.append(str([[each.tolist() for each in (*out, *x)] for out, x in every]))
    return found


def survey(seeds: range, kinds: tuple[str, ...] = tuple(DISORDERS)) -> Counter[tuple[str, str]]:
    """Return what became of the disorders of some schedules: kind, and verdict."""
    seen: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        made, blocking = Maker(seed).make(), WAYS[seed % 2]
        report = wir.verify_ranks(made.programs(), groups=made.groups, blocking=blocking)
        seen["none", "no objection" if report.proved else "false alarm"] += 1
        right = outcomes(made, blocking, 1)
        if set(outcomes(made, blocking, RUNS)) != set(right):
            seen["none", "runs differ"] += 1
        for kind, other in disorders(made, seed):
            if kind in kinds:
                seen[kind, _verdict(other, blocking, right)] += 1
    return seen


def _verdict(made: Made, blocking: Literal["start", "wait"], right: list[str]) -> str:
    report = wir.verify_ranks(made.programs(), groups=made.groups, blocking=blocking)
    is_harmful = set(outcomes(made, blocking, RUNS)) != set(right)
    if is_harmful:
        return "missed" if report.ok else "found"
    return "harmless" if report.ok else "found, harmless in these runs"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.distributed.disorders")
    parser.add_argument("--schedules", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    seen = survey(range(options.seed, options.seed + options.schedules))
    for kind in ("none", *DISORDERS):
        verdicts = {verdict: count for (k, verdict), count in sorted(seen.items()) if k == kind}
        print(f"{kind:10}", ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))
    found = sum(count for (_, verdict), count in seen.items() if verdict == "found")
    bad = {key: n for key, n in seen.items() if key[1] in ("missed", "false alarm", "runs differ")}
    print(f"{found} harmful disorders found; {bad or 'none missed, no false alarms'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
