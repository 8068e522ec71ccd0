"""Names that a module of Python reads and nobody defines."""

from __future__ import annotations

import builtins
import symtable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_MODULES: Final = frozenset({*dir(builtins), "__file__"})


def undefined_names(source: str) -> list[str]:
    """Return names that some function or class of a module reads and nothing in it defines.

    The order in which things are defined is not looked at.

    Args:
        source: The module's text.

    Raises:
        SyntaxError: It is no Python.
    """
    top = symtable.symtable(source, "<emitted>", "exec")
    defined = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    tables = [top, *_inside(top)]
    for table in tables:  # functions that say "global x" define it, too
        found = table.get_symbols()
        defined |= {s.get_name() for s in found if s.is_declared_global() and s.is_assigned()}
    read = {
        symbol.get_name()
        for table in tables
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or table is top)
    }
    return sorted(read - defined - _OF_MODULES)


def names_missing(text: str) -> list[str]:
    """Return :func:`undefined_names` of text in some language; none if it is no Python."""
    try:
        return undefined_names(text)
    except SyntaxError:
        return []


def _inside(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _inside(child)
