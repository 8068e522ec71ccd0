"""C++ kernels as Python callables: looked up one by one, built together, loaded once.

Every kernel has a key of its own, a digest of all that its machine code depends on. Kernels that
are on disk are loaded from the library they were built into; those that are not are compiled
together into a new library. A process opens each library once.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.util
import json
import sysconfig
import threading
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from wrapper_ir.devices import CppSide
from wrapper_ir.toolchain.bindings import BINDING_VERSION
from wrapper_ir.toolchain.build import Recipe, build_library, default_jobs
from wrapper_ir.toolchain.cache import DiskCache, default_cache
from wrapper_ir.toolchain.compiler import (
    Compiler,
    compile_flags,
    find_compiler,
    stand_in,
    versions,
)
from wrapper_ir.toolchain.errors import LibraryLoadError
from wrapper_ir.toolchain.headers import HeaderStore
from wrapper_ir.toolchain.isa import Isa, cpu_identity, resolve
from wrapper_ir.toolchain.processes import in_background
from wrapper_ir.toolchain.source import Kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from wrapper_ir.toolchain.source import CppSource

#: Raise it when entries of older versions must not be found any more.
_FORMAT = 1

#: That of a device on which kernels are called as on the host, beside PyTorch alone.
_PLAIN = CppSide()


@dataclass(frozen=True, slots=True)
class _Target:
    """Instruction set and flags of a kernel; kernels of one target can share a library."""

    isa: Isa
    extra_flags: tuple[str, ...]
    side: CppSide = _PLAIN


class _Session:
    """One call of ``build_kernels``."""

    def __init__(
        self,
        cache: DiskCache,
        jobs: int,
        progress: Callable[[int, int], None] | None,
        total: int,
    ) -> None:
        self.cache = cache
        self.compiler = find_compiler(cache)
        self._jobs = jobs
        self._progress = progress
        self._total = total
        self._done = 0

    def advance(self, count: int) -> None:
        """Report that so many more kernels are ready."""
        self._done += count
        if self._progress is not None and count:
            self._progress(self._done, self._total)

    def recipe(self, target: _Target) -> Recipe:
        """Return how kernels of this target are compiled."""
        headers = HeaderStore(self.cache, environment())
        names = dict.fromkeys(("libtorch_cpu.so", target.side.library or "libtorch_cpu.so"))
        beside = tuple(stand_in(self.cache, self.compiler, name) for name in names)
        flags = target.extra_flags
        return Recipe(self.compiler, target.isa, flags, headers, self._jobs, target.side, beside)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A kernel in a library that this process has opened."""

    module: ModuleType
    index: int


def build_kernels(
    sources: Sequence[CppSource],
    *,
    cache: DiskCache | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    data_ptr_address: int = 0,
    side: CppSide = _PLAIN,
) -> list[Callable[..., None]]:
    """Return one Python callable for each source, compiling those that are not on disk.

    A callable takes the kernel's arguments by position (tensors for pointers, numbers for the
    rest) and returns None. It raises TypeError for a wrong number of arguments and for a value
    that is no tensor or number, RuntimeError for a C++ exception. Its ``__name__`` is the source's.

    Args:
        sources: The kernels; equal ones are built once.
        cache: Where libraries are kept; the default cache when absent.
        jobs: How many compilers to run at once; by default one a processor.
        progress: Called with the number of kernels ready and the number of all kernels.
        data_ptr_address: Address of a C function from a tensor object to its data pointer; 0 for
            the public method. A library keeps what it was first loaded with.
        side: What stands around each call, on a device that wants something there.

    Raises:
        KernelSourceError: A source is described wrongly.
        IsaError: This CPU lacks an instruction set that a source was made for.
        CompilerNotFoundError: There is no C++ compiler.
        CompileError: A kernel does not compile; nothing is kept of the kernels built beside it.
        LinkError: The compiled kernels could not be linked.
        CacheDirError: The cache's directory cannot be used.
        LibraryLoadError: The dynamic loader refused the library.
    """
    if not sources:
        return []
    session = _Session(cache or default_cache(), jobs or default_jobs(), progress, len(sources))
    wanted = [_wanted(source, session.compiler, side) for source in sources]
    kernels = {kernel.key: (target, kernel) for target, kernel in wanted}
    loaded = _find(session.cache, kernels, data_ptr_address)
    missing = [key for key in kernels if key not in loaded]
    session.advance(len(sources) - len(missing))
    if missing:
        with session.cache.locked(missing):
            loaded |= _find(session.cache, missing, data_ptr_address)  # another process may have
            todo = [kernels[key] for key in missing if key not in loaded]
            session.advance(len(missing) - len(todo))
            loaded |= _build(session, todo, data_ptr_address)
    return [_bind(loaded[kernel.key], kernel.source.name) for _, kernel in wanted]


def _wanted(source: CppSource, compiler: Compiler, side: CppSide) -> tuple[_Target, Kernel]:
    """Return what a kernel is compiled for, and the kernel with its key."""
    target = _Target(resolve(source.isa), source.extra_flags, side)
    return target, Kernel.of(source, kernel_key(source, target.isa, compiler, side))


def kernel_key(source: CppSource, isa: Isa, compiler: Compiler, side: CppSide = _PLAIN) -> str:
    """Return the digest of everything a kernel's machine code and binding depend on.

    The source's name is not part of it, nor is any path.
    """
    parts: dict[str, object] = {
        "code": source.code,
        "entry": source.entry,
        "arguments": source.arg_types,
        "target": _target_part(isa, compiler, source.extra_flags),
    }
    if side.kernels:
        parts["around"] = (side.kernels, side.library, *side.headers.items())
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@functools.lru_cache(maxsize=64)
def _target_part(isa: Isa, compiler: Compiler, extra_flags: tuple[str, ...]) -> str:
    cpu = cpu_identity() if isa.native else ""
    flags = compile_flags(compiler, isa) + extra_flags
    return "\0".join((environment(), compiler.version, isa.name, cpu, *flags))


