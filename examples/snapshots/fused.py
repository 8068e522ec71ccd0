"""A compiler to be tested: it fuses element-wise functions, in C++ or in OpenCL C."""

import os

import wrapper_ir as wir

SIZE = 4096

FUNCTIONS = {
    "halve": "0.5f * v",
    "negate": "-v",
    "relu": "v > 0 ? v : 0",
    "square": "v * v",
}

CPP = """
#include <cstdint>

extern "C" void kernel(const float *x, float *y, std::int64_t n)
{{
    for (std::int64_t i = 0; i < n; ++i) {{
        float v = x[i];
        {steps}
        y[i] = v;
    }}
}}
"""

OPENCL = """
__kernel void fused(__global const float *x, __global float *y, long n)
{{
    #pragma unroll UNROLL
    for (long i = get_global_id(0); i < n; i += get_global_size(0)) {{
        float v = x[i];
        {steps}
        y[i] = v;
    }}
}}
"""


def fuse(*names: str, device: str = "cpu") -> wir.Program:
    """Return a program that applies functions, one after the other, to a vector."""
    steps = "\n        ".join(f"v = {FUNCTIONS[name]};" for name in names)
    b = wir.Builder("fused", device=device)
    x = b.input("x", "f32", (SIZE,))
    y = b.allocate("f32", (SIZE,))
    tensors = {"reads": [("x", "f32")], "writes": [("y", "f32")], "scalars": ["n"]}
    if device == "cpu":
        kernel = b.cpp_kernel("fused", CPP.format(steps=steps), **tensors)
        b.call(kernel, x, y, SIZE)
    else:
        kernel = b.device_kernel(
            "fused",
            OPENCL.format(steps=steps),
            language="OpenCL C",
            entry="fused",
            options={"UNROLL": os.cpu_count() or 1},  # the package says that it is the machine's
            **tensors,
        )
        b.call(kernel, x, y, SIZE, grid=(64,))
    b.returns(y)
    return b.build()
