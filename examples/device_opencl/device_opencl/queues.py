"""Streams and events: chains of commands in one queue, which by itself keeps no order.

The chains are the library's, which C++ programs put their commands on as well.
"""

import ctypes
import functools
import weakref

import pyopencl as cl

from device_opencl import LIBRARY as FILE

ctypes.CDLL(cl._cl.__file__, ctypes.RTLD_GLOBAL)  # noqa: SLF001 - the library's OpenCL is this one
LIBRARY = ctypes.CDLL(FILE)
_FUNCTIONS = {"begin": 1, "add": 3, "remove": 1, "new": 0, "drop": 1, "current": 0}
for _name, _count in {**_FUNCTIONS, "enter": 1, "last": 1, "follow": 2}.items():
    _function = LIBRARY[f"opencl_{_name}"]
    _function.restype, _function.argtypes = ctypes.c_void_p, [ctypes.c_void_p] * _count
    setattr(LIBRARY, _name, _function)


@functools.cache
def queue():
    """Return the queue of the OpenCL device; what is put there runs as soon as it may."""
    order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    return cl.CommandQueue(cl.create_some_context(interactive=False), properties=order)


_find_queue = ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: queue().int_ptr)
LIBRARY.begin(_find_queue)


class Stream:
    """Commands in order: each waits for the ``last`` one, and then is that."""

    def __init__(self, device=None, at=None):
        self._outer, self._at = [], at or LIBRARY.new()
        if at is None:
            weakref.finalize(self, LIBRARY.drop, self._at).atexit = False

    @property
    def last(self):
        """The last command, in a list; setting it to several puts one behind them."""
        found = LIBRARY.last(self._at)
        return [cl.Event.from_int_ptr(found)] if found else []

    @last.setter
    def last(self, commands):
        behind = commands if len(commands) < 2 else [cl.enqueue_marker(queue(), commands)]
        for command in behind:
            LIBRARY.follow(self._at, command.int_ptr)

    def put(self, enqueue, *args, **kwargs):
        """Put a command behind the others: ``enqueue(queue, *args, wait_for=..., **kwargs)``."""
        self.last = [enqueue(queue(), *args, wait_for=self.last, **kwargs)]
        queue().flush()

    def __enter__(self):
        self._outer.append(LIBRARY.enter(self._at))

    def __exit__(self, *_):
        LIBRARY.enter(self._outer.pop())


class Event:
    """A mark behind what is on a stream so far."""

    def __init__(self, device=None):
        self._marked = []

    def record(self, stream):
        """Set the mark."""
        self._marked = stream.last

    def wait(self, stream):
        """Have what comes on a stream wait for the mark."""
        stream.last = stream.last + self._marked

    def synchronize(self):
        """Have the host wait for it."""
        for command in self._marked:
            command.wait()


def current_stream(device=None):
    """Return the stream of the thread's innermost block, else the thread's own."""
    return Stream(at=LIBRARY.current())


def synchronize(device=None):
    """Wait for all that was put on any stream."""
    queue().finish()
