"""The library's conformance kit for devices: ops that have a kernel here run as kernels."""

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.analysis.ops import draws
from wrapper_ir.lines import walk
from wrapper_ir.testing.corpus import corpus_inputs
from wrapper_ir.testing.device_conformance import NAMES, DeviceConformance
from wrapper_ir.testing.equivalence import copy_of, run_on_copies


class TestOpenCL(DeviceConformance):
    device = "opencl:0"
    refused = frozenset({"complex_numbers"})  # torch has no view as another type for the device


class TestOpenCLInCpp(TestOpenCL):
    target = "cpp"

    @pytest.mark.parametrize("name", NAMES)
    def test_it_gives_the_bits_that_python_gives(self, name):
        program = self._running(name)
        if any(draws(program, line) for _, line in walk(program)):
            pytest.skip("it draws random numbers")
        given = [copy_of(value, self.device) for value in corpus_inputs(name)]
        calls = [wir.compile(program, target) for target in ("python", "cpp")]
        found = [run_on_copies(call, given) for call in calls]
        for (name, one), (same, other) in zip(*found, strict=True):
            assert name == same
            assert torch.equal(one.cpu(), other.cpu()) if torch.is_tensor(one) else one == other
