"""Made-up programs of several ranks: pointwise ops, and collectives that stay in flight a while.

A schedule is a list of steps, the same on all ranks but for groups, rows and peers, so that it can
be disordered on one rank before its text is written.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

import wrapper_ir as wir
from tests.distributed.externs import externs

if TYPE_CHECKING:
    from wrapper_ir.lines import Program

_C10D: Final = "_c10d_functional::"

REDUCTIONS: Final = ("sum", "max", "min", "avg")


@dataclass(frozen=True)
class Step:
    """One step of a rank: an op of its own, a collective, or a wait."""

    kind: str
    out: str
    of: tuple[str, ...] = ()
    group: str = ""
    reduction: str = ""
    root: int = 0
    rows: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """For an all-to-all: those given to each member, and those taken."""
    peers: tuple[int, int] = (0, 0)
    tag: int = 0
    as_type: str = ""
    """Another element type that the tensor is sent as."""
    part: int = 1
    """The part of the tensor that is sent."""

    @property
    def is_collective(self) -> bool:
        return bool(self.group)


@dataclass
class Made:
    """The programs of all ranks, as steps."""

    ranks: list[list[Step]]
    groups: dict[str, list[int]]
    sizes: list[dict[str, int]] = field(default_factory=list)
    """The rows of each tensor, by rank."""
    results: list[str] = field(default_factory=list)

    def programs(self) -> list[Program]:
        """Return the programs."""
        return [self.program(rank) for rank in range(len(self.ranks))]

    def program(self, rank: int) -> Program:
        """Return the program of a rank."""
        writer = _Writer(self.groups, self.sizes[rank], rank)
        body = "\n".join(line for step in self.ranks[rank] for line in writer.lines(step))
        head = ["wir 2", "program @made inference logical", "input %x : f32[12, 2] @cpu"]
        lines = [*head, *externs(body), body]
        return wir.parse("\n".join([*lines, f"return %{', %'.join(self.results)}\n"]))

    def inputs(self) -> list[tuple[Tensor]]:
        """Return what each rank is given."""
        generator = torch.Generator().manual_seed(0)
        given = torch.randint(-4, 5, (len(self.ranks), 12, 2), generator=generator)
        return [(each.float(),) for each in given]


class _Writer:
    """The text of one rank's steps."""

    def __init__(self, groups: dict[str, list[int]], sizes: dict[str, int], rank: int) -> None:
        self._groups = groups
        self._sizes = sizes
        self._rank = rank

    def _at(self, rows: int, dtype: str = "f32") -> str:
        return f"{dtype}[{rows}, 2] @cpu"

    def lines(self, step: Step) -> list[str]:
        """Return the lines of a step."""
        out, of, rows = step.out, step.of, self._sizes[step.out]
        at, group = self._at(rows), f'"{step.group}"'
        match step.kind:
            case "neg":
                return [f"  %{out} = aten::neg(%{of[0]}) : {at}"]
            case "add":
                return [f"  %{out} = aten::add.Tensor(%{of[0]}, %{of[1]}) : {at}"]
            case "cat":
                return [f"  %{out} = aten::cat([{', '.join(f'%{each}' for each in of)}]) : {at}"]
            case "part":
                return [
                    f"  %{out}_part = reinterpret %{of[0]} : {at}",
                    f"  %{out} = aten::neg(%{out}_part) : {at}",
                ]
            case "wait":
                return [f"  {_C10D}wait_tensor(%{out})"]
            case "in place":
                return [f'  {_C10D}all_reduce_(inout %{out}, "{step.reduction}", {group})']
            case "messages":
                peers, tags = f"[{step.peers[0]}, {step.peers[1]}]", f"[{step.tag}, {step.tag}]"
                args = f'["isend", "irecv"], {peers}, {tags}, [%{of[0]}, %{out}], {group}'
                return [f"  %{out}_sent = {_C10D}batch_p2p_ops({args}) : f32[0] @cpu at [0]"]
            case "coalesced":
                one, two = (self._at(self._sizes[each]) for each in of)
                args = f'[%{of[0]}, %{of[1]}], "{step.reduction}", {group}'
                call = f"{_C10D}all_reduce_coalesced({args}) : ({one} at [0], {two} at [1])"
                return [f"  (%{out}, %{out}_too) = {call}"]
        return self._plain(step)

    def _plain(self, step: Step) -> list[str]:
        """Return the lines of a collective with one tensor, perhaps sent as something else."""
        (of,), out = step.of, step.out
        given, made = self._sizes[of], self._sizes[out]
        if not step.as_type and step.part == 1:
            return [f"  %{out} = {self._call(step, of)} : {self._at(made)}"]
        dtype = step.as_type or "f32"
        sent, got = (self._at(rows // step.part, dtype) for rows in (given, made))
        back = self._at(made // step.part)
        lines = [
            f"  %{out}_given = reinterpret %{of} : {sent}",
            f"  %{out}_raw = {self._call(step, f'{out}_given')} : {got}",
            f"  {_C10D}wait_tensor(%{out}_raw)",
            f"  %{out}_seen = reinterpret %{out}_raw : {back}",
        ]
        whole = ", ".join([f"%{out}_seen"] * step.part)
        return [*lines, f"  %{out} = aten::cat([{whole}]) : {self._at(made)}"]

    def _call(self, step: Step, of: str) -> str:
        group, members = f'"{step.group}"', len(self._groups[step.group])
        match step.kind:
            case "all_reduce":
                return f'{_C10D}all_reduce(%{of}, "{step.reduction}", {group})'
            case "all_gather":
                return f"{_C10D}all_gather_into_tensor(%{of}, {members}, {group})"
            case "reduce_scatter":
                return (
                    f'{_C10D}reduce_scatter_tensor(%{of}, "{step.reduction}", {members}, {group})'
                )
            case "broadcast":
                return f"{_C10D}broadcast(%{of}, {step.root}, {group})"
        given, taken = (str(list(rows)) for rows in step.rows)
        return f"{_C10D}all_to_all_single(%{of}, {taken}, {given}, {group})"


class Maker:
    """A made-up schedule, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = self.random.choice((2, 3, 4))
        everyone = list(range(self.count))
        groups = {"0": everyone, "again": everyone}
        if self.count == 4:
            groups |= {"even": [0, 2], "odd": [1, 3]}
        self.made = Made([[] for _ in everyone], groups, [{"x": 12} for _ in everyone])
        self.ready, self.flying = ["x"], list[str]()
        self.names = iter(f"t{number}" for number in range(10**6))

    def make(self) -> Made:
        """Return it."""
        for _ in range(self.random.randint(6, 16)):
            self._step()
        while self.flying:
            self._wait()
        self.made.results = self.ready[-4:]
        return self.made

    def _step(self) -> None:
        choice = self.random.random()
        if choice < 0.3:
            self._own()
        elif choice < 0.5 and self.flying:
            self._wait()
        else:
            self._collective()

    def _add(self, rows: int | list[int], *steps: Step) -> None:
        """Add a step to all ranks, one for all or one for each."""
        for rank, done in enumerate(self.made.ranks):
            step = steps[rank % len(steps)]
            done.append(step)
            self.made.sizes[rank][step.out] = rows if isinstance(rows, int) else rows[rank]

    def _rows(self, name: str) -> int:
        return self.made.sizes[0][name]

    def _uniform(self) -> str:
        """Return a tensor that has as many rows on all ranks, and not too many."""
        names = [
            name
            for name in self.ready
            if len({sizes[name] for sizes in self.made.sizes}) == 1 and self._rows(name) <= 48
        ]
        return self.random.choice(names)

    def _own(self) -> str:
        one, out = self._uniform(), next(self.names)
        others = [name for name in self.ready if self.made.sizes[0][name] == self._rows(one)]
        others = [n for n in others if len({sizes[n] for sizes in self.made.sizes}) == 1]
        other = self.random.choice(others)
        if other == one:
            self._add(self._rows(one), Step("neg", out, (one,)))
        else:
            self._add(self._rows(one), Step("add", out, (one, other)))
        self.ready.append(out)
        return out

    def _wait(self) -> None:
        out = self.flying.pop(self.random.randrange(len(self.flying)))
        for rank, done in enumerate(self.made.ranks):
            done.append(Step("wait", out))
            if any(step.kind == "coalesced" and step.out == out for step in done):
                self.made.sizes[rank][f"{out}_too"] = 0
                done.append(Step("wait", f"{out}_too"))
        self.ready.append(out)

    def _group(self) -> list[str]:
        """Return the group of each rank."""
        if self.count == 4 and self.random.random() < 0.4:
            return ["even", "odd"] * 2
        return [self.random.choice(("0", "again"))] * self.count

    def _collective(self) -> None:
        kinds = ("all_reduce", "in place", "all_gather", "reduce_scatter", "broadcast")
        kind = self.random.choice((*kinds, "all_to_all", "messages", "coalesced"))
        groups, of, out = self._group(), self._uniform(), next(self.names)
        members = len(self.made.groups[groups[0]])
        rows, reduction = self._rows(of), self.random.choice(REDUCTIONS)
        if kind == "in place":
            out = self._own()
            self.ready.remove(out)
            rows = self._rows(out)
            steps = [Step(kind, out, (out,), group, reduction) for group in groups]
        elif kind == "messages":
            out = self._own()
            self.ready.remove(out)
            of, rows = out, self._rows(out)
            given = next(self.names)
            self._add(rows, Step("neg", given, (of,)))
            steps = [self._ring(out, given, group, rank) for rank, group in enumerate(groups)]
        elif kind == "all_to_all" and rows >= members:
            self._rearrange(of, out, groups)
            return
        elif kind == "coalesced":
            steps = [Step(kind, out, (of, self.ready[0]), group, reduction) for group in groups]
        else:
            if kind == "all_to_all" or (kind == "reduce_scatter" and rows % members):
                kind = "broadcast"
            root = self.random.randrange(members)
            steps = [Step(kind, out, (of,), group, reduction, root) for group in groups]
            rows = {"all_gather": rows * members, "reduce_scatter": rows // members}.get(kind, rows)
        self._add(rows, *steps)
        self.flying.append(out)

    def _ring(self, out: str, given: str, group: str, rank: int) -> Step:
        members = self.made.groups[group]
        at = members.index(rank)
        peers = (at + 1) % len(members), (at - 1) % len(members)
        return Step("messages", out, (given,), group, peers=peers)

    def _rearrange(self, of: str, out: str, groups: list[str]) -> None:
        """Add an uneven all-to-all."""
        given: list[list[int]] = []
        for group in groups:
            left, parts = self._rows(of), list[int]()
            for _ in self.made.groups[group][1:]:
                parts.append(self.random.randint(0, left))
                left -= parts[-1]
            given.append([*parts, left])
        steps, sizes = [], []
        for rank, group in enumerate(groups):
            members = self.made.groups[group]
            taken = [given[other][members.index(rank)] for other in members]
            rows = tuple(given[rank]), tuple(taken)
            steps.append(Step("all_to_all", out, (of,), group, rows=rows))
            sizes.append(sum(taken))
        self._add(sizes, *steps)
        self.flying.append(out)