@functools.cache
def environment() -> str:
    """Return the versions that every kernel depends on."""
    soabi = str(sysconfig.get_config_var("SOABI"))
    return "\0".join((str(_FORMAT), str(BINDING_VERSION), soabi, *versions()))


def prepare(isa: str = "", *, cache: DiskCache | None = None, wait: bool = False) -> None:
    """Begin to precompile the headers, which the first build of a cache would else wait for.

    Worth calling where much else is to be done before the first kernel is known. Does nothing when
    the precompiled header is there. See ``wrapper_ir.toolchain.headers``.

    Args:
        isa: The instruction set of the kernels to come.
        cache: Where to keep it; the default cache when absent.
        wait: Whether to return only when it is done (about 6 s), rather than at once. What goes
            wrong in the background is left to the build to find.

    Raises:
        WrapperIRError: With ``wait``, as :func:`build_kernels` says.
    """

    def make() -> None:
        session = _Session(cache or default_cache(), 1, None, 0)
        recipe = session.recipe(_Target(resolve(isa), ()))
        if not recipe.headers.is_there(recipe.compiler, recipe.flags):
            recipe.headers.get(recipe.compiler, recipe.flags)

    if wait:
        make()
    else:
        in_background("header", make)


def _find(cache: DiskCache, keys: Iterable[str], address: int) -> dict[str, _Loaded]:
    """Load what is on disk; a record without its library, or with a damaged one, is nothing."""
    found = {}
    for key in keys:
        record = cache.get_bytes(key, "json")
        if record is None:
            continue
        entry = json.loads(record)
        module = _open(cache, entry["library"], address)
        if module is not None:
            found[key] = _Loaded(module, entry["index"])
    return found


def _build(
    session: _Session, todo: Sequence[tuple[_Target, Kernel]], address: int
) -> dict[str, _Loaded]:
    built: dict[str, _Loaded] = {}
    for target, kernels in _libraries(todo).items():
        built |= _build_one(session, target[0], kernels, address)
    return built


def _libraries(
    todo: Sequence[tuple[_Target, Kernel]],
) -> Mapping[tuple[_Target, str], list[Kernel]]:
    """Return which kernels go into one library: those of one target, each solitary one alone.

    In the order of their keys: a library is named by its kernels, so the name has to fix which
    number each of them has.
    """
    groups: dict[tuple[_Target, str], list[Kernel]] = {}
    for target, kernel in sorted(todo, key=lambda item: item[1].key):
        groups.setdefault((target, kernel.key if kernel.solitary else ""), []).append(kernel)
    return groups


def _build_one(
    session: _Session, target: _Target, kernels: list[Kernel], address: int
) -> dict[str, _Loaded]:
    cache = session.cache
    name = hashlib.sha256("".join(kernel.key for kernel in kernels).encode()).hexdigest()
    with cache.scratch() as scratch:
        library = build_library(
            kernels, session.recipe(target), _module_name(name), scratch, session.advance
        )
        file = cache.put(name, "so", library)
    module = _load(file, name, address)
    for index, kernel in enumerate(kernels):
        record = {"library": name, "index": index, "name": kernel.source.name}
        cache.put(kernel.key, "json", json.dumps(record, sort_keys=True).encode())
    return {kernel.key: _Loaded(module, index) for index, kernel in enumerate(kernels)}


#: The libraries this process has opened. What is in a library follows from its name, whichever
#: cache it came from.
_OPEN: dict[str, ModuleType] = {}
_OPEN_GUARD = threading.Lock()


def _open(cache: DiskCache, name: str, address: int) -> ModuleType | None:
    with _OPEN_GUARD:
        if name in _OPEN:
            return _OPEN[name]
    file = cache.get(name, "so")
    if file is None:
        return None
    try:
        return _load(file, name, address)
    except LibraryLoadError:
        cache.remove(name, "so")  # whole, yet unfit: another loader's, or removed just now
        return None


def _module_name(library: str) -> str:
    return f"wir_{library[:20]}"


def _load(file: Path, name: str, address: int) -> ModuleType:
    import torch  # noqa: PLC0415 - its libraries must be in the process before the kernel's

    module = load_module(_module_name(name), file)
    base = torch.Tensor.__base__
    module.setup(address, torch.Tensor, torch.nn.Parameter, base, torch.Tensor.data_ptr)
    with _OPEN_GUARD:
        return _OPEN.setdefault(name, module)


def load_module(name: str, file: Path) -> ModuleType:
    """Return an extension module of a file; torch must have been imported.

    Raises:
        LibraryLoadError: The dynamic loader refused it.
    """
    loader = importlib.machinery.ExtensionFileLoader(name, str(file))
    spec = importlib.util.spec_from_loader(name, loader)
    try:
        if spec is None:
            raise ImportError("no module specification")
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise _load_error(file, error) from error
    return module


def _load_error(file: Path, error: ImportError) -> LibraryLoadError:
    hint = None
    if "failed to map segment" in str(error) or "Operation not permitted" in str(error):
        hint = (
            "the file system may forbid execution (noexec); name another directory in the "
            "environment variable WRAPPER_IR_CACHE_DIR"
        )
    return LibraryLoadError(library=str(file), reason=str(error), hint=hint)


def _bind(kernel: _Loaded, name: str) -> Callable[..., None]:
    function: Callable[..., None] = kernel.module.bind(kernel.index, name)
    return function
