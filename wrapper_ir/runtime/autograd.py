"""Calling a program past autograd."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from wrapper_ir.runtime._private import below_autograd

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["past_autograd"]


def past_autograd(call: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Return a program's ``call`` such that its library ops skip autograd's part of each call.

    Autograd is off in a program anyway; what is skipped is finding that out, op by op: 0.1 to
    0.2 us of about 1.5. It changes nothing for ops that compute in one kernel and write to buffers
    of the program. It is not for other ops: those that are made of several ops may take other
    ways inside, and autograd would not learn that a tensor of the caller's was written to.
    """

    @functools.wraps(call)
    def run(args: list[Any]) -> Any:  # noqa: ANN401 - what the program returns
        with below_autograd():
            return call(args)

    return run
