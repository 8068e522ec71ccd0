"""Triton kernels as machine code: Triton's compiler, given all that was decided.

Nothing is tuned and nothing is specialised on arguments: types, promises of alignment, constants,
warps and stages are those of the source. No GPU is needed where the architecture is told.

The cache has two kinds of entries for one kernel. ``cubin`` is made of the source as it is. What a
front end had Triton compile before, of a text that differs in decorators and line numbers alone, is
``tuned``: the same instructions, but its line table names a file of that process. It serves where
code is loaded at once; what is shipped is always made of the source.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import linecache
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from wrapper_ir.devices import TRITON, KernelLanguage
from wrapper_ir.errors import OptionValueError, WrapperIRError
from wrapper_ir.toolchain.source import KernelUnit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from wrapper_ir.toolchain.cache import DiskCache

WARP: Final = 32
"""Threads in a warp of every NVIDIA GPU."""

#: Raise it when binaries of older versions must not be found in the cache any more.
_FORMAT: Final = 2

#: Settings of Triton's, in the environment, that change what it makes of a kernel.
_KNOBS: Final = (
    "ALLOW_LHS_TMEM_LAYOUT_CONVERSION",
    "DISABLE_LLVM_OPT",
    "DISABLE_MMA_V3",
    "DISABLE_MMA_V5",
    "DISABLE_PTXAS_OPT",
    "LLVM_PASS_PLUGIN_PATH",
    "PTXAS_OPTIONS",
    "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS",
    "TRITON_DEFAULT_FP_FUSION",
    "TRITON_DISABLE_LINE_INFO",
    "TRITON_ENABLE_ASAN",
    "TRITON_ENABLE_EXPERIMENTAL_CONSAN",
    "TRITON_F32_DEFAULT",
    "TRITON_FRONT_END_DEBUGGING",
    "TRITON_INSTRUMENTATION_MODE",
    "TRITON_INTERPRET",
    "TRITON_KERNEL_OVERRIDE",
    "TRITON_LIBDEVICE_PATH",
    "TRITON_MOCK_PTX_VERSION",
    "TRITON_OVERRIDE_ARCH",
    "TRITON_OVERRIDE_DIR",
    "TRITON_PTXAS_BLACKWELL_PATH",
    "TRITON_PTXAS_PATH",
    "USE_IR_LOC",
)

_ARCH: Final = re.compile(r"sm_(\d{2,3})a?")


class TritonKernelError(WrapperIRError):
    """A Triton kernel cannot be compiled or launched here.

    Fields: ``kernel`` is its name, ``reason`` says why.
    """

    code = "WIR2167"
    template = "Triton kernel {kernel!r}: {reason}"


@dataclass(frozen=True, slots=True)
class TritonSource:
    """A Triton kernel and all that decides what its machine code is.

    Attributes:
        name: What it is called in messages.
        signature: Triton's type of each parameter that is passed, in order.
        code: Its text, a module of Python that defines the function ``entry``.
        entry: Name of that function.
        constants: Values of ``tl.constexpr`` parameters, and of others that are fixed.
        options: Of Triton's compiler: warps, stages and others.
    """

    language: ClassVar[KernelLanguage] = TRITON
    name: str
    signature: Mapping[str, str]
    code: str
    entry: str
    constants: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """Text that two sources share exactly when they are the same kernel, names aside."""
        parts = (self.signature, self.code, self.entry, self.constants, self.options)
        return repr([list(p.items()) if isinstance(p, Mapping) else p for p in parts])


GpuUnit = KernelUnit[TritonSource]
"""A Triton kernel that the files of a program in C++ launch."""


def units_of(rows: Iterable[Sequence[Any]]) -> tuple[GpuUnit, ...]:
    """Return kernels, each given as its symbol and the fields of its source."""
    return tuple(GpuUnit(symbol, TritonSource(*fields)) for symbol, *fields in rows)


@dataclass(frozen=True, slots=True)
class GpuBinary:
    """A kernel as machine code.

    Attributes:
        arch: Compute capability that it is for: 90 for 9.0.
        code: A file in the format of the CUDA driver (a cubin).
        symbol: The function in it.
        threads: Of a block.
        shared: Bytes of shared memory of a block, given at launch.
        unused: Pointers after the parameters that the kernel has no use for.
        cooperative: Whether its blocks wait for each other, so that all must run at once.
        scratch: Bytes of memory that a launch has to bring along for each block, passed after the
            parameters.
    """

    arch: int
    code: bytes
    symbol: str
    threads: int
    shared: int
    unused: int
    cooperative: bool = False
    scratch: int = 0


def arch_number(arch: str) -> int:
    """Return the compute capability of an architecture: 90 for ``sm_90``.

    Raises:
        OptionValueError: There is no such architecture.
    """
    found = _ARCH.fullmatch(arch)
    if found is None:
        raise OptionValueError(option="gpu_arch", value=arch, expected="such as 'sm_90'")
    return int(found[1])


def current_arch(device: int | None = None) -> int | None:
    """Return the compute capability of a GPU of this machine; ``None`` where there is none."""
    import torch  # noqa: PLC0415 - keeps `import wrapper_ir.toolchain` quick

    if not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability(device)
    return major * 10 + minor


_compiling = threading.Lock()


def compiled_binary(
    source: TritonSource, arch: int, cache: DiskCache, *, tuned: bool = False
) -> GpuBinary:
    """Return a kernel as machine code, from the cache or compiled now.

    Args:
        source: The kernel.
        arch: For which compute capability.
        cache: Where it is looked for, and kept.
        tuned: Whether code that a front end had compiled will do.

    Raises:
        TritonKernelError: It does not compile, or needs what cannot be launched.
    """
    key = binary_key(source, arch)
    found = _cached(cache, key, tuned=tuned)
    if found is None:
        with cache.locked([key]):
            found = _cached(cache, key, tuned=tuned)
            if found is None:
                found = compile_kernel(source, arch, brings_scratch=True)
                keep_binary(source, found, cache)
    return found


def _cached(cache: DiskCache, key: str, *, tuned: bool) -> GpuBinary | None:
    for kind in ("tuned", "cubin") if tuned else ("cubin",):
        found = cache.get_bytes(key, kind)
        if found is not None:
            return _unpacked(found)
    return None


def keep_binary(
    source: TritonSource, binary: GpuBinary, cache: DiskCache, *, tuned: bool = False
) -> None:
    """Have a kernel's machine code found in the cache from now on."""
    kind = "tuned" if tuned else "cubin"
    cache.put(binary_key(source, binary.arch), kind, _packed(binary))


