"""The one place that names Inductor's private parts and knows how releases differ.

Inductor has no stable interface for what this package does. The other modules import the private
names from here, so a name that moved is fixed in one place, and a torch that lacks one raises one
clear error instead of an ``ImportError`` in the middle of a compilation.

Each remaining difference between supported releases is a function that gives the same answer on
all of them, and whose docstring names the release that brought the difference. Lines that only some
releases have need no function: ``convert.lines`` looks lines up by class name.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.fx.experimental import proxy_tensor
from torch.utils import _pytree as pytree

from wrapper_ir.frontends import releases
from wrapper_ir.frontends.inductor.errors import UnsupportedTorchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType, FrameType


def _check_version() -> None:
    """Refuse a torch that is not supported, unless the environment asks to try it."""
    version = torch.__version__
    standing = releases.standing(version)
    if standing is releases.Standing.SUPPORTED:
        return
    if standing is releases.Standing.TOO_OLD:
        raise UnsupportedTorchError(version=version, problem="it is too old")
    supported = f"the supported releases are {releases.in_words()}"
    if not releases.is_to_be_tried():
        hint = f"{supported}; set {releases.TRY}=1 in the environment to try this one anyway"
        problem = "this release has not been tested"
        raise UnsupportedTorchError(version=version, problem=problem, hint=hint)
    warnings.warn(
        f"torch {version} has not been tested with the Inductor front end, which continues because "
        f"{releases.TRY} is set; {supported}",
        releases.UntriedTorchWarning,
        stacklevel=2,
    )


def forget_last_trace() -> None:
    """Clear the map in which torch.export looks for tensors leaked from its last trace.

    Torch clears it only when the next trace begins. Until then it keeps the traced graph alive, and
    with it the parameters of a model that may be gone. A release without the map needs nothing.
    """
    last = getattr(proxy_tensor, "_FAKE_TENSOR_ID_TO_PROXY_MAP_FOR_EXPORT", None)
    if isinstance(last, dict):
        last.clear()


_check_version()
try:
    from torch._C._dynamo.guards import compute_overlapping_tensors
    from torch._dynamo import compiled_autograd, device_interface
    from torch._dynamo import config as dynamo_config
    from torch._dynamo import graph_bytecode_inputs as user_objects
    from torch._dynamo.backends import registry as backend_registry
    from torch._dynamo.convert_frame import compile_lock
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list as cache_entries
    from torch._dynamo.guards import GuardBuilder
    from torch._dynamo.package import CompilePackage
    from torch._dynamo.repro import after_aot, after_dynamo, aoti
    from torch._dynamo.source import CurrentStreamSource
    from torch._dynamo.symbolic_convert import tls as translating
    from torch._dynamo.utils import dynamo_timed
    from torch._functorch import config as functorch_config
    from torch._functorch import partitioners
    from torch._functorch._aot_autograd import autograd_cache, graph_compile, runtime_wrappers
    from torch._functorch._aot_autograd.aot_autograd_result import (
        GenericAOTAutogradResult as CachedResult,
    )
    from torch._functorch._aot_autograd.autograd_cache import (
        AOTAutogradCache,
        AOTAutogradCachePickler,
    )
    from torch._functorch._aot_autograd.autograd_cache import (
        BypassAOTAutogradCache as AOTAutogradBypass,
    )
    from torch._functorch._aot_autograd.descriptors import (
        GradAOTOutput,
        PlainAOTOutput,
        TangentAOTInput,
    )
    from torch._functorch._aot_autograd.runtime_wrappers import (
        AOTDispatchAutograd,
        AOTDispatchSubclassWrapper,
        RuntimeWrapper,
    )
    from torch._functorch._aot_autograd.schemas import (
        OutputType,
        PlainTensorMeta,
        SubclassCreationMeta,
    )
    from torch._guards import TracingContext
    from torch._inductor import aot_compile, ir, list_mode_options
    from torch._inductor import compile_fx as inductor_entry
    from torch._inductor import config as inductor_config
    from torch._inductor import debug as inductor_debug
    from torch._inductor import scheduler as inductor_scheduler
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.bounds import ValueRangeAnalysis
    from torch._inductor.codecache import BypassFxGraphCache as FxGraphBypass
    from torch._inductor.codecache import FxGraphCache, FxGraphCachePickler, FxGraphHashDetails
    from torch._inductor.codegen import common as codegen_common
    from torch._inductor.codegen.common import KernelArgs
    from torch._inductor.codegen.cpp import CppScheduling
    from torch._inductor.codegen.multi_kernel import (
        MultiKernelCall,
        MultiKernelState,
        SizeHintMultiKernelCall,
    )
    from torch._inductor.codegen.triton_split_scan import TritonSplitScanKernel
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
    from torch._inductor.codegen.wrapper_fxir import WrapperFxCodegen
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.compile_fx_ext import _SerializedFxCompile as SerializedFxCompile
    from torch._inductor.compiler_bisector import BACKENDS as BISECTED_BACKENDS
    from torch._inductor.compiler_bisector import BisectSubsystem, CompilerBisector
    from torch._inductor.constant_folding import ConstantFolder
    from torch._inductor.cpu_vec_isa import pick_vec_isa
    from torch._inductor.custom_graph_pass import CustomGraphModulePass
    from torch._inductor.dependencies import MemoryDep
    from torch._inductor.exc import InductorError
    from torch._inductor.fx_passes import joint_graph, post_grad, reinplace
    from torch._inductor.graph import GraphLowering
    from torch._inductor.ops_handler import DefaultHandler
    from torch._inductor.output_code import CompiledFxGraph
    from torch._inductor.runtime.cache_dir_utils import cache_dir, triton_cache_dir
    from torch._inductor.scheduler import BaseScheduling
    from torch._inductor.select_algorithm import extern_kernels
    from torch._inductor.utils import (  # type: ignore[attr-defined]  # 2.14 moved one elsewhere
        GPU_ALIGN_BYTES,
        Placeholder,
        ValueWithLineMap,
    )
    from torch._inductor.virtualized import V
    from torch._logging._internal import trace_structured
    from torch.autograd.function import BackwardCFunction
    from torch.compiler import config as compiler_config
    from torch.fx.experimental._backward_state import BackwardState
    from torch.fx.experimental.symbolic_shapes import (
        ShapeEnv,
        statically_known_true,
        sym_eq,
        uninteresting_files,
    )
    from torch.multiprocessing.reductions import StorageWeakRef
    from torch.utils import _triton as triton_tools
    from torch.utils._python_dispatch import _disable_current_modes as without_modes
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass
    from torch.utils._sympy.functions import CeilDiv
    from torch.utils._sympy.symbol import SymT, symbol_is_type
    from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy
except ImportError as _error:
    raise UnsupportedTorchError(version=torch.__version__, problem=str(_error)) from _error

#: Whether graphs may be the same on all ranks: 2.15 brought the setting ``compile_on_one_rank``.
has_one_rank: bool = hasattr(compiler_config, "compile_on_one_rank")

if TYPE_CHECKING:

    class Mixin:
        """Base of mixins for Inductor's classes, which have these methods and any attribute."""

        codegen_conditional: Any
        codegen_inputs: Any
        codegen_invoke_subgraph: Any
        codegen_partition_call: Any
        codegen_subgraph_with_flattened_outputs: Any
        codegen_switch: Any
        codegen_sync: Any
        codegen_while_loop: Any
        define_kernel: Any
        define_user_defined_triton_kernel: Any
        register_alignment_check_inputs: Any
        write_provenance_debug_handle: Any
        writeline: Any

        def __getattr__(self, name: str) -> Any:
            """Return an attribute of the class that a mixin precedes."""

