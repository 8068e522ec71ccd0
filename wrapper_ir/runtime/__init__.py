"""Names that emitted Python may import: kernels, checks, constants, quick tensor factories.

Emitted modules import torch and this package, nothing else. It imports ``wrapper_ir.toolchain``,
device kinds and errors, but nothing that makes programs.

Modules that are slow to import are imported on first use (PEP 562), so loading a package does not
wait for them.
"""

from math import ceil, cos, exp, floor, log, log2, sin, sqrt, tanh
from typing import TYPE_CHECKING

import wrapper_ir.runtime.cuda_queues  # registers ops
import wrapper_ir.runtime.served  # noqa: F401 - registers its ops
from wrapper_ir.lazy import names_of
from wrapper_ir.runtime._private import empty_strided_cpu, reinterpret_tensor, shown_range
from wrapper_ir.runtime._private_cuda import current_stream, empty_strided_cuda, shown_gpu_range
from wrapper_ir.runtime.apart import SharedMemoryError, check_apart
from wrapper_ir.runtime.calls import (
    differentiable,
    past_autograd,
    plain_function,
    run_while,
    run_while_stacked,
)
from wrapper_ir.runtime.checks import (
    InputChecks,
    TensorSpec,
    check_layout,
    check_length,
    check_number,
    check_object,
    check_result,
    check_symbol,
    check_that,
    class_of,
    once,
    refuse_misaligned,
    result_check,
)
from wrapper_ir.runtime.devices import LATER, OwnMemoryPool, OwnStream, on_device, user_object
from wrapper_ir.runtime.errors import (
    AlignmentError,
    ComputationError,
    ConstantsError,
    InputCountError,
    InputLayoutError,
    ProgramRunError,
    ResultLayoutError,
    SymbolError,
    UserObjectError,
)
from wrapper_ir.runtime.outputs import (
    NoOutError,
    OutCountError,
    OutLayoutError,
    OutOverlapError,
    Outputs,
    check_out,
)
from wrapper_ir.runtime.views import KeptViews, MisalignedViewError, reinterpret_as

if TYPE_CHECKING:
    from wrapper_ir.runtime.constants import load_constants, save_constants
    from wrapper_ir.runtime.cuda_graphs import CudaGraphs, CutGraphs
    from wrapper_ir.runtime.cuda_graphs.branches import BranchStream, branch_event
    from wrapper_ir.runtime.heap import KeptHeap
    from wrapper_ir.runtime.kept import Arena, KeptArena, Scratch
    from wrapper_ir.runtime.kept_gpu import KeptGpuArena
    from wrapper_ir.runtime.kernels import CppKernels, load_kernels, report_progress
    from wrapper_ir.runtime.machine_code import MachineCode
    from wrapper_ir.runtime.main import (
        SourceFolder,
        SourceFolderError,
        make_constants,
        random_tensor,
        run_main,
    )
    from wrapper_ir.runtime.probes import NonFiniteError, debug_session, make_probe
    from wrapper_ir.runtime.triton import TritonKernels
    from wrapper_ir.toolchain.source import CppSource

_LATER = {
    **LATER,
    "wrapper_ir.runtime.constants": ("load_constants", "save_constants"),
    "wrapper_ir.runtime.heap": ("KeptHeap",),
    "wrapper_ir.runtime.kept": ("Arena", "KeptArena", "Scratch"),
    "wrapper_ir.runtime.kernels": ("CppKernels", "load_kernels", "report_progress"),
    "wrapper_ir.runtime.machine_code": ("MachineCode",),
    "wrapper_ir.runtime.main": (
        "SourceFolder",
        "SourceFolderError",
        "make_constants",
        "random_tensor",
        "run_main",
    ),
    "wrapper_ir.runtime.probes": ("NonFiniteError", "debug_session", "make_probe"),
    "wrapper_ir.toolchain.source": ("CppSource",),
}

__all__ = [
    "AlignmentError",
    "Arena",
    "BranchStream",
    "ComputationError",
    "ConstantsError",
    "CppKernels",
    "CppSource",
    "CudaGraphs",
    "CutGraphs",
    "InputChecks",
    "InputCountError",
    "InputLayoutError",
    "KeptArena",
    "KeptGpuArena",
    "KeptHeap",
    "KeptViews",
    "MachineCode",
    "MisalignedViewError",
    "NoOutError",
    "NonFiniteError",
    "OutCountError",
    "OutLayoutError",
    "OutOverlapError",
    "Outputs",
    "OwnMemoryPool",
    "OwnStream",
    "ProgramRunError",
    "ResultLayoutError",
    "Scratch",
    "SharedMemoryError",
    "SourceFolder",
    "SourceFolderError",
    "SymbolError",
    "TensorSpec",
    "TritonKernels",
    "UserObjectError",
    "branch_event",
    "ceil",
    "check_apart",
    "check_layout",
    "check_length",
    "check_number",
    "check_object",
    "check_out",
    "check_result",
    "check_symbol",
    "check_that",
    "class_of",
    "cos",
    "current_stream",
    "debug_session",
    "differentiable",
    "empty_strided_cpu",
    "empty_strided_cuda",
    "exp",
    "floor",
    "load_constants",
    "load_kernels",
    "log",
    "log2",
    "make_constants",
    "make_probe",
    "on_device",
    "once",
    "past_autograd",
    "plain_function",
    "random_tensor",
    "refuse_misaligned",
    "reinterpret_as",
    "reinterpret_tensor",
    "report_progress",
    "result_check",
    "run_main",
    "run_while",
    "run_while_stacked",
    "save_constants",
    "shown_gpu_range",
    "shown_range",
    "sin",
    "sqrt",
    "tanh",
    "user_object",
]

if not TYPE_CHECKING:
    __getattr__ = names_of(__name__, _LATER)
