"""Memory that the host cannot see: copies, views, ops on copies, and release."""

import ctypes
import gc
import os
import signal

import pytest
import torch
from device_opencl import memory

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.complex64]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool])
def test_what_is_copied_there_comes_back(dtype):
    x = torch.randn(5, 7).mul(3).to(dtype)
    there = x.to("opencl")
    assert (there.device, there.dtype, there.stride()) == (torch.device("opencl:0"), dtype, (7, 1))
    assert torch.equal(there.cpu(), x)
    assert torch.equal(there.to("opencl", copy=True).cpu(), x)


def test_views_are_of_the_same_memory():
    x = torch.arange(24.0).view(4, 6)
    there = x.to("opencl")
    for view in (
        lambda t: t.t(),
        lambda t: t[1:, 2:4],
        lambda t: t.view(3, 8)[::2],
        lambda t: t[3],
    ):
        assert torch.equal(view(there).cpu(), view(x))
    there[1:, 2:4] = -1.0
    x[1:, 2:4] = -1.0
    assert torch.equal(there.cpu(), x)
    assert torch.equal(there.view(torch.int32).cpu(), x.view(torch.int32))
    assert torch.zeros(0, 3, device="opencl").cpu().shape == (0, 3)


def test_touching_it_from_the_host_is_a_fault():
    there = torch.ones(4, device="opencl")
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        ctypes.string_at(there.data_ptr(), 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGSEGV


def test_a_buffer_goes_with_the_last_view_of_it():
    gc.collect()
    before = len(memory._buffers)
    views = [torch.ones(4, device="opencl")[1:] for _ in range(3)]
    assert len(memory._buffers) == before + 3
    views.pop()
    assert len(memory._buffers) == before + 2
    with pytest.raises(NotImplementedError):  # its traceback keeps tensors alive
        views.pop().unfold(0, 1, 1)
    views.clear()
    gc.collect()
    assert len(memory._buffers) == before


def test_ops_without_a_kernel_run_on_the_host():
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    a, b = x.to("opencl"), y.to("opencl")
    assert torch.equal(torch.mm(a, b).cpu(), torch.mm(x, y))
    assert torch.equal(a.add_(b).cpu(), x.add_(y))
    out = torch.empty(0, device="opencl")
    torch.cat([a, b], out=out)
    assert torch.equal(out.cpu(), torch.cat([x, y]))
    values, places = torch.sort(a)
    assert torch.equal(values.cpu(), torch.sort(x).values)
    assert places.device.type == "opencl"
    assert torch.equal(torch.arange(5, device="opencl").cpu(), torch.arange(5))
    assert a.sum().item() == x.sum().item()


def test_an_op_that_makes_a_view_is_refused():
    with pytest.raises(NotImplementedError, match=r"aten\.unfold\.default makes a view"):
        torch.ones(4, device="opencl").unfold(0, 2, 1)