else:
    Mixin = object

#: Modules that write scripts to reproduce a failure.
repro_writers: tuple[Any, ...] = (after_aot, after_dynamo, aoti)

#: What AOTAutograd wraps a compiled graph in to store it in a cache; nothing where it does not.
SerializableCompiledFunction: Any = getattr(runtime_wrappers, "SerializableCompiledFunction", ())

#: A reduction whose result is reduced again by groups in one kernel, since PyTorch 2.15.
FusedNestedReductions: Any = getattr(inductor_scheduler, "FusedNestedReductions", ())

#: Holds RECORD_GRAPH_EXECUTION, in releases that have it.
debugging: Mapping[str, Any] = vars(inductor_debug)


def without_entry(function: Any) -> Any:
    """Return what AOTAutograd has wrapped to store it in a cache."""
    while isinstance(function, SerializableCompiledFunction):
        function = function.compiled_fn
    return function


def current_frame() -> CodeType | None:
    """Return the code that Dynamo is compiling, if it is."""
    translator = getattr(translating, "current_tx", None)
    return translator.output.root_tx.f_code if translator else None


#: Copies a gradient into the memory format that a backward graph was compiled for; None before
#: 2.13, where gradients do not come in one list, or what follows a graph is no function of its own.
restrided: Any = getattr(runtime_wrappers, "coerce_to_expected_memory_format", None)
if not (
    hasattr(BackwardCFunction, "apply_boxed")
    and hasattr(runtime_wrappers, "_AutogradForwardEpilogue")
):
    restrided = None


