"""Triton kernels in graphs, as nodes of torch's own ``triton_kernel_wrapper_mutation``.

Such a node refers to its kernel by an index into a table that torch keeps per process. Torch's own
indices count from 0; ours are digests of the kernel (:func:`kernel_index`). So a kernel has the
same index in every process, and a pickled or saved graph works as soon as its kernels are declared.

The table holds a :class:`PinnedKernel`. Declaring one needs neither Triton nor a GPU and runs no
code of the kernel. A call launches exactly what emitted Python launches: the same types, constants,
warps and stages. To torch's tools (functionalization, Inductor) it is an autotuner with one
configuration.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import sys
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, fx
from torch._higher_order_ops import effects, triton_kernel_wrap
from torch.fx.node import has_side_effect
from typing_extensions import override

from wrapper_ir.devices import TRITON
from wrapper_ir.emitters.fx import library
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines.kernels import KernelDefinition, TritonKernel
from wrapper_ir.runtime import TritonKernels, current_stream, on_device
from wrapper_ir.toolchain.triton import TritonKernelError, TritonSource, jit_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_LOST: Final = {"launch_cooperative_grid": False, "maxnreg": None, "num_ctas": 1}
"""Options that Inductor drops when it recompiles a kernel of a graph, with the values they get.
Without a cooperative launch, a kernel whose blocks wait for each other might deadlock."""


class LaunchError(WrapperIRError):
    """A Triton kernel cannot be launched as its node requests.

    Fields: ``kernel`` and ``reason``.
    """

    code = "WIR2302"
    template = "Triton kernel '{kernel}' cannot be launched: {reason}"


def _kept(op: Any) -> Any:
    """Mark an op as having side effects, so that graph passes keep its calls."""
    has_side_effect(op)
    if not fx.Graph().call_function(op).is_impure():
        # PyTorch 2.11 checks only this registry for higher-order ops.
        effects._register_effectful_op(op, effects._EffectType.ORDERED)  # noqa: SLF001
    return op


LAUNCH: Final = _kept(triton_kernel_wrap.triton_kernel_wrapper_mutation)
"""Torch's op that launches a Triton kernel."""

_table: Final[Any] = triton_kernel_wrap.kernel_side_table

#: Our indices start here, far above torch's own.
_FIRST: Final = 1 << 48

NO_CONSTANTS: Final = _FIRST
"""The index of an empty table of arguments that a graph cannot hold."""

_pinned: Final[dict[int, PinnedKernel]] = {}


def kernel_index(definition: KernelDefinition) -> int:
    """Return a kernel's index in torch's table, which is the same in every process."""
    source = _source(definition)
    launch = (source.num_warps, source.num_stages, source.options)
    parts = (source.code, source.entry, source.signature, source.constants, *launch)
    digest = hashlib.sha256(json.dumps([definition.name, *parts], default=str).encode())
    return _FIRST + 1 + int(digest.hexdigest()[:12], 16)


def _source(definition: KernelDefinition) -> TritonKernel:
    assert isinstance(definition.source, TritonKernel)
    return definition.source


def declare_launched(definitions: Iterable[KernelDefinition]) -> dict[str, PinnedKernel]:
    """Add the Triton kernels among definitions to torch's table, and return them by name.

    ``torch._dynamo.reset()`` empties the table; declaring them again fills it.
    """
    kernels = {}
    with library.LOCK:
        for definition in definitions:
            if definition.source.language is not TRITON:
                continue
            index = kernel_index(definition)
            kernel = _pinned.setdefault(index, PinnedKernel(index, definition))
            _table.id_to_kernel[index] = kernel
            _table.kernel_to_id[kernel] = index
            _table.constant_args[NO_CONSTANTS] = {}
            kernels[definition.name] = kernel
    return kernels


def described(definition: KernelDefinition) -> Iterator[str]:
    """Yield readable lines about a kernel's pinned configuration."""
    source = _source(definition)
    types = (f"{name}: {type_}" for name, type_ in source.signature)
    launch = (("num_warps", source.num_warps), ("num_stages", source.num_stages))
    pinned = (f"{name}={value}" for name, value in (*launch, *source.options))
    yield f"Triton kernel {definition.name}"
    yield f"({', '.join(types)})"
    yield ", ".join(pinned)


