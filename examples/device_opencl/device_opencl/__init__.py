"""OpenCL devices: their device type and their kernel language.

This module imports neither torch nor OpenCL: printing and planning programs needs neither.
"""

from wrapper_ir import devices

OPENCL_C = devices.KernelLanguage(
    "OpenCL C",
    has_grid=True,
    launcher="device_opencl.launcher:Kernels",
    stream="device_opencl.queues:current_stream",
    suffix=".cl",
    machine_options=("UNROLL",),
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
    cpp=devices.CppSide(python=True),
    scheduling="ops",
    lowering=("device_opencl.kernels:lower",),
)


def load():
    """Register the device with torch, which calls this function when it is imported."""
    import device_opencl.memory  # noqa: F401
