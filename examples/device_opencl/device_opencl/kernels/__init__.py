"""Kernels for library ops: generated ones in OpenCL C, and ops that run on the host."""
