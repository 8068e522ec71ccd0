"""What callers do with recorded calls: each scene returns what they see.

A scene takes a compiled function, a tensor and a weight with gradients; both are ``[4, 4]``. The
weight may be a tensor subclass.
"""

from __future__ import annotations

import gc
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.tensor import DTensor
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable


def values(tensor: Tensor | None) -> Any:
    """Return elements; of a distributed tensor, where they are as well."""
    if isinstance(tensor, DTensor):
        return str(tensor.placements), tensor.to_local().tolist()
    return None if tensor is None else tensor.tolist()


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2))


def outcome(act: Callable[[], Any]) -> Any:
    """Return what it returns, or the class and the words of its error."""
    try:
        return act()
    except Exception as error:
        return type(error), str(error).partition("\n")[0].replace("wrapper_ir", "inductor")


def is_refusal(seen: Any) -> bool:
    kinds = (RuntimeError, AssertionError)
    return isinstance(seen, tuple) and isinstance(seen[0], type) and issubclass(seen[0], kinds)


def product(x: Tensor, w: Tensor) -> Tensor:
    return (x * w).sin() * w


def two_results(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    return (x * w).sin() * w, (w + 1).cos()


def twice_backward(compiled: Any, x: Tensor, w: Tensor) -> Any:
    y = compiled(x, w)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return values(w.grad)


def backward_after_backward(compiled: Any, x: Tensor, w: Tensor) -> Any:
    y = compiled(x, w).sum()
    y.backward()
    y.backward()


def double_backward(compiled: Any, x: Tensor, w: Tensor) -> Any:
    (gradient,) = torch.autograd.grad(compiled(x, w).sum(), w, create_graph=True)
    assert gradient.requires_grad
    gradient.sum().backward()


def graph_of_a_gradient(compiled: Any, x: Tensor, w: Tensor) -> Any:
    (gradient,) = torch.autograd.grad(compiled(x, w).sum(), w, create_graph=True)
    return values(gradient), gradient.requires_grad


def overwritten(compiled: Any, x: Tensor, w: Tensor) -> Any:
    y = compiled(x, w)
    x.add_(1)
    y.sum().backward()


def gradients_of_other_layouts(compiled: Any, x: Tensor, w: Tensor) -> Any:
    base = torch.arange(64.0).reshape(8, 8)
    wide = torch.arange(2.0**16).reshape(2**14, 4)
    seen = []
    for gradient in (base[::2, ::2], base[4:, :4].t(), base[0, :4].expand(4, 4), wide[:4]):
        compiled(x, w).backward(gradient)
        seen.append(values(w.grad))
    return seen


def gradients_of_odd_kinds(compiled: Any, x: Tensor, w: Tensor) -> Any:
    negated = torch.complex(torch.ones(4, 4), torch.arange(16.0).view(4, 4)).conj().imag
    recorded = torch.arange(16.0).view(4, 4).requires_grad_()
    seen = []
    for gradient in (negated, recorded, recorded.t(), nn.Parameter(torch.ones(4, 4))):
        compiled(x, w).backward(gradient)
        seen += [values(w.grad), w.grad.requires_grad]
    return seen


def one_result_used(compiled: Any, x: Tensor, w: Tensor) -> Any:
    """No gradient comes for the others, or none at all."""
    y, z = compiled(x, w)
    y.sum().backward()
    seen = [values(w.grad)]
    y, z = compiled(x, w)
    (z.sum() + (y * 0).sum()).backward()
    seen.append(values(w.grad))
    return seen


def strided_gradient(compiled: Any, x: Tensor, w: Tensor) -> Any:
    compiled(x, w).backward(torch.arange(16.0).reshape(4, 4).t())
    return values(w.grad)


def expanded_gradient(compiled: Any, x: Tensor, w: Tensor) -> Any:
    compiled(x, w).backward(torch.tensor(2.0).expand(4, 4))
    return values(w.grad)


def what_a_node_shows(compiled: Any, x: Tensor, w: Tensor) -> Any:
    node = compiled(x, w).grad_fn
    saved = [values(each) for each in node.saved_tensors]
    following = [type(each).__name__ for each, _ in node.next_functions]
    return node.name(), type(node).__name__, saved, following, len(node.metadata)


def called_by_hand(compiled: Any, x: Tensor, w: Tensor) -> Any:
    made = compiled(x, w).grad_fn(torch.ones(4, 4))
    return [*map(values, made)]


def hooks(compiled: Any, x: Tensor, w: Tensor) -> Any:
    calls: list[Any] = []
    y = compiled(x, w)
    y.register_hook(lambda g: calls.append("tensor") or g * 2)
    y.grad_fn.register_prehook(lambda g: calls.append("before") or g)
    y.grad_fn.register_hook(lambda after, _: calls.append("after") or after)
    w.register_hook(lambda _: calls.append("leaf"))
    y.sum().backward()
    return calls, values(w.grad)


def hooks_of_saved_tensors(compiled: Any, x: Tensor, w: Tensor) -> Any:
    calls: list[str] = []

    def pack(value: Tensor) -> Any:
        calls.append("pack")
        return value.clone()

    def unpack(value: Any) -> Tensor:
        calls.append("unpack")
        return value

    with saved_tensors_hooks(pack, unpack):
        y = compiled(x, w)
    y.sum().backward()
    return calls, values(w.grad)


def anomaly(compiled: Any, x: Tensor, w: Tensor) -> Any:
    with warnings.catch_warnings(), torch.autograd.detect_anomaly():
        warnings.simplefilter("ignore")
        compiled(x, w).backward(torch.full((4, 4), torch.inf))


def checkpointed(compiled: Any, x: Tensor, w: Tensor) -> Any:
    checkpoint(compiled, x, w, use_reentrant=False).sum().backward()
    return values(w.grad)


def deterministic(compiled: Any, x: Tensor, w: Tensor) -> Any:
    y = compiled(x, w)
    torch.use_deterministic_algorithms(True)
    try:
        y.sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)


