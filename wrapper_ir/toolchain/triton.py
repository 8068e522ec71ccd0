"""Triton kernels as machine code: Triton's compiler, run with every decision made beforehand.

Nothing is tuned or specialised on arguments: types, alignment promises, constants, warps and stages
are those of the source. No GPU is needed to compile for a given architecture.

The cache has two kinds of entries for a kernel. A ``cubin`` entry is compiled from the source as it
is. A ``tuned`` entry comes from a front end, which had Triton compile a text that differs only in
decorators and line numbers: it has the same instructions, but its line table names a file of that
process. It may be used for code that is loaded right away; code that is shipped is always compiled
from the source.
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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from wrapper_ir.devices import TRITON, KernelLanguage
from wrapper_ir.errors import OptionValueError, WrapperIRError
from wrapper_ir.toolchain.source import KernelUnit

if TYPE_CHECKING:
    from pathlib import Path

    from wrapper_ir.toolchain.cache import DiskCache

WARP: Final = 32
"""Threads in a warp, on every NVIDIA GPU."""

#: Raise it when older cache entries must no longer be found.
_FORMAT: Final = 2

#: Environment variables of Triton that change the code it generates.
_KNOBS: Final = (
    *("ALLOW_LHS_TMEM_LAYOUT_CONVERSION", "DISABLE_LLVM_OPT", "DISABLE_MMA_V3", "DISABLE_MMA_V5"),
    *("DISABLE_PTXAS_OPT", "LLVM_PASS_PLUGIN_PATH", "PTXAS_OPTIONS"),
    *("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "TRITON_DEFAULT_FP_FUSION", "TRITON_DISABLE_LINE_INFO"),
    *("TRITON_ENABLE_ASAN", "TRITON_ENABLE_EXPERIMENTAL_CONSAN", "TRITON_F32_DEFAULT"),
    *("TRITON_FRONT_END_DEBUGGING", "TRITON_INSTRUMENTATION_MODE", "TRITON_INTERPRET"),
    *("TRITON_KERNEL_OVERRIDE", "TRITON_LIBDEVICE_PATH", "TRITON_MOCK_PTX_VERSION"),
    *("TRITON_OVERRIDE_ARCH", "TRITON_OVERRIDE_DIR", "TRITON_PTXAS_BLACKWELL_PATH"),
    *("TRITON_PTXAS_PATH", "USE_IR_LOC"),
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
    """A Triton kernel and everything that determines its machine code."""

    language: ClassVar[KernelLanguage] = TRITON
    name: str  #: its name in messages
    signature: Mapping[str, str]  #: Triton's type of each parameter that is passed, in order
    code: str  #: its text, a Python module that defines the function ``entry``
    entry: str
    #: Values of ``tl.constexpr`` parameters, and of others that are fixed.
    constants: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)  #: such as warps and stages

    @property
    def identity(self) -> str:
        """A text that two sources share exactly when they are the same kernel, names aside."""
        parts = (self.signature, self.code, self.entry, self.constants, self.options)
        return repr([list(p.items()) if isinstance(p, Mapping) else p for p in parts])


GpuUnit = KernelUnit[TritonSource]
"""A Triton kernel that the files of a program in C++ launch."""


def units_of(rows: Iterable[Sequence[Any]]) -> tuple[GpuUnit, ...]:
    """Return kernels from rows of a symbol and the fields of a source."""
    return tuple(GpuUnit(symbol, TritonSource(*fields)) for symbol, *fields in rows)


@dataclass(frozen=True, slots=True)
class GpuBinary:
    """A kernel as machine code."""

    arch: int  #: the compute capability that it is for: 90 for 9.0
    code: bytes  #: a file in the format of the CUDA driver (a cubin)
    symbol: str  #: the function in it
    threads: int  #: threads per block
    shared: int  #: bytes of dynamic shared memory per block
    unused: int  #: the number of pointers after the parameters that the kernel does not use
    cooperative: bool = False  #: whether its blocks wait for each other: all must run at once
    scratch: int = 0  #: bytes of memory per block, which the launch passes after the parameters


def arch_number(arch: str) -> int:
    """Return the compute capability of an architecture: 90 for ``sm_90``.

    Raises:
        OptionValueError: There is no such architecture.
    """
    match = _ARCH.fullmatch(arch)
    if match is None:
        raise OptionValueError(option="gpu_arch", value=arch, expected="such as 'sm_90'")
    return int(match[1])


def current_arch(device: int | None = None) -> int | None:
    """Return the compute capability of a GPU of this machine, or None without a GPU."""
    import torch  # noqa: PLC0415 - keeps `import wrapper_ir.toolchain` quick

    if not torch.cuda.is_available():
        return None
    major, minor = torch.cuda.get_device_capability(device)
    return major * 10 + minor


_compiling = threading.Lock()


def compiled_binary(
    source: TritonSource, arch: int, cache: DiskCache, *, tuned: bool = False
) -> GpuBinary:
    """Return a kernel's machine code, from the cache or compiled now for a compute capability.

    With ``tuned``, code that a front end had compiled may be used.

    Raises:
        TritonKernelError: It does not compile, or cannot be launched here.
    """
    key = binary_key(source, arch)
    binary = _cached(cache, key, tuned=tuned)
    if binary is None:
        with cache.locked([key]):
            binary = _cached(cache, key, tuned=tuned)
            if binary is None:
                binary = compile_kernel(source, arch)
                keep_binary(source, binary, cache)
    return binary


def _cached(cache: DiskCache, key: str, *, tuned: bool) -> GpuBinary | None:
    for kind in ("tuned", "cubin") if tuned else ("cubin",):
        data = cache.get_bytes(key, kind)
        if data is not None:
            head, _, code = data.partition(b"\n")
            return GpuBinary(code=code, **json.loads(head))
    return None


def keep_binary(
    source: TritonSource, binary: GpuBinary, cache: DiskCache, *, tuned: bool = False
) -> None:
    """Store a kernel's machine code in the cache."""
    fields = asdict(binary)
    code = fields.pop("code")
    kind = "tuned" if tuned else "cubin"
    cache.put(binary_key(source, binary.arch), kind, json.dumps(fields).encode() + b"\n" + code)


