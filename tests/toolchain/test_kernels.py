from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests.toolchain.conftest import SCALE_TYPES, scale
from wrapper_ir.toolchain.cache import DiskCache
from wrapper_ir.toolchain.compiler import find_compiler, library_dirs
from wrapper_ir.toolchain.errors import CompileError, IsaError, KernelSourceError, LinkError
from wrapper_ir.toolchain.isa import resolve
from wrapper_ir.toolchain.kernels import build_kernels, kernel_key
from wrapper_ir.toolchain.source import CppSource

if TYPE_CHECKING:
    from pathlib import Path

X = torch.arange(8.0)


def scaled(function: Any, value: torch.Tensor = X) -> torch.Tensor:
    out = torch.empty_like(value)
    assert function(value, out, value.numel()) is None
    return out


def one(cache: DiskCache, code: str, *arg_types: str, **options: Any) -> Any:
    (function,) = build_kernels([CppSource("one", code, arg_types)], cache=cache, **options)
    return function


def test_kernels_come_in_order_under_their_names(cache: DiskCache) -> None:
    sources = [scale("twice"), scale("thrice", "3.0f"), scale("again")]
    seen: list[tuple[int, int]] = []
    functions = build_kernels(sources, cache=cache, progress=lambda *done: seen.append(done))
    assert [f.__name__ for f in functions] == ["twice", "thrice", "again"]
    assert [scaled(f)[1].item() for f in functions] == [2.0, 3.0, 2.0]
    assert functions[0].__doc__ == "(const float*, float*, const int64_t)"
    assert seen[-1] == (3, 3)
    assert cache.stats().libraries == 1


