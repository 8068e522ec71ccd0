"""From a program to code and to something that runs: ``wir.emit`` and ``wir.compile``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.debug_printer import insert_probes, make_printer
from wrapper_ir.emitters.registry import make_emitter
from wrapper_ir.lines.program import Program, Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from wrapper_ir.debug_printer import DebugPrinter
    from wrapper_ir.emitters.base import Artifact

__all__ = ["compile", "emit"]


def emit(program: Program, target: str = "python", **options: object) -> Artifact:
    """Render a program for a target; plans its memory first where that was not done.

    Args:
        program: The program.
        target: Name of an installed emitter.
        **options: The emitter's options.

    Returns:
        An artifact: ``.source`` is the text, ``.load()`` gives ``callable(*inputs) -> tuple``.

    Raises:
        UnknownEmitterError: No such emitter is installed.
        OptionError: The emitter has no such option.
        OptionValueError: It has, but not with that value.
        VerificationError: The program breaks a rule of the IR.
        EmitError: The target cannot express some of its lines.
    """
    emitter = make_emitter(target, options)
    return emitter.emit(_planned(program))


def compile(
    program: Program,
    target: str = "python",
    *,
    debug: DebugPrinter | str | int | None = None,
    **options: object,
) -> Callable[..., tuple[Any, ...]]:
    """Plan, emit and load a program.

    The function checks its inputs in every call: their number, and each one's type, dtype, device,
    sizes and strides, and the range of symbols. Constants are the tensors in ``Program.data``, not
    copies of them.

    Args:
        program: The program.
        target: Name of an installed emitter.
        debug: What values to show while it runs: a ``DebugPrinter``, or a level such as
            ``"print"``. By default what the environment variables ``WRAPPER_IR_DEBUG`` and
            ``WRAPPER_IR_DEBUG_FILTER`` say.
        **options: The emitter's options.

    Returns:
        ``callable(*inputs) -> tuple of results``.

    Raises:
        MissingConstantError: ``Program.data`` lacks values of constants.
        WrapperIRError: As :func:`emit` says.
    """
    printer = make_printer(debug)
    if printer is not None:
        program = insert_probes(_planned(program), printer)
    return emit(program, target, **options).load()


def _planned(program: Program) -> Program:
    if program.stage is Stage.PLANNED:
        return program
    from wrapper_ir.planning import plan_memory  # noqa: PLC0415 - planned programs need none

    return plan_memory(program)
