"""What odd functions are written with, and what is observed of their calls.

Convention: an observation is plain data (what JSON can hold), made right after the call, so that
two processes can be compared and a later call cannot change it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CASES", "Odd", "case", "differences", "i", "observe", "r", "run", "script"]

WRAPPED = ("BackendCompilerFailed", "InductorError", "LoweringException")
"""Errors of torch that carry another: what is compared is the one inside."""

_generator = torch.Generator()


@dataclass(frozen=True)
class Odd:
    """A function to try.

    Attributes:
        name: Its name.
        setup: Gives a function and the arguments of its calls; a script is given ``compile`` and
            does everything itself.
        script: Whether it is a script.
        grad: Whether results are differentiated.
        dynamic: Compiled with ``dynamic=True``.
        export: Captured and exported, too.
        config: Settings of Dynamo.
    """

    name: str
    setup: Callable[..., Any]
    script: bool = False
    grad: bool = True
    dynamic: bool = False
    export: bool = False
    config: dict[str, Any] = field(default_factory=dict)


CASES: dict[str, Odd] = {}


def case(**how: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function with the arguments of its calls."""

    def add(setup: Callable[..., Any]) -> Callable[..., Any]:
        CASES[setup.__name__] = Odd(setup.__name__, setup, **how)
        return setup

    return add


def script(setup: Callable[..., Any]) -> Callable[..., Any]:
    """Register what compiles and calls by itself, and returns what it saw."""
    CASES[setup.__name__] = Odd(setup.__name__, setup, script=True)
    return setup


def r(*shape: int, grad: bool = False) -> Tensor:
    """Make up numbers, the same in each process."""
    return torch.randn(shape, generator=_generator).requires_grad_(grad)


def i(*shape: int, low: int = 0, high: int = 100, dtype: torch.dtype = torch.int64) -> Tensor:
    """Make up integers."""
    return torch.randint(low, high, shape, generator=_generator, dtype=dtype)


def run(odd: Odd, compiler: Callable[[Any], Any]) -> Any:
    """Run a case through a compiler and return what was observed."""
    _generator.manual_seed(0)
    torch.manual_seed(0)
    if odd.script:
        try:
            return _plain(odd.setup(compiler))
        except Exception as error:
            return _failure(error)
    function, calls = odd.setup()
    compiled = compiler(function)
    return [observe(compiled, *arguments, grad=odd.grad) for arguments in calls]


def observe(function: Callable[..., Any], *args: Any, grad: bool = False, **kwargs: Any) -> Any:
    """Call, and say what came of it.

    Args:
        function: What to call; the random state is the same before each call.
        *args: Its arguments.
        grad: Whether results are differentiated afterwards.
        **kwargs: More arguments.

    Returns:
        Results and arguments as they are afterwards, which share storage and which are one object,
        the random state, gradients; or how it failed, with the arguments.
    """
    torch.manual_seed(11)
    arguments = [args, kwargs]
    try:
        out = function(*args, **kwargs)
    except Exception as error:
        return {**_failure(error), "args": _described(arguments)}
    said = {
        "random": _random(),
        "out": _described(out),
        "args": _described(arguments),
        "alias": _aliases({"out": out, "args": args, "kwargs": kwargs}),
        "grad_enabled": torch.is_grad_enabled(),
    }
    if grad:
        said.update(_gradients(out, arguments))
    return said


def differences(stock: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Say where two observations differ; the words of an error may."""
    match stock, ours:
        case dict(), dict():
            for key in {**stock, **ours}:
                if key != "text":
                    a, b = stock.get(key, "absent"), ours.get(key, "absent")
                    yield from differences(a, b, f"{path}.{key}")
        case list(), list() if len(stock) == len(ours):
            for number, (a, b) in enumerate(zip(stock, ours, strict=True)):
                yield from differences(a, b, f"{path}[{number}]")
        case _ if stock != ours:
            yield f"{path}: {str(ours)[:200]}, not {str(stock)[:200]}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict) and ("out" in value or "raised" in value):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return _described(value)


def _failure(error: BaseException) -> dict[str, Any]:
    root = error
    while root.__cause__ is not None and type(root).__name__ in WRAPPED:
        root = root.__cause__
    inner = getattr(root, "inner_exception", root)
    text = (str(inner).strip().splitlines() or [""])[0][:200]
    return {"raised": _class(error), "inner": _class(inner), "text": text}


def _class(error: BaseException) -> str:
    """Return the name of an error's class; for one of ours, of the class that it is besides."""
    names = (each for each in type(error).__mro__ if not each.__module__.startswith("wrapper_ir"))
    return next(names).__name__


def _gradients(out: Any, arguments: Any) -> dict[str, Any]:
    tops = {id(t): t for _, t in _tensors(out) if t.requires_grad and t.grad_fn is not None}
    if not tops:
        return {}
    generator = torch.Generator().manual_seed(5)
    try:
        tangents = [
            torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t.dtype)
            for t in tops.values()
        ]
        torch.autograd.backward(list(tops.values()), tangents)
    except Exception as error:
        return {"backward": _failure(error), "random_after": _random()}
    given = [(p, t) for p, t in _tensors(arguments) if t.is_leaf and t.requires_grad]
    grads = {p: None if t.grad is None else _described(t.grad) for p, t in given}
    return {"gradients": grads, "random_after": _random()}


