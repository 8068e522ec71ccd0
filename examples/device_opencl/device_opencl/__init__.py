"""OpenCL devices: what kind of device they are, and their kernels' language.

This module imports neither torch nor OpenCL: texts and plans of programs need none.
"""

from pathlib import Path

from wrapper_ir import devices

HEADER = Path(__file__).with_name("device_opencl.h")
LIBRARY = Path(__file__).with_name("libdevice_opencl.so")

OPENCL_C = devices.KernelLanguage(
    "OpenCL C",
    has_grid=True,
    launcher="device_opencl.launcher:Kernels",
    cpp_launcher="device_opencl::Kernel",
    stream="device_opencl.queues:current_stream",
    suffix=".cl",
)

OPENCL = devices.DeviceKind(
    type="opencl",
    noun="OpenCL device",
    plural="OpenCL devices",
    languages=(OPENCL_C,),
    memory=devices.Memory(alignment=128),
    queues=devices.Queues(
        stream="device_opencl.queues:Stream",
        event="device_opencl.queues:Event",
        current="device_opencl.queues:current_stream",
        synchronize="device_opencl.queues:synchronize",
        frees_late=True,
    ),
    cpp=devices.CppSide(
        headers={HEADER.name: HEADER.read_text("utf-8")},
        library=LIBRARY.name,
        queues="device_opencl::Queues",
        without="import torch first: it loads the device",
    ),
)


def load():
    """Make the device known to torch, which calls this when it is imported."""
    import device_opencl.memory  # noqa: F401
