"""The one place that names Inductor's private parts, and knows what differs between releases.

Inductor has no stable interface for what this package does. What we use is imported here, and
everything else in the package imports it from here; so a name that moved is repaired in one place,
and a torch that lacks one gives one clear error instead of an ``ImportError`` from the middle of a
compilation.

What differs between the supported releases otherwise is a function here, which gives the same
answer on all of them and names the release that brought the difference. Lines that only some
releases have need none: they are told apart by the names of their classes (``convert.lines``).
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.fx.experimental import proxy_tensor

from wrapper_ir.frontends import releases
from wrapper_ir.frontends.inductor.errors import UnsupportedTorchError

if TYPE_CHECKING:
    from collections.abc import Mapping


def _check_version() -> None:
    """Refuse a torch that is not supported, unless the environment asks to try it.

    Raises:
        UnsupportedTorchError: It is too old; or nobody has tried it, and nobody asks to.
    """
    version = torch.__version__
    match releases.standing(version):
        case releases.Standing.SUPPORTED:
            return
        case releases.Standing.TOO_OLD:
            raise UnsupportedTorchError(version=version, problem="it is too old")
        case releases.Standing.UNTRIED:
            pass
    supported = f"the supported releases are {releases.in_words()}"
    if not releases.is_to_be_tried():
        raise UnsupportedTorchError(
            version=version,
            problem="this release has not been tested",
            hint=f"{supported}; set {releases.TRY}=1 in the environment to try this one anyway",
        )
    warnings.warn(
        f"torch {version} has not been tested with the Inductor front end, which continues because "
        f"{releases.TRY} is set; {supported}",
        releases.UntriedTorchWarning,
        stacklevel=2,
    )


def forget_last_trace() -> None:
    """Empty the map by which torch.export looks for leaks in the trace that it made last.

    Torch itself empties it when it begins the next trace. Until then it holds the traced graph, and
    so the parameters of a model that may be gone; what is not there in another release is no loss.
    """
    last = getattr(proxy_tensor, "_FAKE_TENSOR_ID_TO_PROXY_MAP_FOR_EXPORT", None)
    if isinstance(last, dict):
        last.clear()


_check_version()
try:
    from torch._dynamo import config as dynamo_config
    from torch._dynamo import device_interface
    from torch._dynamo import graph_bytecode_inputs as user_objects
    from torch._dynamo.convert_frame import compile_lock
    from torch._dynamo.package import CompilePackage
    from torch._dynamo.repro import after_aot, after_dynamo, aoti
    from torch._dynamo.source import CurrentStreamSource
    from torch._dynamo.utils import dynamo_timed
    from torch._functorch import config as functorch_config
    from torch._functorch._aot_autograd.autograd_cache import (
        BypassAOTAutogradCache as AOTAutogradBypass,
    )
    from torch._functorch._aot_autograd.descriptors import (
        GradAOTOutput,
        PlainAOTOutput,
        TangentAOTInput,
    )
    from torch._guards import TracingContext
    from torch._inductor import aot_compile, ir, list_mode_options
    from torch._inductor import compile_fx as inductor_entry
    from torch._inductor import config as inductor_config
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.codecache import BypassFxGraphCache as FxGraphBypass
    from torch._inductor.codegen import common as codegen_common
    from torch._inductor.codegen import wrapper as wrapper_lines
    from torch._inductor.codegen.common import KernelArgs
    from torch._inductor.codegen.cpp import CppScheduling
    from torch._inductor.codegen.multi_kernel import (
        MultiKernelCall,
        MultiKernelState,
        SizeHintMultiKernelCall,
    )
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
    from torch._inductor.codegen.wrapper_fxir import WrapperFxCodegen
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.compile_fx_ext import _SerializedFxCompile as SerializedFxCompile
    from torch._inductor.compiler_bisector import BACKENDS as BISECTED_BACKENDS
    from torch._inductor.compiler_bisector import BisectSubsystem, CompilerBisector
    from torch._inductor.constant_folding import ConstantFolder
    from torch._inductor.cpu_vec_isa import pick_vec_isa
    from torch._inductor.custom_graph_pass import CustomGraphModulePass
    from torch._inductor.exc import InductorError
    from torch._inductor.hooks import run_intermediate_hooks
    from torch._inductor.runtime.cache_dir_utils import cache_dir, triton_cache_dir
    from torch._inductor.scheduler import BaseSchedulerNode, BaseScheduling
    from torch._inductor.select_algorithm import extern_kernels
    from torch._inductor.utils import (  # type: ignore[attr-defined]  # 2.14 moved one elsewhere
        GPU_ALIGN_BYTES,
        Placeholder,
        ValueWithLineMap,
    )
    from torch._inductor.virtualized import V
    from torch._logging._internal import trace_structured
    from torch.fx.experimental._backward_state import BackwardState
    from torch.utils import _triton as triton_tools
    from torch.utils._sympy.symbol import SymT, symbol_is_type
except ImportError as error:
    raise UnsupportedTorchError(version=torch.__version__, problem=str(error)) from error

#: What writes scripts that show a failure again.
repro_writers = (after_aot, after_dynamo, aoti)

_CONDITIONAL: Any = getattr(ir, "Conditional", ())
_SWITCH: Any = getattr(ir, "Switch", ())
_SHALLOW_COPY: Any = getattr(getattr(torch.ops.aten, "shallow_copy_data_", ()), "default", ())


class Choice(NamedTuple):
    """Condition and branches of a node of Inductor's.

    Attributes:
        selector: The node of a truth value, or else of the number of a branch.
        branches: The subgraphs. Of a truth value that for true comes first, as in our lines.
        is_cond: Whether the selector is a truth value.
    """

    selector: Any
    branches: tuple[Any, ...]
    is_cond: bool


def choice_of(node: Any) -> Choice | None:
    """Return the choice that a node stands for; None where it stands for something else.

    2.14 brought ``torch.switch``, and one node for that and for ``torch.cond``, of which it has the
    branch for false first.
    """
    if isinstance(node, _CONDITIONAL):
        branches = (node.true_subgraph, node.false_subgraph)
        return Choice(node.predicate, branches, is_cond=True)
    if isinstance(node, _SWITCH):
        found = tuple(node.branches)
        return Choice(node.selector, found[::-1] if node.is_cond else found, node.is_cond)
    return None


def checked_op(line: Any) -> str:
    """Return whose result an ``AssertSizeStrideLine`` checks, ``input`` for an input.

    2.13 brought the field. 2.12 has such lines for inputs only, and text for results of ops; 2.11
    has text for both.
    """
    return getattr(line, "op_name", "input")


def gives_data(target: Any) -> bool:
    """Say whether a node calls an op that gives its first argument the data of its second.

    2.15 brought ``shallow_copy_data_``, and lowers it to ``set_``.
    """
    return target is torch.ops.aten.set_.source_Tensor or target is _SHALLOW_COPY


def user_streams(line: Any) -> Mapping[int, int]:
    """Return the streams that a device's block names, and which object of the user's each is.

    2.12 brought streams of one's own; a block without any is of another class, without the field.
    """
    return getattr(line, "stream_idx_to_user_obj_idx", {})


def current_stream() -> int | None:
    """Return the number that the stream that is current always has among the user's objects.

    2.12 brought it.
    """
    return getattr(user_objects, "CURRENT_STREAM_INDEX", None)


def processor() -> str:
    """Return the processor that Inductor is told to write C++ for; empty where it is told none.

    2.13 brought the setting ``cpp.march``.
    """
    return getattr(inductor_config.cpp, "march", None) or ""


def loops_of_gpus() -> tuple[str, ...]:
    """Return the settings by which Inductor changes loops so that kernels for GPUs can be fused.

    2.13 brought ``loop_reindexing_after_fusion``.
    """
    names = ("loop_ordering_after_fusion", "loop_reindexing_after_fusion")
    return tuple(name for name in names if hasattr(inductor_config, name))
