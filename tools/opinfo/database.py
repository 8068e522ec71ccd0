"""Torch's databases of ops and modules, and batches of their samples as one function of tensors."""

from __future__ import annotations

import copy
import fnmatch
import sys
import types
import unittest
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tools.opinfo.mode import Mode

# torch's samples come with its test helpers, which import a package that the samples do not need.
sys.modules.setdefault("expecttest", types.ModuleType("expecttest"))
vars(sys.modules["expecttest"]).setdefault("TestCase", unittest.TestCase)
vars(sys.modules["expecttest"]).setdefault("assert_expected_inline", None)

import torch  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

__all__ = [
    "UNINITIALISED",
    "Batch",
    "NoSampleError",
    "OneCall",
    "described",
    "module_names",
    "op_infos",
    "op_names",
    "samples",
]

#: Ops whose results have a layout but no defined values.
UNINITIALISED = frozenset(
    {
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
    }
)


class NoSampleError(Exception):
    """Torch has no sample of an op or a module for the device in this element type."""


def op_infos() -> dict[str, Any]:
    """Return torch's entries by name, ``op`` or ``op.variant``."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {".".join(filter(None, (info.name, info.variant_test_name))): info for info in op_db}


def op_names(pattern: str = "*") -> list[str]:
    """Return the names of the ops that match a pattern."""
    return [name for name in op_infos() if fnmatch.fnmatch(name, pattern)]


def module_infos() -> dict[str, tuple[Any, bool]]:
    """Return torch's module entries and their training mode by name, such as ``nn.Module train``.

    Modules that do the same in training and in evaluation appear once, as in torch's own tests.
    """
    from torch.testing._internal.common_modules import module_db

    return {
        f"{info.name} {'train' if training else 'eval'}": (info, training)
        for info in module_db
        for training in ((True, False) if info.train_and_eval_differ else (True,))
    }


def module_names(pattern: str = "*") -> list[str]:
    """Return the names of the modules that match a pattern."""
    return [name for name in module_infos() if fnmatch.fnmatch(name, pattern)]


@dataclass(frozen=True)
class OneCall:
    """A call of an op or a module on given tensors; its other arguments are fixed.

    Attributes:
        op: The op or the module.
        fixed: The leaves of the arguments: None for a tensor, else the value in a 1-tuple.
        spec: The tree structure of the arguments.
        tensors: The tensors among the leaves.
        trained: The tensors that get a gradient.
        differentiable: Maps the results to those that a gradient may be taken of.
    """

    op: Any
    fixed: tuple[Any, ...]
    spec: Any
    tensors: tuple[torch.Tensor, ...]
    trained: tuple[bool, ...]
    differentiable: Callable[[Any], Any] | None = None

    @classmethod
    def of(cls, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OneCall:
        """Build the call from one of torch's samples."""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        fixed = tuple(None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves)
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        trained = tuple(tensor.requires_grad for tensor in tensors)
        return cls(op, fixed, spec, tuple(t.detach() for t in tensors), trained)

    def function(self) -> Callable[..., Any]:
        """Return a function of the tensors. It is not a method, which could trip up Dynamo."""
        op, all_fixed, spec = self.op, self.fixed, self.spec

        def call(*tensors: torch.Tensor) -> Any:
            given = iter(tensors)
            leaves = [next(given) if fixed is None else fixed[0] for fixed in all_fixed]
            args, kwargs = pytree.tree_unflatten(leaves, spec)
            return op(*args, **kwargs)

        return call

    def arguments(self) -> list[torch.Tensor]:
        """Return fresh copies of the tensors."""
        pairs = zip(self.tensors, self.trained, strict=True)
        return [_copied(t).requires_grad_(trained) for t, trained in pairs]

    def state(self) -> list[torch.Tensor]:
        """Return the module's parameters and buffers; an op has none."""
        if not isinstance(self.op, torch.nn.Module):
            return []
        return [*self.op.parameters(), *self.op.buffers()]

    def fresh(self) -> OneCall:
        """Return the same call with a copy of the module's state."""
        return replace(self, op=copy.deepcopy(self.op)) if self.state() else self

    def outputs(self, results: Any) -> list[torch.Tensor]:
        """Return the results that a gradient may be taken of."""
        of = self.differentiable(results) if self.differentiable else results
        return [leaf for leaf in pytree.tree_leaves(of) if _differentiable(leaf)]


