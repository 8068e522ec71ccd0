"""Devices as Inductor knows them: their schedulings, and its names for what only CUDA has."""

from __future__ import annotations

import importlib
import inspect
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils._pytree import tree_leaves

from wrapper_ir.devices import CUDA, DeviceKind, kind_of, named, registered
from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.compat import codegen_common
from wrapper_ir.frontends.inductor.errors import SchedulingError, UnsupportedTorchError
from wrapper_ir.frontends.inductor.untried import check_overrides
from wrapper_ir.options.gpu import GRAPHS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Set

    from wrapper_ir.lines.layout import Device


# Schedulings: what makes the kernels of a device, and leaves typed notes on them.
#
# Inductor has a scheduling for C++ and one for Triton. For a device that it does not know, the kind
# names the scheduling: one of those, a vendor's class derived from one of them, or none, which
# makes every node a library op.

_CPP: Final = "cpp"
_TRITON: Final = "triton"
_OPS: Final = "ops"
"""Words for schedulings: Inductor's, and that of a kind that has no kernels."""


class OpsOnly(compat.BaseScheduling):
    """A scheduling without kernels: every node on its device is a library op."""

    def group_fn(self, sizes: Any) -> Any:
        """Return the key that nodes are grouped by, which Inductor asks for before any kernel."""
        return tuple(tuple(size) for size in sizes)

    def can_fuse_vertical(self, node1: Any, node2: Any) -> bool:
        """Fuse nothing."""
        return False

    can_fuse_horizontal = can_fuse_vertical

    def codegen_node(self, node: Any) -> None:
        """Refuse a node that Inductor would generate a kernel for."""
        device = node.get_device()
        buffers = ", ".join(sorted(node.get_buffer_names()))
        problem = f"{buffers} needs a kernel, but its kind has scheduling='{_OPS}'"
        raise SchedulingError(device=device.type, problem=problem)

    def flush(self) -> None:
        """Write nothing, since there are no kernels."""


def codegens() -> Iterator[tuple[str, Any]]:
    """Yield the device types that graphs may run on, each with its entry in Inductor's tables.

    A device that Inductor does not know gets a new entry, as its kind says.
    """
    codegen_common.init_backend_registration()
    tables = codegen_common.device_codegens
    types = (*tables, torch._C._get_privateuse1_backend_name(), *(k.type for k in registered()))
    for type_ in dict.fromkeys(types):
        codegen = tables.get(type_) or _codegen(kind_of(type_))
        if codegen is not None:
            yield type_, codegen


def _codegen(kind: DeviceKind) -> Any:
    """Return the new entry of an unknown device, or None if its kind has no scheduling."""
    if not kind.scheduling:
        return None
    classes: Any = {_CPP: lambda: compat.CppScheduling, _TRITON: _triton, _OPS: lambda: OpsOnly}
    try:
        scheduling = classes.get(kind.scheduling, lambda: named(kind.scheduling))()
    except (ImportError, AttributeError) as error:
        raise SchedulingError(device=kind.type, problem=str(error)) from error
    wrappers = compat.PythonWrapperCodegen, None, compat.WrapperFxCodegen
    return codegen_common.DeviceCodegen(scheduling, *wrappers)


def answer_for_device(type_: str) -> Callable[[], None]:
    """Answer Inductor's other questions about a device as for the host, unless a vendor does.

    Inductor asks how many processors to split reductions for, and what its own wrapper would write
    around calls. The current device comes from torch's module for the type. What is returned takes
    the registration back.
    """
    host = compat.device_interface.get_interface_for_device("cpu")

    class Worker(host.Worker):  # type: ignore[name-defined, misc]  # of no type
        @staticmethod
        def current_device() -> int:
            return int(torch.get_device_module(type_).current_device())

    interface = type("Interface", (host,), {"Worker": Worker})
    overrides = codegen_common.get_device_op_overrides("cpu")
    tables: tuple[tuple[dict[str, Any], Any], ...] = (
        (codegen_common.device_op_overrides_dict, overrides),
        (compat.device_interface.device_interfaces, interface),
    )
    added = [table for table, ours in tables if table.setdefault(type_, ours) is ours]

    def take_back() -> None:
        for table in added:
            del table[type_]

    return take_back


