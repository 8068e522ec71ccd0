"""One model through two compilers, and everything that must be the same afterwards.

Convention: a :class:`Run` is a fresh compilation by one backend and a series of calls to it. Two
runs of a case start from equal weights, equal arguments and an equal random state, and share
nothing: Dynamo is reset before each, and each has a model of its own.
"""

from __future__ import annotations

import contextlib
import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import wrapper_ir as wir
from tests.models.memory import peak_bytes
from tests.models.watch import Watch, watch_inductor
from tests.models.zoo import Case

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["OURS", "STOCK", "Call", "Run", "differences", "error", "reference", "run", "unlike"]

STOCK = "inductor"
OURS = "wrapper_ir"

LEARNING_RATE = 0.05


@dataclass
class Call:
    """What one call gave and left behind, copied right after it.

    Attributes:
        results: The leaves of what came back.
        held: The same leaves uncopied: a later call must not have changed them.
        sharing: For each leaf the first leaf with the same storage, and the first that is it.
        arguments: The arguments after the call.
        gradients: Of parameters and arguments, by name.
        state: Parameters and buffers.
        generator: The state of the random generator.
    """

    results: list[Any]
    held: list[Any]
    sharing: list[tuple[int, int]]
    arguments: list[Any]
    gradients: dict[str, Tensor | None]
    state: dict[str, Tensor]
    generator: Tensor


@dataclass
class Run:
    """One compilation and its calls."""

    watch: Watch
    calls: list[Call] = field(default_factory=list)
    programs: list[wir.Program] = field(default_factory=list)
    peak: int = 0


def run(
    case: Case, backend: str, *, training: bool = False, calls: int = 2, **options: object
) -> Run:
    """Compile a case and call it: one call for each batch size, or ``calls`` of one size.

    In training each call is followed by a step of gradient descent, so that what a compiled
    function keeps of the weights would show as stale in the next. Options are the backend's.
    """
    with _threads(1 if case.atomic else torch.get_num_threads()):
        return _run(case, backend, training, calls, options)


@contextlib.contextmanager
def _threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _run(case: Case, backend: str, training: bool, calls: int, options: dict[str, object]) -> Run:
    torch._dynamo.reset()
    module, _ = case.make()
    module = copy.deepcopy(module).train(training)
    dynamic = not training and bool(case.batches)
    batches = case.batches if dynamic else (case.batch,) * calls
    if backend == OURS:
        options = {"emitter": "python", **options}
    compiled = torch.compile(module, backend=backend, options=options or None)
    recording = wir.record() if backend == OURS else contextlib.nullcontext([])
    with watch_inductor() as seen, recording as programs:  # type: ignore[attr-defined]
        done = Run(seen)
        for number, batch in enumerate(batches):
            arguments = _arguments(case, batch, number, training)
            if dynamic:
                _mark_dynamic(case, arguments)
            done.calls.append(_call(case, module, compiled, arguments, training))
    done.programs = list(programs)
    if options.get("arena") == "kept":
        wir.release_kept_memory()  # what is kept between calls counts as much as what a call takes
    arguments = _arguments(case, batches[-1], len(batches), training)
    done.peak = peak_bytes(lambda: _step(case, compiled, arguments, training))
    return done


def _arguments(case: Case, batch: int, number: int, training: bool) -> tuple[Any, ...]:
    """Return arguments of a call: other values at each, of the same shapes for the same batch."""
    varied = Case(case.name, case.build, batch, seed=case.seed + 100 * number)
    _, arguments = varied.make()
    return tuple(
        a.requires_grad_() if training and isinstance(a, Tensor) and a.is_floating_point() else a
        for a in arguments
    )


def _mark_dynamic(case: Case, arguments: Sequence[Any]) -> None:
    """Mark the dimensions that follow the batch: those that differ between two batch sizes."""
    _, small = case.make(11)
    _, large = case.make(13)
    for argument, one, other in zip(arguments, small, large, strict=True):
        if isinstance(argument, Tensor):
            for dim in range(argument.dim()):
                if one.shape[dim] != other.shape[dim]:  # type: ignore[attr-defined]
                    torch._dynamo.mark_dynamic(argument, dim)


def _step(case: Case, compiled: Any, arguments: Sequence[Any], training: bool) -> Any:
    """Run one forward, and in training one backward, from the case's random state."""
    torch.manual_seed(case.seed)
    with _context(case, training):
        results = compiled(*arguments)
    if training:
        loss(results).backward()
    return results


@contextlib.contextmanager
def _context(case: Case, training: bool) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if case.context == "autocast":
            stack.enter_context(torch.autocast("cpu", torch.bfloat16))
        if not training:
            is_inference = case.context == "inference_mode"
            stack.enter_context(torch.inference_mode() if is_inference else torch.no_grad())
        yield


def loss(results: Any) -> Tensor:
    """Return a number to which every element of every floating result contributes differently."""
    total = torch.zeros(())
    for leaf in pytree.tree_leaves(results):
        if isinstance(leaf, Tensor) and leaf.requires_grad:
            weights = torch.linspace(0.5, 1.5, leaf.numel(), dtype=leaf.dtype).view(leaf.shape)
            total = total + (leaf * weights).square().mean()
    return total


def _call(
    case: Case, module: nn.Module, compiled: Any, arguments: tuple[Any, ...], training: bool
) -> Call:
    module.zero_grad()
    results = _step(case, compiled, arguments, training)
    leaves = pytree.tree_leaves(results)
    call = Call(
        results=_copies(leaves),
        held=leaves,
        sharing=_sharing(leaves),
        arguments=_copies(pytree.tree_leaves(arguments)),
        gradients=_gradients(module, arguments),
        state=dict(_copy_items(module.state_dict())),
        generator=torch.get_rng_state(),
    )
    if training:
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.grad is not None:
                    parameter -= LEARNING_RATE * parameter.grad
    return call


