from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from torch._inductor.package import load_package, package_aoti

from tests.native import calls
from wrapper_ir.toolchain import compiler, native
from wrapper_ir.toolchain.cache import DiskCache
from wrapper_ir.toolchain.compiler import include_dirs, native_flags, native_include_dirs, run
from wrapper_ir.toolchain.errors import CompileError
from wrapper_ir.toolchain.native import runtime_objects

if TYPE_CHECKING:
    from tests.native.conftest import Toolbox

X = torch.linspace(-3, 5, 24).reshape(3, 8)
HEADER = "torch/csrc/inductor/aoti_runtime/interface.h"


def header() -> str:
    return (next(path for path in include_dirs() if (path / HEADER).exists()) / HEADER).read_text()


def declared() -> set[str]:
    """Return the functions that PyTorch's header of the interface declares."""
    return set(re.findall(r"\b(AOTInductor\w+)\(\s", header()))


def tool(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_every_function_of_the_interface_is_there_and_nothing_else(library: Path) -> None:
    lines = tool("nm", "-D", "--defined-only", str(library)).splitlines()
    shown = {line.split()[-1] for line in lines}
    ours = {
        "WrapperIRGetBoundDevice",
        "WrapperIRModelContainerGetCudaGraphStatus",
        "WrapperIRModelContainerGetUnreadNames",
        "WrapperIRModelContainerReleaseMemory",
        "WrapperIRModelContainerSetInputChecks",
        "WrapperIRSetProbes",
        "wir_program_info",
    }
    assert len(declared()) > 25
    assert shown - ours >= declared()
    assert all(name.startswith("AOTInductor") for name in shown - ours)


def test_the_functions_have_the_types_of_pytorchs_header(toolbox: Toolbox, tmp_path: Path) -> None:
    """The compiler refuses two declarations of one C function that differ."""
    if "AOTInductorArrayRefTensor" not in header():
        pytest.skip("PyTorch before 2.13 does not know all the types")
    both = tmp_path / "both.cpp"
    both.write_text(
        f'#define WIR_WITH_TORCHS_INTERFACE\n#include <{HEADER}>\n#include "interface.cpp"\n'
        '#include "models.cpp"\n'
    )
    source = Path(native.__file__).parents[1] / "native" / "src"
    includes = [f"-I{path}" for path in (source, *native_include_dirs())]
    command = [*toolbox.compiler.command, *native_flags(toolbox.compiler), *includes]
    run([*command, "-fsyntax-only", str(both)])


def test_a_clean_artefact(library: Path, beside: Path) -> None:
    for file in (library, beside):
        assert re.search(r"GNU_STACK.* RW ", tool("readelf", "-lW", str(file)))
        text = file.read_bytes()
        for path in (str(library.parent), str(Path.cwd()), str(include_dirs()[1])):
            assert path.encode() not in text
        needed = re.findall(r"NEEDED.*\[(.*)\]", tool("readelf", "-d", str(file)))
        assert set(needed) <= {
            "libtorch_cpu.so",
            "libstdc++.so.6",
            "libgcc_s.so.1",
            "libc.so.6",
            "ld-linux-x86-64.so.2",
        }
        if "libstdc++.so.6" in needed:  # some systems link it into the library
            assert file.stat().st_size < 140_000
        assert "UNIQUE" not in tool("readelf", "-sW", "--dyn-syms", str(file))


def use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have our C++ read from another folder."""
    monkeypatch.setattr(compiler, "NATIVE", folder)


def test_objects_are_found_again_and_equal_wherever_they_are_made(
    toolbox: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = runtime_objects(toolbox.cache, toolbox.compiler, ())
    stamps = [file.stat().st_mtime_ns for file in first]
    assert runtime_objects(toolbox.cache, toolbox.compiler, ()) == first
    assert [file.stat().st_mtime_ns for file in first] == stamps

    moved = tmp_path / "another" / "native"
    shutil.copytree(Path(native.__file__).parents[1] / "native", moved)
    use(moved, monkeypatch)
    second = runtime_objects(DiskCache(tmp_path / "cache"), toolbox.compiler, ())
    assert [file.name for file in second] == [file.name for file in first]
    assert [file.read_bytes() for file in second] == [file.read_bytes() for file in first]


def test_a_runtime_part_that_does_not_compile_is_told(
    toolbox: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(Path(native.__file__).parents[1] / "native" / "include", tmp_path / "include")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "broken.cpp").write_text("int broken = nothing;\n")
    use(tmp_path, monkeypatch)
    with pytest.raises(CompileError, match="runtime part") as failure:
        runtime_objects(DiskCache(tmp_path / "cache"), toolbox.compiler, ())
    assert "nothing" in str(failure.value)


def test_a_container_needs_a_runner_and_a_device_it_was_made_for(library: Path) -> None:
    with pytest.raises(calls.NativeError, match="at least one runner"):
        calls.Native(library, runners=0)
    with pytest.raises(calls.NativeError, match="made for the CPU, not for 'cuda:1'"):
        calls.Native(library, device="cuda:1")
    with calls.Native(library, device="cpu:0") as model:
        names = []
        for what, count in (("Input", 3), ("Output", 5)):
            found, name = ctypes.c_size_t(), ctypes.c_char_p()
            model(f"GetNum{what}s", ctypes.byref(found))
            assert found.value == count
            model(f"Get{what}Name", ctypes.c_size_t(0), ctypes.byref(name))
            names.append(name.value)
            with pytest.raises(calls.NativeError, match=f"no .* number {count}"):
                model(f"Get{what}Name", ctypes.c_size_t(count), ctypes.byref(name))
        assert names == [b"x", b"y"]


def test_halves_that_keep_to_different_contracts_are_refused(toolbox: Toolbox) -> None:
    library = toolbox.build("contract", "EMBEDDED", "CONTRACT=999")
    with pytest.raises(calls.NativeError, match="differ in ABI version: 999"):
        calls.Native(library)


@pytest.mark.parametrize("given", [False, True])
def test_bare_models(library: Path, given: bool) -> None:
    functions = ctypes.CDLL(str(library))
    tensors = {
        "weight": torch.full((4, 8), 2.0),
        "head": None,
        "bias": torch.full((8,), 5.0),
    }
    weight, bias = tensors["weight"], tensors["bias"]
    assert weight is not None
    assert bias is not None
    counts = weight._use_count(), bias._use_count()
    owned = calls.handles([bias]) if given else []
    pairs = (calls.Pair * len(owned))(*(calls.Pair(b"linear.bias", handle) for handle in owned))
    model = ctypes.c_void_p()
    create = functions.AOTInductorModelCreateV2
    assert create(ctypes.byref(model), pairs, ctypes.c_size_t(len(owned))) == int(given)
    assert (weight._use_count(), bias._use_count()) == counts  # taken, also by what failed
    if given:  # the weight is missing
        words = ctypes.c_char_p()
        functions.AOTInductorGetLastError(ctypes.byref(words))
        assert b"missing: 'linear.weight', 'head.weight'\n" in (words.value or b"")
        return
    handles = (ctypes.c_void_p * 3)(*calls.handles(calls.inputs(X)))
    results = (ctypes.c_void_p * 5)()
    assert functions.AOTInductorModelRun(model, handles, results) == 0
    found = [None if handle is None else calls.take(handle) for handle in results]
    assert found[0] is not None
    assert torch.equal(found[0], calls.expected(X))
    count = ctypes.c_size_t()
    assert functions.AOTInductorModelGetNumOutputs(model, ctypes.byref(count)) == 0
    assert count.value == 5
    assert functions.AOTInductorModelDelete(model) == 0


@pytest.mark.parametrize("library_of", ["library", "beside"])
def test_a_package(
    toolbox: Toolbox, library_of: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """PyTorch's own way to pack and load; constants beside the library travel with it."""
    made = request.getfixturevalue(library_of)
    library = toolbox.with_file(made, f"packed-{library_of}")
    metadata = tmp_path / "fixture.wrapper_metadata.json"
    metadata.write_text(json.dumps({"AOTI_DEVICE_KEY": "cpu"}))
    wrapper = library.rename(library.with_name("fixture.wrapper.so"))
    source = tmp_path / "fixture.wrapper.cpp"  # older loaders find the rest by its name
    source.write_text("")
    files: list[str] = [str(wrapper), str(metadata), str(source)]
    if library_of == "beside":
        files.append(str(library.parent / "fixture.constants"))
    package = package_aoti(str(tmp_path / "fixture.pt2"), {"model": files})
    model = load_package(package, run_single_threaded=True)
    assert set(model.get_constant_fqns()) >= {"linear.weight", "norm.seen"}
    model.load_constants({"linear.bias": torch.zeros(8)}, check_full_update=False)
    y = model.loader.boxed_run(calls.inputs(X))[0]
    assert torch.equal(y, calls.expected(X, 2.0, torch.zeros(8)))
    wrong = {"linear.bias": torch.zeros(4)}
    with pytest.raises(RuntimeError):
        model.load_constants(wrong, check_full_update=False)
    with pytest.raises(RuntimeError):
        model.loader.boxed_run(calls.inputs(X.double()))
