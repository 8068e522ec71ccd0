"""Execution of a whole program: control flow, inputs, constants, results."""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from typing_extensions import override

import wrapper_ir.lines as ir
from wrapper_ir.analysis.borders import stored_inputs
from wrapper_ir.analysis.schemas import refuse_differences
from wrapper_ir.errors import OptionValueError, WrapperIRError
from wrapper_ir.interpreter import calls
from wrapper_ir.interpreter import memory as mem
from wrapper_ir.interpreter.frame import KINDS, Buffer, Frame, Number, on_host
from wrapper_ir.interpreter.lines import LineRunner
from wrapper_ir.interpreter.queues import Queues, stand_in
from wrapper_ir.lines.fields import as_program
from wrapper_ir.runtime import InputCountError, check_object
from wrapper_ir.runtime._private import no_autocast, registered_op
from wrapper_ir.runtime.checks import check_form, check_number
from wrapper_ir.runtime.probes import difference
from wrapper_ir.verify import verify as verify_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


# Control flow. Each region runs in a frame of its own.

Item = Buffer | bool | int | float | complex | None
"""An operand or result of a region: a buffer, a number, or nothing."""


class Interpreter(LineRunner):
    """Runner of every kind of line."""

    # Regions.

    def run_region(self, region: ir.Region, name: str, items: Sequence[Item]) -> list[Item]:
        """Run a region in a frame of its own, and return its results.

        No name owns the storage of buffers among them any longer.
        """
        outer, path = self.frame, self.path
        self.frame = inner = Frame(self.program, outer.constants, symbols=dict(outer.symbols))
        for param, item in zip(region.params, items, strict=True):
            if isinstance(param, ir.BufferInput):
                assert isinstance(item, Buffer)
                buffer = Buffer(param.name, item.tensor, item.storages, owns=param.donated)
                buffer.is_new, buffer.maker = True, "the line's operand"
                inner.define(buffer)
            elif isinstance(param, ir.ScalarInput):  # no region takes an object
                inner.bind(param.symbol, item)
        for buffer in list(inner.buffers.values()):
            calls.settle(inner, buffer)
        self.run_body(region, path, name)
        self.path = path
        results = self.leave(region)
        self.frame: Frame = outer
        for param, item in zip(region.params, items, strict=True):
            if isinstance(param, ir.BufferInput) and param.donated:
                for storage in _storages(item):
                    storage.is_given_up = bool(storage.end)
        return results

    def leave(self, region: ir.Region) -> list[Item]:
        """Return a region's results, and end the rest of its storage."""
        results: list[Item] = []
        leaving: set[mem.Storage] = set()
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
        if left and self.program.stage is ir.Stage.PLANNED:
            names = ", ".join(f"%{storage.owner}" for storage in left)
            raise mem.LeakError(names=names, path=left[0].place)
        for storage in left:
            _discard(storage, f"ended with its region at {self.path}")
        return results

    def _result(self, value: ir.Value) -> Item:
        if isinstance(value, ir.BufferValue):
            buffer = self.frame.find(value.buffer)
            calls.settle(self.frame, buffer)
            return buffer
        return None if isinstance(value, ir.NoneValue) else self.frame.number(value.value)

    def _bind(
        self,
        call: str,
        results: Sequence[ir.CallResult],
        items: Sequence[Item],
        operands: Sequence[Item],
    ) -> None:
        """Bind the results of regions that ran on ``operands`` to a line's result names."""
        lent = {storage for item in operands for storage in _storages(item)}
        given = [item for item in items if item is not None]
        for result, item in zip(results, given, strict=True):
            if not isinstance(result, ir.ResultBuffer):
                self.frame.bind(result.symbol, item)
                continue
            assert isinstance(item, Buffer)
            buffer = Buffer(result.out, item.tensor, item.storages, is_new=True, maker=call)
            storage = item.storages[0]
            if result.relation is ir.Relation.FRESH:
                if storage.kind is not mem.Kind.OWNED or storage in lent:
                    what = f"%{result.out} is not new, but the storage of %{storage.owner}"
                    raise mem.BrokenPromiseError(call=call, what=what)
                buffer.owns = True
                storage.owner = result.out
                self.frame.owned.append(storage)
            else:
                sources = [s for name in result.of for s in self.frame.find(name).storages]
                buffer.storages = tuple(dict.fromkeys((*item.storages, *sources)))
            calls.settle(self.frame, self.frame.define(buffer))

    def _items(self, args: Sequence[ir.Arg]) -> list[Item]:
        return [
            (
                self.frame.find(a.buffer)
                if isinstance(a, ir.BufferArg)
                else calls.value_of(self.frame, a)
            )
            for a in args
        ]

    # Conditionals.

    @override
    def visit_cond(self, line: ir.Cond) -> None:
        self._choose(line, 0 if bool(calls.value_of(self.frame, line.predicate)) else 1)

    @override
    def visit_switch(self, line: ir.Switch) -> None:
        number = int(calls.value_of(self.frame, line.selector))
        self._choose(line, max(0, min(number, len(line.cases) - 1)))

    def _choose(self, line: ir.Cond | ir.Switch, position: int) -> None:
        name, region = ir.regions_of(line)[position]
        items, call = self._items(line.operands), line.mnemonic
        given = self.watched(call, line.operands, lambda: self.run_region(region, name, items))
        self._bind(call, line.results, given, items)

    # Loops.

    @override
    def visit_while(self, line: ir.While) -> None:
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
        self, line: ir.While, first: list[Item], captured: list[Item]
    ) -> tuple[list[Item], list[list[Tensor | Number]]]:
        """Return the final values and, if stacked, copies of the values after each iteration."""
        values, rounds = first, []
        given = {s for item in (*first, *captured) for s in _storages(item)}
        while self._holds(line, [*values, *captured]):
            before = values
            values = self.run_region(line.body, "body", [*before, *captured])
            kept = {s for item in values for s in _storages(item)} | given
            for storage in {s for item in before for s in _storages(item)} - kept:
                _discard(storage, f"ended with an iteration of the loop at {self.path}")
            if line.stacked:
                rounds.append([_copied(item) for item in values])
        if line.stacked:
            for storage in {s for item in values for s in _storages(item)} - given:
                _discard(storage, f"ended with the loop at {self.path}")
        return values, rounds

    def _holds(self, line: ir.While, items: list[Item]) -> bool:
        (found,) = self.run_region(line.condition, "condition", items)
        if not isinstance(found, Buffer):
            return bool(found)
        holds = bool(found.tensor)
        for storage in set(found.storages) - {s for item in items for s in _storages(item)}:
            _discard(storage, f"ended with the condition at {self.path}")
        return holds

    def _own(self, item: Item, result: ir.CallResult, lent: set[mem.Storage]) -> Item:
        """Return a loop's final value, copied if it must be new but is an unchanged operand."""
        if not isinstance(item, Buffer) or not isinstance(result, ir.ResultBuffer):
            return item
        storage = item.storages[0]
        is_new = storage.kind is mem.Kind.OWNED and storage not in lent
        if result.relation is not ir.Relation.FRESH or is_new:
            return item
        return self._new(result.out, item.tensor.clone())

    def _stacked(self, values: list[Tensor | Number]) -> Buffer:
        """Stack the values of all iterations along a new first dimension."""
        if isinstance(values[0], Tensor):
            made = torch.stack([value for value in values if isinstance(value, Tensor)])
        else:
            made = torch.tensor(values)
        return self._new("stacked", made)

    def _new(self, name: str, tensor: Tensor) -> Buffer:
        storage, made = calls.guarded(name, tensor)
        return Buffer(name, made, (self.enter(storage),))


