"""Compiling for a GPU where there is none: what asks the GPU gets the answers of one.

Tensors are fake, streams and events are plain ones of torch that nothing is put on. What traces,
schedules and converts is real; nothing runs, so tests that use it look at programs and their text.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch._dynamo.device_interface import CudaInterface
from torch._dynamo.exc import BackendCompilerFailed
from torch._inductor import config as inductor_config
from torch._inductor import scheduler, select_algorithm
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import wrapper_ir as wir
from wrapper_ir.backend import wrapper_ir as our_backend
from wrapper_ir.runtime import TritonKernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wrapper_ir.lines import Program

PROPERTIES = types.SimpleNamespace(
    name="H100",
    major=9,
    minor=0,
    multi_processor_count=132,
    warp_size=32,
    regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048,
    shared_memory_per_block_optin=232448,
    total_memory=80 << 30,
)


class CompiledError(Exception):
    """All that can be done without a GPU is done: Dynamo would look at its streams next."""


def stream(number: int) -> torch.Stream:
    """A stream of the first GPU; 0 is the current one."""
    return torch.Stream(stream_id=number, device_index=0, device_type=1)


@contextlib.contextmanager
def pretended_gpu(number: int = 0) -> Any:
    """Answers what tracing and scheduling ask a GPU, of this number."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.accelerator, "is_available", lambda: True)
        patch.setattr(torch.accelerator, "current_stream", lambda _=None: stream(0))
        patch.setattr(
            torch.accelerator, "current_accelerator", lambda *_, **__: torch.device("cuda")
        )
        patch.setattr(torch.accelerator, "current_device_index", lambda: number)
        patch.setattr(torch.cuda, "current_device", lambda: number)
        for place in (torch.cuda, CudaInterface):  # which releases ask differs
            patch.setattr(place, "get_device_properties", lambda _=None: PROPERTIES)
            patch.setattr(place, "is_bf16_supported", lambda *_, **__: True)
        for place in (scheduler, torch.utils._triton):
            patch.setattr(place, "has_triton", lambda *_, **__: True)
        shared = PROPERTIES.shared_memory_per_block_optin
        for place in _importers("get_gpu_shared_memory"):
            patch.setattr(place, "get_gpu_shared_memory", lambda: shared)
        capability = (PROPERTIES.major, PROPERTIES.minor)
        patch.setattr(torch.cuda, "get_device_capability", lambda _=None: capability)
        for name in ("has_triton_tma_device", "has_triton_tensor_descriptor_host_tma"):
            patch.setattr(torch.utils._triton, name, lambda: True)
        for place in _importers("has_grouped_mm_triton_support"):  # since 2.14
            patch.setattr(place, "has_grouped_mm_triton_support", lambda: True)
            patch.setattr(place, "has_triton", lambda *_, **__: True)
        for place in _importers("has_triton_stable_tma_api"):
            patch.setattr(place, "has_triton_stable_tma_api", lambda: True)
        patch.setattr(CudaInterface, "raise_if_triton_unavailable", lambda *_: None)
        patch.setattr(torch.utils._triton, "triton_hash_with_backend", lambda: "")
        # Nothing can be tried without a GPU: of a kernel's configurations the first one wins.
        patch.setattr(triton_helpers, "set_driver_to_gpu", lambda: None)
        patch.setattr(AsyncCompile, "use_process_pool", lambda *_: False)
        patch.setattr(CachingAutotuner, "precompile", _take_first)
        patch.setattr(TritonKernels, "load", lambda kernels: (None,) * len(kernels._sources))
        yield


def _importers(name: str) -> list[Any]:
    """The modules of Inductor that have a function of this name, its own module included."""
    for module in ("codegen.triton", "kernel.mm", "kernel.mm_grouped"):
        importlib.import_module(f"torch._inductor.{module}")
    modules = [
        m for n, m in sys.modules.items() if n.startswith(("torch._inductor.", "torch.utils"))
    ]
    return [module for module in modules if name in vars(module)]


