"""Streams and events: chains of commands in one out-of-order queue."""

import functools
import threading

import pyopencl as cl


@functools.cache
def queue():
    """Return the OpenCL device's queue; commands run as soon as they may."""
    order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    return cl.CommandQueue(cl.create_some_context(interactive=False), properties=order)


class Stream:
    """An ordered chain of commands: each waits for ``last`` and then replaces it."""

    def __init__(self, device=None):
        self.last, self._outer = [], []

    def put(self, enqueue, *args, **kwargs):
        """Append a command: ``enqueue(queue, *args, wait_for=..., **kwargs)``."""
        self.last = [enqueue(queue(), *args, wait_for=self.last, **kwargs)]
        queue().flush()

    def __enter__(self):
        self._outer.append(current_stream())
        _thread.stream = self

    def __exit__(self, *_):
        _thread.stream = self._outer.pop()


class Event:
    """A mark after the commands currently on a stream."""

    def __init__(self, device=None):
        self._marked = []

    def record(self, stream):
        """Record the stream's current commands."""
        self._marked = stream.last

    def wait(self, stream):
        """Make later commands on a stream wait for the mark."""
        stream.last = stream.last + self._marked

    def synchronize(self):
        """Make the host wait for the mark."""
        for command in self._marked:
            command.wait()


_thread = threading.local()


def current_stream(device=None):
    """Return the stream of the thread's innermost block, or else the thread's own."""
    return _thread.__dict__.setdefault("stream", Stream())


def synchronize(device=None):
    """Wait for everything enqueued on any stream."""
    queue().finish()
