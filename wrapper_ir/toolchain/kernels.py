"""C++ kernels as Python callables: looked up one by one, built together, loaded once.

Every kernel has a key, a digest of everything that its machine code depends on. Kernels that are on
disk are loaded from the library they were built into; the others are compiled together into a new
library. A process opens each library once.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.util
import json
import threading
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

from wrapper_ir.toolchain import build
from wrapper_ir.toolchain.build import Target, default_jobs, header_environment, kernel_tools
from wrapper_ir.toolchain.cache import DiskCache, default_cache
from wrapper_ir.toolchain.compiler import Compiler, find_compiler
from wrapper_ir.toolchain.errors import LibraryLoadError
from wrapper_ir.toolchain.headers import PREFIX
from wrapper_ir.toolchain.isa import Isa, cpu_identity, resolve
from wrapper_ir.toolchain.kernel_files import is_solitary
from wrapper_ir.toolchain.objects import digest_of
from wrapper_ir.toolchain.processes import Steps, in_background
from wrapper_ir.toolchain.source import CppSource, CppUnit, parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from wrapper_ir.devices import CppSide


@dataclass(slots=True)
class _Session:
    """One call of ``build_kernels``."""

    cache: DiskCache
    jobs: int
    address: int  #: of the C function that returns a tensor's data pointer, or 0
    steps: Steps


_Wanted: TypeAlias = tuple[Target, CppUnit]
_Loaded: TypeAlias = tuple[ModuleType, int]  # an open library and a kernel's index in it


def build_kernels(
    sources: Sequence[CppSource],
    *,
    cache: DiskCache | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    data_ptr_address: int = 0,
    side: CppSide = build.PLAIN,
) -> list[Callable[..., None]]:
    """Return one Python callable for each source, compiling those that are not on disk.

    A callable takes the kernel's arguments by position (tensors for pointers, numbers for the
    rest) and returns None. It raises TypeError for a wrong number of arguments and for a value
    that is not a tensor or number, and RuntimeError for a C++ exception. Its ``__name__`` is the
    source's name.

    Args:
        sources: The kernels; equal ones are built once.
        cache: The cache of libraries; by default the default cache.
        jobs: The number of compilers to run at once; by default one per processor.
        progress: Called with the number of kernels that are ready and the number of all kernels.
        data_ptr_address: Address of a C function that returns a tensor object's data pointer; 0 to
            call the public method. A library keeps the address it was first loaded with.
        side: The device's C++ side, which may put something around each call.

    Raises:
        KernelSourceError: The description of a source is wrong.
        IsaError: This CPU lacks an instruction set that a source was written for.
        CompilerNotFoundError: There is no C++ compiler.
        CompileError: A kernel does not compile; kernels built along with it are not kept either.
        LinkError: The compiled kernels could not be linked.
        CacheDirError: The cache directory cannot be used.
        LibraryLoadError: The dynamic loader rejected the library.
    """
    if not sources:
        return []
    cache = cache or default_cache()
    compiler, steps = find_compiler(cache), Steps(len(sources), progress)
    session = _Session(cache, jobs or default_jobs(), data_ptr_address, steps)
    keys: list[str] = []
    kernels: dict[str, _Wanted] = {}
    for source in sources:
        target = Target(resolve(source.isa), source.extra_flags, side)
        parameters(source)  # checks it
        key = kernel_key(source, target.isa, compiler, side)
        kernels[key] = target, CppUnit(f"wir_k_{key[:20]}", source)
        keys.append(key)
    loaded = _loaded(session, kernels)
    pairs = zip(sources, (loaded[key] for key in keys), strict=True)
    return [module.bind(index, source.name) for source, (module, index) in pairs]


def kernel_key(source: CppSource, isa: Isa, compiler: Compiler, side: CppSide = build.PLAIN) -> str:
    """Return the digest of everything a kernel's machine code and binding depend on.

    Neither the source's name nor any path is part of it.
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
    flags = Target(isa, extra_flags).flags(compiler)
    return "\0".join((environment(), compiler.version, isa.name, cpu, *flags))


@functools.cache
def environment() -> str:
    """Return what every kernel and its binding depend on, joined."""
    return "\0".join((header_environment(), digest_of(build.HEADERS)))


