"""The text form of programs: printing, parsing, saving and loading. Needs no torch."""

from __future__ import annotations

from wrapper_ir.text.errors import (
    CharacterTextError,
    ConflictTextError,
    ConstantsError,
    ExprTextError,
    FileError,
    NestingTextError,
    NumberTextError,
    OriginTextError,
    Place,
    SchemaTextError,
    StringTextError,
    SyntaxTextError,
    TextError,
    UnprintableError,
    VersionTextError,
    WordTextError,
)
from wrapper_ir.text.files import load, save
from wrapper_ir.text.printer import TextLine, print_line, print_program, text_lines
from wrapper_ir.text.reader import parse, upgrade

__all__ = ["CharacterTextError", "ConflictTextError", "ConstantsError", "ExprTextError"]
__all__ += ["FileError", "NestingTextError", "NumberTextError", "OriginTextError", "Place"]
__all__ += ["SchemaTextError", "StringTextError", "SyntaxTextError", "TextError", "TextLine"]
__all__ += ["UnprintableError", "VersionTextError", "WordTextError", "load", "parse", "print_line"]
__all__ += ["print_program", "save", "text_lines", "upgrade"]
