"""Cached object files, and the linker: the tools that AOT libraries are built with.

An object's key is a digest of everything that its bytes depend on: its text and flags, those of our
headers that it reads, the versions of the compiler and of PyTorch. Neither the key nor the object
contains a directory: files are compiled in a scratch directory under their bare names, and the
paths of headers are mapped away. Equal input thus gives equal bytes, and an object compiled for one
library serves the next.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wrapper_ir.toolchain.compiler import (
    Compiler,
    CompilerRunError,
    include_flags,
    run,
    run_linker,
    versions,
)
from wrapper_ir.toolchain.errors import CompileError, offending_lines
from wrapper_ir.toolchain.headers import PREFIX, HeaderStore
from wrapper_ir.toolchain.kernels import environment as kernel_environment
from wrapper_ir.toolchain.native import EXPORTS, native_include_dirs, plain_flags

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from wrapper_ir.toolchain.cache import DiskCache
    from wrapper_ir.toolchain.processes import Pool

#: Raise it when older cache entries must no longer be found.
_FORMAT = 1

#: The header that every generated file reads.
GENERATED = "wir/generated.h"

#: The directory of generated source in debug information.
_SOURCE_ROOT = "wrapper_ir-generated"


@dataclass(frozen=True, slots=True)
class Translation:
    """One C++ file to compile.

    Attributes:
        name: Its file name, without a directory, as in compiler messages.
        text: Its text.
        flags: Every flag except include paths; no flag names a path.
        what: Its description in errors, such as ``"kernel 'f'"``.
        headers: Name and text of each file beside it, which it may include in quotes.
        parts: Description and text of each part that compiler messages may point into, by the file
            name in its ``#line``.
        header: The header that it reads and whose precompiled form helps, or empty.
        processor: An identifier of this processor if the flags depend on it (``-march=native``).
    """

    name: str
    text: str
    flags: tuple[str, ...]
    what: str
    headers: tuple[tuple[str, str], ...] = ()
    parts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    header: str = ""
    processor: str = ""

    def key(self, compiler: Compiler) -> str:
        """Return the digest of everything that the object depends on."""
        headers = (text for pair in self.headers for text in pair)
        parts = (*environment(), compiler.version, *self.flags, self.processor)
        return hashlib.sha256(
            "\0".join((*parts, self.name, self.text, *headers)).encode()
        ).hexdigest()


@functools.cache
def environment() -> tuple[str, ...]:
    """Return the versions and the text of our headers, on which every object depends."""
    ours = native_include_dirs()[0]
    texts = (
        text
        for file in sorted(ours.rglob("*.h"))
        for text in (file.relative_to(ours).as_posix(), file.read_text("utf-8"))
    )
    return (str(_FORMAT), *versions(), *texts)


def generated_flags(compiler: Compiler) -> tuple[str, ...]:
    """Return the flags for generated files other than kernels, without include paths.

    These files are lists of calls, where a higher optimisation level is not worth its time.
    """
    return (*plain_flags(compiler, "-O1"), "-w")


def compile_objects(
    translations: Sequence[Translation],
    *,
    cache: DiskCache,
    compiler: Compiler,
    headers: Mapping[str, HeaderStore],
    pool: Pool,
    advance: Callable[[], None],
) -> list[Future[Path]]:
    """Start to compile the files that are not in the cache.

    Args:
        translations: The files; starting with the costliest is quickest.
        cache: The cache of objects.
        compiler: The compiler.
        headers: The stores of precompiled headers, by header.
        pool: The threads that run compilers, one each.
        advance: Called from any thread when an object is ready.

    Returns:
        For each file, in order, a future of its object, which lies in the cache and must not be
        changed. Waiting for it may raise CompileError or CacheDirError.
    """

    def object_of(translation: Translation) -> Path:
        key = translation.key(compiler)
        store = headers.get(translation.header)
        file = cache.made(key, "o", lambda folder: _compile(translation, compiler, store, folder))
        advance()
        return file

    return [pool.submit(object_of, translation) for translation in translations]


def _compile(
    translation: Translation, compiler: Compiler, store: HeaderStore | None, scratch: Path
) -> Path:
    """Compile a file, without the precompiled header if that fails: it may be damaged."""
    header = None
    if store is not None and "-g" not in translation.flags:
        header = store.get(compiler, translation.flags)
    for name, text in ((translation.name, translation.text), *translation.headers):
        (scratch / name).write_text(text, encoding="utf-8")
    command = [
        *compiler.command,
        *translation.flags,
        # Names that must be unique are derived from the seed, not from chance.
        f"-frandom-seed={translation.key(compiler)[:16]}",
        *_include_flags(),
        f"-ffile-prefix-map={scratch}={_SOURCE_ROOT}",
    ]
    files = ("-c", translation.name, "-o", "out.o")
    try:
        if store is None or header is None:
            run([*command, *files], cwd=scratch)
        else:
            try:
                run([*command, "-include", str(header), *files], cwd=scratch)
            except CompilerRunError:
                store.discard(compiler, translation.flags)
                run([*command, *files], cwd=scratch)
    except CompilerRunError as error:
        raise _explained(translation, error) from error
    return scratch / "out.o"


def _include_flags() -> tuple[str, ...]:
    ours = native_include_dirs()[0]
    return (f"-I{ours}", f"-ffile-prefix-map={ours}=wrapper_ir", *include_flags())


def precompiled(cache: DiskCache) -> dict[str, HeaderStore]:
    """Return a cache's precompiled headers of kernels and of generated files, by header."""
    stamp = "\0".join(environment())
    return {
        PREFIX: HeaderStore(cache, kernel_environment()),
        GENERATED: HeaderStore(cache, stamp, GENERATED, _include_flags()),
    }


