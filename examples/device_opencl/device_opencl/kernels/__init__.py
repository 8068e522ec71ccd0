"""Kernels for library ops: generated ones in OpenCL C, and ops that run on the host."""

from device_opencl.kernels.generator import lower

__all__ = ["lower"]
