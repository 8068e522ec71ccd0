"""The runtime part of AOT libraries, linked with a hand-written program."""

from __future__ import annotations

import hashlib
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from wrapper_ir.toolchain.cache import DiskCache, default_cache
from wrapper_ir.toolchain.compiler import (
    Compiler,
    find_compiler,
    library_dirs,
    native_flags,
    native_include_dirs,
)
from wrapper_ir.toolchain.manifest import Part
from wrapper_ir.toolchain.native import constants_trailer, runtime_objects
from wrapper_ir.toolchain.objects import EXPORTS

_SOURCES = native_include_dirs()[0].parent / "src"

FIXTURE = Path(__file__).with_name("fixture.cpp")

#: What fixture.cpp embeds: weight[i][j] = i, bias[j] = j, seen = 0.
BLOB = struct.pack(
    "<40f", *(float(i // 8) for i in range(32)), *(float(j) for j in range(8))
).ljust(256, b"\0")
DIGEST = hashlib.sha256(BLOB)


@dataclass(frozen=True)
class Toolbox:
    """Builds libraries from the fixture."""

    cache: DiskCache
    compiler: Compiler
    folder: Path

    def build(
        self, name: str, *definitions: str, source: Path = FIXTURE, graphs: bool = False
    ) -> Path:
        """Return a program as a library in a folder of its own."""
        folder = self.folder / name
        folder.mkdir()
        script = folder / "exports.map"
        script.write_text(EXPORTS, encoding="utf-8")
        objects = runtime_objects(self.cache, self.compiler, (Part.GRAPHS,) if graphs else ())
        library = folder / f"{name}.so"
        command = [
            *self.compiler.command,
            *native_flags(self.compiler),
            *(f"-D{text}" for text in (f'DIGEST="{DIGEST.hexdigest()}"', *definitions)),
            *(f"-I{path}" for path in (_SOURCES, *native_include_dirs())),
            "-shared",
            *map(str, objects),
            str(source),
            *("-o", str(library)),
            *(f"-L{path}" for path in library_dirs()),
            "-Wl,--as-needed,--gc-sections,-z,noexecstack,-Bsymbolic",
            f"-Wl,--version-script={script}",
            *("-ltorch_cpu", "-s"),
        ]
        subprocess.run(command, check=True)
        return library

    def with_file(self, library: Path, name: str, blob: bytes = BLOB) -> Path:
        """Return a copy of a library in a folder of its own, with constants beside it."""
        folder = self.folder / name
        folder.mkdir()
        copy = folder / library.name
        shutil.copy(library, copy)
        trailer = constants_trailer(len(BLOB), DIGEST.digest())
        (folder / "fixture.constants").write_bytes(blob + trailer)
        return copy


@pytest.fixture(scope="session")
def toolbox(tmp_path_factory: pytest.TempPathFactory) -> Toolbox:
    cache = default_cache()
    return Toolbox(cache, find_compiler(cache), tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="session")
def library(toolbox: Toolbox) -> Path:
    return toolbox.build("embedded", "EMBEDDED")


@pytest.fixture(scope="session")
def beside(toolbox: Toolbox) -> Path:
    """A library whose constants are not in it; nor beside it, yet."""
    return toolbox.build("beside")
