"""Devices in emitted programs: the current device, streams and memory pools."""

from __future__ import annotations

import functools
import os
from threading import Lock, local
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch

from wrapper_ir.devices import kind_of
from wrapper_ir.runtime.errors import UserObjectError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    _Call: TypeAlias = Callable[..., Any]


LATER: Final[Mapping[str, tuple[str, ...]]] = {
    "wrapper_ir.runtime.cuda_graphs": ("CudaGraphs", "CutGraphs"),
    "wrapper_ir.runtime.cuda_graphs.recorder": ("BranchStream", "branch_event"),
    "wrapper_ir.runtime.kept_gpu": ("KeptGpuArena",),
    "wrapper_ir.runtime.triton": ("MachineCode", "TritonKernels"),
}
"""Names for GPUs, by the module that the package imports when one is first used."""


def current_device(device: torch.device | str, module: str = "") -> torch.device:
    """Return a device with a number: without one, it is the device of its type that is current.

    Where there is no device, it is the first one, so that what names it can be loaded. Types of
    which threads have no current device keep having no number. If ``module``, the ``__name__`` of
    an emitted file, says that it is run as a script, nobody else chooses for the ranks of a
    launcher: each takes the device of its number on the machine.
    """
    given = torch.device(device)
    index: int | None = given.index
    if index is not None or not kind_of(given.type).is_accelerator:
        return given
    of_type = torch.get_device_module(given)
    if not of_type.is_available():
        return torch.device(given.type, 0)
    local = os.environ.get("LOCAL_RANK", "")
    if module == "__main__" and local.isdecimal():
        of_type.set_device(int(local) % of_type.device_count())
    return torch.device(given.type, of_type.current_device())


def on_device(device: torch.device) -> Callable[[_Call], _Call]:
    """Return a decorator that runs a program's ``call`` on a device.

    If there is only one device of its type, it is already current and ``call`` stays as it is.
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


def hand_graphs_on(source: object, function: object) -> None:
    """Expose the graphs of a module or function on the function that users call."""
    if hasattr(source, "cuda_graphs"):
        function.cuda_graphs = source.cuda_graphs  # type: ignore[attr-defined]


# Streams and memory pools are created on first use, not on loading, so a file can be loaded on a
# machine without a GPU. They are kept for all calls.


class OwnStream:
    """A stream that belongs to a program.

    Each thread that calls the program gets its own: a ``torch.Stream`` stores the stream that was
    current on entry, so two threads in the same one would restore each other's stream. ``make``
    returns a new stream of a device; by default it is torch's class for the device type.
    """

    def __init__(self, device: torch.device, make: _Call | None = None) -> None:
        self._device = device
        self._make = make
        self._made = local()

    def get(self) -> Any:  # noqa: ANN401 - each device has a class of its own
        """Return the stream; the same for all calls of a thread."""
        found = getattr(self._made, "stream", None)
        if found is None:
            make = self._make or torch.get_device_module(self._device).Stream
            found = self._made.stream = make(self._device)
        return found


class OwnMemoryPool:
    """A memory pool of a GPU that only a program allocates from."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._made: Any = None
        self._lock = Lock()

    def get(self) -> Any:  # noqa: ANN401 - each device has a class of its own
        """Return the pool; the same for all calls."""
        if self._made is None:
            module = torch.get_device_module(self._device)
            with self._lock, module.device(self._device):
                if self._made is None:
                    self._made = module.MemPool()
        return self._made


class UserObjects:
    """Lookup of user streams, events and memory pools.

    Programs that use such objects come from front ends, which provide the lookup.
    """

    def __init__(self) -> None:
        self._find: Callable[[int], object] | None = None

    def are_found_by(self, find: Callable[[int], object]) -> None:
        """Set the function that looks objects up by number and raises if there is none."""
        self._find = find

    def __call__(self, number: int) -> object:
        """Return the object with a number.

        Raises:
            UserObjectError: There is none, because the program was not called by its front end.
        """
        if self._find is None:
            raise UserObjectError(number=number, problem="no front end is loaded")
        try:
            return self._find(number)
        except (AssertionError, LookupError) as error:
            raise UserObjectError(number=number, problem=str(error)) from error


user_object: Final = UserObjects()
"""``(number)``: returns a user stream, event or memory pool."""
