"""The library's conformance kit for devices, with kernels for the ops that have one."""

from device_opencl.kernels import lower

from wrapper_ir.testing.device_conformance import DeviceConformance


class TestOpenCL(DeviceConformance):
    device = "opencl:0"
    refused = frozenset({"complex_numbers"})  # a view of another type: torch has none there

    def lower(self, program):
        return lower(program)
