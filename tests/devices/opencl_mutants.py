"""Faults planted in the OpenCL device, and the test of the kit that finds each.

``opencl_mutants.py`` plants one after the other and prints the names of those that were found.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyopencl as cl
import torch
from device_opencl import kernels as passes
from device_opencl import launcher, memory, queues
from device_opencl.kernels import generator

from wrapper_ir.lines import Comment
from wrapper_ir.runtime import served
from wrapper_ir.testing.device_conformance import DeviceConformance

if TYPE_CHECKING:
    from collections.abc import Callable


class Kit(DeviceConformance):
    device = "opencl:0"


class KitInCpp(Kit):
    target = "cpp"


KIT, IN_CPP = Kit(), KitInCpp()
ROW = (33, 5)


def copies() -> None:
    KIT.test_copies_keep_what_is_there(ROW, torch.float32)


def buffers() -> None:
    KIT.test_buffers_are_as_they_are_asked_for()


def events() -> None:
    KIT.test_events_order_streams(16)


def kernels() -> None:
    KIT.test_results_are_the_cpus("switch")


def rules() -> None:
    KIT.test_passes_obey_the_rules()


def numbers() -> None:
    KIT.test_results_are_the_cpus("constants")


def events_in_cpp() -> None:
    IN_CPP.test_events_order_streams(16)


def kernels_in_cpp() -> None:
    IN_CPP.test_results_are_the_cpus("switch")


def dense(whole: Any, dtype: Any, size: Any, stride: Any, offset: int) -> Any:
    steps = [math.prod(size[n + 1 :]) for n in range(len(size))]
    return real["reinterpret"](whole, dtype, size, tuple(steps), offset)


def fetched(tensor: Any) -> Any:
    return real["span"](tensor)  # what is in the memory is whatever was there


def flat(tensor: Any) -> Any:
    memory_, values = real["span"](tensor)
    whole = values.as_strided((values.numel(),), (1,)) if values.numel() else values
    return memory_, whole.reshape(values.shape)


def disordered(self: Any, enqueue: Any, *args: Any, **kwargs: Any) -> None:
    self.last = [enqueue(queues.queue(), *args, **kwargs)]


def launching(change: Callable[..., tuple[Any, Any]]) -> Callable[..., Any]:
    def make(kernel: Any, made: Any, group: Any) -> Any:
        launch = real["launch"](kernel, made, group)

        def run(grid: Any, stream: Any, *args: Any) -> None:
            grid, args = change(grid, args)
            launch(grid, stream, *args)

        return run

    return make


def swapped(grid: Any, args: Any) -> tuple[Any, Any]:
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    return grid, (*reversed(tensors), *args[len(tensors) :])


def served_by(change: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    def make(*spec: Any) -> Any:
        run = real["loaded"](*spec)
        return lambda *args: run(*change(*args))

    return make


numberless = served_by(lambda grid, tensors, numbers: (grid, tensors, [0] * len(numbers)))
single = served_by(lambda grid, tensors, numbers: ([1], tensors, numbers))


def lowered_again(program: Any) -> Any:
    done = real["lower"](program)
    return done.replace(body=(Comment("lowered"), *done.body))


real: dict[str, Any] = {
    "lower": passes.lower,
    "loaded": served._loaded,
    "reinterpret": memory.reinterpret_as,
    "span": memory._span,
    "launch": launcher._launch,
}

#: What is put where, and the test that finds it.
MUTANTS: dict[str, tuple[Any, str, Any, Callable[[], None]]] = {
    "waits_for_nothing": (queues.Event, "wait", lambda self, stream: None, events),
    "marks_nothing": (queues.Event, "record", lambda self, stream: None, events),
    "keeps_no_order": (queues.Stream, "put", disordered, events),
    "launches_one_item": (launcher, "_launch", launching(lambda g, a: ((1,), a)), kernels),
    "launches_too_few": (launcher, "_launch", launching(lambda g, a: ((g[0] - 1,), a)), kernels),
    "turns_arguments_round": (launcher, "_launch", launching(swapped), kernels),
    "begins_at_the_buffer": (memory, "place", lambda t: (memory._buffers[key(t)], 0), copies),
    "copies_rows_as_they_lie": (memory, "_span", flat, copies),
    "fetches_nothing": (memory, "_fetch", fetched, copies),
    "lowers_again_each_time": (passes, "lower", lowered_again, rules),
    "lowers_to_another_op": (generator, "_POINTWISE", {"aten::add.Tensor": "a - b"}, events),
    "allocates_dense": (memory, "reinterpret_as", dense, buffers),
    "allocates_one_buffer": (memory, "_handles", itertools.repeat(1 << 63), buffers),
    "aligns_less": (memory, "_handles", itertools.count(1 << 63 | 64, 1 << 20), buffers),
    "waits_for_nothing_in_cpp": (queues.Event, "wait", lambda self, stream: None, events_in_cpp),
    "keeps_no_order_in_cpp": (queues.Stream, "put", disordered, events_in_cpp),
    "passes_no_numbers_in_cpp": (served, "_loaded", numberless, kernels_in_cpp),
    "launches_one_item_in_cpp": (served, "_loaded", single, kernels_in_cpp),
}


def key(tensor: Any) -> Any:
    return tensor.untyped_storage().data_ptr()


def is_found(test: Callable[[], None]) -> bool:
    """Tell whether a test fails; one of streams may have luck a few times."""
    for _ in range(30 if test in (events, events_in_cpp) else 1):
        try:
            test()
        except (AssertionError, RuntimeError, ValueError, cl.Error):
            return True
    return False


if __name__ == "__main__":
    tests = (rules, copies, buffers, events, kernels, numbers, events_in_cpp, kernels_in_cpp)
    for test in tests:
        test()
    for name, (place, attribute, fault, found_by) in MUTANTS.items():
        # Kernels that were loaded before are not loaded again.
        fresh = mock.patch.dict(served._numbers, clear=True)
        with mock.patch.object(place, attribute, fault), fresh:
            if is_found(found_by):
                print(name, flush=True)
    for test in tests:
        test()