def saved_inputs(metadata: Any) -> frozenset[int]:
    """Return which tensors that a graph saves are its arguments, and saved as they are.

    2.14 brought that: before, they are detached like all others that are views.
    """
    is_input = getattr(metadata, "saved_tensor_is_graph_input", ())
    return frozenset(position for position, is_given in enumerate(is_input) if is_given)


def backward_epilogue(function: Any) -> Any:
    """Return what makes the gradients of arguments of what a backward graph returns.

    Args:
        function: AOTAutograd's ``CompiledFunction`` for the graph.
    """
    return function._bw_epilogue_fn


#: What AOTAutograd does after a graph has run: it changes arguments, and makes views of them.
RuntimeEpilogue: Any = getattr(runtime_wrappers, "_RuntimeForwardEpilogue", None)

#: What it does before, where gradients are recorded: it hides views from autograd's function.
RecordedEpilogue: Any = getattr(runtime_wrappers, "_AutogradForwardEpilogue", None)

#: Modules with Inductor's passes that make a graph write in place, and the names of those passes.
in_place_passes: tuple[tuple[Any, str], ...] = tuple(
    (module, name)
    for module, name in (
        (reinplace, "reinplace_inplaceable_ops_core"),
        (post_grad, "slice_scatter_chunking_pass"),
        (post_grad, "fix_auto_functionalized_dtype_views"),
    )
    if hasattr(module, name)
)

#: The ops that those passes may put an op in the place of that writes to its first argument.
inplaceable_ops: Any = reinplace.inplaceable_ops

#: Inductor's passes that leave out ops which only copy, and the ops that one of them may leave out.
copy_removing_passes: tuple[tuple[Any, str], ...] = (
    (post_grad, "remove_noop_ops"),
    (joint_graph, "remove_no_ops"),
)
noop_registry: Any = post_grad.noop_registry

#: Makes a guard on the specification of a distributed tensor.
make_spec_guard: Any = getattr(GuardBuilder, "DTENSOR_SPEC_MATCH", None)

#: Whether streams and other objects that are no tensors are noted for backward passes.
notes_user_objects: bool = hasattr(runtime_wrappers, "_snapshot_external_objects")

#: Marks dimensions of a result as dynamic for the next graph; None where a release does it inline.
mark_dynamic: Any = getattr(runtime_wrappers, "mark_dynamo_propagated_dynamic_indices", None)

_CONDITIONAL: Any = getattr(ir, "Conditional", ())
_SWITCH: Any = getattr(ir, "Switch", ())
#: What stands for an input that is a process group or another object of Python; 2.15 brought it.
OpaqueObject: Any = getattr(ir, "OpaqueObjectState", ())
#: What stands for a value that a graph returns as it is, such as the placement of a distributed
#: tensor. Not all releases have it.
OpaqueConstant: Any = getattr(ir, "OpaqueValueTypeConstant", ())

