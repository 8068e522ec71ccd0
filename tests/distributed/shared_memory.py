"""Symmetric memory of CPU tensors, with ops that use it: ``shared_memory.cpp``.

PyTorch has such memory on GPUs only, but what a program does with it can be tried without one: the
ranks are processes of one machine, which share memory.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from wrapper_ir.toolchain import compiler as cxx
from wrapper_ir.toolchain.cache import default_cache

SOURCE = Path(__file__).with_suffix(".cpp")

needs_shared_memory = pytest.mark.skipif(
    not (sys.platform == "linux" and dist.is_available() and dist.is_gloo_available()),
    reason="processes share files in memory on Linux, and meet over gloo",
)


@functools.cache
def library() -> Path:
    """The built library, from the cache."""
    compiler = cxx.find_compiler()
    flags = cxx.native_flags(compiler)
    text = SOURCE.read_text(encoding="utf-8")
    parts = (text, *compiler.command, *flags, *cxx.versions())

    def make(scratch: Path) -> Path:
        file = scratch / "shared_memory.so"
        includes = [part for path in cxx.include_dirs() for part in ("-isystem", str(path))]
        command = [*compiler.command, *flags, *includes, str(SOURCE), "-o", str(file)]
        cxx.run([*command, *cxx.link_flags()])
        return file

    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return default_cache().made(key, "shared-memory", make)


def install() -> None:
    """Let CPU tensors have symmetric memory, in this process."""
    torch.ops.load_library(str(library()))
    torch.ops.shared_memory.install()


def alive() -> int:
    """How many allocations of this process there are."""
    return int(torch.ops.shared_memory.alive())


def rendezvous_count() -> int:
    """How often this process has met others for an allocation."""
    return int(torch.ops.shared_memory.rendezvous_count())
