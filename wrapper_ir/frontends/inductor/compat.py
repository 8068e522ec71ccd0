"""The one place that names Inductor's private parts, and says so plainly when they are not there.

Inductor has no stable interface for what this package does. What we use is imported here, and
everything else in the package imports it from here; so a name that moved is repaired in one place,
and a torch that lacks one gives one clear error instead of an ``ImportError`` from the middle of a
compilation. What differs between releases otherwise stands in ``differences``.
"""

from __future__ import annotations

import warnings

import torch
from torch.fx.experimental import proxy_tensor

from wrapper_ir.frontends import releases
from wrapper_ir.frontends.inductor.errors import UnsupportedTorchError


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
    problem = "nobody has tried it"
    supported = f"supported are {releases.in_words()}"
    if not releases.is_to_be_tried():
        hint = (
            f"{supported}; with {releases.TRY}=1 in the environment it goes on with this one too, "
            "where nothing is gone that it needs"
        )
        raise UnsupportedTorchError(version=version, problem=problem, hint=hint)
    warnings.warn(
        f"{problem}: torch {version}, with which the Inductor front end goes on as {releases.TRY} "
        f"asks; {supported}",
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
