"""Names that emitted Python may import: kernels, checks, constants, quick tensor factories.

Emitted modules import torch and this package, nothing else. It imports ``wrapper_ir.toolchain``,
device kinds and errors, but nothing that makes programs.

Modules that are slow to import are imported on first use (PEP 562), so loading a package does not
wait for them.
"""

from math import ceil as ceil
from math import cos as cos
from math import exp as exp
from math import floor as floor
from math import log as log
from math import log2 as log2
from math import sin as sin
from math import sqrt as sqrt
from math import tanh as tanh
from typing import TYPE_CHECKING

import wrapper_ir.runtime.cuda_queues  # registers ops
import wrapper_ir.runtime.served  # noqa: F401 - registers its ops
from wrapper_ir.lazy import names_of as _names_of
from wrapper_ir.runtime._private import empty_strided_cpu as empty_strided_cpu
from wrapper_ir.runtime._private import reinterpret_tensor as reinterpret_tensor
from wrapper_ir.runtime._private import shown_range as shown_range
from wrapper_ir.runtime._private_cuda import current_stream as current_stream
from wrapper_ir.runtime._private_cuda import empty_strided_cuda as empty_strided_cuda
from wrapper_ir.runtime._private_cuda import shown_gpu_range as shown_gpu_range
from wrapper_ir.runtime.addresses import Realigned as Realigned
from wrapper_ir.runtime.addresses import realigned as realigned
from wrapper_ir.runtime.apart import SharedMemoryError as SharedMemoryError
from wrapper_ir.runtime.apart import check_apart as check_apart
from wrapper_ir.runtime.calls import differentiable as differentiable
from wrapper_ir.runtime.calls import past_autograd as past_autograd
from wrapper_ir.runtime.calls import plain_function as plain_function
from wrapper_ir.runtime.calls import run_while as run_while
from wrapper_ir.runtime.calls import run_while_stacked as run_while_stacked
from wrapper_ir.runtime.checks import InputChecks as InputChecks
from wrapper_ir.runtime.checks import TensorSpec as TensorSpec
from wrapper_ir.runtime.checks import check_layout as check_layout
from wrapper_ir.runtime.checks import check_length as check_length
from wrapper_ir.runtime.checks import check_number as check_number
from wrapper_ir.runtime.checks import check_object as check_object
from wrapper_ir.runtime.checks import check_result as check_result
from wrapper_ir.runtime.checks import check_symbol as check_symbol
from wrapper_ir.runtime.checks import check_that as check_that
from wrapper_ir.runtime.checks import class_of as class_of
from wrapper_ir.runtime.checks import once as once
from wrapper_ir.runtime.checks import refuse_misaligned as refuse_misaligned
from wrapper_ir.runtime.checks import result_check as result_check
from wrapper_ir.runtime.devices import LATER
from wrapper_ir.runtime.devices import OwnMemoryPool as OwnMemoryPool
from wrapper_ir.runtime.devices import OwnStream as OwnStream
from wrapper_ir.runtime.devices import current_device as current_device
from wrapper_ir.runtime.devices import on_device as on_device
from wrapper_ir.runtime.devices import user_object as user_object
from wrapper_ir.runtime.errors import AlignmentError as AlignmentError
from wrapper_ir.runtime.errors import ComputationError as ComputationError
from wrapper_ir.runtime.errors import ConstantsError as ConstantsError
from wrapper_ir.runtime.errors import InputCountError as InputCountError
from wrapper_ir.runtime.errors import InputLayoutError as InputLayoutError
from wrapper_ir.runtime.errors import MissingGroupError as MissingGroupError
from wrapper_ir.runtime.errors import ProgramRunError as ProgramRunError
from wrapper_ir.runtime.errors import ResultLayoutError as ResultLayoutError
from wrapper_ir.runtime.errors import SymbolError as SymbolError
from wrapper_ir.runtime.errors import UserObjectError as UserObjectError
from wrapper_ir.runtime.outputs import NoOutError as NoOutError
from wrapper_ir.runtime.outputs import OutCountError as OutCountError
from wrapper_ir.runtime.outputs import OutLayoutError as OutLayoutError
from wrapper_ir.runtime.outputs import OutOverlapError as OutOverlapError
from wrapper_ir.runtime.outputs import Outputs as Outputs
from wrapper_ir.runtime.outputs import check_out as check_out
from wrapper_ir.runtime.views import KeptViews as KeptViews
from wrapper_ir.runtime.views import MisalignedViewError as MisalignedViewError
from wrapper_ir.runtime.views import reinterpret_as as reinterpret_as

