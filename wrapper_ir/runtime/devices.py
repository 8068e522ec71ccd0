"""Calls that run on a device of which each thread has a current one."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    _Call: TypeAlias = Callable[..., Any]

__all__ = ["on_device"]


def on_device(device: torch.device) -> Callable[[_Call], _Call]:
    """Return a decorator that runs a program's ``call`` on a device.

    Where there is but one of its type, that is no work: it is the current one.
    """
    module = torch.get_device_module(device)

    def decorate(call: _Call) -> _Call:
        if module.device_count() == 1:
            return call

        @functools.wraps(call)
        def run(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - what the program returns
            with module.device(device):
                return call(*args, **kwargs)

        return run

    return decorate