def under_a_transform(compiled: Any, x: Tensor, w: Tensor) -> Any:
    return values(torch.func.grad(lambda w: compiled(x, w).sum())(w.detach()))


def batched_gradients(compiled: Any, x: Tensor, w: Tensor) -> Any:
    y = compiled(x, w)
    return values(torch.autograd.grad(y, w, torch.ones(2, 4, 4), is_grads_batched=True)[0])


def forward_mode(compiled: Any, x: Tensor, w: Tensor) -> Any:
    with torch.autograd.forward_ad.dual_level():
        return compiled(torch.autograd.forward_ad.make_dual(x, x), w).tolist()


def seen_by_hooks_of_nodes(compiled: Any, x: Tensor, w: Tensor) -> Any:
    """Nodes have saved what they save when their creation is told."""
    if not hasattr(torch.autograd.graph, "node_creation_hook"):
        return []
    seen: list[Any] = []

    def told(node: Any) -> None:
        saved = [values(each) for each in getattr(node, "saved_tensors", ())]
        seen.append((node.name(), len(node.next_functions), saved))

    with torch.autograd.graph.node_creation_hook(told):
        y = compiled(x, w)
    y.sum().backward()
    return seen, values(w.grad)


def traced_by_jit(compiled: Any, x: Tensor, w: Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(lambda x, w: compiled(x, w) * 2, (x, w), check_trace=False)
    traced(x, w).sum().backward()
    return values(w.grad)


def read_while_recorded(compiled: Any, x: Tensor, w: Tensor) -> Any:
    """A node's own view of its call: needs, what is saved raw, gradients of inputs."""
    node = compiled(x, w).grad_fn
    raw = [type(each).__name__ for each in node._raw_saved_tensors]
    needs = getattr(node, "needs_input_grad", None)
    metadata = [(m.dtype, tuple(m.shape), m.device.type) for m in node._input_metadata]
    return needs, raw, metadata


def node_kept_alone(compiled: Any, x: Tensor, w: Tensor) -> Any:
    """The node outlives its results, as an object of Python and in a graph."""
    node = compiled(x, w).grad_fn
    gc.collect()
    edges = [None if each is None else type(each).__name__ for each, _ in node.next_functions]
    reached = (compiled(x, w).sin().sum() * 2).grad_fn
    gc.collect()
    while reached.name() != node.name():
        reached = reached.next_functions[0][0]
    return edges, [values(each) for each in reached.saved_tensors]


def threads_share_a_graph(compiled: Any, x: Tensor, w: Tensor) -> Any:
    y = compiled(x, w)

    def work(n: int) -> Any:
        (gradient,) = torch.autograd.grad(y, w, torch.full((4, 4), float(n)), retain_graph=True)
        return values(gradient)

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(work, range(8)))


