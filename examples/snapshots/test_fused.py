"""Snapshots of every kind: `pytest` compares them, `pytest --snapshot-update` writes them."""

import pytest
from fused import fuse


@pytest.mark.parametrize("names", [["relu"], ["relu", "square"], ["negate", "relu"]], ids="-".join)
def test_files(names, wir_snapshot):
    """A file holds the program, kernels and all."""
    assert fuse(*names) == wir_snapshot


def test_inline(wir_inline):
    """The text stands in the test."""
    wir_inline(
        fuse("relu"),
        """
        wir 2
        program @program inference logical

        input %input0 : f32[4096] @cpu

        kernel @kernel0(x: in f32, y: out f32, n: i64) cpp
          |
          | #include <cstdint>
          |
          | extern "C" void kernel(const float *x, float *y, std::int64_t n)
          | {
          |     for (std::int64_t i = 0; i < n; ++i) {
          |         float v = x[i];
          |         v = v > 0 ? v : 0;
          |         y[i] = v;
          |     }
          | }
          |

          assert_layout %input0, "input"
          %buf0 = allocate : f32[4096] @cpu
          call @kernel0(%input0, out %buf0, 4096)
        return %buf0
        """,
    )


@pytest.mark.parametrize("device", ["cpu", "opencl"])
def test_structure(device, structure_snapshot):
    """Only kernels, calls and their order count."""
    assert fuse("relu", "square", device=device) == structure_snapshot


def test_an_emitter_out_of_tree(emitter_snapshot):
    """What another package's emitter writes."""
    assert fuse("relu") == emitter_snapshot("numpy")


def test_a_device_out_of_tree(wir_snapshot):
    """What the kernel is told of the machine is not compared: the device's package names it."""
    assert fuse("relu", device="opencl") == wir_snapshot
