"""Running choices and loops: a frame a region, and what crosses its border."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from typing_extensions import override

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.interpreter.calls import value_of
from wrapper_ir.interpreter.errors import BrokenPromiseError, LeakError
from wrapper_ir.interpreter.frame import Buffer, Frame
from wrapper_ir.interpreter.lines import LineRunner
from wrapper_ir.interpreter.memory import Kind, poison
from wrapper_ir.interpreter.results import guarded, settle
from wrapper_ir.lines.args import BufferArg, BufferValue, NoneValue, Relation, ResultBuffer
from wrapper_ir.lines.control import BufferInput, ScalarInput
from wrapper_ir.lines.program import Stage
from wrapper_ir.lines.walk import regions_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wrapper_ir.interpreter.frame import Number
    from wrapper_ir.interpreter.memory import Storage
    from wrapper_ir.lines.args import Arg, CallResult, Value
    from wrapper_ir.lines.control import Cond, Region, Switch, While

Item = Buffer | bool | int | float | complex | None
"""What crosses the border of a region: a buffer, a number, or nothing."""


class Interpreter(LineRunner):
    """Runs every kind of line."""

    # Regions.

    def run_region(self, region: Region, name: str, items: Sequence[Item]) -> list[Item]:
        """Runs a region in a frame of its own.

        Args:
            region: The region.
            name: What paths call it.
            items: What its parameters stand for.

        Returns:
            Its results. The storage of buffers among them is nobody's now.

        Raises:
            WrapperIRError: A line did what it may not.
        """
        outer, path = self.frame, self.path
        self.frame = inner = Frame(self.program, outer.constants, symbols=dict(outer.symbols))
        for param, item in zip(region.params, items, strict=True):
            if isinstance(param, BufferInput):
                assert isinstance(item, Buffer)
                buffer = Buffer(param.name, item.tensor, item.storages, owns=param.donated)
                buffer.is_new, buffer.maker = True, "the line's operand"
                inner.define(buffer)
            elif isinstance(param, ScalarInput):  # no region takes an object
                inner.bind(param.symbol, item)
        for buffer in list(inner.buffers.values()):
            settle(inner, buffer)
        self.run_body(region, path, name)
        self.path = path
        results = self.leave(region)
        self.frame = outer
        return results

    def leave(self, region: Region) -> list[Item]:
        """Return a region's results, and end what is left of its storage."""
        results: list[Item] = []
        leaving: set[Storage] = set()
        for position, value in enumerate(region.results):
            try:
                results.append(self._result(value))
            except WrapperIRError as error:
                error.path = f"{self.path}.results[{position}]".removeprefix(".")
                raise
            if isinstance(found := results[-1], Buffer):
                leaving.update(found.storages)
        leaving |= {storage.pool for storage in leaving if storage.pool is not None}
        left = [s for s in self.frame.owned if s not in leaving and not s.end]
        if left and self.program.stage is Stage.PLANNED:
            names = ", ".join(f"%{storage.owner}" for storage in left)
            raise LeakError(names=names, path=left[0].place)
        for storage in left:
            _discard(storage, f"ended with its region at {self.path}")
        return results

    def _result(self, value: Value) -> Item:
        if isinstance(value, BufferValue):
            buffer = self.frame.find(value.buffer)
            settle(self.frame, buffer)
            return buffer
        return None if isinstance(value, NoneValue) else self.frame.number(value.value)

    def _bind(
        self,
        call: str,
        results: Sequence[CallResult],
        items: Sequence[Item],
        operands: Sequence[Item],
    ) -> None:
        """Binds what regions gave, working on operands, to the names of a line's results."""
        lent = {storage for item in operands for storage in _storages(item)}
        given = [item for item in items if item is not None]
        for result, item in zip(results, given, strict=True):
            if not isinstance(result, ResultBuffer):
                self.frame.bind(result.symbol, item)
                continue
            assert isinstance(item, Buffer)
            buffer = Buffer(result.out, item.tensor, item.storages, is_new=True, maker=call)
            storage = item.storages[0]
            if result.relation is Relation.FRESH:
                if storage.kind is not Kind.OWNED or storage in lent:
                    what = f"%{result.out} is not new, but the storage of %{storage.owner}"
                    raise BrokenPromiseError(call=call, what=what)
                buffer.owns = True
                storage.owner = result.out
                self.frame.owned.append(storage)
            else:
                sources = [s for name in result.of for s in self.frame.find(name).storages]
                buffer.storages = tuple(dict.fromkeys((*item.storages, *sources)))
            settle(self.frame, self.frame.define(buffer))

    def _items(self, args: Sequence[Arg]) -> list[Item]:
        return [
            self.frame.find(a.buffer) if isinstance(a, BufferArg) else value_of(self.frame, a)
            for a in args
        ]

    # Choices.

    @override
    def visit_cond(self, line: Cond) -> None:
        self._choose(line, 0 if bool(value_of(self.frame, line.predicate)) else 1)

    @override
    def visit_switch(self, line: Switch) -> None:
        number = int(value_of(self.frame, line.selector))
        self._choose(line, max(0, min(number, len(line.cases) - 1)))

    def _choose(self, line: Cond | Switch, position: int) -> None:
        name, region = regions_of(line)[position]
        items, call = self._items(line.operands), line.mnemonic
        given = self.watched(call, line.operands, lambda: self.run_region(region, name, items))
        self._bind(call, line.results, given, items)

    # Loops.

    @override
    def visit_while(self, line: While) -> None:
        first, captured = self._items(line.carried), self._items(line.captured)
        args = (*line.carried, *line.captured)
        values, rounds = self.watched("while", args, lambda: self._loop(line, first, captured))
        operands = (*first, *captured)
        if line.stacked:
            rounds = rounds or [[_copied(item) for item in first]]
            values = [self._stacked([each[n] for each in rounds]) for n in range(len(first))]
        else:
            lent = {storage for item in operands for storage in _storages(item)}
            pairs = zip(values, line.results, strict=True)
            values = [self._own(value, result, lent) for value, result in pairs]
        self._bind("while", line.results, values, operands)

    def _loop(
        self, line: While, first: list[Item], captured: list[Item]
    ) -> tuple[list[Item], list[list[Tensor | Number]]]:
        """The values after the last round, and with ``stacked`` copies of those after each."""
        values, rounds = first, []
        given = {s for item in (*first, *captured) for s in _storages(item)}
        while self._holds(line, [*values, *captured]):
            before = values
            values = self.run_region(line.body, "body", [*before, *captured])
            kept = {s for item in values for s in _storages(item)} | given
            for storage in {s for item in before for s in _storages(item)} - kept:
                _discard(storage, f"ended with a round of the loop at {self.path}")
            if line.stacked:
                rounds.append([_copied(item) for item in values])
        if line.stacked:
            for storage in {s for item in values for s in _storages(item)} - given:
                _discard(storage, f"ended with the loop at {self.path}")
        return values, rounds

    def _holds(self, line: While, items: list[Item]) -> bool:
        (found,) = self.run_region(line.condition, "condition", items)
        if not isinstance(found, Buffer):
            return bool(found)
        holds = bool(found.tensor)
        for storage in set(found.storages) - {s for item in items for s in _storages(item)}:
            _discard(storage, f"ended with the condition at {self.path}")
        return holds

    def _own(self, item: Item, result: CallResult, lent: set[Storage]) -> Item:
        """A loop's last value; one that went round unchanged is copied, if it is to be new."""
        if not isinstance(item, Buffer) or not isinstance(result, ResultBuffer):
            return item
        storage = item.storages[0]
        is_new = storage.kind is Kind.OWNED and storage not in lent
        if result.relation is not Relation.FRESH or is_new:
            return item
        return self._new(result.out, item.tensor.clone())

    def _stacked(self, values: list[Tensor | Number]) -> Buffer:
        """The values of all rounds along a new first dimension."""
        if isinstance(values[0], Tensor):
            made = torch.stack([value for value in values if isinstance(value, Tensor)])
        else:
            made = torch.tensor(values)
        return self._new("stacked", made)

    def _new(self, name: str, tensor: Tensor) -> Buffer:
        storage, made = guarded(name, tensor)
        return Buffer(name, made, (self.enter(storage),))


def _storages(item: Item) -> tuple[Storage, ...]:
    return item.storages if isinstance(item, Buffer) else ()


def _copied(item: Item) -> Tensor | Number:
    assert item is not None
    return item.tensor.clone() if isinstance(item, Buffer) else item


def _discard(storage: Storage, why: str) -> None:
    """Ends storage that no line ends."""
    if storage.kind is Kind.OWNED and not storage.end:
        storage.end = why
        if storage.pool is not None and storage in storage.pool.slices:
            storage.pool.slices.remove(storage)
        if not storage.is_held:
            poison(storage)