def _storages(item: Item) -> tuple[mem.Storage, ...]:
    return item.storages if isinstance(item, Buffer) else ()


def _copied(item: Item) -> Tensor | Number:
    assert item is not None
    return item.tensor.clone() if isinstance(item, Buffer) else item


def _discard(storage: mem.Storage, why: str) -> None:
    """End storage that no line ends."""
    if storage.kind is mem.Kind.OWNED and not storage.end:
        storage.end = why
        if storage.pool is not None and storage in storage.pool.slices:
            storage.pool.slices.remove(storage)
        if not storage.is_held:
            mem.poison(storage)


def interpret(
    program: ir.Program,
    *inputs: Any,  # noqa: ANN401 - what a program takes
    verify: bool = True,
    unwritten: bytes = mem.POISON,
) -> tuple[Any, ...]:
    """Run a program line by line, slowly, and check the effects of each line.

    The interpreter shares no code with the emitters, so it can settle which of two targets is
    right. Uninitialized and ended memory holds a pattern (NaN in floating point), and an access
    that the program does not state is an error. Logical and planned programs run as they are.
    Probes work as in any other target.

    Args:
        program: The program. It may use any device that torch has here. Its kernels are C++ or
            ops of torch's registry.
        *inputs: Its inputs. Inputs that the program writes are written.
        verify: Verify the program first. Otherwise a wrong program runs until it breaks a rule.
        unwritten: The two bytes that uninitialized memory is filled with. If they change a
            program's results, the program reads uninitialized memory.

    Returns:
        Its results.

    Raises:
        VerificationError: The program breaks a rule of the IR.
        InputCountError: There are too few or too many inputs.
        InputLayoutError: An input or a constant does not match its layout.
        MissingValueError: ``Program.data`` lacks values of constants.
        SchemaDifferenceError: The program declares an op unlike the one that is registered.
        WrapperIRError: A line broke a rule, could not be run, or an assertion failed. The error's
            ``path`` and ``origin`` name the line.
    """
    as_program(program, "wir.interpret")
    check_runnable(program, inputs, verify=verify)
    interpreter = Interpreter(program, calls.called_kernels(program))
    before = mem.pattern.set(unwritten)
    try:
        return run(interpreter, program, inputs)
    finally:
        mem.pattern.reset(before)