def prepare(isa: str = "", *, cache: DiskCache | None = None, wait: bool = False) -> None:
    """Start to precompile the headers, which the first build with a new cache would wait for.

    This pays where much other work precedes the first kernel. It does nothing if the precompiled
    header exists. See ``wrapper_ir.toolchain.headers``.

    Args:
        isa: The instruction set of the kernels to come.
        cache: The cache that will hold the header; by default the default cache.
        wait: Whether to return only when it is done (about 6 s) rather than at once. Errors in the
            background are dropped; the build that needs the header reports them.

    Raises:
        WrapperIRError: With ``wait``, as for :func:`build_kernels`.
    """

    def make() -> None:
        tools = kernel_tools(cache or default_cache())
        flags = Target(resolve(isa)).flags(tools.compiler)
        if not tools.headers[PREFIX].exists(tools.compiler, flags):
            tools.headers[PREFIX].get(tools.compiler, flags)

    if wait:
        make()
    else:
        in_background("header", make)


def _loaded(session: _Session, kernels: Mapping[str, _Wanted]) -> dict[str, _Loaded]:
    """Load the kernels, by key, building those that are not on disk."""
    loaded = _find(session, kernels)
    missing = [key for key in kernels if key not in loaded]
    session.steps.advance(session.steps.total - len(missing))
    if missing:
        with session.cache.locked(missing):
            loaded |= _find(session, missing)  # another process may have built them meanwhile
            todo = {key: kernels[key] for key in missing if key not in loaded}
            session.steps.advance(len(missing) - len(todo))
            for (target, _), members in _libraries(todo).items():
                loaded |= _build(session, target, members)
    return loaded


def _find(session: _Session, keys: Iterable[str]) -> dict[str, _Loaded]:
    """Load the kernels that are on disk, ignoring records whose library is missing or damaged."""
    loaded = {}
    for key in keys:
        record = session.cache.get_bytes(key, "json")
        if record is None:
            continue
        entry = json.loads(record)
        module = _open(session, entry["library"])
        if module is not None:
            loaded[key] = module, entry["index"]
    return loaded


def _libraries(todo: Mapping[str, _Wanted]) -> dict[tuple[Target, str], dict[str, CppUnit]]:
    """Return the kernels of each library: those of one target together, each solitary one alone.

    Kernels are in the order of their keys. A library is named after its kernels, so its name has to
    determine the index of each of them.
    """
    groups: dict[tuple[Target, str], dict[str, CppUnit]] = {}
    for key, (target, kernel) in sorted(todo.items(), key=lambda item: item[0]):
        groups.setdefault((target, key if is_solitary(kernel) else ""), {})[key] = kernel
    return groups


def _build(session: _Session, target: Target, kernels: dict[str, CppUnit]) -> dict[str, _Loaded]:
    cache, tools = session.cache, kernel_tools(session.cache)
    name = hashlib.sha256("".join(kernels).encode()).hexdigest()
    with cache.scratch() as scratch:
        library, units = scratch / f"{_module_name(name)}.so", tuple(kernels.values())
        build.build_library(units, target, tools, library, session.jobs, session.steps.advance)
        file = cache.put(name, "so", library)
    module = _load(file, name, session.address)
    for index, (key, kernel) in enumerate(kernels.items()):
        record = {"library": name, "index": index, "name": kernel.source.name}
        cache.put(key, "json", json.dumps(record, sort_keys=True).encode())
    return {key: (module, index) for index, key in enumerate(kernels)}


#: The libraries that this process has opened. A library's name determines its content, whichever
#: cache it came from.
_OPEN: dict[str, ModuleType] = {}
_OPEN_GUARD = threading.Lock()


def _open(session: _Session, name: str) -> ModuleType | None:
    with _OPEN_GUARD:
        if name in _OPEN:
            return _OPEN[name]
    file = session.cache.get(name, "so")
    if file is None:
        return None
    try:
        return _load(file, name, session.address)
    except LibraryLoadError:
        session.cache.remove(name, "so")  # intact but unusable: another loader's, or just removed
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
    """Load an extension module from a file; torch must have been imported before.

    Raises:
        LibraryLoadError: The dynamic loader rejected it.
    """
    loader = importlib.machinery.ExtensionFileLoader(name, str(file))
    spec = importlib.util.spec_from_loader(name, loader)
    try:
        if spec is None:
            raise ImportError("no module specification")
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        reason, hint = str(error), None
        if "failed to map segment" in reason or "Operation not permitted" in reason:
            hint = (
                "the file system may forbid execution (noexec); set the environment variable"
                " WRAPPER_IR_CACHE_DIR to another directory"
            )
        raise LibraryLoadError(library=str(file), reason=reason, hint=hint) from error
    return module
