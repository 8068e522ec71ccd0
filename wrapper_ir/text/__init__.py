"""The text form of programs: printing, parsing, saving and loading. Needs no torch."""

# ruff: noqa: F403 - what a module lists in its __all__ is public here

from __future__ import annotations

from wrapper_ir.text import errors
from wrapper_ir.text.errors import *
from wrapper_ir.text.files import load, save
from wrapper_ir.text.printer import TextLine, print_line, print_program, text_lines
from wrapper_ir.text.reader import parse, upgrade

__all__ = ["TextLine", "load", "parse", "print_line", "print_program", "save", "text_lines"]
__all__ += ["upgrade"]
__all__ += errors.__all__
