"""Guards on the specifications of distributed tensors, which remember what fits.

Dynamo guards each distributed tensor with a function of Python that compares its specification:
mesh, placements, order of shards, dtype. A decoder has one such guard for each weight, and in a
call that replays a CUDA graph they take longer than all else that the host does. A weight keeps its
specification from call to call, so for our graphs the guard first looks whether it is the one that
has fitted before. A specification forgets its hash when it is changed, so an equal hash means that
it has not been changed since.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from wrapper_ir.frontends.inductor import compat

if TYPE_CHECKING:
    from collections.abc import Callable


def with_spec_guards(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Inductor's function for one of Dynamo's graphs so that guards of ours remember."""

    @wraps(stock)
    def compile_graph(*args: Any, **kwargs: Any) -> Any:
        if is_ours():
            for guard in compat.spec_guards():
                guard.create_fn = DTENSOR_SPEC_MATCH
        return stock(*args, **kwargs)

    return compile_graph


def DTENSOR_SPEC_MATCH(builder: Any, guard: Any) -> None:  # noqa: N802 - Dynamo's name
    """Make a guard as Dynamo's function of this name does, but one that remembers.

    Dynamo knows kinds of guards by the names of these functions, and pickles them.
    """
    compat.make_spec_guard(_Builder(builder), guard)


class _Builder:
    """Dynamo's builder of guards, but for what a guard is added to."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._builder, name)

    def get_guard_manager(self, guard: Any) -> _Manager:
        return _Manager(self._builder.get_guard_manager(guard))


class _Manager:
    """What a guard is added to."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def add_lambda_guard(self, check: Callable[[Any], bool], *words: Any) -> None:
        self._manager.add_lambda_guard(remembering(check), *words)


def remembering(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check of specifications that does not compare the one again that has fitted twice.

    One that came once, as an activation's does, is not worth its hash.
    """
    last: Any = None
    known: Any = None
    mark: int | None = None

    def fits(spec: Any) -> bool:
        nonlocal last, known, mark
        if spec is known and spec._hash == mark:
            return True
        if not check(spec):
            return False
        if spec is last:
            known, mark = spec, hash(spec)
        last = spec
        return True

    return fits
