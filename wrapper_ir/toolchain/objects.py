"""One C++ file compiled to an object, in the cache or a folder, and the linker.

An object's key is a digest of everything that its bytes depend on: its text and flags, those of our
files that it reads, the versions of the compiler and of PyTorch. Neither the key nor the object
contains a directory: files are compiled in a scratch directory under their bare names, and the
paths of headers are mapped away. Equal input thus gives equal bytes, and an object compiled for one
library serves the next.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wrapper_ir.toolchain import compiler as cxx
from wrapper_ir.toolchain.cache import DiskCache
from wrapper_ir.toolchain.errors import CompileError, offending_lines
from wrapper_ir.toolchain.headers import INSTANCES, HeaderStore

if TYPE_CHECKING:
    from concurrent.futures import Future

    from wrapper_ir.toolchain.processes import Pool

#: Raise it when older cache entries must no longer be found.
_FORMAT: Final = 2

#: The directory of generated source in debug information.
_SOURCE_ROOT: Final = "wrapper_ir-generated"

EXPORTS: Final = "{ global: AOTInductor*; WrapperIR*; local: *; };\n"
"""A version script for the linker (``-Wl,--version-script=FILE``): the symbols that a library
exports. Without it, template instances of the standard library would be visible as well."""


@dataclass(frozen=True, slots=True)
class Translation:
    """One C++ file to compile."""

    name: str  #: its file name, without a directory, as in compiler messages
    text: str
    flags: tuple[str, ...]  #: every flag except include paths; no flag names a path
    what: str  #: its description in errors, such as ``"kernel 'f'"``
    headers: tuple[tuple[str, str], ...] = ()  #: name and text of the files beside it
    #: Our own files that it includes by their paths in ``wrapper_ir/native``. All objects depend on
    #: those in ``include``, which are not listed.
    reads: tuple[Path, ...] = ()
    #: Description and text of each part that compiler messages may point into, by its ``#line``.
    parts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: Hints for errors, each by a text that the compiler's messages then contain.
    hints: Mapping[str, str] = field(default_factory=dict)
    header: str = ""  #: the header that it reads and whose precompiled form helps, or empty
    processor: str = ""  #: an identifier of this processor if the flags depend on it

    def loaded_here(self) -> Translation:
        """Return the file as it is compiled for what no other machine gets, which is quicker."""
        return dataclasses.replace(self, flags=(*self.flags, INSTANCES)) if self.header else self

    def key(self, compiler: cxx.Compiler) -> str:
        """Return the digest of everything that the object depends on."""
        headers = (text for pair in self.headers for text in pair)
        parts = (*environment(), compiler.version, *self.flags, self.processor)
        texts = (self.name, self.text, *headers, digest_of(self.reads) if self.reads else "")
        return hashlib.sha256("\0".join((*parts, *texts)).encode()).hexdigest()

    def explained(self, error: cxx.CompilerRunError) -> CompileError:
        """Return the user-facing error for a file that does not compile."""
        what, file, text = self.what, self.name, self.text
        for part, about in self.parts.items():
            if offending_lines(part, error.output):
                file, (what, text) = part, about
                break
        hints = (hint for message, hint in self.hints.items() if message in error.output)
        return error.explained(what, file, text, next(hints, None))


@functools.cache
def environment() -> tuple[str, ...]:
    """Return the versions and a digest of our headers, on which every object depends."""
    return (str(_FORMAT), *cxx.versions(), digest_of(tuple((cxx.NATIVE / "include").rglob("*.h"))))


@functools.cache
def digest_of(files: tuple[Path, ...]) -> str:
    """Return a digest of our own files: their paths and texts."""
    pairs = ((str(file.relative_to(cxx.NATIVE)), file.read_text("utf-8")) for file in sorted(files))
    return hashlib.sha256("\0".join(part for pair in pairs for part in pair).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Tools:
    """The compiler, cache and precompiled headers, by header, that files are compiled with."""

    compiler: cxx.Compiler
    cache: DiskCache
    headers: Mapping[str, HeaderStore] = field(default_factory=dict)


def compile_file(file: Translation, tools: Tools, folder: Path | None = None) -> Path:
    """Compile a C++ file in a folder, and return the object beside it.

    By default the object is one in the cache, made now if absent, and must not be changed.

    Raises:
        CompileError: The file does not compile.
        CacheDirError: The cache directory cannot be used.
    """
    if folder is None:
        make = functools.partial(compile_file, file, tools)
        return tools.cache.made(file.key(tools.compiler), "o", make)
    for name, text in ((file.name, file.text), *file.headers):
        (folder / name).write_text(text, encoding="utf-8")
    target = Path(file.name).with_suffix(".o")
    command = [
        *tools.compiler.command,
        *file.flags,
        # Names that must be unique are derived from the seed, not from chance.
        f"-frandom-seed={file.key(tools.compiler)[:16]}",
        *cxx.include_flags(),
        f"-ffile-prefix-map={folder}={_SOURCE_ROOT}",
        *("-c", file.name, "-o", str(target)),
    ]
    try:
        _run(command, file, tools, folder)
    except cxx.CompilerRunError as error:
        raise file.explained(error) from error
    return folder / target


def _run(command: Sequence[str], file: Translation, tools: Tools, folder: Path) -> None:
    """Run the compiler, without the precompiled header if that fails: it may be damaged."""
    store = tools.headers.get(file.header)
    header = None
    if store is not None and "-g" not in file.flags:
        header = store.get(tools.compiler, file.flags)
    if header is not None:
        with contextlib.suppress(cxx.CompilerRunError):
            cxx.run([*command, "-include", str(header)], cwd=folder)
            return
    cxx.run(command, cwd=folder)
    if store is not None and header is not None:
        store.discard(tools.compiler, file.flags)


def compile_files(
    files: Iterable[Translation],
    tools: Tools,
    pool: Pool,
    advance: Callable[[], None] = lambda: None,
) -> list[Future[Path]]:
    """Start to compile the files that are not in the cache; return futures of objects, in order.

    Starting with the costliest file is quickest. ``advance`` is called from any thread when an
    object is ready. Waiting for one may raise as :func:`compile_file` does.
    """

    def object_of(file: Translation) -> Path:
        made = compile_file(file, tools)
        advance()
        return made

    return [pool.submit(object_of, file) for file in files]


def assemble(compiler: cxx.Compiler, file: Path) -> Path:
    """Assemble a ``.s`` file, which may include files beside it; return the object beside it."""
    target = file.with_suffix(".o")
    cxx.run_linker([*compiler.command, "-c", file.name, "-o", target.name], cwd=file.parent)
    return target


def link(
    compiler: cxx.Compiler,
    objects: Sequence[Path],
    library: Path,
    *,
    exports: str = EXPORTS,
    keep_symbols: bool = False,
    extra_flags: Sequence[str] = (),
) -> None:
    """Link objects into a shared library that is loaded beside PyTorch.

    The library has no executable stack, no run path, no build identifier and, unless
    ``keep_symbols``, no symbols except those that the version script exports. The stand-ins for
    PyTorch are the last objects. If several define an inline function, the linker takes the first,
    so objects compiled for the most basic processor come first.

    Raises:
        LinkError: The objects do not fit together.
    """
    script = library.with_name(f"{library.name}.exports")
    script.write_text(exports, encoding="utf-8")
    command = [
        *compiler.command,
        "-shared",
        *extra_flags,
        "-Wl,--no-as-needed",  # some systems drop seemingly unused libraries by default
        *(str(path) for path in objects),
        *("-o", str(library)),
        f"-Wl,--version-script={script}",
        "-Wl,--gc-sections",
        "-Wl,--build-id=none",
        "-Wl,-z,noexecstack,-z,relro,-z,now,-z,noseparate-code",
        *(() if keep_symbols else ("-Wl,--strip-all",)),
    ]
    try:
        cxx.run_linker(command)
    finally:
        script.unlink()


def split_debug_information(library: Path, target: Path) -> None:
    """Move a library's debug information to a file beside it, to which the library then points.

    Raises:
        LinkError: ``objcopy`` of GNU binutils is missing or fails.
    """
    commands = (
        ("objcopy", "--only-keep-debug", library.name, target.name),
        ("objcopy", "--strip-all", f"--add-gnu-debuglink={target.name}", library.name),
    )
    for command in commands:
        cxx.run_linker(command, cwd=library.parent)
