"""Run the library's conformance kit for devices."""

from wrapper_ir.testing.device_conformance import DeviceConformance


class TestProtected(DeviceConformance):
    device = "protected:0"
    refused = frozenset({"channels_last", "complex_numbers"})  # torch has no such ops here


class TestProtectedInCpp(TestProtected):
    target = "cpp"
