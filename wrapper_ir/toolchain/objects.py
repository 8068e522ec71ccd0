"""C++ files as object files in the cache, and the linker: what AOT libraries are made with.

An object's key is a digest of all that its bytes depend on: its text and flags, the headers of ours
that it reads, the versions of the compiler and of PyTorch. No directory is among it, and none gets
into the object: files are compiled in a scratch directory under their bare names, and the
whereabouts of headers are mapped away. So equal input gives equal bytes, and what was compiled for
one library serves the next.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wrapper_ir.toolchain.cache import DiskCache
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
    from concurrent.futures import Future, ThreadPoolExecutor
    from pathlib import Path

#: Raise it when objects of older versions must not be found any more.
_FORMAT = 1

#: The header every generated file reads.
GENERATED = "wir/generated.h"

#: Where debug information says that generated source lies.
_SOURCE_ROOT = "wrapper_ir-generated"


@dataclass(frozen=True, slots=True)
class Translation:
    """One C++ file to compile.

    Attributes:
        name: Its file name, without a directory; what messages call it.
        text: Its text.
        flags: Every flag but include paths; no flag names a path.
        what: What a user is told does not compile, ``"kernel 'f'"`` say.
        headers: Files beside it by name; it may include them, in quotes.
        parts: Texts that errors may point into, by the file name of their ``#line``.
        header: The header that it reads and whose precompiled form helps, or empty.
        processor: Which one it is compiled on, where the flags mean that one (``-march=native``).
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
        """Return the digest of all that the object depends on."""
        flat = [text for pair in self.headers for text in pair]
        parts = (*environment(), compiler.version, *self.flags, self.processor)
        parts = (*parts, self.name, self.text, *flat)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def environment() -> tuple[str, ...]:
    """Return the versions that every object depends on, the text of our headers included."""
    ours = native_include_dirs()[0]
    texts = (
        text
        for file in sorted(ours.rglob("*.h"))
        for text in (file.relative_to(ours).as_posix(), file.read_text("utf-8"))
    )
    return (str(_FORMAT), *versions(), *texts)


def generated_flags(compiler: Compiler) -> tuple[str, ...]:
    """Return the flags for generated files that are no kernels, include paths excepted.

    They hold lists of calls: what more optimisation finds there is not worth the time it takes.
    """
    return (*plain_flags(compiler, "-O1"), "-w")


def compile_objects(
    translations: Sequence[Translation],
    *,
    cache: DiskCache,
    compiler: Compiler,
    headers: Mapping[str, HeaderStore],
    pool: ThreadPoolExecutor,
    advance: Callable[[], None],
) -> list[Future[Path]]:
    """Begin to compile files, those that are not in the cache.

    Args:
        translations: The files; the costliest first is quickest.
        cache: Where objects are kept.
        compiler: What compiles them.
        headers: Where precompiled headers are, by the header.
        pool: What runs the compilers; as many at once as it has threads.
        advance: Called when an object is there, from any thread.

    Returns:
        For each file, in order, its object to come, which lies in the cache and must not be
        changed. What is waited for may raise CompileError or CacheDirError.
    """
    work = _Work(cache, compiler, headers, advance)
    return [pool.submit(work.object_of, translation) for translation in translations]


@dataclass(frozen=True, slots=True)
class _Work:
    cache: DiskCache
    compiler: Compiler
    headers: Mapping[str, HeaderStore]
    advance: Callable[[], None]

    def object_of(self, translation: Translation) -> Path:
        key = translation.key(self.compiler)
        found = self.cache.made(key, "o", lambda folder: self._compile(translation, key, folder))
        self.advance()
        return found

    def _compile(self, translation: Translation, key: str, scratch: Path) -> Path:
        store = self.headers.get(translation.header)
        header = None
        if store is not None and "-g" not in translation.flags:
            header = store.get(self.compiler, translation.flags)
        (scratch / translation.name).write_text(translation.text, encoding="utf-8")
        for name, text in translation.headers:
            (scratch / name).write_text(text, encoding="utf-8")
        try:
            self._run(translation, key, scratch, header)
        except CompilerRunError as error:
            if store is None or header is None:
                raise explained(translation, error) from error
            store.discard(self.compiler, translation.flags)  # perhaps it is damaged
            try:
                self._run(translation, key, scratch, None)
            except CompilerRunError as again:
                raise explained(translation, again) from again
        return scratch / "out.o"

    def _run(self, translation: Translation, key: str, scratch: Path, header: Path | None) -> None:
        command = [
            *self.compiler.command,
            *translation.flags,
            f"-frandom-seed={key[:16]}",  # names that must be unique come from it, not from chance
            *_include_flags(),
            f"-ffile-prefix-map={scratch}={_SOURCE_ROOT}",
            *(("-include", str(header)) if header is not None else ()),
            *("-c", translation.name, "-o", "out.o"),
        ]
        run(command, cwd=scratch)


def _include_flags() -> tuple[str, ...]:
    ours = native_include_dirs()[0]
    return (f"-I{ours}", f"-ffile-prefix-map={ours}=wrapper_ir", *include_flags())


def precompiled(cache: DiskCache) -> dict[str, HeaderStore]:
    """Return where a cache has the precompiled headers of kernels and of generated files."""
    stamp = "\0".join(environment())
    return {
        PREFIX: HeaderStore(cache, kernel_environment()),
        GENERATED: HeaderStore(cache, stamp, GENERATED, _include_flags()),
    }


def explained(translation: Translation, error: CompilerRunError) -> CompileError:
    """Return the error that a user sees when a file does not compile."""
    for file, (what, text) in translation.parts.items():
        if offending_lines(file, error.output):
            return error.explained(what, file, text)
    return error.explained(translation.what, translation.name, translation.text)


def assemble(compiler: Compiler, file: Path) -> Path:
    """Assemble a file that ends in ``.s``; what it includes is looked for beside it.

    Returns:
        The object, beside it.

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

    It has no executable stack, no run path, no build identifier and, unless ``keep_symbols``, no
    symbol but those it exports.

    Args:
        compiler: What runs the linker.
        objects: In the order in which they are to lie, what stands for PyTorch last. Of inline
            functions that several have the first one's is taken, so what is compiled for the
            plainest processor comes first.
        library: The file to make.
        exports: A version script.
        keep_symbols: Whether to keep what debuggers and backtraces want.
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
        "-Wl,--no-as-needed",  # some systems leave out by default what seems not to be used
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
    """Move the debug information of a library to a file of its own, which debuggers find by it.

    Args:
        library: Loses its symbols and debug information, and names ``target`` instead.
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