def _differentiable(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.layout is torch.strided


def _weights(output: torch.Tensor) -> torch.Tensor:
    """Return a made-up gradient that differs for each element."""
    count, where = output.numel(), output.device
    real = torch.linspace(0.5, 1.5, count, dtype=torch.float64, device=where).view(output.shape)
    if output.is_complex():
        return torch.complex(real, 1 - real).to(output.dtype)
    return real.to(output.dtype)


def samples(name: str, mode: Mode, count: int) -> list[OneCall]:
    """Return at most ``count`` calls of an op or a module that torch itself can run.

    Raises:
        NoSampleError: There are none.
    """
    torch.manual_seed(0)
    found: list[OneCall] = []
    reason = "no samples"
    try:
        for call in (_module_calls if mode.modules else _op_calls)(name, mode, count):
            why = _refused(call, mode)
            reason = why or reason
            found += [] if why else [call]
            if len(found) == count:
                break
    except Exception as error:
        reason = described(error)
    if not found:
        raise NoSampleError(reason)
    return found


def described(error: BaseException) -> str:
    """Format an error on one line."""
    words = "" if isinstance(error, NoSampleError) else f"{type(error).__name__}: "
    return " ".join(f"{words}{error}".split())[:300]


def _refused(call: OneCall, mode: Mode) -> str:
    """Say why eager torch cannot run a call or take its gradient; empty if it can."""
    batch = Batch([call.fresh()])
    try:
        torch.Tensor.clone(call.tensors[0]) if call.tensors else None
        arguments = batch.arguments()
        with torch.set_grad_enabled(mode.backward):
            results = batch(arguments)
        if mode.backward:
            batch.gradients(results, arguments)
    except Exception as error:
        return described(error)
    return ""


def _op_calls(name: str, mode: Mode, count: int) -> Iterator[OneCall]:
    del count  # the caller takes as many as it needs
    info, dtype = op_infos()[name], getattr(torch, mode.dtype)
    if dtype not in info.supported_dtypes(mode.device):
        raise NoSampleError(f"no {mode.dtype} on {mode.device}")
    if mode.backward and dtype not in info.supported_backward_dtypes(mode.device):
        raise NoSampleError(f"no gradient of {mode.dtype}")
    for sample in info.sample_inputs(mode.device, dtype, requires_grad=mode.backward):
        call = OneCall.of(info.op, (sample.input, *sample.args), sample.kwargs)
        # Some results have no gradient of their own, such as the phase of an eigenvector.
        yield replace(call, differentiable=getattr(sample, "output_process_fn_grad", None))


def _module_calls(name: str, mode: Mode, count: int) -> Iterator[OneCall]:
    info, training = module_infos()[name]
    dtype = getattr(torch, mode.dtype)
    if dtype not in info.supported_dtypes(mode.device):
        raise NoSampleError(f"no {mode.dtype} on {mode.device}")
    given = {"device": mode.device, "dtype": dtype, "requires_grad": mode.backward}
    given["training"] = training
    for sample in _spread(info.module_inputs_func(info, **given), count):
        made, called = sample.constructor_input, sample.forward_input
        torch.manual_seed(0)
        module = info.module_cls(*made.args, **made.kwargs).to(mode.device, dtype).train(training)
        call = OneCall.of(module, tuple(called.args), called.kwargs)
        if info.is_lazy:
            call.function()(*call.arguments())
        yield call


def _spread(found: list[Any], count: int) -> Iterable[Any]:
    """Pick values spread over a list, because neighbours differ little."""
    if len(found) <= count:
        return found
    return [found[i * len(found) // count] for i in range(count)]


class Batch:
    """Samples of several ops, called one after the other in one function.

    Many calls share one graph, because compiling C++ costs more than everything else, and because
    calls that share a graph exercise more than single calls do.

    Args:
        calls: The calls.
    """

    def __init__(self, calls: list[OneCall]) -> None:
        self._calls = calls
        self._functions = [call.function() for call in calls]

    def fresh(self) -> Batch:
        """Return the same batch with copies of the modules' state."""
        return Batch([call.fresh() for call in self._calls])

    def arguments(self) -> list[list[torch.Tensor]]:
        """Return fresh copies of the tensors of all calls."""
        return [call.arguments() for call in self._calls]

    def __call__(self, arguments: list[list[torch.Tensor]]) -> list[Any]:
        """Make all calls."""
        return [call(*given) for call, given in zip(self._functions, arguments, strict=True)]

    def gradients(self, results: list[Any], arguments: list[list[torch.Tensor]]) -> list[Any]:
        """Take the gradients for made-up gradients of the results; None counts as a gradient.

        Raises:
            NoSampleError: No result depends on anything that requires a gradient.
        """
        pairs = zip(self._calls, results, strict=True)
        outputs = [output for call, result in pairs for output in call.outputs(result)]
        tensors = [tensor for given in arguments for tensor in given] + self.state()
        inputs = [tensor for tensor in tensors if tensor.requires_grad]
        if not outputs or not inputs:
            raise NoSampleError("no result requires a gradient")
        weights = [_weights(output) for output in outputs]
        return list(torch.autograd.grad(outputs, inputs, weights, allow_unused=True))

    def state(self) -> list[torch.Tensor]:
        """Return the parameters and buffers of all modules."""
        return [tensor for call in self._calls for tensor in call.state()]


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy with the same strides in its own storage."""
    if tensor.layout is not torch.strided or tensor.numel() == 0:
        return tensor.clone()
    extent = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    source = tensor.resolve_conj().resolve_neg()
    storage = torch.as_strided(source, (extent,), (1,)).clone()
    copied = storage.as_strided(tensor.shape, tensor.stride())
    if tensor.is_conj():
        return copied.conj()
    return copied
