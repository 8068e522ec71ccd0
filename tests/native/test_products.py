"""Products of matrices that the runtime part makes by itself: what it tells cuBLAS, and when."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.release import TORCH
from wrapper_ir.toolchain import native
from wrapper_ir.toolchain.compiler import native_include_dirs

if TYPE_CHECKING:
    from tests.native.conftest import Toolbox

EXPECTED = """\
4503 by cuBLAS, 11049 by ATen, 0 wrong
as it comes: cuBLAS
cuBLAS asked for: cuBLAS
cuBLASLt: ATen
float16 reduced in float32: ATen
bfloat16 reduced in float32: ATen
float16 throughout: ATen
tuned: ATen
fewer processors: ATen
math: 3 0 3, left at 3
WIR2160: cuBLAS returned CUBLAS_STATUS_OF_THE_TEST
0 left set up
"""


@pytest.mark.skipif(TORCH not in ((2, 11), (2, 15)), reason="ATen computes all products there")
@pytest.mark.parametrize("scopes", [(), ("-DSCOPES",)], ids=["2.11", "2.15"])
def test_what_cublas_is_told(scopes: tuple[str, ...], toolbox: Toolbox, tmp_path: Path) -> None:
    program = tmp_path / "products"
    source = Path(native.__file__).parents[1] / "native" / "src"
    command = [
        *toolbox.compiler.command,
        *("-std=c++20", "-O0", "-Wall", "-rdynamic", "-ldl", *scopes),
        *(f"-I{path}" for path in (source, *native_include_dirs())),
        str(Path(__file__).with_name("products.cpp")),
        *("-o", str(program)),
    ]
    subprocess.run(command, check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout == EXPECTED
