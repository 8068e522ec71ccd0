"""The Triton kernels of an emitted module, compiled by Triton and launched by us.

A kernel is compiled when the module is loaded, for the device that is current then, with exactly
the module's constants, warps and stages; nothing is tuned. Machine code is kept in the toolchain's
cache, which front ends fill too. Launches call the CUDA driver directly
(``native/cuda/launch.cpp``), since Triton's launcher specialises on its arguments in every call.

Emitted modules look like this::

    triton_kernels = TritonKernels("cuda:0")
    triton_kernels.add(
        "relu",
        {"in_ptr0": "*fp32:16", "out_ptr0": "*fp32:16", "xnumel": "i32"},
        r'''
    import triton
    import triton.language as tl

    @triton.jit
    def relu(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
        ...
    ''',
        constants={"XBLOCK": 256},
    )
    (relu,) = triton_kernels.load()
    ...
    relu((4,), stream, x, y, 1024)

The types are Triton's; ``:16`` promises divisibility by 16 (for pointers, in bytes).

:class:`MachineCode` launches what another compiler made in the same way: for launchers of kernel
languages (:class:`wrapper_ir.devices.Launcher`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import torch

from wrapper_ir.errors import OptionValueError
from wrapper_ir.runtime._private import data_ptr_address, kernel_log
from wrapper_ir.toolchain import triton
from wrapper_ir.toolchain.cache import default_cache
from wrapper_ir.toolchain.native import Extension
from wrapper_ir.toolchain.processes import in_background

if TYPE_CHECKING:

    from wrapper_ir.devices import DeviceKind

    _Call: TypeAlias = Callable[..., Any]


_LAUNCHER: Final = Extension("wir_launch", "cuda/launch.cpp")

#: Triton's number types -> the launcher's format letters.
LETTERS: Final = {
    "i1": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
    "u1": "?", "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
    "fp32": "f", "f32": "f", "fp64": "d", "f64": "d",
}  # fmt: skip


class TritonKernels:
    """The Triton kernels of one module, in the order in which they were added.

    Args:
        device: The GPU that they run on.
        switches: True if each launch has to make that GPU current, for modules that use several.
    """

    def __init__(self, device: str | torch.device = "cuda", *, switches: bool = False) -> None:
        self._device = torch.device(device)
        self._switches = switches
        self._sources: dict[str, triton.TritonSource] = {}

    def add(  # noqa: PLR0913 - each is one property of the kernel
        self,
        name: str,
        signature: Mapping[str, str],
        code: str,
        *,
        entry: str = "",
        constants: Mapping[str, object] | None = None,
        num_warps: int = 4,
        num_stages: int = 1,
        options: Mapping[str, object] | None = None,
    ) -> None:
        """Add one kernel.

        Args:
            name: Its name, in Python and in error messages.
            signature: Triton's type of each parameter that is passed, in order.
            code: Its text, a Python module that defines the function ``entry``.
            entry: The name of that function, by default ``name``.
            constants: Values of ``tl.constexpr`` parameters, and of other fixed parameters.
            num_warps: Warps per block.
            num_stages: Software pipelining stages.
            options: Further options of Triton's compiler.

        Raises:
            TritonKernelError: A kernel of that name was added before, or a type is not known.
        """
        if name in self._sources:
            reason = "a kernel of that name was added before"
            raise triton.TritonKernelError(kernel=name, reason=reason)
        for type_ in signature.values():
            plain = type_.removesuffix(":16")
            if not plain.startswith("*") and plain not in LETTERS:
                reason = f"{type_!r} cannot be passed to kernels"
                raise triton.TritonKernelError(kernel=name, reason=reason)
        kernel_log.info("Triton kernel %s:\n%s", name, code)
        launch = {"num_warps": num_warps, "num_stages": num_stages}
        self._sources[name] = triton.TritonSource(
            name,
            dict(signature),
            code,
            entry or name,
            dict(constants or {}),
            {**(options or {}), **launch},
        )

    def load(self) -> tuple[Callable[..., None], ...]:
        """Compile the kernels that are not in the cache; return a callable for each, in order.

        It takes the grid, a tuple of one to three sizes, a raw stream, and the kernel's arguments.

        Raises:
            TritonKernelError: Triton is not installed, there is no GPU, or a kernel does not
                compile.
        """
        return tuple(
            _load(source, self._device, switches=self._switches)
            for source in self._sources.values()
        )


def uses_launcher(kind: DeviceKind) -> bool:
    """Return whether a kind of device launches Triton kernels with the launcher in this file."""
    return kind.python.triton[0] == TritonKernels.__name__


def prepare_launcher(kinds: Iterable[DeviceKind]) -> bool:
    """Start compiling the launcher in a background thread if one of the kinds uses it.

    Errors are left to the code that loads a kernel. Return whether it was started.
    """
    is_used = any(map(uses_launcher, kinds))
    if is_used:
        in_background("launcher", make_launcher)
    return is_used


def make_launcher() -> None:
    """Compile the launcher, unless the cache has it."""
    _LAUNCHER.file(default_cache())


@functools.cache
def _native_launcher() -> Any:  # noqa: ANN401 - a module without types
    """Return the extension module that launches kernels."""
    module = _LAUNCHER.load()
    module.setup(data_ptr_address(), torch.Tensor, torch.Tensor.data_ptr)
    return module


def load_binary(
    name: str, types: str, binary: triton.GpuBinary, device: torch.device, *, switches: bool
) -> Callable[..., None]:
    """Load machine code on a GPU; RuntimeError if the driver rejects it.

    ``types`` are the launcher's format letters of the parameters; see ``native/cuda/launch.cpp``.
    With ``switches``, each launch has to make that GPU current. The function takes the grid, a
    tuple of one to three sizes, a raw stream, and an argument for each parameter.
    """
    launcher = _native_launcher()
    with torch.cuda.device(device):
        torch.empty(1, device=device)  # creates the device's context
        kernel: Callable[..., None] = launcher.load(
            name,
            binary.code,
            binary.symbol,
            f"{types}O" if binary.scratch else types,
            binary.unused,
            binary.threads,
            binary.shared,
            binary.cooperative,
            switches,
        )
    return _with_scratch(kernel, binary.scratch, device) if binary.scratch else kernel


def _load(
    source: triton.TritonSource, device: torch.device, *, switches: bool
) -> Callable[..., None]:
    arch = triton.current_arch(device.index)
    if arch is None:
        raise triton.TritonKernelError(kernel=source.name, reason="there is no GPU")
    binary = triton.compiled_binary(source, arch, default_cache(), tuned=True)
    types = "".join(_letter(type_) for type_ in source.signature.values())
    return load_binary(source.name, types, binary, device, switches=switches)


def _with_scratch(
    kernel: Callable[..., None], size: int, device: torch.device
) -> Callable[..., None]:
    """Wrap a kernel that needs scratch memory, ``size`` bytes per block, for each launch."""

    @functools.wraps(kernel, assigned=("__name__",))
    def launch(grid: tuple[int, ...], stream: int, *args: object) -> None:
        memory = torch.empty(math.prod(grid) * size, dtype=torch.uint8, device=device)
        kernel(grid, stream, *args, memory)

    return launch


def _letter(type_: str) -> str:
    return "O" if type_.startswith("*") else LETTERS[type_.removesuffix(":16")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCode:
    """A compiled kernel and how it is launched.

    Attributes:
        name: Its name, for messages.
        params: The types of its parameters, as ``Launcher.add`` takes them. The function takes a
            pointer for each tensor and a number for each number, and nothing else.
        code: What the CUDA driver loads: a cubin or fatbin, or PTX.
        symbol: The name of the function in the code.
        threads: Threads per block.
        shared: Bytes of dynamic shared memory per block.
        cooperative: Whether its blocks wait for each other, so that all must run at once.
    """

    name: str
    params: Sequence[str]
    code: bytes
    symbol: str
    threads: int
    shared: int = 0
    cooperative: bool = False

    def load(self, device: torch.device) -> Callable[..., None]:
        """Load the code on a GPU.

        Returns:
            A function of the grid, a tuple of one to three sizes, a raw stream (set
            ``KernelLanguage.stream`` to ``current_stream``), and an argument for each parameter.

        Raises:
            OptionValueError: A parameter has a type that kernels cannot take.
            RuntimeError: The driver rejects the code.
        """
        types = "".join(map(_letter_of, self.params))
        # The driver knows what the code is for.
        binary = triton.GpuBinary(
            0, self.code, self.symbol, self.threads, self.shared, 0, self.cooperative
        )
        return load_binary(self.name, types, binary, device, switches=True)


def _letter_of(type_: str) -> str:
    if " " in type_:  # "in f32"
        return "O"
    plain = {"bool": "i1"}.get(type_, type_)
    if plain not in LETTERS:
        expected = "an access and an element type, as in 'in f32', or the type of a number"
        raise OptionValueError(option="params", value=type_, expected=expected)
    return LETTERS[plain]
