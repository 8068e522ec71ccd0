"""What makes a folder of C++ one that anybody can build: the runtime part, constants, CMake.

The folder then holds all that a library consists of; what it needs besides is PyTorch, for its
headers and as a library to load beside.
"""

from __future__ import annotations

import dataclasses
import itertools
import shutil
from typing import TYPE_CHECKING, Final

from wrapper_ir.aot.build import linked_constants, prepared
from wrapper_ir.aot.gpu_kernels import DeviceCode
from wrapper_ir.aot.kernels import NATIVE, check_text, kernel_translations, required_features
from wrapper_ir.toolchain.cache import default_cache
from wrapper_ir.toolchain.compiler import find_compiler
from wrapper_ir.toolchain.native import (
    EXPORTS,
    native_include_dirs,
    native_units,
)
from wrapper_ir.toolchain.objects import generated_flags
from wrapper_ir.toolchain.parts import needed_parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wrapper_ir.aot.build import BuildOptions
    from wrapper_ir.emitters.cpp.artifact import CppArtifact
    from wrapper_ir.toolchain.manifest import Manifest
    from wrapper_ir.toolchain.objects import Translation


_CMAKE: Final = """\
# Builds {name}.so, which AOTInductor's loaders take.
#
#   cmake -S . -B build -DCMAKE_PREFIX_PATH="$(python -c 'import torch; \\
#       print(torch.utils.cmake_prefix_path)')" && cmake --build build
#
# Where find_package(Torch) wants more than is there, tell it where the headers and the library are:
#
#   cmake -S . -B build -DWIR_TORCH_DIR=/path/to/site-packages/torch
cmake_minimum_required(VERSION 3.18)
project({name} LANGUAGES CXX ASM)

set(WIR_TORCH_DIR "" CACHE PATH "The directory of PyTorch; empty to look for it")
{devices}if(WIR_TORCH_DIR)
  set(torch_includes
    "${{WIR_TORCH_DIR}}/include" "${{WIR_TORCH_DIR}}/include/torch/csrc/api/include")
  set(torch_library {libraries})
else()
  find_package(Torch REQUIRED)
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

#: For a file of assembler that includes others beside it.
_INCLUDING: Final = """\
set_source_files_properties({file} PROPERTIES
  COMPILE_OPTIONS "-Wa,-I${{CMAKE_CURRENT_SOURCE_DIR}}")
"""

_BUILD: Final = """
## Build a library

`cmake` builds `{name}.so` without wrapper_ir; how is said at the top of `CMakeLists.txt`. Load it
beside PyTorch, from C++ or Python:

{runner}

{isa}
"""

_RUNNER: Final = """\
    torch::inductor::AOTIModelContainerRunner{device} runner("build/{name}.so");
    std::vector<at::Tensor> results = runner.run({{input}});

    runner = torch._C._aoti.AOTIModelContainerRunner{device}("build/{name}.so", 1)
    results = runner.run([input])"""

#: Of a device that is not torch's: its library has told torch of a runner.
_VENDORS_RUNNER: Final = """\
    auto make = torch::inductor::getAOTIModelRunnerRegistry().at("{type}");
    auto runner = make("build/{name}.so", 1, "{type}", "", false);
    std::vector<at::Tensor> results = runner->run({{input}});"""

#: Before the first use of a library that is not torch's.
_VENDORS_LIBRARY: Final = """\
set({variable} "" CACHE FILEPATH "{library}, which the program runs beside")
if(NOT EXISTS "${{{variable}}}")
  message(FATAL_ERROR "where is {library}? Say it: -D{variable}=/path/to/{library}")
endif()
"""


_ROWS: Final = {
    "program*.cpp": "the program in C++: tables of what goes in and out, and one function",
    "CMakeLists.txt": "how a library is built of it, and of what follows",
    "kernels*.cpp": "which kernels are compiled together",
    "cpu.cpp": "by which the library refuses processors that it was not built for",
    "runtime/": "the runtime part, the same for every program",
}
"""What the files are that every folder has."""


def write_build(
    folder: Path, artifact: CppArtifact, options: BuildOptions, *, name: str
) -> tuple[dict[str, str], str]:
    """Writes what a library is built from besides the program's text and its kernels.

    Args:
        folder: The directory that holds those.
        artifact: The program.
        options: How to build.
        name: What the library is to be called.

    Returns:
        What each file is, by its path, and what else is to be said on the page about the folder.
    """
    target = _identifier(name)
    compiler = find_compiler(options.cache)
    table, where, chosen, archives = prepared(artifact, options)
    code = DeviceCode.of(artifact, options)
    # Not for this processor in particular: whoever builds it may have another one.
    isas = [dataclasses.replace(isa, march="x86-64") for _, isa in chosen if isa.native]
    isas += [isa for _, isa in chosen if not isa.native]
    check = check_text(required_features(compiler, isas), options.isa)
    compiled = kernel_translations(chosen, compiler, options.extra_flags, included=True)
    kernels = {f"kernels{index}.cpp": unit for index, unit in enumerate(compiled)}
    texts = {file: unit.text for file, unit in kernels.items()}
    parts = needed_parts(artifact.manifest.parts, alone=True)
    runtime = _copy_runtime(folder, native_units(parts))
    code.write(folder, options.cache or default_cache())
    blob = linked_constants(artifact.program, table, archives, folder / target, where)
    plain = [*sorted(f for f in artifact.sources if f.endswith(".cpp")), "cpu.cpp"]
    assembled = [*(["constants.s"] if blob else []), *([code.file] if code.file else [])]
    cmake = _CMAKE.format(
        name=target,
        sources=_listed([*runtime, *plain, *kernels, *assembled]),
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
    """How a library is built of the folder and loaded, in words."""
    device = manifest.sides[-1].runner
    said = _RUNNER if device else _VENDORS_RUNNER
    runner = said.format(name=target, device=device, type=manifest.type)
    return _BUILD.format(name=target, runner=runner, isa=_about_isa(options.isa))


def _libraries(manifest: Manifest) -> dict[str, str]:
    """The libraries that a program is linked with, as ``_CMAKE`` names their places.

    Torch's are found by its package for CMake, or in its directory. A vendor's is given by a
    variable of its name.
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
    """A name that CMake takes for a target."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "_" for c in name)


def _copy_runtime(folder: Path, units: Mapping[str, Sequence[Path]]) -> list[str]:
    """Copies the runtime part; returns the files to compile.

    Most are compiled as one, which takes a quarter of the time.
    """
    headers = native_include_dirs()[0]
    sources = headers.parent / "src"
    shutil.copytree(headers, folder / "runtime" / "include")
    target = folder / "runtime" / "src"
    target.mkdir()
    for file in (*sorted(sources.glob("*.h")), *(each for unit in units.values() for each in unit)):
        shutil.copyfile(file, target / file.name)
    found = []
    for name, files in units.items():
        if len(files) == 1:
            found.append(f"runtime/src/{files[0].name}")
            continue
        text = "".join(f'#include "{file.name}"\n' for file in files)
        (target / f"{name}.cc").write_text(text, encoding="utf-8")
        found.append(f"runtime/src/{name}.cc")
    return sorted(found, reverse=True)  # the longest first


def _listed(files: Sequence[str]) -> str:
    return "".join(f"  {file}\n" for file in files).rstrip("\n")


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


def _about_isa(isa: str) -> str:
    if isa == NATIVE:
        return "Kernels are compiled for the processor that they are built on (`-march=native`)."
    return f"The library runs on any processor of level `{isa}`."