def gradients_to_keep(compiled: Any, x: Tensor, w: Tensor) -> Any:
    y = compiled(x, w)
    y.retain_grad()
    gradients = torch.autograd.grad(y.sum() + y.sin().sum(), (y, w))
    return [values(each) for each in gradients]


def compiled_autograd(compiled: Any, x: Tensor, w: Tensor) -> Any:
    y = compiled(x, w)
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
        y.sum().backward()
    return values(w.grad)


def backward_in_a_compiled_function(compiled: Any, x: Tensor, w: Tensor) -> Any:
    def step(x: Tensor) -> Tensor:
        y = compiled(x, w) * 2
        torch._dynamo.graph_break()
        y.sum().backward()
        return y + 1

    return torch.compile(step, backend="eager")(x).tolist(), values(w.grad)


def in_another_thread(compiled: Any, x: Tensor, w: Tensor) -> Any:
    y = compiled(x, w).sum()
    thread = threading.Thread(target=y.backward)
    thread.start()
    thread.join()
    return values(w.grad)


def profiled(compiled: Any, x: Tensor, w: Tensor) -> Any:
    with warnings.catch_warnings(), torch.profiler.profile() as profile:
        warnings.simplefilter("ignore")
        compiled(x, w).sum().backward()
    names = {event.name for event in profile.events()}
    wanted = ("CompiledFunction", "Torch-Compiled Region", "## Call CompiledFxGraph")
    return sorted({start for start in wanted for name in names if name.startswith(start)})


SCENES = (
    twice_backward,
    backward_after_backward,
    double_backward,
    graph_of_a_gradient,
    overwritten,
    gradients_of_other_layouts,
    gradients_of_odd_kinds,
    one_result_used,
    strided_gradient,
    expanded_gradient,
    what_a_node_shows,
    called_by_hand,
    hooks,
    hooks_of_saved_tensors,
    anomaly,
    checkpointed,
    deterministic,
    under_a_transform,
    batched_gradients,
    forward_mode,
    seen_by_hooks_of_nodes,
    traced_by_jit,
    read_while_recorded,
    node_kept_alone,
    threads_share_a_graph,
    gradients_to_keep,
    compiled_autograd,
    backward_in_a_compiled_function,
    in_another_thread,
    profiled,
)


def play(
    scene: Callable[..., Any],
    compiled: Callable[..., Any],
    made: Callable[[Tensor], Tensor] = torch.clone,
) -> list[Any]:
    """Return what a scene sees, twice, after two calls of the usual kind and between them.

    Args:
        scene: One of ``SCENES``.
        compiled: The function.
        made: Makes a weight of a tensor.
    """
    seen = []
    generator = torch.Generator().manual_seed(0)
    for act in (None, None, scene, None, scene):
        x, w = (torch.randn(4, 4, generator=generator) for _ in range(2))
        w = made(w).requires_grad_()
        if act is not None:
            seen.append(outcome(lambda act=act, x=x, w=w: act(compiled, x, w)))
        else:
            results = compiled(x, w)
            sum(each.sum() for each in pytree.tree_leaves(results)).backward()
            seen.append(values(w.grad))
    return seen


def check(scene: Callable[..., Any], found: list[Any], wanted: list[Any], emitter: str) -> None:
    """Compare what a scene saw with what it saw of stock."""
    if scene is batched_gradients and emitter == "cpp":
        # A program in C++ refuses them, too, with words of its own.
        pairs = zip(found, wanted, strict=True)
        refusals = [(one, other) for one, other in pairs if one != other]
        assert refusals
        assert all(is_refusal(one) and is_refusal(other) for one, other in refusals)
    else:
        assert found == wanted
