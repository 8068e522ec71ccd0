"""Refusing what is no program where one is wanted: a model, a text, a file's name."""

from __future__ import annotations

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.program import Program


class NotAProgramError(WrapperIRError):
    """A function that works on programs was given something else.

    Fields: ``where`` is the function, ``what`` says what it was given.
    """

    code = "WIR0104"
    template = "{where} takes a Program, not {what}"
    default_hint = "wir.capture(model, args), wir.parse(text) and wir.load(path) give programs"


def as_program(given: object, where: str) -> Program:
    """Return the argument, if it is a program.

    Args:
        given: What a user passed.
        where: The function that it was passed to, for the message.

    Raises:
        NotAProgramError: It is none.
    """
    if not isinstance(given, Program):
        raise NotAProgramError(where=where, what=f"an object of type {type(given).__name__}")
    return given