def check_runnable(program: ir.Program, inputs: Sequence[Any], *, verify: bool) -> None:
    """Refuse to run a program that is wrong, or with too few inputs, or whose ops differ here."""
    if verify:
        verify_program(program)
    if len(inputs) != len(program.inputs):
        raise InputCountError(expected=len(program.inputs), got=len(inputs))
    refuse_differences(program, registered_op)


def run(interpreter: Interpreter, program: ir.Program, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Run a program whose inputs are as many as they should be."""
    with torch.no_grad(), no_autocast():
        frame = interpreter.frame = Frame(program, _constants(program), _objects(program, inputs))
        _take_inputs(program, frame, inputs)
        if interpreter.queues is not None:
            interpreter.queues.begin(_held_by_caller(program, frame, results=False))
        interpreter.run_body(program.region, ir.Path(), "body")
        interpreter.path = ir.Path()
        if interpreter.queues is not None:
            interpreter.queues.leave(_held_by_caller(program, frame))
        results = interpreter.leave(program.region)
    return tuple(item.tensor if isinstance(item, Buffer) else item for item in results)


def _held_by_caller(
    program: ir.Program, frame: Frame, *, results: bool = True
) -> Iterator[tuple[str, Tensor]]:
    """Yield what the caller holds before a program or, with results, after it, with its names."""
    names = [item.name for item in program.inputs if isinstance(item, ir.BufferInput)]
    if results:
        names += [value.buffer for value in program.results if isinstance(value, ir.BufferValue)]
    for name in dict.fromkeys((*names, *program.constants)):
        buffer = frame.buffers.get(name) or frame.constants[name]
        if calls.is_plain(buffer.tensor):
            yield name, buffer.tensor


def run_interleaved(
    program: ir.Program,
    *inputs: Any,  # noqa: ANN401 - what a program takes
    interleavings: int = 10,
    seed: int = 0,
    verify: bool = True,
) -> tuple[Any, ...]:
    """Run a program with streams in random legal orders of what its streams do.

    What a line does on a stream comes to pass some time after it, in any order that events and
    waits allow. If two lines work on the same memory in an order that nothing fixes, and one of
    them writes, that is an error that names both. It needs no GPU: the host stands for all devices,
    so inputs and constants are the host's. Kernels that it cannot run are stand-ins, which write a
    mix of all that they read; results of programs that call such kernels mean nothing by
    themselves, but they are the same in each order.

    Args:
        program: The program.
        *inputs: Its inputs, in memory of the host. Those that it writes are written.
        interleavings: The number of orders.
        seed: Draws the orders. The same one gives the same.
        verify: Verify the program first.

    Returns:
        Its results in the last order.

    Raises:
        OptionValueError: ``interleavings`` is less than 1.
        RaceError: Two lines work on the same memory in an order that nothing fixes.
        InterleavingError: The results of two orders differ.
        WrapperIRError: As :func:`interpret` raises it.
    """
    as_program(program, "wir.interpreter.run_interleaved")
    if interleavings < 1:
        raise OptionValueError(
            option="interleavings", value=interleavings, expected="a number of orders, at least 1"
        )
    token = on_host.set(True)
    try:
        check_runnable(program, inputs, verify=verify)
        kernels = calls.called_kernels(program, stand_in)
        first: tuple[Any, ...] | None = None
        results: tuple[Any, ...] = ()
        for number in range(interleavings):
            is_last = number == interleavings - 1
            given = inputs if is_last else copy.deepcopy(inputs)
            own = program if is_last else program.replace(data=copy.deepcopy(dict(program.data)))
            interpreter = Interpreter(own, kernels)
            interpreter.queues = Queues(own, random.Random(f"{seed} {number}"))
            results = run(interpreter, own, given)
            first = first or copy.deepcopy(results)
            _compare(first, results, seed, number)
    finally:
        on_host.reset(token)
    return results


class InterleavingError(WrapperIRError):
    """Results depend on the order. Fields: the result's ``position``, ``seed``, ``number``."""

    code = "WIR2414"
    template = "result {position} is another one in order {number} of seed {seed} than in order 0"
    default_hint = "a kernel works on memory that it is not given, or draws random numbers"


def _compare(first: Sequence[Any], found: Sequence[Any], seed: int, number: int) -> None:
    """Compare results to the bit; NaN equals NaN, and nothing else."""
    for position, (one, other) in enumerate(zip(first, found, strict=True)):
        if isinstance(one, Tensor):
            differs = bool(difference(other, one, (0.0, 0.0)))
        else:
            differs = one != other and not (one != one and other != other)
        if differs:
            raise InterleavingError(position=position, seed=seed, number=number)


def _constants(program: ir.Program) -> dict[str, Buffer]:
    """Return the constants by name. Tied ones share their storage."""
    names = (*program.constants, *program.objects)
    missing = [n for n in names if n not in program.data and n not in program.folded]
    if missing:
        raise mem.MissingValueError(names=", ".join(f"'{name}'" for name in missing))
    program = program.replace(data={**folded_values(program), **program.data})
    constants: dict[str, Buffer] = {}
    for name, constant in program.constants.items():
        if constant.kind is not ir.ConstantKind.PACKED:
            calls.check_fixed(program, name, program.data[name])
        tensor: Tensor = program.data[name].detach()
        storage = calls.borrowed(name, mem.Kind.CONSTANT, tensor)
        storage.writable = constant.mutable
        constants[name] = Buffer(name, tensor, (storage,))
    for name, constant in program.constants.items():
        if constant.tied_to is not None:
            (holder,) = constants[constant.tied_to].storages
            holder.writable |= constant.mutable
            constants[name].storages = (holder,)
    return constants


def folded_values(program: ir.Program) -> dict[str, Any]:
    """Return the values of a program's folded constants, computed from the others.

    There are none if the program lacks values of the others.
    """
    folding, sources = program.folding, program.folding_sources.items()
    if folding is None or not all(source in program.data for _, source in sources):
        return {}
    folding = folding.replace(data={name: program.data[source] for name, source in sources})
    interpreter = Interpreter(folding, calls.called_kernels(folding))
    return dict(zip(program.folded, run(interpreter, folding, ()), strict=True))


def _objects(program: ir.Program, inputs: Sequence[Any]) -> dict[str, Any]:
    """Return the objects by name: constants and inputs."""
    objects = {}
    for name, constant in program.objects.items():
        check_object(program.data[name], name, constant.class_name)
        objects[name] = program.data[name]
    for item, value in zip(program.inputs, inputs, strict=True):
        if isinstance(item, ir.ObjectInput):
            check_object(value, item.object, item.class_name)
            objects[item.object] = value
    return objects


def _take_inputs(program: ir.Program, frame: Frame, inputs: Sequence[Any]) -> None:
    """Define the inputs. An unused input may be any value."""
    used, stored = set(_used_buffers(program)), stored_inputs(program)
    for item, value in zip(program.inputs, inputs, strict=True):
        if isinstance(item, ir.BufferInput):
            is_used = item.name in used
            tensor = value if isinstance(value, Tensor) or is_used else torch.empty(0)
            if is_used:
                calls.check_fixed(program, item.name, tensor)
                check_form(tensor, item.name, plain=item.name in stored)
            storage = calls.borrowed(item.name, mem.Kind.INPUT, tensor)
            frame.define(Buffer(item.name, tensor, (storage,), owns=True, is_new=is_used))
        elif isinstance(item, ir.ScalarInput) and value is not None:  # None: the number is unused
            info = program.symbols[item.symbol]
            check_number(item.symbol, value, KINDS[info.kind], info.lower, info.upper)
            frame.bind(item.symbol, value)


def _used_buffers(program: ir.Program) -> Iterator[str]:
    """Yield the buffers with a use other than being freed."""
    for _, line in ir.walk(program):
        found = ir.effects(line, program)
        for names in (found.uses, found.reads, found.writes, found.takes, found.peeks):
            yield from names
    for value in program.results:
        if isinstance(value, ir.BufferValue):
            yield value.buffer
