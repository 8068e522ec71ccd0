"""The calls of a program, and those that a debug printer looks at."""

from __future__ import annotations

import difflib
import fnmatch
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.kernels import ExternKernel, KernelCall
from wrapper_ir.lines.traits import calls_op
from wrapper_ir.lines.walk import Path, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wrapper_ir.debug_printer.spec import DebugPrinter
    from wrapper_ir.lines.origin import Origin
    from wrapper_ir.lines.program import AnyLine, Program


class NoCallMatchesWarning(UserWarning):
    """A filter that leaves nothing: usually a misspelt name."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a kernel or op.

    Attributes:
        number: Its position among all calls of the program, in the order of the text, from 0.
        path: Address of its line.
        line: The line.
    """

    number: int
    path: Path
    line: KernelCall | ExternKernel

    @property
    def name(self) -> str:
        """Name of the kernel, or qualified name of the op."""
        (name,) = effects(self.line).calls
        return name

    @property
    def is_op(self) -> bool:
        """Return whether a library op is called, not a kernel of the program."""
        return calls_op(self.line)

    @property
    def label(self) -> str:
        """Name of the call's probes: its number in four digits, and its own name."""
        return f"{self.number:04d} {self.name}"


def is_call(line: AnyLine) -> TypeGuard[KernelCall | ExternKernel]:
    """Return whether a line calls a kernel or an op."""
    return bool(effects(line).calls)


def calls_of(program: Program) -> Iterator[Call]:
    """Yield every call of a program, those in regions included."""
    number = 0
    for path, line in walk(program):
        if is_call(line):
            yield Call(number, path, line)
            number += 1


def select(program: Program, printer: DebugPrinter) -> tuple[Call, ...]:
    """Return the calls that a debug printer looks at; warn where it looks at none.

    Warns:
        NoCallMatchesWarning: No call fulfils all conditions, or there is no such buffer.
    """
    calls = tuple(calls_of(program))
    chosen = tuple(call for call in calls if _is_chosen(call, program, printer))
    if calls and not chosen:
        warnings.warn(_explain(calls, program, printer), NoCallMatchesWarning, stacklevel=3)
    names = [*program.buffers, *program.qualified_names.values()]
    if names and not matches(printer.buffers, names):
        words = f"debug: no buffer matches {printer.buffers!r}{_near(printer.buffers, names)}"
        warnings.warn(words, NoCallMatchesWarning, stacklevel=3)
    return chosen


def matches(pattern: str, names: Iterable[str]) -> bool:
    """Return whether a pattern fits a name: globs with commas between, or ``re:`` and one."""
    if pattern == "*":
        return True
    names = list(names)
    if pattern.startswith("re:"):
        expression = re.compile(pattern[3:])
        return any(expression.search(name) for name in names)
    globs = [glob.strip() for glob in pattern.split(",")]
    return any(fnmatch.fnmatchcase(name, glob) for name in names for glob in globs)


def _is_chosen(call: Call, program: Program, printer: DebugPrinter) -> bool:
    return (
        printer.has_call(call.number)
        and matches(printer.kernels, _names(call))
        and matches(printer.ops, _ops(call, program))
        and matches(printer.source, _places(call, program))
    )


def _origin(call: Call, program: Program) -> Origin | None:
    index = call.line.origin
    return None if index is None or index >= len(program.origins) else program.origins[index]


def _names(call: Call) -> list[str]:
    """Return a kernel's name; an op's with and without namespace and overload, and as in Python."""
    names = [call.name]
    if call.is_op:
        names.append(call.name.partition(".")[0])
        names += [name.replace("::", ".") for name in names]
        names += [name.partition("::")[2] for name in names[:2]]
    return names


def _ops(call: Call, program: Program) -> list[str]:
    origin = _origin(call, program)
    own = _names(call) if call.is_op else []
    return [*own, *(origin.ops if origin is not None else ())]


def _places(call: Call, program: Program) -> list[str]:
    """Return ``file.py:12`` of every frame, also without directory or line; the module's path."""
    origin = _origin(call, program)
    found = []
    if origin is not None and origin.module:
        found.append(origin.module)
    for frame in origin.frames if origin is not None else ():
        for file in (frame.file, re.split(r"[\\/]", frame.file)[-1]):
            found += [f"{file}:{frame.line}", file]
    return found


def _explain(calls: tuple[Call, ...], program: Program, printer: DebugPrinter) -> str:
    given = [
        (option, pattern, names)
        for option, pattern, names in (
            ("kernels", printer.kernels, [call.name for call in calls]),
            ("ops", printer.ops, [op for call in calls for op in _ops(call, program)]),
            ("source", printer.source, [p for call in calls for p in _places(call, program)]),
        )
        if pattern != "*"
    ]
    for option, pattern, names in given:
        if not matches(pattern, names):
            return f"debug: no call matches {option}={pattern!r}{_near(pattern, names)}"
    return f"debug: none of the program's {len(calls)} calls fulfils all conditions of the filter"


def _near(pattern: str, names: Iterable[str]) -> str:
    known = sorted(set(names))
    word = pattern.removeprefix("re:").strip("*")
    found = difflib.get_close_matches(word, known, n=3, cutoff=0.3) or known[:3]
    return f"; near are {', '.join(map(repr, found))}" if found else ""
