"""Compiling C++ programs, that of ``examples/deploy_cpp`` among them, and finding CMake."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

SOURCES = Path(__file__).parents[2] / "examples" / "deploy_cpp"
TORCH = Path(torch.__path__[0])

needs_cmake = pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("make") is None, reason="there is no CMake here"
)


def compile_program(folder: Path, source: Path = SOURCES / "main.cpp", *flags: str) -> Path:
    """Compile the program, or another of one file and with more flags, into a folder."""
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
        *flags,
        *(f"-I{path}" for path in includes),
        *(str(source), "-o", str(target)),
        *(f"-L{lib}", f"-Wl,-rpath,{lib}", "-ltorch", "-ltorch_cpu", "-lc10", "-ldl"),
        *(("-Wl,--no-as-needed", "-ltorch_cuda") if torch.version.cuda else ()),
    ]
    subprocess.run(command, check=True)
    return target
