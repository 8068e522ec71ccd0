"""Refuses models that set or read what random numbers are drawn from, while they are traced.

Programs draw from generators, as the model does. What its Python code does with a generator besides
happens while it is traced and in no call: a seed would be set once, numbers of Python's generator
would always be the same. Two things are seen: calls of torch's functions for its default generator,
which look it up as a global, and states of other generators that differ afterwards.
"""

from __future__ import annotations

import contextlib
import random
import sys
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.frontends.inductor.compat import without_modes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

#: Modules of the functions for the default generator, and of what they are wrapped in.
_BETWEEN: Final = ("torch.random", "contextlib", "torch._compile", "torch._dynamo.eval_frame")


def default_generators() -> list[torch.Generator]:
    """Return torch's own generators, one for each device."""
    return [torch.default_generator, *torch.cuda.default_generators]


@contextlib.contextmanager
def refusing_state(
    refuse: Callable[[str], object], generators: Sequence[Any] = (), *, of_others: bool = False
) -> Iterator[None]:
    """Refuse what a model does with generators, in a block that traces it on this thread.

    Args:
        refuse: Takes words for it, and raises.
        generators: Those of torch's that the model can reach, but for the default ones.
        of_others: Whether to refuse draws from Python's and NumPy's generators, too.
    """
    functions: Any = torch.random
    real = functions.default_generator
    states = _states(generators)
    of_python, of_numpy = random.getstate(), _numpys()
    functions.default_generator = _Default(real, refuse)
    try:
        marks = _drawn_from(generators)
        yield
        found = ""
        with without_modes():
            if not all(map(torch.equal, marks, _states(generators))):
                found = "it sets the state of a random generator"
        if of_others and random.getstate() != of_python:
            found = "it draws Python's random numbers"
        elif of_others and not _are_same(_numpys(), of_numpy):
            found = "it draws NumPy's random numbers"
    finally:
        functions.default_generator = real
        with without_modes():
            for each, state in zip(generators, states, strict=True):
                each.set_state(state)
    if found:
        random.setstate(of_python)
        if of_numpy is not None:
            sys.modules["numpy"].random.set_state(of_numpy)
        refuse(found)


def _states(generators: Sequence[Any]) -> list[torch.Tensor]:
    """Return what generators are in, as tensors that are not traced."""
    with without_modes():
        return [each.get_state() for each in generators]


def _drawn_from(generators: Sequence[Any]) -> list[torch.Tensor]:
    """Draw from generators, so that a seed shows that is the present one; return their states."""
    with without_modes():
        for each in generators:
            torch.rand((), generator=each, device=each.device)
    return _states(generators)


class _Default:
    """Stands for torch's default generator where torch's functions look it up."""

    def __init__(self, real: torch.Generator, refuse: Callable[[str], object]) -> None:
        self._real, self._refuse, self._thread = real, refuse, get_ident()

    def __getattr__(self, name: str) -> Any:
        if get_ident() == self._thread and _is_models():
            self._refuse(f"it uses {name}() of torch's random generator")
        return getattr(self._real, name)


def _is_models() -> bool:
    """Return whether the code of a model is what called, rather than some of torch's.

    Torch keeps states where it traces and where it computes again, so that a model draws what it
    would.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if name not in _BETWEEN:
            return name.partition(".")[0] not in ("torch", "wrapper_ir")
        frame = frame.f_back
    return False


def _numpys() -> Any:
    """Return the state of NumPy's generator, if NumPy is there."""
    numpy = sys.modules.get("numpy")
    return None if numpy is None else numpy.random.get_state()


def _are_same(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return True
    return one[2:] == other[2:] and bool((one[1] == other[1]).all())
