"""Heaps under AddressSanitizer and ThreadSanitizer: see tests/native/heap_stress.cpp.

python -m tests.sanitize.heap
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from wrapper_ir.toolchain import native
from wrapper_ir.toolchain.cache import default_cache
from wrapper_ir.toolchain.compiler import find_compiler, library_dirs, native_include_dirs

ROOT = Path(__file__).resolve().parents[2]

KINDS = {
    "address,undefined": {"ASAN_OPTIONS": "detect_leaks=1"},
    "thread": {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1"},
}


def main() -> int:
    """Build and run with each; returns the number that the process ends with."""
    compiler = find_compiler(default_cache())
    source = Path(native.__file__).parents[1] / "native" / "src"
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "stress"
        for kind, environment in KINDS.items():
            command = [
                *compiler.command,
                *("-std=c++20", "-g", "-O1", "-pthread", f"-fsanitize={kind}"),
                *(f"-I{path}" for path in (source, *native_include_dirs())),
                *(str(source / "heap.cpp"), str(ROOT / "tests" / "native" / "heap_stress.cpp")),
                *("-o", str(program)),
                *(f"-L{path}" for path in library_dirs()),
                *(f"-Wl,-rpath,{path}" for path in library_dirs()),
                *("-ltorch_cpu", "-lc10", "-ldl"),
            ]
            subprocess.run(command, check=True)
            # The thread sanitizer needs plain addresses.
            done = subprocess.run(
                ["setarch", "-R", str(program)], check=False, env={**os.environ, **environment}
            )
            print(f"heaps, {kind}: {'fine' if done.returncode == 0 else 'failed'}")
            failed |= done.returncode
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