def _take_first(tuner: Any, *_: Any, **__: Any) -> None:
    tuner.launchers = [types.SimpleNamespace(config=tuner.configs[0])]


def compiled_for_gpu(
    function: Callable[..., Any],
    *shapes: tuple[int, ...],
    flags: int = 0,
    trains: bool = False,
    inputs: Callable[[], Sequence[Any]] = tuple,
    traced: bool = True,
    **options: Any,
) -> list[Program]:
    """The programs of a function that ``torch.compile`` compiles through us, unplanned.

    Args:
        function: Takes matrices, truth values, and what else there is.
        *shapes: Those of the matrices.
        flags: How many truth values.
        trains: Whether the matrices want gradients.
        inputs: Makes further inputs, in a mode in which tensors are fake.
        traced: Whether Dynamo traces the function; if not, ``make_fx`` does.
        **options: Those of the backend.
    """

    def backend(module: Any, inputs: Any) -> Any:
        our_backend(module, inputs, options=options)
        raise CompiledError

    torch._dynamo.reset()
    with FakeTensorMode() as mode:
        given = [torch.empty(each, device="cuda:0", requires_grad=trains) for each in shapes]
        given += [torch.empty((), dtype=torch.bool, device="cuda:0") for _ in range(flags)]
        given += inputs()
    with pretended_gpu(), wir.record() as programs, mode:
        if traced:
            stopped(lambda: torch.compile(function, backend=backend, fullgraph=True)(*given))
        else:
            our_backend(make_fx(function)(*given), given, options=options)
    return [wir.verify(program) for program in programs]


def stopped(compiling: Callable[[], Any]) -> None:
    """Call what compiles until a backend raises :class:`CompiledError`."""
    try:
        compiling()
    except BackendCompilerFailed as failed:
        if not isinstance(failed.inner_exception, CompiledError):
            raise failed.inner_exception from failed


@contextlib.contextmanager
def first_choice(name: str, detail: str = "") -> Iterator[None]:
    """Have tuning take the first choice whose name and description these patterns find."""

    def fitting(choices: list[Any]) -> list[Any]:
        found = [each for each in choices if re.search(name, each.name)]
        return [each for each in found if re.search(detail, each.description)][:1]

    select_algorithm.add_preprocessing_fn(fitting)
    try:
        yield
    finally:
        select_algorithm.clear_preprocessing_fns()


@contextlib.contextmanager
def tuned_to(choice: str, backends: str = "TRITON") -> Iterator[None]:
    """Have Inductor tune products and convolutions with one choice each, and so time nothing."""
    names = ("gemm", "conv", "conv_bwd_weight", "conv_bwd_input")
    settings = {f"max_autotune_{name}_backends": backends for name in names}
    settings = {name: value for name, value in settings.items() if hasattr(inductor_config, name)}
    with inductor_config.patch({"max_autotune": True, **settings}), first_choice(choice):
        yield


def program_of(function: Any, *shapes: tuple[int, ...], **options: Any) -> Program:
    """The program of a function of matrices; planned and rendered, it reads back as it is."""
    (program,) = compiled_for_gpu(function, *shapes, **options)
    for each in (program, wir.plan_memory(program), wir.plan_memory(program, "pool")):
        assert wir.parse(str(wir.verify(each))) == each
        compile(wir.emit(each).source, "wrapper.py", "exec")
    wir.emit(wir.plan_memory(program), "cpp")
    wir.emit(wir.plan_memory(program), "fx")
    return program


def body(program: Program) -> list[str]:
    """The lines of a program without its declarations and checks, and how far kernels reach."""
    lines = [line[2:] for line in str(program).splitlines() if line.startswith("  ")]
    lines = [line for line in lines if not line.startswith(("|", "assert_layout"))]
    return [re.sub(r" reach \[[^]]*\]", "", line.replace(" @cuda:0", "")) for line in lines]