_SHALLOW_COPY: Any = getattr(getattr(torch.ops.aten, "shallow_copy_data_", ()), "default", ())


class Choice(NamedTuple):
    """Selector and branches of one of Inductor's nodes."""

    selector: Any  #: the node of a boolean, or of the index of a branch
    branches: tuple[Any, ...]  #: with a boolean the true one comes first, as in ``Cond``
    is_cond: bool  #: whether the selector is a boolean


def choice_of(node: Any) -> Choice | None:
    """Return the choice that a node stands for, or None if it is another kind of node.

    2.14 brought ``torch.switch``, and one node class for it and ``torch.cond``, in which the branch
    for false comes first.
    """
    if isinstance(node, _CONDITIONAL):
        branches = (node.true_subgraph, node.false_subgraph)
        return Choice(node.predicate, branches, is_cond=True)
    if isinstance(node, _SWITCH):
        subgraphs = tuple(node.branches)
        return Choice(node.selector, subgraphs[::-1] if node.is_cond else subgraphs, node.is_cond)
    return None


def checked_op(line: Any) -> str:
    """Return the op whose result an ``AssertSizeStrideLine`` checks, or ``input`` for an input.

    2.13 brought the field. 2.12 has such lines for inputs only, and text for results of ops; 2.11
    has text for both.
    """
    return getattr(line, "op_name", "input")


def gives_data(target: Any) -> bool:
    """Return whether a node calls an op that gives its first argument the data of its second.

    2.15 brought ``shallow_copy_data_``, which it lowers to ``set_``.
    """
    return target is torch.ops.aten.set_.source_Tensor or target is _SHALLOW_COPY


def user_streams(line: Any) -> Mapping[int, int]:
    """Map the streams of a device block to the user objects that they are.

    2.12 brought user streams. A block without any has another class, which lacks the field.
    """
    return getattr(line, "stream_idx_to_user_obj_idx", {})


def current_stream() -> int | None:
    """Return the index that always stands for the current stream among the user's objects.

    2.12 brought it.
    """
    return getattr(user_objects, "CURRENT_STREAM_INDEX", None)


def processor() -> str:
    """Return the processor that Inductor writes C++ for, or an empty string if none is set.

    2.13 brought the setting ``cpp.march``.
    """
    return getattr(inductor_config.cpp, "march", None) or ""


def loops_of_gpus() -> tuple[str, ...]:
    """Return the settings with which Inductor changes loops so that GPU kernels can be fused.

    2.13 brought ``loop_reindexing_after_fusion``.
    """
    names = ("loop_ordering_after_fusion", "loop_reindexing_after_fusion")
    return tuple(name for name in names if hasattr(inductor_config, name))


def process_group(name: str) -> Any:
    """Return the process group of a name."""
    groups: Any = torch.distributed.distributed_c10d
    return groups._resolve_process_group(name)


def is_process_group(value: object) -> bool:
    """Return whether a value is a process group."""
    if not torch.distributed.is_available():
        return False
    return isinstance(value, torch.distributed.ProcessGroup)


def is_mesh(value: object) -> bool:
    """Return whether a value is a mesh of devices."""
    if not torch.distributed.is_available():
        return False
    from torch.distributed.device_mesh import DeviceMesh  # noqa: PLC0415 - not in every build

    return isinstance(value, DeviceMesh)


@contextlib.contextmanager
def specs_as_constants() -> Iterator[None]:
    """Let ``torch.export`` take what a distributed tensor is besides its local one as a constant.

    Torch asks its users to say so for good, which changes what Dynamo does as well.
    """
    specs: Any = sys.modules.get("torch.distributed.tensor._dtensor_spec")
    if specs is None or specs.DTensorSpec in pytree.SUPPORTED_NODES:
        yield
        return
    pytree.register_constant(specs.DTensorSpec)
    try:
        yield
    finally:
        pytree._deregister_pytree_node(specs.DTensorSpec)