def _copies(values: Sequence[Any]) -> list[Any]:
    """Copy the tensors among values, with their strides."""
    return [_copy(value) if isinstance(value, Tensor) else value for value in values]


def _copy(value: Tensor) -> Tensor:
    value = value.detach()
    copied = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype)
    return copied.copy_(value)


def _copy_items(state: dict[str, Tensor]) -> Any:
    return ((name, _copy(value)) for name, value in state.items())


def _gradients(module: nn.Module, arguments: Sequence[Any]) -> dict[str, Tensor | None]:
    named: dict[str, Any] = dict(module.named_parameters())
    named |= {f"argument {i}": a for i, a in enumerate(arguments) if isinstance(a, Tensor)}
    grads = {name: value.grad for name, value in named.items()}
    return {name: None if grad is None else _copy(grad) for name, grad in grads.items()}


def _sharing(leaves: Sequence[Any]) -> list[tuple[int, int]]:
    """Say which results share storage and which are one object."""

    def storage(leaf: Any) -> int:
        return leaf.untyped_storage().data_ptr() if isinstance(leaf, Tensor) else id(leaf)

    storages = [storage(leaf) for leaf in leaves]
    objects = [id(leaf) for leaf in leaves]
    return [(storages.index(s), objects.index(o)) for s, o in zip(storages, objects, strict=True)]


def differences(ours: Run, stock: Run) -> list[str]:
    """List in words all in which two runs differ; empty when they are the same to the bit."""
    found = []
    if len(ours.calls) != len(stock.calls):
        found.append(f"{len(ours.calls)} calls, not {len(stock.calls)}")
    for number, (a, b) in enumerate(zip(ours.calls, stock.calls, strict=True)):
        where = f"call {number}:"
        found += _compare(f"{where} result", a.results, b.results)
        found += _compare(f"{where} result after all calls", a.held, b.held)
        found += _compare(f"{where} argument", a.arguments, b.arguments)
        found += _compare_named(f"{where} gradient of", a.gradients, b.gradients)
        found += _compare_named(f"{where} state", a.state, b.state)
        found += _compare(f"{where} generator", [a.generator], [b.generator])
        if a.sharing != b.sharing:
            found.append(f"{where} results share storage as {a.sharing}, not {b.sharing}")
    return found


def _compare(what: str, ours: Sequence[Any], stock: Sequence[Any]) -> list[str]:
    if len(ours) != len(stock):
        return [f"{what}s: {len(ours)} of them, not {len(stock)}"]
    pairs = enumerate(zip(ours, stock, strict=True))
    return [f"{what} {i}: {why}" for i, (a, b) in pairs if (why := unlike(a, b))]


def _compare_named(what: str, ours: dict[str, Any], stock: dict[str, Any]) -> list[str]:
    if ours.keys() != stock.keys():
        return [f"{what}: {sorted(ours)} are there, not {sorted(stock)}"]
    return [f"{what} {name}: {why}" for name in ours if (why := unlike(ours[name], stock[name]))]


def unlike(ours: Any, stock: Any) -> str:
    """Say how two values differ, in metadata or in a single bit; empty when they do not."""
    if not isinstance(ours, Tensor) or not isinstance(stock, Tensor):
        return "" if type(ours) is type(stock) and ours == stock else f"{ours!r}, not {stock!r}"
    for name in ("dtype", "shape", "device", "requires_grad"):
        if getattr(ours, name) != getattr(stock, name):
            return f"{name} {getattr(ours, name)}, not {getattr(stock, name)}"
    if ours.stride() != stock.stride():
        return f"stride {ours.stride()}, not {stock.stride()}"
    if ours.storage_offset() != stock.storage_offset():
        return f"storage offset {ours.storage_offset()}, not {stock.storage_offset()}"
    if torch.equal(_bits(ours), _bits(stock)):
        return ""
    worst = (ours.double() - stock.double()).abs().max().item()
    return f"values differ by up to {worst}"


def _bits(value: Tensor) -> Tensor:
    """Return the bytes of a tensor's elements: NaN equals itself, and 0.0 is not -0.0."""
    return value.detach().contiguous().flatten().view(torch.uint8)


def reference(case: Case, *, training: bool = False) -> Call:
    """Run the first call of a case eagerly in double precision."""
    module, _ = case.make()
    module = copy.deepcopy(module).double().train(training)
    batch = case.batches[0] if case.batches and not training else case.batch
    arguments = tuple(_doubled(a) for a in _arguments(case, batch, 0, training))
    return _call(case, module, module, arguments, training)


def _doubled(value: Any) -> Any:
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.detach().double().requires_grad_(value.requires_grad)
    return value


def error(call: Call, exact: Call) -> float:
    """Return the largest error of results relative to the largest result, or of gradients likewise.

    Not each value relative to itself: the exact gradient of a bias before batch norm is zero.
    """
    results = list(zip(call.results, exact.results, strict=True))
    gradients = [(call.gradients[name], exact.gradients[name]) for name in call.gradients]
    return max(_relative(pairs) for pairs in (results, gradients))


def _relative(pairs: Sequence[tuple[Any, Any]]) -> float:
    tensors = [(a.double(), b.double()) for a, b in pairs if isinstance(a, Tensor) and a.numel()]
    scale = max((exact.abs().max().item() for _, exact in tensors), default=1.0)
    worst = max(((a - exact).abs().max().item() for a, exact in tensors), default=0.0)
    return worst / scale if scale else worst
