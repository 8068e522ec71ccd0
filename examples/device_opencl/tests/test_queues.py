"""Streams and events: a stream waits for exactly what a program says."""

import threading

import pyopencl as cl
import pytest
import torch
from device_opencl import queues

import wrapper_ir as wir
from wrapper_ir.verify import VerificationError

TEXT = """
wir 2
program @side_by_side inference logical

input %x : f32[256] @opencl:0
stream 1 @opencl:0
event 1
event 2

kernel @twice(x: in f32, y: out f32) language "OpenCL C" entry "twice" group [64]
  | kernel void twice(global const float *x, global float *y)
  | {
  |     long i = get_global_id(0);
  |     y[i] = 2 * x[i];
  | }
  |

  %a = allocate : f32[256] @opencl:0
  %b = allocate : f32[256] @opencl:0
  call @twice(%x, out %a) @opencl:0 grid [4]
  record_event 1 @opencl:0
  wait_event 1 @opencl:0 stream 1
  call @twice(%a, out %b) @opencl:0 stream 1 grid [4]
  record_event 2 @opencl:0 stream 1
  wait_event 2 @opencl:0
return %b
"""


def loaded(source):
    """Load an emitted module."""
    module = {"__name__": "emitted"}
    exec(compile(source, "emitted", "exec"), module)
    return module


def test_work_starts_when_what_it_waits_for_is_done():
    module = loaded(wir.emit(wir.parse(TEXT)).source)
    x = torch.randn(256)
    there = x.to("opencl")
    gate = cl.UserEvent(queues.queue().context)
    queues.current_stream().last = [gate]
    (y,) = module["call"]([there])  # nothing has run yet, and the call has returned
    (last,) = module["own_stream_1"].get().last
    assert last.command_execution_status != cl.command_execution_status.COMPLETE
    gate.set_status(cl.command_execution_status.COMPLETE)
    assert torch.equal(y.cpu(), 4 * x)


def test_work_that_does_not_wait_overtakes():
    source = wir.emit(wir.parse(TEXT)).source
    module = loaded(source.replace("    event_1.wait(stream_1)\n", ""))
    there = torch.randn(256).to("opencl")
    gate = cl.UserEvent(queues.queue().context)
    queues.current_stream().last = [gate]
    module["call"]([there])
    module["own_stream_1"].get().last[0].wait()  # while the caller's stream has not started
    gate.set_status(cl.command_execution_status.COMPLETE)
    queues.synchronize()


def test_such_a_program_breaks_a_rule():
    with pytest.raises(VerificationError, match="WIR1114 stream 1 uses %a"):
        wir.verify(wir.parse(TEXT.replace("  wait_event 1 @opencl:0 stream 1\n", "")))


def test_launches_are_given_their_streams():
    source = wir.emit(wir.parse(TEXT)).source
    assert "    event_1.record(callers_stream)\n    event_1.wait(stream_1)\n" in source
    assert "        twice((4,), handle_1, a, b)\n" in source
    assert "record_stream" not in source


def test_memory_stays_until_what_works_on_it_is_done():
    early = TEXT.replace(
        "  wait_event 2 @opencl:0\n", "  free %a after [1]\n  wait_event 2 @opencl:0\n"
    )
    module = loaded(wir.emit(wir.parse(early.replace("logical", "planned"))).source)
    x = torch.randn(256)
    there = x.to("opencl")
    gate = cl.UserEvent(queues.queue().context)
    queues.current_stream().last = [gate]
    (y,) = module["call"]([there])
    del there
    gate.set_status(cl.command_execution_status.COMPLETE)
    assert torch.equal(y.cpu(), 4 * x)


def test_the_host_waits_where_a_program_says_so():
    host = TEXT.replace(
        "  wait_event 2 @opencl:0\n", "  wait_event 2 @cpu\n  synchronize @opencl:0\n"
    )
    x = torch.randn(256)
    (y,) = wir.compile(wir.parse(host))(x.to("opencl"))
    assert torch.equal(y.cpu(), 4 * x)


@pytest.mark.parametrize("emitter", ["python", "cpp"])
def test_threads_have_streams_of_their_own(emitter):
    call = wir.compile(wir.parse(TEXT), emitter)
    found = {}

    def run(number):
        x = torch.full((256,), float(number))
        found[number] = [call(x.to("opencl"))[0].cpu() for _ in range(5)]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((y == 4 * n).all() for n, results in found.items() for y in results)
    assert len(found) == 4


def test_other_emitters_refuse_streams_by_name():
    with pytest.raises(wir.WrapperIRError, match="on the caller's stream alone"):
        wir.emit(wir.parse(TEXT), "fx")


def test_cpp_goes_on_while_its_work_waits():
    call = wir.compile(wir.parse(TEXT), "cpp")
    for _ in range(3):
        x = torch.randn(256)
        there = x.to("opencl")
        gate = cl.UserEvent(queues.queue().context)
        queues.current_stream().last = [gate]
        (y,) = call(there)  # nothing has run yet, the call has returned, the stream is restored
        *_, last = queues.current_stream().last
        assert last.command_execution_status != cl.command_execution_status.COMPLETE
        gate.set_status(cl.command_execution_status.COMPLETE)
        assert torch.equal(y.cpu(), 4 * x)


ASIDE = TEXT.partition("  %a =")[0] + """
  %a = allocate stream 1 : f32[256] @opencl:0
  %b = allocate : f32[256] @opencl:0
  record_event 1 @opencl:0
  wait_event 1 @opencl:0 stream 1
  call @twice(%x, out %a) @opencl:0 stream 1 grid [4]
  record_event 2 @opencl:0 stream 1
  HERE
  call @twice(%a, out %b) @opencl:0 grid [4]
return %b
"""


@pytest.mark.parametrize("wait", ["wait_event 2 @cpu", "synchronize @opencl:0"])
def test_the_host_waits_in_cpp_where_a_program_says_so(wait):
    text = ASIDE.replace("HERE", f"{wait}\n  wait_event 2 @opencl:0")
    call = wir.compile(wir.parse(text), "cpp")
    x = torch.randn(256)
    there = x.to("opencl")
    gate = cl.UserEvent(queues.queue().context)
    queues.current_stream().last = [gate]
    found = []
    # A new thread has its own stream, which is ordered behind the gate.
    caller = queues.current_stream()

    def run():
        with caller:
            found.extend(call(there))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    gate.set_status(cl.command_execution_status.COMPLETE)
    thread.join()
    assert torch.equal(found[0].cpu(), 4 * x)
