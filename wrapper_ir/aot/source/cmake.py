"""The additions that let anybody build a folder of C++: the C++ runtime, constants, CMake files.

The folder then holds everything that a library consists of. It still needs PyTorch, for its headers
and to load the library beside.
"""

from __future__ import annotations

import dataclasses
import itertools
import shutil
from typing import TYPE_CHECKING, Final

from wrapper_ir.aot.build.gpu_kernels import DeviceCode
from wrapper_ir.aot.build.kernels import NATIVE, check_text, kernel_translations, required_features
from wrapper_ir.aot.build.library import linked_constants, prepared
from wrapper_ir.toolchain.cache import default_cache
from wrapper_ir.toolchain.compiler import NATIVE as RUNTIME
from wrapper_ir.toolchain.compiler import find_compiler, generated_flags
from wrapper_ir.toolchain.manifest import Manifest, needed_parts
from wrapper_ir.toolchain.native import native_units
from wrapper_ir.toolchain.objects import EXPORTS, Translation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wrapper_ir.aot.build.work import BuildOptions
    from wrapper_ir.emitters.cpp.renderer import CppSources


_CMAKE: Final = """\
# Builds {name}.so, which AOTInductor's loaders take:
#
#   cmake -S . -B build -DWIR_TORCH_DIR="$(python -c 'import torch; print(torch.__path__[0])')"
#   cmake --build build
#
# The directory is PyTorch's, with include and lib in it; that of LibTorch, without Python, will do.
#
# Without WIR_TORCH_DIR, CMake looks for PyTorch's own package (Torch_DIR, CMAKE_PREFIX_PATH). If
# PyTorch was built for CUDA, as pip's is, that package wants the whole CUDA toolkit, which nothing
# here needs.
cmake_minimum_required(VERSION 3.18)
project({name} LANGUAGES CXX ASM)

set(WIR_TORCH_DIR "" CACHE PATH "PyTorch's directory; empty to look for its package for CMake")
{devices}if(WIR_TORCH_DIR)
  set(torch_includes
    "${{WIR_TORCH_DIR}}/include" "${{WIR_TORCH_DIR}}/include/torch/csrc/api/include")
  set(torch_library {libraries})
else()
  message(STATUS "WIR_TORCH_DIR is not set; looking for PyTorch's package for CMake")
  find_package(Torch QUIET)
  if(NOT Torch_FOUND)
    message(FATAL_ERROR
      "PyTorch not found; pass -DWIR_TORCH_DIR=DIR, the directory with its include and lib: "
      "python -c 'import torch; print(torch.__path__[0])'")
  endif()
  set(torch_includes ${{TORCH_INCLUDE_DIRS}})
  set(torch_library {targets})
endif()

add_library({name} MODULE
{sources})
set_target_properties({name} PROPERTIES PREFIX "" SUFFIX ".so" SKIP_BUILD_RPATH ON)
target_include_directories({name} PRIVATE runtime/include ${{torch_includes}})
target_link_libraries({name} PRIVATE ${{torch_library}}{linked})
target_link_options({name} PRIVATE
  "-Wl,--version-script=${{CMAKE_CURRENT_SOURCE_DIR}}/exports.map"
  -Wl,--gc-sections -Wl,-z,noexecstack -Wl,--strip-all)
{constants}{including}
set(plain_flags
  {plain_flags})
set_source_files_properties({plain_sources}
  PROPERTIES COMPILE_OPTIONS "${{plain_flags}}")
{kernel_flags}"""

#: The rule for an assembly file that includes files beside it.
_INCLUDING: Final = """\
set_source_files_properties({file} PROPERTIES
  COMPILE_OPTIONS "-Wa,-I${{CMAKE_CURRENT_SOURCE_DIR}}")
"""

_BUILD: Final = """
## Build a library

CMake builds `{name}.so` without wrapper_ir, with PyTorch's directory:

    cmake -S . -B build -DWIR_TORCH_DIR="$(python -c 'import torch; print(torch.__path__[0])')"
    cmake --build build

Load it next to PyTorch, from C++ or Python:

{runner}

{isa}
"""

_RUNNER: Final = """\
    torch::inductor::AOTIModelContainerRunner{device} runner("build/{name}.so");
    std::vector<at::Tensor> results = runner.run({{input}});

    runner = torch._C._aoti.AOTIModelContainerRunner{device}("build/{name}.so", 1)
    results = runner.run([input])"""

#: For a device that torch does not know: its library has registered a runner with torch.
_VENDORS_RUNNER: Final = """\
    auto make = torch::inductor::getAOTIModelRunnerRegistry().at("{type}");
    auto runner = make("build/{name}.so", 1, "{type}", "", false);
    std::vector<at::Tensor> results = runner->run({{input}});"""

#: The check for a library that is not torch's, before its first use.
_VENDORS_LIBRARY: Final = """\
set({variable} "" CACHE FILEPATH "{library}, which the program runs beside")
if(NOT EXISTS "${{{variable}}}")
  message(FATAL_ERROR "{library} not found; set it with -D{variable}=/path/to/{library}")
endif()
"""


_ROWS: Final = {
    "program*.cpp": "the program in C++: tables of what goes in and out, and one function",
    "CMakeLists.txt": "builds a library from these files",
    "kernels*.cpp": "which kernels are compiled together",
    "cpu.cpp": "rejects unsupported CPUs",
    "runtime/": "the runtime part, the same for every program",
}
"""Descriptions of the files that every folder has."""


