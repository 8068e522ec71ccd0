"""NVIDIA's GPUs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from wrapper_ir.devices.kind import (
    CppSide,
    DeviceKind,
    Doctor,
    Inventory,
    Memory,
    PythonSide,
    Unit,
)
from wrapper_ir.devices.languages import TRITON

#: Where Linux tells of the driver, also where its tools are not installed.
_DRIVER: Final = Path("/proc/driver/nvidia/version")


def driver_version() -> str:
    """Return the version of NVIDIA's driver; empty where there is none."""
    said = _run("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    if not said and _DRIVER.is_file():
        found = re.search(r"\d+\.\d+(?:\.\d+)?", _DRIVER.read_text("utf-8", errors="replace"))
        said = found[0] if found else ""
    return said.partition("\n")[0]


def _run(*words: str) -> str:
    """Return what a program writes, or nothing where it is absent, fails or hangs."""
    if shutil.which(words[0]) is None:
        return ""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def inventory(torch: Any) -> Inventory:  # noqa: ANN401 - torch itself
    """Return the GPUs that torch sees, and the CUDA that it was built for."""
    version = torch.version.cuda
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    units = tuple(
        Unit(torch.cuda.get_device_name(n), "{}.{}".format(*torch.cuda.get_device_capability(n)))
        for n in range(count)
    )
    return Inventory(f"CUDA {version}" if version else "", units)


CUDA: Final = DeviceKind(
    type="cuda",
    noun="GPU",
    plural="NVIDIA GPUs",
    is_async=True,
    captures=True,
    languages=(TRITON,),
    products=frozenset(("cublas",)),
    # As PyTorch's allocator aligns. An allocation costs the host half a kernel's launch.
    memory=Memory(alignment=512, keeps_arenas=True, keep_factor=32),
    python=PythonSide(allocator="empty_strided_cuda", arena="KeptGpuArena", guard="on_device"),
    cpp=CppSide(
        name="cuda",
        runner="Cuda",
        library="libtorch_cuda.so",
        target="torch_cuda",
        part="gpu",
        guard=("wir::GpuCall", "on_gpu"),
        stream="wir::current_stream",
        without="the program runs on a GPU: it takes a PyTorch that was built with CUDA",
    ),
    doctor=Doctor(
        driver_name="NVIDIA driver",
        driver=driver_version,
        inventory=inventory,
        tried=frozenset(("9.0",)),
    ),
)
"""GPUs that CUDA runs on."""
