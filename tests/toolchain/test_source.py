from __future__ import annotations

import pytest

from wrapper_ir.toolchain.errors import KernelSourceError
from wrapper_ir.toolchain.kernel_files import is_solitary, partition, split_includes
from wrapper_ir.toolchain.source import CppSource, CppUnit, parameters

CODE = "void kernel(int a) {}"


def source(*arg_types: str, code: str = CODE, **fields: str) -> CppSource:
    return CppSource(fields.pop("name", "k"), code, arg_types, **fields)


@pytest.mark.parametrize(
    ("text", "spelling", "kind"),
    [
        ("const float*", "const float*", "pointer"),
        ("float *", "float*", "pointer"),
        ("const at::BFloat16* __restrict__", "const at::BFloat16*", "pointer"),
        ("const int64_t", "int64_t", "integer"),
        ("std::int32_t", "int32_t", "integer"),
        ("bool", "bool", "integer"),
        ("const double", "double", "floating"),
    ],
)
def test_parameters(text: str, spelling: str, kind: str) -> None:
    (param,) = parameters(source(text))
    assert (param.spelling, param.kind) == (spelling, kind)


@pytest.mark.parametrize("text", ["float**", "std::string", "float&", "", '"*', "int64_t; x"])
def test_types_that_python_cannot_pass(text: str) -> None:
    with pytest.raises(KernelSourceError, match="cannot be passed from Python"):
        parameters(source(text))


@pytest.mark.parametrize("name", ["a-b", "1x", "x y", "", 'x"\n#include "y'])
def test_names_are_identifiers(name: str) -> None:
    with pytest.raises(KernelSourceError, match="its name is not a C"):
        parameters(source(name=name))


def test_the_entry_must_be_there() -> None:
    with pytest.raises(KernelSourceError, match="defines no function 'other'"):
        parameters(source(entry="other"))


@pytest.mark.parametrize(
    ("line", "solitary"),
    [
        ("#pragma omp parallel for", False),
        ("  #pragma GCC ivdep", False),
        ("#pragma unroll", False),
        ("#include <cmath>", False),
        ("#define N 3", True),
        ("#if X", True),
        ("#include MACRO", True),
        ("#pragma GCC optimize(3)", True),
        ("#pragma once", True),
        ('extern "C" int f(); extern "C" int g();', True),
        ('auto s = R"(#x)";', True),
    ],
)
def test_who_must_be_alone(line: str, solitary: bool) -> None:
    assert is_solitary(CppUnit("k", source(code=f"{line}\n{CODE}"))) is solitary


def test_includes_leave_their_lines() -> None:
    headers, rest = split_includes('#include <a.h>\nint x;\n  #include "b.h" // why\n')
    assert headers == ("<a.h>", '"b.h"')
    assert rest == "\nint x;\n\n"


def kernels(*sizes: int) -> list[CppUnit]:
    return [
        CppUnit(f"wir_k_{index}", source(code=CODE + " " * size))
        for index, size in enumerate(sizes)
    ]


def test_small_kernels_share_a_file() -> None:
    assert len(partition(kernels(*[500] * 3), jobs=8, precompiled=False)) == 1


def test_big_kernels_are_dealt_out_evenly() -> None:
    units = partition(kernels(90_000, 50_000, 40_000, 100), jobs=2, precompiled=False)
    sizes = [sorted(len(k.source.code) // 10_000 for k in unit) for unit in units]
    assert sorted(sizes) == [[0, 4, 5], [9]] or sorted(sizes) == [[0, 9], [4, 5]]


def test_no_more_files_than_processors() -> None:
    assert len(partition(kernels(*[100_000] * 9), jobs=3, precompiled=True)) == 3
    assert len(partition(kernels(*[100_000] * 9), jobs=1, precompiled=True)) == 1