def _random() -> str:
    return _digest(torch.get_rng_state())


def _aliases(tree: Any) -> list[Any]:
    """Which tensors share bytes, and how far apart they begin; and which are one object."""
    storages: dict[int, list[tuple[str, int]]] = {}
    objects: dict[int, list[str]] = {}
    for path, t in _tensors(tree):
        objects.setdefault(id(t), []).append(path)
        if _is_plain(t) and t.device.type != "meta" and t.untyped_storage().nbytes():
            begin = t.storage_offset() * t.element_size()
            storages.setdefault(t.untyped_storage().data_ptr(), []).append((path, begin))
    shared = [[[p, o - group[0][1]] for p, o in group] for group in storages.values()]
    same = [group for group in objects.values() if len(group) > 1]
    return [[group for group in shared if len(group) > 1], same]


def _described(tree: Any) -> list[Any]:
    """Structure, and of each tensor what can be asked of it, its bytes included."""
    return [[path, _tensor(v) if isinstance(v, Tensor) else v] for path, v in _walk(tree)]


def _tensor(t: Tensor) -> list[Any]:
    said = [
        type(t).__name__,
        str(t.dtype),
        [n if isinstance(n, int) else 0 for n in t.shape],
        str(t.device),
        t.requires_grad,
        t.is_leaf,
    ]
    if hasattr(t, "__tensor_flatten__"):
        return [*said, {name: _tensor(getattr(t, name)) for name in t.__tensor_flatten__()[0]}]
    if t.layout != torch.strided:
        return [*said, str(t.layout), _tensor(t.detach().to_dense())]
    bits = [t.is_conj(), t.is_neg(), t.is_inference()]
    return [*said, list(t.stride()) if t.numel() else [], bits, _content(t.detach())]


def _content(t: Tensor) -> str:
    if t.device.type == "meta" or not t.numel():
        return ""
    whole = (
        (t.int_repr() if t.is_quantized else t).resolve_conj().resolve_neg().contiguous().clone()
    )
    few = f"{t.tolist()} " if t.numel() <= 8 and t.element_size() > 1 else ""
    return few + _digest(whole)


def _digest(whole: Tensor) -> str:
    raw = bytes(whole.untyped_storage())[: whole.numel() * whole.element_size()]
    return hashlib.sha256(raw).hexdigest()[:16]


def _tensors(tree: Any) -> Iterator[tuple[str, Tensor]]:
    return ((path, v) for path, v in _walk(tree) if isinstance(v, Tensor))


def _walk(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a tree, and of what is no tensor what can be compared."""
    if isinstance(tree, Tensor):
        yield path, tree
        return
    if isinstance(tree, np.ndarray):
        yield path, f"{tree.dtype} {tree.shape} {tree.strides} {tree.tolist()}"
        return
    inside = _inside(tree)
    yield path, type(tree).__name__ if inside else f"{type(tree).__name__} {tree!r}"
    for key, value in inside:
        yield from _walk(value, f"{path}.{key}")


def _inside(tree: Any) -> list[tuple[Any, Any]]:
    if isinstance(tree, dict):
        return list(tree.items())
    if isinstance(tree, (list, tuple)):
        return list(enumerate(tree))
    if dataclasses.is_dataclass(tree):
        return [(f.name, getattr(tree, f.name)) for f in dataclasses.fields(tree)]
    return list(vars(tree).items()) if hasattr(tree, "tag") else []


def _is_plain(t: Tensor) -> bool:
    return t.layout == torch.strided and not hasattr(t, "__tensor_flatten__")