def _explained(translation: Translation, error: CompilerRunError) -> CompileError:
    """Return the user-facing error for a file that does not compile."""
    for file, (what, text) in translation.parts.items():
        if offending_lines(file, error.output):
            return error.explained(what, file, text)
    return error.explained(translation.what, translation.name, translation.text)


def assemble(compiler: Compiler, file: Path) -> Path:
    """Assemble a ``.s`` file, which may include files beside it; return the object beside it.

    Raises:
        LinkError: The assembler fails.
    """
    target = file.with_suffix(".o")
    run_linker([*compiler.command, "-c", file.name, "-o", target.name], cwd=file.parent)
    return target


def link(
    compiler: Compiler,
    objects: Sequence[Path],
    library: Path,
    *,
    exports: str = EXPORTS,
    keep_symbols: bool = False,
    extra_flags: Sequence[str] = (),
) -> None:
    """Link objects into a shared library that is loaded beside PyTorch.

    The library has no executable stack, no run path, no build identifier and, unless
    ``keep_symbols``, no symbols except those it exports.

    Args:
        compiler: The compiler that runs the linker.
        objects: The objects in order, the stand-ins for PyTorch last. If several objects define an
            inline function, the linker takes the first, so objects compiled for the most basic
            processor come first.
        library: The file to make.
        exports: A version script.
        keep_symbols: Whether to keep the symbols that debuggers and backtraces need.
        extra_flags: Further flags, such as ``("-fsanitize=address",)``.

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
        run_linker(command)
    finally:
        script.unlink()


def split_debug_information(library: Path, target: Path) -> None:
    """Move a library's debug information to a separate file, to which the library then points.

    Args:
        library: The library. It loses its symbols and debug information, and names ``target``.
        target: The file to make, beside the library.

    Raises:
        LinkError: ``objcopy`` of GNU binutils is missing or fails.
    """
    commands = (
        ("objcopy", "--only-keep-debug", library.name, target.name),
        ("objcopy", "--strip-all", f"--add-gnu-debuglink={target.name}", library.name),
    )
    for command in commands:
        run_linker(command, cwd=library.parent)
