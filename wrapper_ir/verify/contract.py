"""The contract of a program: what the graph that it was made from says of the caller's memory.

A valid program is well formed; whether it leaves alone what its graph leaves alone is another
question. A :class:`Contract` says which inputs and constants the graph writes to and which values
share memory; :func:`breaches` compares a program with it. Names that only may share memory get the
benefit of the doubt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import wrapper_ir.lines as ir
from wrapper_ir.analysis.liveness import storages_of
from wrapper_ir.analysis.proof import Facts, end_of, sizes_of
from wrapper_ir.verify import rules
from wrapper_ir.verify.diagnostics import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.analysis.liveness import Liveness
    from wrapper_ir.verify.rules import Rule

Memory: TypeAlias = "int | None"
"""Identifies memory within a contract: values with equal numbers may share it. None: unknown."""

_UNKNOWN: Final[Memory] = None


@dataclass(frozen=True, slots=True)
class Contract:
    """What a program may do to memory that its caller knows.

    Attributes:
        inputs: The memory of each input, in order.
        results: The memory of each result, in order.
        constants: The memory of constants by name; that of others is unknown.
        written: Memory that may be written to.
    """

    inputs: tuple[Memory, ...]
    results: tuple[Memory, ...]
    constants: Mapping[str, Memory] = field(default_factory=dict)
    written: frozenset[int] = frozenset()


def breaches(program: ir.Program, contract: Contract) -> tuple[Diagnostic, ...]:
    """Return where a program does to its caller's memory what the contract rules out.

    Raises:
        ValueError: The contract has another number of inputs or results than the program.
    """
    found = _compare(program, contract, frozenset())
    # What is certain takes another walk, which hardly any program needs.
    return _compare(program, contract, _doubtful(program)) if found else found


def _compare(
    program: ir.Program, contract: Contract, doubtful: frozenset[str]
) -> tuple[Diagnostic, ...]:
    inputs = zip(program.inputs, contract.inputs, strict=True)
    memory = {
        item.name: each
        for item, each in inputs
        if isinstance(item, ir.BufferInput) and not item.donated
    }
    memory |= {name: contract.constants.get(name) for name in program.constants}
    owners = _Owners(storages_of(program).lives, doubtful)
    written = {
        life.owner
        for name, each in memory.items()
        if each is not _UNKNOWN and each not in contract.written
        for life in owners.lives.of(name)
        if life.written
    }
    found = _writes(program, owners, written) if written else ()
    return (*found, *_sharing(program, owners, memory, contract.results))


class _Owners(NamedTuple):
    """The storages of a program, and the names that only may be views of one."""

    lives: Liveness
    doubtful: frozenset[str]

    def of(self, name: str) -> str:
        """Return the first owner of a buffer's storage; empty unless it is certain."""
        found = self.lives.of(name)
        is_certain = len(found) == 1 and name not in self.doubtful
        return found[0].first.owner if is_certain else ""


def _doubtful(program: ir.Program) -> frozenset[str]:
    """Return the names of buffers that may be views of a storage, or not."""
    found: set[str] = set()
    for line in program.body:
        aliases = ir.effects(line).aliases
        found.update(name for name, source, may in aliases if may or source in found)
    return frozenset(found)


def _writes(program: ir.Program, owners: _Owners, names: set[str]) -> Iterator[Diagnostic]:
    """Yield the first line that writes to each of these inputs and constants."""
    for index, line in enumerate(program.body):
        for name in ir.effects(line).writes:
            owner = owners.of(name)
            if owner in names:
                names.remove(owner)
                path = ir.Path().then("body", index)
                yield _diagnostic(rules.WRITES_UNASKED, path, program.origin_of(line), name=owner)


def _sharing(
    program: ir.Program,
    owners: _Owners,
    memory: Mapping[str, Memory],
    results: tuple[Memory, ...],
) -> Iterator[Diagnostic]:
    """Yield the results that share memory with something that they should not share it with.

    Results may be parts of one storage, none of which another touches: Inductor makes gradients of
    what several collectives in one have given.
    """
    facts, before = Facts(program), dict[str, list[tuple[int, Memory, ir.Layout]]]()
    for position, (value, mine) in enumerate(zip(program.results, results, strict=True)):
        if not isinstance(value, ir.BufferValue) or mine is _UNKNOWN:
            continue
        owner, layout = owners.of(value.buffer), program.layout(value.buffer)
        other = ""
        if owner in memory:
            if memory[owner] not in (_UNKNOWN, mine):
                other = f"%{owner}"
        elif owner:
            earlier = before.setdefault(owner, [])
            for at, theirs, place in earlier:
                if theirs != mine and not _apart(place, layout, facts):
                    other = f"result {at}"
                    break
            earlier.append((position, mine, layout))
        if other:
            (life,) = owners.lives.of(value.buffer)
            line = None if life.last_use < 0 else program.body[life.last_use]
            where: Any = {"origin": None if line is None else program.origin_of(line)}
            where["part"] = f"results[{position}]"
            yield _diagnostic(rules.RESULT_IS_ALIAS, **where, position=position, other=other)


def _apart(one: ir.Layout, other: ir.Layout, facts: Facts) -> bool:
    """Return whether one view of a storage provably ends before the other begins."""
    sizes = sizes_of(one) | sizes_of(other)
    return any(
        facts.at_least(ir.dim(b.offset * b.dtype.itemsize), end_of(a), sizes)
        for a, b in ((one, other), (other, one))
    )


def _diagnostic(
    rule: Rule,
    path: ir.Path = ir.Path(),  # noqa: B008 - immutable
    origin: ir.Origin | None = None,
    part: str = "",
    **fields: object,
) -> Diagnostic:
    return Diagnostic(rule, rule.template.format_map(fields), path, part, origin, rule.hint)
