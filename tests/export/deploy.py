"""Compiling the C++ program of ``examples/deploy_cpp`` without CMake."""

from __future__ import annotations

import subprocess
from pathlib import Path

import torch

SOURCES = Path(__file__).parents[2] / "examples" / "deploy_cpp"
TORCH = Path(torch.__path__[0])


def compile_program(folder: Path) -> Path:
    """Compile the program into a folder."""
    target = folder / "deploy"
    includes = (TORCH / "include", TORCH / "include" / "torch" / "csrc" / "api" / "include")
    lib = TORCH / "lib"
    command = [
        *(
            "g++",
            "-std=c++20",
            "-O0",
            f"-D_GLIBCXX_USE_CXX11_ABI={torch.compiled_with_cxx11_abi():d}",
        ),
        *(f"-I{path}" for path in includes),
        *(str(SOURCES / "main.cpp"), "-o", str(target)),
        *(f"-L{lib}", f"-Wl,-rpath,{lib}", "-ltorch", "-ltorch_cpu", "-lc10", "-ldl"),
        *(("-Wl,--no-as-needed", "-ltorch_cuda") if torch.version.cuda else ()),
    ]
    subprocess.run(command, check=True)
    return target
