"""The kernel languages and the kinds of devices that the library knows: the CPU and NVIDIA GPUs."""

from __future__ import annotations

from typing import Any, Final

from wrapper_ir.devices import kind

CPP: Final = kind.KernelLanguage("C++", "C++ kernels do not run on {device}", suffix=".cpp")
"""C++: functions in this process."""

TRITON: Final = kind.KernelLanguage(
    "Triton",
    "Triton kernels are only launched on GPUs",
    has_grid=True,
    package="triton",
    suffix=".py",
    types={
        **{f"f{bits}": f"fp{bits}" for bits in (64, 32, 16)},
        "bf16": "bf16",
        "f8e4m3fn": "fp8e4nv",
        "f8e5m2": "fp8e5",
        **{name: name for name in ("i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8")},
        "bool": "i1",
    },
)
"""Triton, whose compiler is a Python package."""

CPU: Final = kind.DeviceKind(
    type="cpu",
    noun="CPU",
    plural="the CPU",
    has_index=False,
    languages=(CPP,),
    # 64 bytes: a cache line, and the alignment of torch's own storages.
    memory=kind.Memory(alignment=64, on_host=True, keeps_arenas=True, keep_factor=1),
    python=kind.PythonSide(allocator="empty_strided_cpu", arena="KeptArena"),
    cpp=kind.CppSide(shim="cpu", runner="Cpu", library="libtorch_cpu.so", target="torch_cpu"),
)
"""The CPU, whose memory is the host's."""


def inventory(torch: Any) -> kind.Inventory:  # noqa: ANN401 - torch itself
    """Return the GPUs that torch sees and the CUDA version that it was built for."""
    version = torch.version.cuda
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    units = tuple(
        kind.Unit(
            torch.cuda.get_device_name(n), "{}.{}".format(*torch.cuda.get_device_capability(n))
        )
        for n in range(count)
    )
    return kind.Inventory(f"CUDA {version}" if version else "", units)


CUDA: Final = kind.DeviceKind(
    type="cuda",
    noun="GPU",
    plural="NVIDIA GPUs",
    captures=True,
    languages=(TRITON,),
    products=frozenset(("cublas",)),
    # The alignment of PyTorch's allocator. An allocation costs the host half a kernel launch.
    memory=kind.Memory(alignment=512, keeps_arenas=True, keep_factor=4),
    python=kind.PythonSide(
        allocator="empty_strided_cuda",
        arena="KeptGpuArena",
        guard="on_device",
        range="shown_gpu_range",
        triton=("TritonKernels", "current_stream"),
    ),
    cpp=kind.CppSide(
        library="libtorch_cuda.so",
        guard=("wir::GpuCall", "on_gpu"),
        queues="wir::GpuQueues",
        user_queues="wir::UserGpuQueues",
        stream="wir::current_stream",
        wait="wir::wait_for_gpu",
        without="the program runs on a GPU: it takes a PyTorch that was built with CUDA",
        shim="cuda",
        part="gpu",
        runner="Cuda",
        target="torch_cuda",
        triton="wir::GpuKernel",
    ),
    doctor=kind.Doctor(
        driver="NVIDIA driver",
        driver_command=("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        driver_file="/proc/driver/nvidia/version",
        inventory=inventory,
        tried=frozenset(("9.0",)),
    ),
    queues=kind.Queues(),
)
"""GPUs that run CUDA."""
