"""Running a whole program: its inputs, its constants, its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wrapper_ir.interpreter.calls import called_kernels
from wrapper_ir.interpreter.errors import MissingValueError
from wrapper_ir.interpreter.frame import Buffer, Frame
from wrapper_ir.interpreter.memory import POISON, Kind, Storage, pattern
from wrapper_ir.interpreter.regions import Interpreter
from wrapper_ir.interpreter.results import check_input, is_plain
from wrapper_ir.lines.args import BufferValue
from wrapper_ir.lines.control import BufferInput, ObjectInput, ScalarInput
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.fields import as_program
from wrapper_ir.lines.program import SymbolKind
from wrapper_ir.lines.walk import Path, walk
from wrapper_ir.runtime import InputCountError, check_object
from wrapper_ir.runtime._private import no_autocast
from wrapper_ir.runtime.checks import check_number
from wrapper_ir.verify import verify as verify_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wrapper_ir.lines.program import Program

_KINDS = {
    SymbolKind.INT: int,
    SymbolKind.FLOAT: float,
    SymbolKind.BOOL: bool,
    SymbolKind.NONE: type(None),
}


def interpret(
    program: Program,
    *inputs: Any,  # noqa: ANN401 - what a program takes
    verify: bool = True,
    unwritten: bytes = POISON,
) -> tuple[Any, ...]:
    """Runs a program line by line, slowly, and checks what every line does.

    It shares no code with the emitters, so it tells which of two targets is right. Memory that has
    no contents yet, and memory that has ended, holds a pattern (NaN as floating-point numbers); an
    access that the program does not state is an error. Programs run as they are, logical or
    planned, and probes show what they would show elsewhere.

    Args:
        program: The program. It is for the CPU; its kernels are C++ or ops of torch's registry.
        *inputs: Its inputs; it writes to those that the program writes to.
        verify: Whether to verify the program first. Without, a wrong program runs until it does
            something wrong.
        unwritten: Two bytes, what memory without contents holds over and over. A program whose
            results change with them reads what nothing has written.

    Returns:
        Its results.

    Raises:
        VerificationError: The program breaks a rule of the IR.
        InputCountError: There are too few or too many inputs.
        InputLayoutError: An input is not the one that the program was made for.
        MissingValueError: ``Program.data`` lacks values of constants.
        WrapperIRError: A line did what it may not, could not be run, or an assertion failed. The
            error's ``path`` and ``origin`` say which line.
    """
    as_program(program, "wir.interpret")
    if verify:
        verify_program(program)
    if len(inputs) != len(program.inputs):
        raise InputCountError(expected=len(program.inputs), got=len(inputs))
    interpreter = Interpreter(program, called_kernels(program))
    before = pattern.set(unwritten)
    try:
        return _run(interpreter, program, inputs)
    finally:
        pattern.reset(before)


def _run(interpreter: Interpreter, program: Program, inputs: Sequence[Any]) -> tuple[Any, ...]:
    with torch.no_grad(), no_autocast():
        frame = interpreter.frame = Frame(program, _constants(program), _objects(program, inputs))
        _take_inputs(program, frame, inputs)
        interpreter.run_body(program.region, Path(), "body")
        interpreter.path = Path()
        results = interpreter.leave(program.region)
    return tuple(item.tensor if isinstance(item, Buffer) else item for item in results)


def _constants(program: Program) -> dict[str, Buffer]:
    """The constants; tied ones share their storage."""
    wanted = (*program.constants, *program.objects)
    missing = [name for name in wanted if name not in program.data]
    if missing:
        raise MissingValueError(names=", ".join(f"'{name}'" for name in missing))
    found: dict[str, Buffer] = {}
    for name, constant in program.constants.items():
        tensor: Tensor = program.data[name].detach()
        storage = _borrowed(name, Kind.CONSTANT, tensor)
        storage.writable = constant.mutable
        found[name] = Buffer(name, tensor, (storage,))
    for name, constant in program.constants.items():
        if constant.tied_to is not None:
            (holder,) = found[constant.tied_to].storages
            holder.writable |= constant.mutable
            found[name].storages = (holder,)
    return found


def _objects(program: Program, inputs: Sequence[Any]) -> dict[str, Any]:
    """The objects by name: constants, and those that the caller passes in."""
    found = {}
    for name, constant in program.objects.items():
        check_object(program.data[name], name, constant.class_name)
        found[name] = program.data[name]
    for item, value in zip(program.inputs, inputs, strict=True):
        if isinstance(item, ObjectInput):
            check_object(value, item.object, item.class_name)
            found[item.object] = value
    return found


def _borrowed(name: str, kind: Kind, tensor: Tensor) -> Storage:
    start = int(tensor.storage_offset()) * tensor.element_size() if is_plain(tensor) else 0
    return Storage(name, kind, tensor, start, tensor.nbytes)


def _take_inputs(program: Program, frame: Frame, inputs: Sequence[Any]) -> None:
    """Enters the inputs; those that nothing looks at may be anything."""
    looked_at = set(_looked_at(program))
    for item, value in zip(program.inputs, inputs, strict=True):
        if isinstance(item, BufferInput):
            is_seen = item.name in looked_at
            tensor = value if isinstance(value, Tensor) or is_seen else torch.empty(0)
            if is_seen:
                check_input(frame, item.name, tensor)
            storage = _borrowed(item.name, Kind.INPUT, tensor)
            frame.define(Buffer(item.name, tensor, (storage,), owns=True, is_new=is_seen))
        elif (
            isinstance(item, ScalarInput) and value is not None
        ):  # None is no mistake where nothing asks for the number
            info = program.symbols[item.symbol]
            check_number(item.symbol, value, _KINDS[info.kind], info.lower, info.upper)
            frame.bind(item.symbol, value)


def _looked_at(program: Program) -> Iterator[str]:
    """Buffers that are more than freed."""
    for _, line in walk(program):
        found = effects(line, program)
        for names in (found.uses, found.reads, found.writes, found.takes, found.peeks):
            yield from names
    for value in program.results:
        if isinstance(value, BufferValue):
            yield value.buffer
