"""Devices in emitted programs: the current one of a thread, streams, pools of memory."""

from __future__ import annotations

import functools
from threading import Lock, local
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch

from wrapper_ir.runtime.errors import UserObjectError

if TYPE_CHECKING:
    from collections.abc import Callable

    _Call: TypeAlias = Callable[..., Any]
    from collections.abc import Callable


LATER: Final = {
    "wrapper_ir.runtime.cuda_graphs": ("CudaGraphs", "CutGraphs"),
    "wrapper_ir.runtime.cuda_graphs.branches": ("BranchStream", "branch_event"),
    "wrapper_ir.runtime.kept_gpu": ("KeptGpuArena",),
    "wrapper_ir.runtime.triton": ("TritonKernels",),
}
"""Names for GPUs, by modules that the package imports when one is first asked for."""


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


# Streams and memory pools of emitted programs: made on first use, kept for all calls.
#
# A file that is loaded makes nothing on a GPU before it is called, so it can be loaded where there
# is none.


class OwnStream:
    """A stream for a program besides its caller's.

    Each thread that calls the program has one of its own: a ``torch.Stream`` remembers which stream
    was current when it was entered, so that two threads in the same one leave it for each other's.

    Args:
        device: The device that it is of.
        make: ``(device)``: a new stream; by default torch's for such devices.
    """

    def __init__(self, device: torch.device, make: _Call | None = None) -> None:
        self._device = device
        self._make = make
        self._made = local()

    def get(self) -> Any:  # noqa: ANN401 - each device has a class of its own
        """The stream; the same for all calls of a thread."""
        found = getattr(self._made, "stream", None)
        if found is None:
            make = self._make or torch.get_device_module(self._device).Stream
            found = self._made.stream = make(self._device)
        return found


class OwnMemoryPool:
    """A memory pool that only a program allocates from.

    Args:
        device: The GPU that it is of.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._made: Any = None
        self._lock = Lock()

    def get(self) -> Any:  # noqa: ANN401 - each device has a class of its own
        """The pool; the same for all calls."""
        if self._made is None:
            module = torch.get_device_module(self._device)
            with self._lock, module.device(self._device):
                if self._made is None:
                    self._made = module.MemPool()
        return self._made


class UserObjects:
    """Lookup of the user's streams, events and memory pools.

    Programs that use some come from front ends, which know who keeps them.
    """

    def __init__(self) -> None:
        self._find: Callable[[int], object] | None = None

    def are_found_by(self, find: Callable[[int], object]) -> None:
        """Has objects looked up by a function of their numbers, which raises where there is none.

        Args:
            find: As of the call that is being made.
        """
        self._find = find

    def __call__(self, number: int) -> object:
        """The object of a number.

        Raises:
            UserObjectError: There is none: the program is called by itself.
        """
        if self._find is None:
            raise UserObjectError(number=number, problem="no front end is loaded")
        try:
            return self._find(number)
        except (AssertionError, LookupError) as error:
            raise UserObjectError(number=number, problem=str(error)) from error


user_object: Final = UserObjects()
"""``(number)``: a stream, an event or a memory pool of the user's."""
