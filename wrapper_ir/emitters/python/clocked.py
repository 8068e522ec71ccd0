"""The emitted function with a clock round its checks of inputs, to measure what they take.

The text that was emitted is compiled once more, with statements that read the clock. What calls are
made of is therefore the same, and programs that nobody measures have no trace of it.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import time
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.emitters.python.exprs import MATH_FUNCTIONS
from wrapper_ir.runtime import checks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    #: Takes a list of inputs, which it empties; returns results, and the nanoseconds of checks.
    Clocked = Callable[[list[Any]], tuple[Any, int]]

#: What the beginning calls besides checks: it binds symbols, computes others, empties the list.
_METHODS: Final = frozenset({"clear", "data_ptr", "size", "storage_offset", "stride"})
_FUNCTIONS: Final = frozenset((*MATH_FUNCTIONS, *vars(builtins)))

# No names of emitted text begin with underscores. The clock is read twice at first, to know what
# reading it takes.
_BEFORE: Final = ast.parse("_first = _clock(); _began = _clock()").body
_AFTER: Final = ast.parse("_ended = _clock(); _note(_ended - _began - (_began - _first))").body


def clock_checks(call: object) -> Clocked | None:
    """Return a program's ``call`` with a clock, or None if it is not the function of a module."""
    function = inspect.unwrap(call) if callable(call) else None
    if not isinstance(function, FunctionType):
        return None
    variables = function.__globals__
    if variables.get("call") is not call:
        return None
    try:
        tree = ast.parse(inspect.getsource(function))
    except (OSError, SyntaxError):  # the file is gone, or it is not the one that was loaded
        return None
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    found = _checks_of(definition.body, variables)
    if found is not None:
        first, last = found
        definition.body[last + 1 : last + 1] = _AFTER
        definition.body[first:first] = _BEFORE
    noted: list[int] = []
    copied = {**variables, "_clock": time.perf_counter_ns, "_note": noted.append}
    exec(compile(ast.fix_missing_locations(tree), function.__code__.co_filename, "exec"), copied)
    clocked: Any = copied["call"]

    def run(args: list[Any]) -> tuple[Any, int]:
        noted.clear()
        results = clocked(args)
        return results, max(0, noted[0]) if noted else 0

    return run


def _checks_of(body: Sequence[ast.stmt], variables: Mapping[str, object]) -> tuple[int, int] | None:
    """Return the positions of the first and the last check of inputs; None if there are none."""
    found: list[int] = []
    for position, statement in enumerate(body):
        called = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
        others = [each for each in called if not _is_check(each, variables)]
        if not all(map(_is_of_beginning, others)):
            break  # the lines begin
        if len(others) < len(called):
            found.append(position)
    return (found[0], found[-1]) if found else None


def _is_check(called: ast.expr, variables: Mapping[str, object]) -> bool:
    value = variables.get(called.id) if isinstance(called, ast.Name) else None
    return getattr(value, "__module__", None) == checks.__name__


def _is_of_beginning(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id in _FUNCTIONS
    return isinstance(called, ast.Attribute) and called.attr in _METHODS
