"""Functions of torch that stand for ops: that each calls exactly the op it stands for.

A dispatch mode catches the first op that a call reaches, before it computes anything, so arguments
need no sense: only their types count.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from wrapper_ir.emitters.python.kernels import (
    SAME_AS_TORCH,
    has_plain_arguments,
    torch_function,
    torch_op,
)
from wrapper_ir.lines import (
    BufferArg,
    ExternKernel,
    ListArg,
    NoneArg,
    ScalarArg,
    parse_schema,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class Reached(Exception):  # noqa: N818 - it is news, not an error
    def __init__(self, op: Any, args: Any, kwargs: Any) -> None:
        self.op, self.args_given, self.kwargs_given = op, args, kwargs


class Catch(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise Reached(func, args, kwargs or {})


SAMPLES: dict[str, Any] = {
    "Tensor": lambda: torch.ones(2, 2),
    "int": lambda: 1,
    "SymInt": lambda: 1,
    "bool": lambda: True,
    "float": lambda: 0.5,
    "number": lambda: 2.5,
    "Scalar": lambda: 2.5,
    "str": lambda: "mean",
    "List[int]": lambda: (2, 2),
    "List[SymInt]": lambda: (2, 2),
    "List[bool]": lambda: (True, False, True),
    "List[float]": lambda: (1.0, 2.0),
    "List[Tensor]": lambda: [torch.ones(2, 2), torch.ones(2, 2)],
    "List[Optional[Tensor]]": lambda: [torch.ones(2, 2), None],
    "ScalarType": lambda: torch.float64,
}


def samples(kind: str) -> list[Any]:
    """Values of a type, ``None`` among them where it is allowed."""
    if kind.startswith("Optional["):
        return [None, *samples(kind[len("Optional[") : -1])]
    return [SAMPLES[kind]()]


def calls(schema: Any) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Argument lists: with and without what has defaults, optional values given and not."""
    kinds = [str(a.real_type) for a in schema.arguments]
    for full, pick in itertools.product((True, False), (0, -1)):
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for argument, kind in zip(schema.arguments, kinds, strict=True):
            if argument.has_default_value() and not full:
                continue
            value = samples(kind)[pick]
            if argument.kwarg_only:
                kwargs[argument.name] = value
            else:
                args.append(value)
        yield args, kwargs


def op_of(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")


def complete(schema: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    given = {a.name: value for a, value in zip(schema.arguments, args, strict=False)} | kwargs
    defaults = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    return defaults | given


def same(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a is b or (type(a) is type(b) and not isinstance(a, torch.Tensor) and a == b)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(SAME_AS_TORCH))
def test_torch_function_calls_the_op(name: str) -> None:
    op = op_of(name)
    function = getattr(torch, torch_function(f"aten::{name}") or "")
    for args, kwargs in calls(op._schema):
        with pytest.raises(Reached) as caught, torch.no_grad(), Catch():
            function(*args, **kwargs)
        assert caught.value.op is op
        given = complete(op._schema, args, kwargs)
        arrived = complete(op._schema, caught.value.args_given, caught.value.kwargs_given)
        assert given.keys() == arrived.keys()
        for parameter, value in given.items():
            assert same(value, arrived[parameter]), parameter


@pytest.mark.parametrize("name", sorted(SAME_AS_TORCH))
def test_none_makes_tensors_from_nothing(name: str) -> None:
    inputs = [a for a in op_of(name)._schema.arguments if not a.is_out]
    assert any("Tensor" in str(a.type) for a in inputs)


def test_spelling() -> None:
    assert torch_function("aten::addmm.out") == "addmm"
    assert torch_function("aten::relu.out") is None
    assert torch_function("mylib::addmm.out") is None
    assert torch_op("aten::addmm.out") == "torch.ops.aten.addmm.out"
    assert torch_op("mylib::foo") == "torch.ops.mylib.foo.default"


SCHEMA = parse_schema(
    "aten::f(Tensor self, int n=1, float x=0.5, *, Scalar alpha=1, bool keep=False, Tensor? w=None)"
    " -> Tensor"
)


X = BufferArg("x")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (ExternKernel("aten::f", (X,)), True),
        (ExternKernel("aten::f", (X, ScalarArg(2), ScalarArg(1.5)), (("w", X),)), True),
        (ExternKernel("aten::f", (X,), (("w", NoneArg()),)), True),
        (ExternKernel("aten::f", (X,), (("n", ScalarArg(2)),)), False),  # positional, by name
        (ExternKernel("aten::f", (ScalarArg(1.0),)), False),  # a number for a tensor
        (ExternKernel("aten::f", (X,), (("alpha", X),)), False),  # a tensor for a number
        (ExternKernel("aten::f", (X, NoneArg())), False),
        (ExternKernel("aten::f", (X, ListArg(()))), False),
        (ExternKernel("aten::f", (X,), (("other", X),)), False),
    ],
)
def test_plain_arguments(line: ExternKernel, expected: bool) -> None:
    assert has_plain_arguments(line, SCHEMA) is expected