def write_build(
    folder: Path, artifact: CppSources, options: BuildOptions, *, name: str
) -> tuple[dict[str, str], str]:
    """Write the files that a library is built from beside the program's text and its kernels.

    Return a description of each file by path, and further text for the page about the folder.
    """
    target = _identifier(name)
    compiler = find_compiler(options.cache)
    content, where, units = prepared(artifact, options)
    code = DeviceCode.of(artifact, options)
    # Without the features of this processor, as the library may be built on another one.
    isas = [dataclasses.replace(isa, march="x86-64") if isa.native else isa for _, isa in units]
    check = check_text(required_features(compiler, isas), options.isa)
    compiled = kernel_translations(units, compiler, options.extra_flags, included=True)
    kernels = {f"kernels{index}.cpp": unit for index, unit in enumerate(compiled)}
    texts = {file: unit.text for file, unit in kernels.items()}
    parts = needed_parts(artifact.manifest.parts, alone=True)
    runtime = _copy_runtime(folder, native_units(parts))
    code.write(folder, options.cache or default_cache())
    blob = linked_constants(artifact.program, content, folder / target, where)
    plain = [*sorted(f for f in artifact.sources if f.endswith(".cpp")), "cpu.cpp"]
    assembled = [*(["constants.s"] if blob else []), *([code.file] if code.file else [])]
    cmake = _CMAKE.format(
        name=target,
        sources="\n".join(f"  {file}" for file in (*runtime, *plain, *kernels, *assembled)),
        constants=_constants_rule(target, blob, where),
        including=_INCLUDING.format(file=code.file) if code.file else "",
        **_libraries(artifact.manifest),
        plain_flags=" ".join(generated_flags(compiler)),
        plain_sources=" ".join([*runtime, *plain]),
        kernel_flags="".join(itertools.starmap(_kernel_rule, kernels.items())),
    )
    texts |= {"cpu.cpp": check, "exports.map": EXPORTS, "CMakeLists.txt": cmake}
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    rows = {
        **_ROWS,
        **({} if blob is None or where == "none" else {blob: "the values of constants, again"}),
        **code.rows,
    }
    return rows, _build_page(target, artifact.manifest, options)


def _build_page(target: str, manifest: Manifest, options: BuildOptions) -> str:
    """Return the text about building and loading a library."""
    device = manifest.sides[-1].runner
    template = _RUNNER if device else _VENDORS_RUNNER
    runner = template.format(name=target, device=device, type=manifest.type)
    about_isa = f"The library runs on any processor of level `{options.isa}`."
    if options.isa == NATIVE:
        about_isa = (
            "Kernels are compiled for the processor that they are built on (`-march=native`)."
        )
    return _BUILD.format(name=target, runner=runner, isa=about_isa)


def _libraries(manifest: Manifest) -> dict[str, str]:
    """Return the values of ``_CMAKE`` for the libraries that a program is linked with.

    Torch's libraries are found by its CMake package, or in its directory. A vendor's library is
    given by a variable named after it.
    """
    torchs = [side for side in manifest.sides if side.target]
    vendors = {
        f"WIR_{_identifier(side.library.partition('.')[0]).upper().replace('-', '_')}": side.library
        for side in manifest.sides
        if side.library and not side.target
    }
    rules = (_VENDORS_LIBRARY.format(variable=v, library=name) for v, name in vendors.items())
    return {
        "libraries": " ".join(f'"${{WIR_TORCH_DIR}}/lib/{side.library}"' for side in torchs),
        "targets": " ".join(side.target for side in torchs),
        "devices": "".join(rules),
        "linked": "".join(f' "${{{variable}}}"' for variable in vendors),
    }


def _identifier(name: str) -> str:
    """Return a name that CMake accepts for a target."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)


def _copy_runtime(folder: Path, units: Mapping[str, Sequence[Path]]) -> list[str]:
    """Copy the C++ runtime, and return the files to compile.

    The files of a unit are compiled as one, which takes a quarter of the time.
    """
    sources = RUNTIME / "src"
    shutil.copytree(RUNTIME / "include", folder / "runtime" / "include")
    target = folder / "runtime" / "src"
    target.mkdir()
    for file in (*sorted(sources.glob("*.h")), *(each for unit in units.values() for each in unit)):
        shutil.copyfile(file, target / file.name)
    sources_to_compile = []
    for name, files in units.items():
        if len(files) == 1:
            sources_to_compile.append(f"runtime/src/{files[0].name}")
            continue
        text = "".join(f'#include "{file.name}"\n' for file in files)
        (target / f"{name}.cc").write_text(text, encoding="utf-8")
        sources_to_compile.append(f"runtime/src/{name}.cc")
    return sorted(sources_to_compile, reverse=True)  # happens to put the longest first


def _constants_rule(target: str, blob: str | None, where: str) -> str:
    if blob is None or where == "none":
        return ""
    if where == "embedded":
        depends = f'\n  OBJECT_DEPENDS "${{CMAKE_CURRENT_SOURCE_DIR}}/{blob}"'
        return _INCLUDING.format(file="constants.s").replace(")\n", f"{depends})\n")
    return (
        f"add_custom_command(TARGET {target} POST_BUILD COMMAND ${{CMAKE_COMMAND}} -E\n"
        f'  create_symlink "${{CMAKE_CURRENT_SOURCE_DIR}}/{blob}"\n'
        f'  "$<TARGET_FILE_DIR:{target}>/{blob}")\n'
    )


def _kernel_rule(file: str, unit: Translation) -> str:
    flags = ";".join(unit.flags)
    return f'set_source_files_properties({file} PROPERTIES COMPILE_OPTIONS\n  "{flags}")\n'
