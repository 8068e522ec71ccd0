from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.native.conftest import DIGEST, FIXTURE
from wrapper_ir.toolchain import native
from wrapper_ir.toolchain.compiler import library_dirs, native_flags, native_include_dirs
from wrapper_ir.toolchain.native import runtime_objects

if TYPE_CHECKING:
    from tests.native.conftest import Toolbox

#: The compiler's flags, and what the run is told. PyTorch itself is not instrumented.
SANITIZERS = {
    "address": (
        ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
        {"ASAN_OPTIONS": "detect_leaks=1"},
    ),
    "thread": (("-fsanitize=thread",), {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1"}),
}


@pytest.mark.parametrize("kind", SANITIZERS)
@pytest.mark.long
def test_threads_updates_and_errors_under_sanitizers(
    toolbox: Toolbox, tmp_path: Path, kind: str
) -> None:
    """Eight threads, a tenth of their calls wrong, and updates meanwhile: see stress.cpp."""
    flags, environment = SANITIZERS[kind]
    program = tmp_path / "stress"
    objects = runtime_objects(toolbox.cache, toolbox.compiler, (), extra_flags=flags)
    source = Path(native.__file__).parents[1] / "native" / "src"
    command = [
        *toolbox.compiler.command,
        *native_flags(toolbox.compiler),
        *flags,
        *("-DEMBEDDED", f'-DDIGEST="{DIGEST.hexdigest()}"'),
        *(f"-I{path}" for path in (source, *native_include_dirs())),
        *map(str, objects),
        str(FIXTURE),
        str(FIXTURE.with_name("stress.cpp")),
        *("-o", str(program)),
        *(f"-L{path}" for path in library_dirs()),
        *(f"-Wl,-rpath,{path}" for path in library_dirs()),
        *("-ltorch_cpu", "-lc10"),
    ]
    subprocess.run(command, check=True)
    done = subprocess.run(
        ["setarch", "-R", str(program)],  # the thread sanitizer needs plain addresses
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.stdout == "fine\n", done.stderr[-4000:]
    assert done.returncode == 0, done.stderr[-4000:]
