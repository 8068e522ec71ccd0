"""Ops by which C++ programs use a device's Python side: launches, streams and events.

If a vendor has only a Python side (``CppSide.python``), C++ programs call these ops
(``wir/python_side.h``) instead of classes in the vendor's headers. Such programs run only in
processes that have imported this package. Ops cannot take objects, so kernels, and the streams and
events of a call, are passed as numbers.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import torch

from wrapper_ir.devices import kind_of
from wrapper_ir.devices.kind import named
from wrapper_ir.runtime.devices import current_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    _Function = Callable[..., Any]

_library: Final[Any] = torch.library.Library("wrapper_ir_device", "DEF")  # type: ignore[no-untyped-call]
_lock: Final = threading.Lock()


def served(schema: str) -> Callable[[_Function], _Function]:
    """Register a function as an op, for tensors of any device and for none."""

    def register(function: _Function) -> _Function:
        _library.define(schema)
        _library.impl(schema.partition("(")[0], function, "CompositeExplicitAutograd")
        return function

    return register


# Kernels stay loaded: a library may be opened again and load the same ones.

_numbers: Final[dict[tuple[Any, ...], int]] = {}
_kernels: Final[list[_Function]] = []


@served(
    "load(Device device, str language, str name, str params, str code, str entry, int[] group,"
    " str[] options, bool[] are_text) -> int"
)
def load(device: torch.device, *spec: Any) -> int:  # noqa: ANN401 - as the schema says
    """Compile a kernel with its language's launcher; return the kernel's number.

    Raises:
        ValueError: The device does not run kernels in that language.
    """
    key = (device, *(tuple(each) if isinstance(each, list) else each for each in spec))
    with _lock:
        if key not in _numbers:
            _kernels.append(_loaded(device, *spec))
            _numbers[key] = len(_kernels) - 1
        return _numbers[key]


def _loaded(device: torch.device, *spec: Any) -> _Function:  # noqa: ANN401
    """Return ``(grid, tensors, numbers)``, which launches a kernel."""
    name, title, params, code, entry, group, options, are_text = spec
    languages = {each.name: each for each in kind_of(device.type).languages}
    if name not in languages:
        raise ValueError(f"no registered kind of device runs kernels in {name} on {device}")
    language, types = languages[name], params.split(", ") if params else []
    values = zip(options[::2], options[1::2], are_text, strict=True)
    given = {option: value if is_text else _number(value) for option, value, is_text in values}
    device = current_device(device)
    kernels = named(language.launcher)(device)
    kernels.add(title, types, code, entry=entry, group=tuple(group), options=given or None)
    (launch,) = kernels.load()
    stream = named(language.stream) if language.stream else None

    def run(grid: Sequence[int], tensors: Sequence[Tensor | None], numbers: Sequence[Any]) -> None:
        rest, first = iter(numbers), iter(tensors)
        args = [next(first) if " " in type_ else next(rest) for type_ in types]
        on = [] if stream is None else [stream(device.index or 0)]
        launch(tuple(grid), *on, *args)

    return run


def _number(text: str) -> bool | int | float:
    """Parse the value of an option."""
    try:
        return cast("bool | int | float", json.loads(text))
    except ValueError:  # infinity, NaN
        return float(text)


@served("launch(int kernel, int[] grid, Tensor?[] tensors, Scalar[] numbers) -> ()")
def launch(kernel: int, *args: Any) -> None:  # noqa: ANN401
    """Launch a kernel on the device's current stream."""
    _kernels[kernel](*args)


# Streams.

_calls: Final[dict[int, _Queues]] = {}
_ids: Final[Iterator[int]] = itertools.count()
_idle: Final[defaultdict[torch.device, list[Any]]] = defaultdict(list)


class _Queues:
    """The streams and events of one call; stream 0 is the caller's."""

    def __init__(self, device: torch.device, streams: int, events: int) -> None:
        module = torch.get_device_module(device)
        queues = kind_of(device.type).queues
        assert queues is not None

        def of(place: str, other: Any) -> _Function:  # noqa: ANN401
            return cast("_Function", partial(named(place) if place else other, device))

        make = of(queues.stream, getattr(module, "Stream", None))
        event = of(queues.event, torch.Event)
        self._idle = _idle[device]
        self._own = [self._taken() or make() for _ in range(streams)]
        self._streams = [of(queues.current, getattr(module, "current_stream", None))(), *self._own]
        self._events = [event() for _ in range(events)]
        self._entered: Any = None
        self.synchronize = of(queues.synchronize, getattr(module, "synchronize", None))

    def _taken(self) -> Any:  # noqa: ANN401 - each device has a class of its own
        with _lock:
            return self._idle.pop() if self._idle else None

    def enter(self, stream: int) -> None:
        """Make a stream the current one."""
        if self._entered is not None:
            self._entered.__exit__(None, None, None)
        self._entered = self._streams[stream] if stream else None
        if self._entered is not None:
            self._entered.__enter__()

    def record(self, event: int, stream: int) -> None:
        """Record an event after the work on a stream."""
        self._events[event - 1].record(self._streams[stream])

    def wait(self, event: int, stream: int) -> None:
        """Make later work on a stream wait for an event."""
        self._events[event - 1].wait(self._streams[stream])

    def wait_on_host(self, event: int) -> None:
        """Make the host wait for an event."""
        self._events[event - 1].synchronize()

    def leave(self) -> None:
        """Make the caller's stream current again; work on the others may go on."""
        self.enter(0)
        with _lock:
            self._idle.extend(self._own)


@served("queues(Device device, int streams, int events) -> int")
def queues(device: torch.device, streams: int, events: int) -> int:
    """Begin a call with streams and events; return its number."""
    number = next(_ids)
    _calls[number] = _Queues(device, streams, events)
    return number


for _step, _takes in (
    ("enter", ", int stream"),
    ("record", ", int event, int stream"),
    ("wait", ", int event, int stream"),
    ("wait_on_host", ", int event"),
    ("synchronize", ""),
):

    def _do(number: int, *args: int, step: str = _step) -> None:
        getattr(_calls[number], step)(*args)

    served(f"{_step}(int queues{_takes}) -> ()")(_do)


@served("leave(int queues) -> ()")
def leave(number: int) -> None:
    """End a call with streams and events."""
    _calls.pop(number).leave()