def with_devices(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Inductor's function for a graph so that it knows third-party devices in our contexts.

    The function takes the graph and its inputs first. A backward is compiled later, so the function
    that compiles it (``inner_compile``) gets the same settings.
    """
    signature = inspect.signature(stock)

    @wraps(stock)
    def compile_graph(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_ours():
            return stock(model, inputs, *args, **kwargs)
        call = signature.bind(model, inputs, *args, **kwargs)
        call.apply_defaults()
        patch: Any = partial(compat.inductor_config.patch, _settings_for(_types(model, inputs)))
        if "inner_compile" in call.arguments:
            call.arguments["inner_compile"] = patch()(call.arguments["inner_compile"])
        with patch():
            return stock(*call.args, **call.kwargs)

    return compile_graph


def _types(model: Any, inputs: Any) -> set[str]:
    """Return the types of the devices that a graph is traced on."""
    values = tree_leaves(inputs)
    if isinstance(model, torch.nn.Module):
        values += [*model.parameters(), *model.buffers()]
    if isinstance(model, torch.fx.GraphModule):
        metas = [node.meta for node in model.graph.nodes]
        values += tree_leaves([(meta.get("val"), meta.get("example_value")) for meta in metas])
    return {value.device.type for value in values if isinstance(value, torch.Tensor)}


def _settings_for(types: Set[str]) -> dict[str, Any]:
    """Return Inductor's settings for a graph on devices of the given types.

    For a device without kernels they are the mode in which nodes are library ops. For a device
    other than the CPU with C++ kernels they name the language, and turn off loop changes meant for
    GPUs: Inductor decides both by comparing the type with ``cpu``.
    """
    settings: dict[str, Any] = {}
    entries = dict(codegens())
    for type_ in sorted(types & entries.keys()):
        scheduling = entries[type_].scheduling
        if not isinstance(scheduling, type):
            continue  # Inductor's own choice, of the CPU or CUDA
        if issubclass(scheduling, _triton()):
            _check_triton(type_)
        if issubclass(scheduling, OpsOnly):
            settings |= compat.list_mode_options("lite")
        if issubclass(scheduling, (compat.CppScheduling, OpsOnly)):
            settings |= {**dict.fromkeys(compat.loops_of_gpus(), False), "cuda_backend": _CPP}
    return settings


def _check_triton(type_: str) -> None:
    """Refuse a graph with Triton kernels if Triton cannot compile them here."""
    try:
        importlib.import_module("triton")
    except ImportError as error:
        problem, hint = f"Triton cannot be imported: {error}", "install the package triton"
        raise SchedulingError(device=type_, problem=problem, hint=hint) from error
    try:
        compat.triton_tools.triton_hash_with_backend()
    except Exception as error:
        problem = f"Triton has no backend for it here: {error}"
        hint = "install the vendor's backend for Triton, and check that the device is present"
        raise SchedulingError(device=type_, problem=problem, hint=hint) from error


def entry(is_ours: Callable[[], bool], stock: Any) -> type:
    """Return the entry for a scheduling's constructor: in our contexts, its kernels leave notes.

    Inductor checks whether the entry derives from the Triton scheduling, so it must be a class.
    """

    def make(_: type, scheduler: Any) -> Any:
        scheduling = stock(scheduler)
        return noting(scheduling, scheduler) if is_ours() else scheduling

    base = stock if isinstance(stock, type) else object
    return type("SchedulingEntry", (base,), {"__new__": make})


def noting(scheduling: Any, scheduler: Any) -> Any:
    """Return a scheduling like the given one whose kernels leave notes.

    The one for NVIDIA GPUs combines several, one for each language, which are replaced in it.
    """
    # Imported to make kernels; a graph from a cache has them.
    from wrapper_ir.frontends.inductor.notes import NotingCpp, NotingForeign  # noqa: PLC0415
    from wrapper_ir.frontends.inductor.triton import NotingTriton  # noqa: PLC0415

    fields = vars(scheduling).items()
    parts = {name: part for name, part in fields if isinstance(part, compat.BaseScheduling)}
    if parts:
        for name, part in parts.items():
            setattr(scheduling, name, noting(part, scheduler))
        return scheduling
    name = type(scheduling).__name__
    known: dict[str, Any] = {"language": _LANGUAGES.get(name, name)}
    for base, mixin in (
        (compat.CppScheduling, NotingCpp),
        (_triton(), NotingTriton),
        (compat.BaseScheduling, NotingForeign),
    ):
        if isinstance(scheduling, base) and hasattr(scheduling, "define_kernel"):
            noting_class: Any = type(f"Noting{name}", (mixin, type(scheduling)), known)
            check_overrides(noting_class)
            return noting_class(scheduler)
    return scheduling


#: Languages of kernels that programs do not hold, by Inductor's class of scheduling.
_LANGUAGES: Final = {
    "CUDACPPScheduling": "CUTLASS",  # earlier name of the next
    "CUTLASSScheduling": "CUTLASS",
    "CuteDSLScheduling": "CuTe DSL",
    "FlyDSLScheduling": "FlyDSL",
    "HalideScheduling": "Halide",
    "NVUniversalGemmScheduling": "CuTe DSL, by NVGEMM",
    "PallasScheduling": "Pallas",
    "ROCmCPPScheduling": "C++ for ROCm",
}


def _triton() -> Any:
    try:
        return importlib.import_module("torch._inductor.codegen.triton").TritonScheduling
    except (ImportError, AttributeError) as error:
        raise UnsupportedTorchError(version=torch.__version__, problem=str(error)) from error


# Inductor's names for what only CUDA has: graphs, stream blocks, devices by number.
#
# Inductor would put a CUDA graph around each partition of a graph; we capture whole calls.


#: Inductor's option, and ours for the same.
CAPTURES: Final = ("triton.cudagraphs", GRAPHS.name)

#: Lines that open and close the block of a stream, and of a memory pool.
STREAM_BLOCK: Final = ("EnterCudaStreamContextLine", "ExitCudaStreamContextLine")
MEMPOOL_BLOCK: Final = ("EnterCudaMemPoolContextLine", "ExitCudaMemPoolContextLine")

ABOUT_GRAPHS: Final = "cudagraph"
"""What the names of Inductor's settings for CUDA graphs have in common."""

_REASON: Final = "wrapper_ir does not partition graphs; its option cuda_graph captures whole calls"


def numbered(index: int) -> Device:
    """Return the device that such a block names by its number."""
    from wrapper_ir.lines.layout import Device  # noqa: PLC0415 - names above are wanted without

    return Device(CUDA.type, index)


def keep_whole(graph: Any) -> None:
    """Tell Inductor that a graph has no partitions, which it would look for in the finished module.

    It then puts no CUDA graphs around them, and logs the reason.
    """
    if graph.partition_maps:
        graph.partition_maps = None
        graph.disable_cudagraphs_reason = _REASON