def mesh_of(value: Any) -> Any:
    """Return the mesh that a distributed tensor is spread over, or what else a value is."""
    from torch.distributed.tensor import DTensor  # noqa: PLC0415 - not in every build

    return value.device_mesh if isinstance(value, DTensor) else value


def local_sizes(value: Any) -> tuple[str, ...] | None:
    """Return the sizes of what a rank has of a distributed tensor; None for other values."""
    from torch.distributed.tensor import DTensor  # noqa: PLC0415 - not in every build

    return tuple(map(str, value._local_tensor.shape)) if isinstance(value, DTensor) else None


def key_of_spread(value: Any) -> str:
    """Return a distributed tensor's part of a key, without its device."""
    of_spec: Any = value._spec
    return f"{of_spec._stable_hash()} {value.requires_grad} {value.device.type}"


def groups_of_mesh(value: Any) -> tuple[str, ...]:
    """Return the names of the groups of a mesh's dimensions, and of its flattened dimensions.

    Empty for anything else.
    """
    if not is_mesh(value):
        return ()
    flat = getattr(value._get_root_mesh(), "_flatten_mapping", {}).values()
    of = [getattr(each, "_dim_group_names", None) or () for each in (value, *flat)]
    return tuple(str(name) for names in of for name in names)


def guard_on_groups(model: torch.fx.GraphModule, given: Mapping[int, Any]) -> None:
    """Have Dynamo compile again where inputs of its graph are other groups, or meshes of others.

    Args:
        model: The graph that it has just made, and now has compiled.
        given: The groups and meshes among its inputs, by their places.
    """
    from torch._dynamo.source import AttrSource  # noqa: PLC0415 - few graphs take any

    guards = _guards_so_far()
    if guards is None:
        return
    for at, node in enumerate(model.graph.find_nodes(op="placeholder")):
        source = getattr(node.meta.get("grapharg"), "source", None)
        if at not in given or source is None:
            continue
        value = getattr(given[at], "real_obj", given[at])
        names = AttrSource(source, "_dim_group_names" if is_mesh(value) else "group_name")
        guards.add(names.make_guard(GuardBuilder.EQUALS_MATCH))


def spec_guards() -> list[Any]:
    """Return Dynamo's guards, so far, on specifications of distributed tensors."""
    return [each for each in _guards_so_far() or () if each.create_fn is make_spec_guard]


def _guards_so_far() -> Any:
    """Return the set of Dynamo's guards for what it is compiling; None if it is not."""
    context = TracingContext.try_get()
    return None if context is None else context.guards_context.dynamo_guards


def shape_of_mesh(mesh: Any) -> tuple[object, ...]:
    """Return what a mesh is for all of its ranks, without its groups: the ranks, and their places.

    2.15 brought graphs that take one.
    """
    root = mesh._get_root_mesh()
    flat = getattr(root, "_flatten_mapping", {})
    layouts = tuple((name, repr(each._layout)) for name, each in flat.items())
    return repr(mesh._hash_key()), repr(root._hash_key()), layouts


def default_group() -> Any:
    """Return the default process group."""
    groups: Any = torch.distributed.distributed_c10d
    return groups._get_default_group()


def text_of_value(value: Any) -> tuple[str, dict[str, type]]:
    """Return the text that makes such a value again, and the types that it names."""
    from torch._library.opaque_object import (  # noqa: PLC0415 - with the values
        get_opaque_obj_repr,
    )

    text, types = get_opaque_obj_repr(value)
    return text, types


def own_groups() -> list[Any]:
    """Return the process groups that this process is in, in the order of their creation."""
    groups: Any = torch.distributed.distributed_c10d
    world = default_group()
    return [world, *(each for each in groups._world.pg_map if each is not world)]


def description_of_group(group: Any) -> str:
    """Return what a process group was described as when it was made, or "group"."""
    description = str(group.group_desc)
    return description if description and description != "undefined" else "group"


