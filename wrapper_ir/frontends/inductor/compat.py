"""The one place that names Inductor's private parts, and says so plainly when they are not there.

Inductor has no stable interface for what this package does. What we use is imported here, under
the names of torch 2.13, and everything else in the package imports it from here; so a name that
moved is repaired in one place, and a torch that lacks one gives one clear error instead of an
``ImportError`` from the middle of a compilation.
"""

from __future__ import annotations

import torch
from torch.fx.experimental import proxy_tensor

from wrapper_ir.frontends.inductor.errors import UnsupportedTorchError

__all__ = [
    "GPU_ALIGN_BYTES",
    "AOTAutogradBypass",
    "BackwardState",
    "BaseSchedulerNode",
    "ConstantFolder",
    "CppScheduling",
    "CustomGraphModulePass",
    "FileBackedGraphModule",
    "FxGraphBypass",
    "InductorError",
    "KernelArgs",
    "Placeholder",
    "PythonWrapperCodegen",
    "SubgraphPythonWrapperCodegen",
    "SymT",
    "TracingContext",
    "V",
    "ValueWithLineMap",
    "aot_compile",
    "codegen_common",
    "compile_fx",
    "compile_fx_inner",
    "compile_lock",
    "extern_kernels",
    "forget_last_trace",
    "functorch_config",
    "inductor_config",
    "ir",
    "pick_vec_isa",
    "run_intermediate_hooks",
    "symbol_is_type",
    "wrapper_lines",
]

#: Releases that the package is written for: from the first, below the second.
SUPPORTED = ((2, 11), (2, 16))


def torch_version() -> tuple[int, int]:
    """Return torch's major and minor version."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def _check_version() -> None:
    if not SUPPORTED[0] <= torch_version() < SUPPORTED[1]:
        raise UnsupportedTorchError(version=torch.__version__, problem="it is another release")


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
    from torch._dynamo.convert_frame import compile_lock
    from torch._functorch import config as functorch_config
    from torch._functorch._aot_autograd.autograd_cache import (
        BypassAOTAutogradCache as AOTAutogradBypass,
    )
    from torch._guards import TracingContext
    from torch._inductor import aot_compile, ir
    from torch._inductor import config as inductor_config
    from torch._inductor.codecache import BypassFxGraphCache as FxGraphBypass
    from torch._inductor.codegen import common as codegen_common
    from torch._inductor.codegen import wrapper as wrapper_lines
    from torch._inductor.codegen.common import FileBackedGraphModule, KernelArgs
    from torch._inductor.codegen.cpp import CppScheduling
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._inductor.constant_folding import ConstantFolder
    from torch._inductor.cpu_vec_isa import pick_vec_isa
    from torch._inductor.custom_graph_pass import CustomGraphModulePass
    from torch._inductor.exc import InductorError
    from torch._inductor.hooks import run_intermediate_hooks
    from torch._inductor.scheduler import BaseSchedulerNode
    from torch._inductor.select_algorithm import extern_kernels
    from torch._inductor.utils import GPU_ALIGN_BYTES, Placeholder, ValueWithLineMap
    from torch._inductor.virtualized import V
    from torch.fx.experimental._backward_state import BackwardState
    from torch.utils._sympy.symbol import SymT, symbol_is_type
except ImportError as error:
    raise UnsupportedTorchError(version=torch.__version__, problem=str(error)) from error
