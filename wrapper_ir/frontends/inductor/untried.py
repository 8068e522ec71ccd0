"""A torch newer than those we know, which someone asks to try: what has changed in it is named.

We reach into torch in hundreds of places, so a new release may fail in any of them. There, and only
there, every error that comes from such a place is an error of ours that says so, what stands for
silence is looked for (a method that we override and nobody calls, a field that we do not read), and
each program is compared with its graph, in case something means another thing than before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends import releases
from wrapper_ir.frontends.inductor.errors import UnsupportedTorchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OURS: Final = Path(__file__).resolve().parents[2]


def is_untried() -> bool:
    """Return whether the installed torch is newer than those that are supported."""
    return releases.standing(torch.__version__) is releases.Standing.UNTRIED


@contextlib.contextmanager
def named() -> Iterator[None]:
    """Let what fails in a block, on such a release, end in an error that says so."""
    try:
        yield
    except WrapperIRError:
        raise
    except Exception as error:
        if not is_untried():
            raise
        inner = getattr(error, "inner_exception", None)  # Inductor wraps what its passes raise
        cause = inner if isinstance(inner, Exception) else error
        if isinstance(cause, WrapperIRError):
            raise cause from None
        raise _unsupported(f"{type(cause).__name__}: {cause}{_place(cause)}") from error


def _place(error: Exception) -> str:
    """Return where an error was raised, and where of ours that was called from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames[:-1] if Path(f.filename).resolve().is_relative_to(_OURS)]
    told = [f"{f.name}, {f.filename}:{f.lineno}" for f in (*frames[-1:], *ours[-1:])]
    return f" (in {'; called from '.join(told)})" if told else ""


def _unsupported(problem: str) -> UnsupportedTorchError:
    return UnsupportedTorchError(version=torch.__version__, problem=problem)


def check_overrides(kind: type) -> None:
    """Refuse such a release if a method that a class overrides is one that nobody calls any more.

    What counts is marked with ``@override``.

    Raises:
        UnsupportedTorchError: The classes of torch's that it derives from lack the method.
    """
    if not is_untried():
        return
    for index, each in enumerate(kind.__mro__):
        for name, member in vars(each).items():
            above = kind.__mro__[index + 1 :]
            is_override = getattr(member, "__override__", False)
            if is_override and not any(name in vars(base) for base in above):
                base = next(b.__name__ for b in above if b.__module__.startswith("torch."))
                raise _unsupported(f"{base} has no method {name!r}, which ours takes the place of")


def unknown_field(line: Any, known: frozenset[str] | None) -> str:
    """Return a field of a line that such a release has brought and has set, or an empty string."""
    if known is None or not (is_untried() and dataclasses.is_dataclass(line)):
        return ""
    for field in dataclasses.fields(line):
        value, default = getattr(line, field.name), field.default
        if field.name not in known and (value is not default and value != default):
            return field.name
    return ""


def check_branches(graph: torch.fx.Graph, names: Sequence[str], *, is_cond: bool) -> None:
    """Refuse such a release if it has a choice's branches in another order than its graph.

    A comparison with the graph leaves out the lines of branches.

    Raises:
        UnsupportedTorchError: The node of the choice names its branches in another order.
    """
    if not is_untried():
        return
    ops: Any = torch.ops.higher_order
    nodes = graph.find_nodes(op="call_function", target=ops.cond if is_cond else ops.switch)
    orders = [node.args[1:3] if is_cond else node.args[1] for node in nodes]
    told = [[str(branch.target) for branch in order] for order in orders]
    if list(names) not in told:
        raise _unsupported(f"the branches {', '.join(names)} of ir.Switch stand in another order")


def validation(wanted: str) -> str:
    """Return how a program is compared with its graph: on such a release always."""
    return "error" if wanted == "off" and is_untried() else wanted