def binary_key(source: TritonSource, arch: int) -> str:
    """Return the digest of everything that a kernel's machine code depends on."""
    import torch  # noqa: PLC0415 - as above

    # Kernels call helpers of torch, and Triton makes their machine code.
    knobs = [f"{name}={value}" for name in _KNOBS if (value := _knob(name))]
    parts = (_FORMAT, _triton_version(), torch.__version__, *knobs, arch, source.identity)
    return hashlib.sha256(
        "\0".join(map(str, parts)).encode("utf-8", "backslashreplace")
    ).hexdigest()


def _knob(name: str) -> str:
    """Return a setting of Triton; empty for the assembler that comes with torch.

    Inductor sets that one in some processes and not in others, and torch's version is in the key.
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


def compile_kernel(source: TritonSource, arch: int) -> GpuBinary:
    """Have Triton compile a kernel, or take it from Triton's own cache.

    Raises:
        TritonKernelError: Triton is not installed, or the kernel does not compile or cannot be
            launched here.
    """
    with _compiling:  # Triton's compiler is not thread-safe
        binary = _compiled(source, arch)
    return _described(source.name, binary.metadata._asdict(), binary.asm["cubin"])


def binary_of_files(name: str, folder: Path) -> GpuBinary:
    """Return a kernel that Triton compiled, from a folder of Triton's cache.

    The folder has the machine code of one kernel, and its description in JSON.

    Raises:
        TritonKernelError: The kernel cannot be launched here.
        OSError: A file cannot be read.
        ValueError: The folder does not hold exactly one kernel.
    """
    (code,) = folder.glob("*.cubin")
    return _described(name, json.loads(code.with_suffix(".json").read_bytes()), code.read_bytes())


def _described(name: str, metadata: Mapping[str, Any], code: bytes) -> GpuBinary:
    """Return a binary for machine code and Triton's metadata about it."""
    if metadata.get("num_ctas", 1) != 1:
        raise TritonKernelError(kernel=name, reason="it is launched in clusters of blocks")
    # Triton appends a pointer for each kind of scratch memory, even if its size is 0.
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
    """Return the function in a kernel's text, a ``triton.runtime.jit.JITFunction``.

    Raises:
        TritonKernelError: Triton is not installed, or the text does not define the function.
    """
    try:
        importlib.import_module("triton")
    except ImportError as error:
        reason, hint = "Triton is not installed", "install the package triton"
        raise TritonKernelError(kernel=source.name, reason=reason, hint=hint) from error
    function = getattr(_module(source), source.entry, None)
    if getattr(function, "arg_names", None) is None:
        reason = f"its text defines no Triton function '{source.entry}'"
        raise TritonKernelError(kernel=source.name, reason=reason)
    return function


def _compiled(source: TritonSource, arch: int) -> Any:  # noqa: ANN401 - Triton's
    function = jit_function(source)
    compiler: Any = importlib.import_module("triton.compiler")
    backends: Any = importlib.import_module("triton.backends.compiler")
    signature, attributes = _signature(source, function.arg_names)
    try:
        ast = compiler.ASTSource(function, signature, dict(source.constants), attributes)
        target = backends.GPUTarget("cuda", arch, WARP)
        return compiler.compile(ast, target=target, options=dict(source.options))
    except Exception as error:
        # Triton's errors about a kernel that it cannot compile have no common base class.
        raise TritonKernelError(kernel=source.name, reason=str(error)) from error


def _signature(
    source: TritonSource, names: list[str]
) -> tuple[dict[str, str], dict[tuple[int], list[list[object]]]]:
    """Return types by name and promises by position, in the form that Triton's compiler takes."""
    signature: dict[str, str] = {}
    attributes: dict[tuple[int], list[list[object]]] = {}
    for position, name in enumerate(names):
        type_ = source.signature.get(name, "")
        if not type_ and name not in source.constants:
            reason = f"its parameter '{name}' has neither type nor value"
            raise TritonKernelError(kernel=source.name, reason=reason)
        signature[name] = type_.removesuffix(":16") or "constexpr"
        if type_.endswith(":16"):
            attributes[(position,)] = [["tt.divisibility", 16]]
    return signature, attributes


def _module(source: TritonSource) -> ModuleType:
    """Run a kernel's text as a module, and keep the text, which Triton reads a second time."""
    key = hashlib.sha256(source.code.encode("utf-8", "backslashreplace")).hexdigest()
    file = f"<Triton kernel {key[:20]}>"
    linecache.cache[file] = (len(source.code), None, source.code.splitlines(keepends=True), file)
    module = ModuleType(f"wir_triton_{key[:20]}")
    try:
        exec(compile(source.code, file, "exec"), module.__dict__)
    except Exception as error:
        raise TritonKernelError(kernel=source.name, reason=f"its text: {error}") from error
    return module