@contextlib.contextmanager
def groups_copied_as_themselves() -> Iterator[None]:
    """Let copies of a graph share its process groups, which cannot be copied.

    Torch copies a backward that it compiles with the forward.
    """
    kind: Any = torch.distributed.ProcessGroup
    if hasattr(kind, "__deepcopy__"):
        yield
        return
    kind.__deepcopy__ = lambda self, memo: self
    try:
        yield
    finally:
        del kind.__deepcopy__


def register_group(name: str, group: Any) -> None:
    """Let ops find a process group by a further name."""
    from torch._C import _distributed_c10d  # noqa: PLC0415 - not in every build

    groups: Any = _distributed_c10d
    groups._register_process_group(name, group)


@contextlib.contextmanager
def asked_for_rank(ask: Callable[[FrameType | None], None]) -> Iterator[None]:
    """Hand a function the caller of whatever gives this process's rank in a group or a mesh.

    Who asks a mesh only whether this process is in it does not ask for its place there.
    """
    from torch.distributed.device_mesh import DeviceMesh  # noqa: PLC0415 - not in every build

    group: Any = torch.distributed.ProcessGroup
    mesh: Any = DeviceMesh
    name, get_rank = "_coordinate_on_dim", torch.distributed.get_rank.__code__
    stock, rank = vars(group)["rank"], group.rank
    outer = vars(mesh).get(name)  # of a graph during which this one is compiled

    def rank_of(self: Any) -> Any:
        frame = sys._getframe(1)
        ask(frame.f_back if frame.f_code is get_rank else frame)
        return rank(self)

    def reading(of: Callable[..., Any]) -> Callable[..., Any]:
        def read(*args: Any) -> Any:
            ask(sys._getframe(1))
            return of(*args)

        return read

    reads = ("__getitem__", "__iter__", "__eq__", "__ne__", "__hash__", "__repr__")
    place: Any = type("Place", (tuple,), {each: reading(getattr(tuple, each)) for each in reads})

    def place_in(self: Any) -> Any:
        found = vars(self)[name]
        return None if found is None else place(found)

    group.rank = rank_of
    setattr(mesh, name, property(place_in, lambda self, value: vars(self).update({name: value})))
    try:
        yield
    finally:
        group.rank = stock
        if outer is None:
            delattr(mesh, name)
        else:
            setattr(mesh, name, outer)


def decides_with_others() -> bool:
    """Return whether ranks call collectives while they compile, so that each must compile.

    They agree on what is recomputed, on what ops take, or on which kernels are fastest. 2.15
    brought some of the settings.
    """
    names = ("_sync_decision_cross_ranks", "_sync_cache_decision_cross_ranks")
    if any(getattr(functorch_config, name, False) for name in names):
        return True
    graphs: Any = getattr(inductor_config, "aten_distributed_optimizations", None)
    comms: Any = sys.modules.get("torch._inductor.config_comms")
    estimators = (getattr(graphs, f"{of}_estimator", "") for of in ("compute", "collective"))
    return (
        getattr(inductor_config, "distributed_max_autotune_gemm", False)
        or getattr(comms, "runtime_estimations_align_across_all_distributed_ranks", False)
        or getattr(graphs, "spmd_check", False)
        or (getattr(graphs, "enable_overlap_scheduling", False) and "benchmark" in estimators)
    )


def current_accelerator() -> torch.device | None:
    """Return the current device with its number; None where there is none."""
    if not torch.accelerator.is_available():
        return None
    current = torch.accelerator.current_accelerator()
    index = torch.accelerator.current_device_index()
    return None if current is None else torch.device(current.type, index)


def default_store() -> Any:
    """Return the store of the default process group."""
    groups: Any = torch.distributed.distributed_c10d
    return groups._get_default_store()


def writes_traces() -> bool:
    """Return whether torch writes a ``TORCH_TRACE``. Test frameworks listen to its logger, too."""
    handler: Any = torch._logging._internal.LOG_TRACE_HANDLER
    return getattr(handler, "root_dir", None) is not None


def keeps_memory_of_peers() -> bool:
    """Return whether what a kernel computes in place stays out of memory that peers address.

    2.12 brought it: 2.11 takes such memory for that of the argument, and then allocates it, empty.
    """
    return tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 12)