def binary_key(source: TritonSource, arch: int) -> str:
    """Return the digest of all that a kernel's machine code depends on."""
    import torch  # noqa: PLC0415 - as above

    # Kernels call helpers of torch, and their machine code is Triton's.
    knobs = [f"{name}={value}" for name in _KNOBS if (value := _knob(name))]
    parts = (_FORMAT, _triton_version(), torch.__version__, *knobs, arch, source.identity)
    return hashlib.sha256(
        "\0".join(map(str, parts)).encode("utf-8", "backslashreplace")
    ).hexdigest()


def _knob(name: str) -> str:
    """Return a setting of Triton's.

    The assembler that comes with torch is none: Inductor sets it in some processes and not in
    others, and torch's version is in the key.
    """
    import torch  # noqa: PLC0415 - as above

    value = os.environ.get(name, "")
    own = os.path.join(os.path.dirname(torch.__file__), "bin", "ptxas")
    return "" if name == "TRITON_PTXAS_PATH" and value == own else value


@functools.cache
def _triton_version() -> str:
    from importlib import metadata  # noqa: PLC0415 - only to build

    for name in ("triton", "pytorch-triton"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def _packed(binary: GpuBinary) -> bytes:
    about = asdict(binary)
    del about["code"]
    return json.dumps(about).encode() + b"\n" + binary.code


def _unpacked(data: bytes) -> GpuBinary:
    head, _, code = data.partition(b"\n")
    return GpuBinary(code=code, **json.loads(head))


def compile_kernel(
    source: TritonSource, arch: int | None = None, *, brings_scratch: bool = False
) -> GpuBinary:
    """Have Triton compile a kernel, or find what it compiled before.

    Args:
        source: The kernel.
        arch: For which compute capability; by default that of the current GPU.
        brings_scratch: Whether the launch can bring along what ``GpuBinary.scratch`` says.

    Raises:
        TritonKernelError: Triton is not installed, the kernel does not compile, or it needs what
            cannot be launched.
    """
    with _compiling:  # Triton's compiler is not made for threads
        binary = _compiled(source, arch)
    made = _described(source.name, binary.metadata._asdict(), binary.asm["cubin"])
    if made.scratch and not brings_scratch:
        raise TritonKernelError(kernel=source.name, reason="it asks for scratch memory")
    return made


def binary_of_files(name: str, folder: Path) -> GpuBinary:
    """Return what Triton compiled, from a folder of its cache.

    Args:
        name: The kernel's, for messages.
        folder: Holds one kernel: its machine code, and a description in JSON.

    Raises:
        TritonKernelError: It needs what cannot be launched.
        OSError: A file cannot be read.
        ValueError: The folder does not hold one kernel.
    """
    (code,) = folder.glob("*.cubin")
    return _described(name, json.loads(code.with_suffix(".json").read_bytes()), code.read_bytes())


def _described(name: str, metadata: Mapping[str, Any], code: bytes) -> GpuBinary:
    """Machine code and what Triton says of it, as a binary of ours."""
    if metadata.get("num_ctas", 1) != 1:
        raise TritonKernelError(kernel=name, reason="it is launched in clusters of blocks")
    # Triton appends a pointer for each kind of scratch memory, whether there is any or not.
    kinds = ("global_scratch_size", "profile_scratch_size")
    sizes = [size for kind in kinds if (size := metadata.get(kind)) is not None]
    scratch = sizes[0] if sizes else 0
    if any(sizes[1:]):
        raise TritonKernelError(kernel=name, reason="it asks for scratch memory")
    target = metadata["target"]
    return GpuBinary(
        arch=target["arch"] if isinstance(target, Mapping) else target.arch,
        code=code,
        symbol=metadata["name"],
        threads=metadata["num_warps"] * WARP,
        shared=metadata["shared"],
        unused=len(sizes) - 1 if scratch else len(sizes),
        cooperative=bool(metadata.get("launch_cooperative_grid", False)),
        scratch=scratch,
    )


def jit_function(source: TritonSource) -> Any:  # noqa: ANN401 - Triton's
    """Return the function of a kernel's text, a ``triton.runtime.jit.JITFunction``.

    Raises:
        TritonKernelError: Triton is not installed, or the text does not define it.
    """
    _imported("triton", source)
    function = getattr(_module(source), source.entry, None)
    if getattr(function, "arg_names", None) is None:
        reason = f"its text defines no Triton function '{source.entry}'"
        raise TritonKernelError(kernel=source.name, reason=reason)
    return function


def _imported(module: str, source: TritonSource) -> Any:  # noqa: ANN401 - a module without types
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TritonKernelError(
            kernel=source.name, reason="Triton is not installed", hint="install the package triton"
        ) from error


def _compiled(source: TritonSource, arch: int | None) -> Any:  # noqa: ANN401 - Triton's
    function = jit_function(source)
    triton = _imported("triton", source)
    compiler = _imported("triton.compiler", source)
    backends = _imported("triton.backends.compiler", source)
    signature, attributes = _signature(source, function.arg_names)
    constants = dict(source.constants)
    try:
        made = compiler.ASTSource(function, signature, constants, attributes)
        if arch is None:
            target = triton.runtime.driver.active.get_current_target()
        else:
            target = backends.GPUTarget("cuda", arch, WARP)
        return triton.compile(made, target=target, options=dict(source.options))
    except Exception as error:
        # Whatever Triton raises of a kernel that it cannot compile; it has no base of its own.
        raise TritonKernelError(kernel=source.name, reason=str(error)) from error


def _signature(
    source: TritonSource, names: list[str]
) -> tuple[dict[str, str], dict[tuple[int], list[list[object]]]]:
    """Types and promises in the form that Triton's compiler takes, by name and by position."""
    signature: dict[str, str] = {}
    attributes: dict[tuple[int], list[list[object]]] = {}
    for position, name in enumerate(names):
        type_ = source.signature.get(name, "")
        if not type_ and name not in source.constants:
            raise TritonKernelError(
                kernel=source.name, reason=f"its parameter '{name}' has neither type nor value"
            )
        signature[name] = type_.removesuffix(":16") or "constexpr"
        if type_.endswith(":16"):
            attributes[(position,)] = [["tt.divisibility", 16]]
    return signature, attributes


def _module(source: TritonSource) -> ModuleType:
    """The kernel's text as a module. Triton reads a function's text again, so it is kept."""
    key = hashlib.sha256(source.code.encode("utf-8", "backslashreplace")).hexdigest()
    file = f"<Triton kernel {key[:20]}>"
    linecache.cache[file] = (len(source.code), None, source.code.splitlines(keepends=True), file)
    module = ModuleType(f"wir_triton_{key[:20]}")
    try:
        exec(compile(source.code, file, "exec"), module.__dict__)
    except Exception as error:
        raise TritonKernelError(kernel=source.name, reason=f"its text: {error}") from error
    return module