class PinnedKernel:
    """A Triton kernel of a program as torch's tools expect one, with its index in torch's table."""

    def __init__(self, index: int, definition: KernelDefinition) -> None:
        self.index = index
        self.definition = definition
        self._compiled: dict[tuple[object, ...], Callable[..., None]] = {}

    @property
    def constants(self) -> dict[str, Any]:
        """The kernel's compile-time constants."""
        return dict(_source(self.definition).constants)

    @property
    def types(self) -> dict[str, str]:
        """The Triton type of each parameter that is passed at run time."""
        return dict(_source(self.definition).signature)

    def launcher(self, device: int, constants: Mapping[str, object]) -> Callable[..., None]:
        """Return ``launch(grid, stream, *args)`` for a GPU, compiled on first use.

        The constants are those of the node, since a pass may have changed them.
        """
        key = (device, *constants.items())
        if key not in self._compiled:
            source = _source(self.definition)
            kernels = TritonKernels(torch.device("cuda", device))
            kernels.add(
                self.definition.name,
                self.types,
                source.code,
                entry=source.entry,
                constants=constants,
                num_warps=source.num_warps,
                num_stages=source.num_stages,
                options=dict(source.options),
            )
            (self._compiled[key],) = kernels.load()
        return self._compiled[key]

    def __getitem__(self, grid: Sequence[int]) -> Callable[..., None]:
        """Return a launch function for a grid, as Triton's kernels do."""
        return functools.partial(self.launch, grid)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def launch(self, grid: Sequence[int], *args: Any, **kwargs: Any) -> None:
        """Launch the kernel over a grid, on the current stream of its tensors' GPU.

        Raises:
            LaunchError: The arguments do not match the kernel's parameters.
        """
        by_name = dict(zip(self.arg_names, args, strict=False)) | kwargs
        constants = {name: by_name.pop(name, value) for name, value in self.constants.items()}
        if by_name.keys() != self.types.keys():
            wrong = ", ".join(sorted(by_name.keys() ^ self.types.keys()))
            raise LaunchError(kernel=self.definition.name, reason=f"missing or unknown: {wrong}")
        ordered = [by_name[name] for name in self.types]
        device = self._gpu(ordered)
        run = on_device(device)(self.launcher(device.index, constants))
        run(tuple(grid), current_stream(device.index), *ordered)

    def _gpu(self, args: Iterable[object]) -> torch.device:
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        for tensor in tensors:
            if tensor.device.type == "cuda":
                return tensor.device
        where = ", ".join(dict.fromkeys(str(tensor.device) for tensor in tensors)) or "no device"
        reason = f"it runs on a GPU, and its tensors are on {where}"
        raise LaunchError(kernel=self.definition.name, reason=reason)

    # Triton's interface.

    @functools.cached_property
    def _autotuner(self) -> Any:
        """Triton's autotuner of the kernel's function, with one configuration."""
        source = _source(self.definition)
        kernel = TritonSource(
            self.definition.name, self.types, source.code, source.entry, self.constants, {}
        )
        function = jit_function(kernel)
        triton = importlib.import_module("triton")
        options = {"num_warps": source.num_warps, "num_stages": source.num_stages}
        return triton.autotune([triton.Config({}, **options)], key=[])(function)

    def __getattr__(self, name: str) -> Any:
        """Get any other attribute from the autotuner."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name == "restore_value":
            self._refuse_losses()
        try:
            autotuner = self._autotuner
        except TritonKernelError as error:
            # Torch inspects all kernels in its table whenever it traces, and expects this error.
            raise AttributeError(str(error), name=name, obj=self) from error
        return getattr(autotuner, name)

    def _refuse_losses(self) -> None:
        """Raise a LaunchError if Inductor, the only reader of the attribute, would drop options."""
        options = dict(_source(self.definition).options)
        for name, left in _LOST.items():
            if options.get(name, left) != left:
                raise LaunchError(
                    kernel=self.definition.name,
                    reason=f"Inductor would recompile it without its option '{name}'",
                    hint="run the graph as emitted, or the function that `.load()` returns",
                )

    @property  # type: ignore[misc]
    @override
    def __class__(self) -> type:
        """Triton's autotuner class once Triton is imported, since torch checks the class."""
        module = sys.modules.get("triton.runtime.autotuner")
        return PinnedKernel if module is None else module.Autotuner

    @override
    def __repr__(self) -> str:
        return f"<Triton kernel {self.definition.name!r}>"


def launch_kwargs(
    kernel: PinnedKernel, grid: tuple[Any, ...], args: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the keyword arguments of a node that launches a kernel."""
    return {
        "kernel_idx": kernel.index,
        "constant_args_idx": NO_CONSTANTS,
        "grid": [grid],
        "tma_descriptor_metadata": {},
        "kwargs": {**args, **kernel.constants},
    }


def launched(node: fx.Node) -> PinnedKernel | None:
    """Return the kernel that a node with :func:`launch_kwargs` launches, or ``None``."""
    if node.op != "call_function" or node.target is not LAUNCH or node.args:
        return None
    kwargs: dict[str, Any] = dict(node.kwargs)
    plain = kwargs.get("constant_args_idx") == NO_CONSTANTS
    if not plain or kwargs.get("tma_descriptor_metadata") or len(kwargs.get("grid", ())) != 1:
        return None
    return _pinned.get(kwargs["kernel_idx"])