def test_no_kernels_need_no_compiler(cache: DiskCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build_kernels([], cache=cache) == []


def test_only_what_is_missing_is_built(cache: DiskCache, counting_compiler: Path) -> None:
    build_kernels([scale("a")], cache=cache)
    before = counting_compiler.read_text().count(" -c ")
    functions = build_kernels([scale("a"), scale("b", "5.0f")], cache=cache)
    assert counting_compiler.read_text().count(" -c ") == before + 1
    assert [scaled(f)[1].item() for f in functions] == [2.0, 5.0]
    build_kernels([scale("b", "5.0f"), scale("other_name")], cache=cache)
    assert counting_compiler.read_text().count(" -c ") == before + 1


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Three kernels for the tests of calls, built once: by address, by method, and of numbers."""
    from wrapper_ir.runtime._private import data_ptr_address

    fast = DiskCache(tmp_path_factory.mktemp("fast"))
    slow = DiskCache(tmp_path_factory.mktemp("slow"))
    numbers = CppSource(
        "numbers",
        "#include <cstdint>\n#include <stdexcept>\n"
        "void kernel(double* out, int8_t a, uint32_t b, bool c, float d, double e) {\n"
        '  if (a == 7) throw std::runtime_error("seven");\n'
        "  if (a == 8) throw 8;\n"
        "  out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e;\n}",
        ("double*", "const int8_t", "uint32_t", "bool", "const float", "double"),
    )
    address = data_ptr_address()
    assert address
    by_address = build_kernels(
        [scale("by_address", "4.0f"), numbers], cache=fast, data_ptr_address=address
    )
    (by_method,) = build_kernels([scale("by_method", "4.5f")], cache=slow)
    return [by_address[0], by_method, by_address[1]]


@pytest.mark.parametrize("which", [0, 1], ids=["by address", "by method"])
def test_both_ways_to_a_pointer_agree(checked: list[Any], which: int) -> None:
    factor = (4.0, 4.5)[which]
    base = torch.arange(20.0)
    for value in (X, base[3:11], torch.nn.Parameter(X.clone()), torch.empty(0)):
        out = scaled(checked[which], value.detach() if value.requires_grad else value)
        assert torch.equal(out, value.detach() * factor)
    parameter = torch.nn.Parameter(X.clone())
    out = torch.empty(8)
    checked[which](parameter, out, 8)
    assert torch.equal(out, X * factor)


class Subclass(torch.Tensor):
    pass


@pytest.mark.parametrize("which", [0, 1], ids=["by address", "by method"])
def test_tensor_subclasses_are_tensors(checked: list[Any], which: int) -> None:
    value = X.clone().as_subclass(Subclass)
    out = torch.empty(8)
    checked[which](value, out, 8)
    assert out[1].item() == (4.0, 4.5)[which]


@pytest.mark.parametrize("which", [0, 1], ids=["by address", "by method"])
def test_a_place_in_a_tensors_memory(checked: list[Any], which: int) -> None:
    out = torch.zeros(8)
    checked[which]((X, 8), (out, 4), 3)
    expected = torch.zeros(8)
    whole = torch.empty(3)
    checked[which](X[2:], whole, 3)
    expected[1:4] = whole
    assert torch.equal(out, expected)


@pytest.mark.parametrize("which", [0, 1], ids=["by address", "by method"])
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), r"takes 3 arguments \(0 given\)"),
        ((X, X), r"takes 3 arguments \(2 given\)"),
        ((X, X, 1, 2), r"takes 3 arguments \(4 given\)"),
        ((X, None, 1), "argument 2 must be a Tensor, not NoneType"),
        ((3, X, 1), "argument 1 must be a Tensor, not int"),
        ((torch.Tensor, X, 1), "argument 1 must be a Tensor, not .*Meta"),
        (((X,), X, 1), "argument 1 must be a Tensor, not tuple"),
        (((3, 4), X, 1), "argument 1 must be a Tensor, not int"),
        ((((X, 4), 4), X, 1), "argument 1 must be a Tensor, not tuple"),
        (((X, 0.5), X, 1), "argument 1 must be an int, not float"),
        ((X, X, 1.5), "argument 3 must be an int, not float"),
        ((X, X, "1"), "argument 3 must be an int, not str"),
    ],
)
def test_wrong_arguments_are_type_errors(
    checked: list[Any], which: int, args: tuple[object, ...], message: str
) -> None:
    name = ("by_address", "by_method")[which]
    with pytest.raises(TypeError, match=rf"{name}\(\) {message}"):
        checked[which](*args)


def test_keywords_are_refused(checked: list[Any]) -> None:
    with pytest.raises(TypeError, match="no keyword arguments"):
        checked[0](X, X, ks0=1)


def test_numbers_of_all_kinds(checked: list[Any]) -> None:
    out = torch.empty(5, dtype=torch.float64)
    checked[2](out, -128, 2**32 - 1, True, 0.5, 3)
    assert out.tolist() == [-128.0, 2.0**32 - 1, 1.0, 0.5, 3.0]
    checked[2](out, -1, torch.tensor(9), 0, 1, -1.0)
    assert out.tolist() == [-1.0, 9.0, 0.0, 1.0, -1.0]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((128, 1, 0, 0.0, 0.0), "argument 2 is out of range"),
        ((0, -1, 0, 0.0, 0.0), "can't convert negative"),
        ((0, 2**32, 0, 0.0, 0.0), "argument 3 is out of range"),
        ((0, 1, 2, 0.0, 0.0), "argument 4 is out of range"),
        ((2**70, 1, 0, 0.0, 0.0), "too big|too large"),
    ],
)
def test_integers_out_of_range(checked: list[Any], args: tuple[object, ...], message: str) -> None:
    with pytest.raises(OverflowError, match=message):
        checked[2](torch.empty(5, dtype=torch.float64), *args)


def test_a_float_must_be_a_number(checked: list[Any]) -> None:
    with pytest.raises(TypeError, match="argument 5 must be a float, not str"):
        checked[2](torch.empty(5, dtype=torch.float64), 1, 1, 1, "x", 1.0)


def test_exceptions_of_kernels_are_runtime_errors(checked: list[Any]) -> None:
    out = torch.empty(5, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"^seven$"):
        checked[2](out, 7, 0, 0, 0.0, 0.0)
    with pytest.raises(RuntimeError, match="unknown C"):
        checked[2](out, 8, 0, 0, 0.0, 0.0)


HELPER = """\
#include <cstdint>
struct Helper {{ static float factor() {{ return {factor}; }} }};
float help() {{ return Helper::factor(); }}
extern "C" void kernel(const float* in_ptr0, float* out_ptr0, const int64_t ks0)
{{
    for (int64_t x0 = 0; x0 < ks0; ++x0) out_ptr0[x0] = in_ptr0[x0] * help();
}}
"""


def test_helpers_of_equal_names_do_not_meet(cache: DiskCache, counting_compiler: Path) -> None:
    sources = [
        CppSource(f"k{n}", HELPER.format(factor=f"{n}.0f"), SCALE_TYPES) for n in range(2, 5)
    ]
    functions = build_kernels(sources, cache=cache, jobs=1)
    assert [scaled(f)[1].item() for f in functions] == [2.0, 3.0, 4.0]
    assert counting_compiler.read_text().count(" -c ") == 1


def test_solitary_kernels_get_libraries_of_their_own(cache: DiskCache) -> None:
    macro = '#define FACTOR {}\nextern "C" float help() {{ return FACTOR; }}\n'
    code = "#include <cstdint>\nvoid run(const float* a, float* b, int64_t) { *b = *a * help(); }"
    sources = [CppSource(f"k{n}", macro.format(n) + code, SCALE_TYPES, entry="run") for n in (2, 3)]
    functions = build_kernels([*sources, scale("plain")], cache=cache)
    out = torch.empty(1)
    for function, factor in zip(functions, (2, 3, 2), strict=True):
        function(torch.ones(1), out, 1)
        assert out.item() == factor
    assert cache.stats().libraries == 3


def test_kernels_that_only_disagree_are_compiled_apart(
    cache: DiskCache, counting_compiler: Path
) -> None:
    # Each leaves its namespace for a moment and defines the same name outside.
    escape = "\n}\nstatic int clash;\nnamespace again {\n"
    sources = [CppSource(f"k{n}", scale("x", f"{n}.0f").code + escape, SCALE_TYPES) for n in (2, 3)]
    seen: list[tuple[int, int]] = []
    functions = build_kernels(
        sources, cache=cache, jobs=1, progress=lambda *done: seen.append(done)
    )
    assert [scaled(f)[1].item() for f in functions] == [2.0, 3.0]
    assert counting_compiler.read_text().count(" -c ") == 3
    assert seen == [(1, 2), (2, 2)]


def test_kernels_that_cannot_be_linked(cache: DiskCache) -> None:
    escape = "\n}\nint clash;\nnamespace again {\n"
    sources = [CppSource(f"k{n}", scale("x", f"{n}.0f").code + escape, SCALE_TYPES) for n in (2, 3)]
    with pytest.raises(LinkError, match=r"multiple definition of .clash"):
        build_kernels(sources, cache=cache)


def test_extra_flags_reach_the_compiler(cache: DiskCache) -> None:
    source = scale("flagged", "FROM_FLAG", extra_flags=("-DFROM_FLAG=9.0f",))
    (function,) = build_kernels([source], cache=cache)
    assert scaled(function)[1].item() == 9.0


def test_a_compile_error_names_the_right_kernel_of_many(cache: DiskCache) -> None:
    bad = scale("bad", "undeclared_thing")
    with pytest.raises(CompileError) as caught:
        build_kernels([scale("good"), bad, scale("fine", "3.0f")], cache=cache)
    text = str(caught.value)
    assert "WIR2103: kernel 'bad' does not compile" in text
    assert ">    4 |     for (int64_t x0 = 0;" in text
    assert "'undeclared_thing' was not declared" in text
    assert "command: g++" in text
    assert "-O3" in caught.value.fields["command"]
    assert cache.stats().libraries == 0
    assert not list((cache.directory / "tmp").iterdir())


@pytest.mark.parametrize(
    "arg_types",
    [
        ("const float*", "float*"),
        ("const float*", "float*", "const int64_t", "const int64_t"),
        ("const float*", "double*", "const int64_t"),
        ("const float*", "const float*", "const int64_t"),
    ],
    ids=["too few", "too many", "wrong element", "const lost"],
)
def test_argument_types_that_do_not_fit_do_not_compile(
    cache: DiskCache, arg_types: tuple[str, ...]
) -> None:
    with pytest.raises(CompileError, match="kernel 'k' does not compile") as caught:
        build_kernels([CppSource("k", scale("k").code, arg_types)], cache=cache)
    assert "disagree with its parameters" in str(caught.value.hint)


def test_sources_are_checked_before_anything_is_compiled(
    cache: DiskCache, counting_compiler: Path
) -> None:
    with pytest.raises(KernelSourceError):
        build_kernels([scale("good"), CppSource("bad name", "", ())], cache=cache)
    with pytest.raises(IsaError):
        build_kernels([scale("good"), scale("bad", isa="avx1024")], cache=cache)
    assert " -c " not in counting_compiler.read_text()


def test_what_a_key_depends_on() -> None:
    compiler = find_compiler()
    best, none = resolve(), resolve("none")
    key = kernel_key(scale("a"), best, compiler)
    assert key == kernel_key(scale("other_name"), best, compiler)
    different = [
        kernel_key(scale("a", "2.5f"), best, compiler),
        kernel_key(scale("a", extra_flags=("-O2",)), best, compiler),
        kernel_key(CppSource("a", scale("a").code, SCALE_TYPES[:2]), best, compiler),
    ]
    assert len({key, *different}) == 4
    assert (kernel_key(scale("a"), none, compiler) in {key, *different}) is (best == none)


def test_the_library_needs_no_path_and_one_openmp(cache: DiskCache) -> None:
    import subprocess

    code = (
        "#include <cstdint>\n#include <omp.h>\nvoid kernel(int64_t* out)\n{\n"
        "#pragma omp parallel\n#pragma omp single\nout[0] = omp_get_num_threads();\n}"
    )
    threads = one(cache, code, "int64_t*")
    out = torch.zeros(1, dtype=torch.int64)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    threads(out)  # torch and the kernel share one OpenMP runtime
    torch.set_num_threads(before)
    assert out.item() == 1
    (library,) = cache.directory.glob("objects/*/*.so")
    text = subprocess.run(
        ["readelf", "-dW", str(library)], capture_output=True, text=True, check=True
    ).stdout
    assert "RUNPATH" not in text
    assert "RPATH" not in text
    # By its name alone; through it the loader finds the rest, OpenMP's runtime among it.
    assert "[libtorch_cpu.so]" in text
    assert str(library_dirs()[0]) not in text
    with open("/proc/self/maps") as maps:
        assert len({line.split()[-1] for line in maps if "libgomp" in line}) == 1
