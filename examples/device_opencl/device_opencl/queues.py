"""Streams and events: chains of commands in one queue, which by itself keeps no order."""

import functools
import threading

import pyopencl as cl


@functools.cache
def queue():
    """Return the queue of the OpenCL device; what is put there runs as soon as it may."""
    order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    return cl.CommandQueue(cl.create_some_context(interactive=False), properties=order)


class Stream:
    """Commands in order: each waits for the ``last`` ones, and then is the only last one."""

    def __init__(self, device=None):
        self.last, self._outer = [], []

    def put(self, enqueue, *args, **kwargs):
        """Put a command behind the others: ``enqueue(queue, *args, wait_for=..., **kwargs)``."""
        self.last = [enqueue(queue(), *args, wait_for=self.last, **kwargs)]
        queue().flush()

    def __enter__(self):
        self._outer.append(current_stream())
        _thread.stream = self

    def __exit__(self, *_):
        _thread.stream = self._outer.pop()


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


_thread = threading.local()


def current_stream(device=None):
    """Return the stream of the thread's innermost block, else the thread's own."""
    return _thread.__dict__.setdefault("stream", Stream())


def synchronize(device=None):
    """Wait for all that was put on any stream."""
    queue().finish()