if TYPE_CHECKING:
    from wrapper_ir.runtime.constants import load_constants as load_constants
    from wrapper_ir.runtime.constants import save_constants as save_constants
    from wrapper_ir.runtime.cuda_graphs import CudaGraphs as CudaGraphs
    from wrapper_ir.runtime.cuda_graphs import CutGraphs as CutGraphs
    from wrapper_ir.runtime.cuda_graphs.recorder import BranchStream as BranchStream
    from wrapper_ir.runtime.cuda_graphs.recorder import branch_event as branch_event
    from wrapper_ir.runtime.kept import Arena as Arena
    from wrapper_ir.runtime.kept import KeptArena as KeptArena
    from wrapper_ir.runtime.kept import KeptHeap as KeptHeap
    from wrapper_ir.runtime.kept import Scratch as Scratch
    from wrapper_ir.runtime.kept_gpu import KeptGpuArena as KeptGpuArena
    from wrapper_ir.runtime.kernels import CppKernels as CppKernels
    from wrapper_ir.runtime.kernels import load_kernels as load_kernels
    from wrapper_ir.runtime.kernels import report_progress as report_progress
    from wrapper_ir.runtime.main import SourceFolder as SourceFolder
    from wrapper_ir.runtime.main import SourceFolderError as SourceFolderError
    from wrapper_ir.runtime.main import make_constants as make_constants
    from wrapper_ir.runtime.main import random_tensor as random_tensor
    from wrapper_ir.runtime.main import run_main as run_main
    from wrapper_ir.runtime.peers import PeerMemory as PeerMemory
    from wrapper_ir.runtime.peers import UnknownToPeersError as UnknownToPeersError
    from wrapper_ir.runtime.peers import empty_for_peers as empty_for_peers
    from wrapper_ir.runtime.probes import NonFiniteError as NonFiniteError
    from wrapper_ir.runtime.probes import debug_session as debug_session
    from wrapper_ir.runtime.probes import make_probe as make_probe
    from wrapper_ir.runtime.triton import MachineCode as MachineCode
    from wrapper_ir.runtime.triton import TritonKernels as TritonKernels
    from wrapper_ir.toolchain.source import CppSource as CppSource

_LATER = {
    **LATER,
    "wrapper_ir.runtime.constants": ("load_constants", "save_constants"),
    "wrapper_ir.runtime.kept": ("Arena", "KeptArena", "KeptHeap", "Scratch"),
    "wrapper_ir.runtime.kernels": ("CppKernels", "load_kernels", "report_progress"),
    "wrapper_ir.runtime.main": (
        *("SourceFolder", "SourceFolderError", "make_constants", "random_tensor", "run_main"),
    ),
    "wrapper_ir.runtime.peers": ("PeerMemory", "UnknownToPeersError", "empty_for_peers"),
    "wrapper_ir.runtime.probes": ("NonFiniteError", "debug_session", "make_probe"),
    "wrapper_ir.toolchain.source": ("CppSource",),
}

if not TYPE_CHECKING:
    __getattr__ = _names_of(__name__, _LATER)
    __all__ = sorted(
        {name for name, value in globals().items() if name[0] != "_" and callable(value)}
        | {name for names in _LATER.values() for name in names}
    )
