"""A program means what the schemas that it declares say, whatever is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.analysis.schemas import difference
from wrapper_ir.lines.schema import SchemaDifferenceError, parse_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TARGETS = ("python", "fx", "cpp", "interpreter")

X = torch.arange(4.0)
Y = torch.full((4,), 10.0)


@pytest.fixture(scope="module", autouse=True)
def _library() -> Iterator[None]:
    library: Any = torch.library.Library("declared", "DEF")
    ops: list[tuple[str, Callable[..., Any]]] = [
        ("scale(Tensor x, float by=3.0) -> Tensor", lambda x, by=3.0: x * by),
        ("shift(Tensor x, *, bool up=True, str how='a', int[] n=[1]) -> Tensor", _shift),
        ("plus(Tensor x, int n) -> Tensor", lambda x, n: x + n),
        ("two(Tensor x) -> (Tensor, Tensor)", lambda x: (x + 1, x + 2)),
    ]
    for schema, function in ops:
        library.define(schema)
        library.impl(schema.partition("(")[0], function, "CompositeExplicitAutograd")
    yield
    library._destroy()


def _shift(x: torch.Tensor, *, up: bool = True, how: str = "a", n: Any = (1,)) -> torch.Tensor:
    return x * (1 + up) + len(how) + sum(n)


def program(schema: str, *args: Any, **kwargs: Any) -> wir.Program:
    b = wir.Builder("declared")
    x, y = b.input("x", "f32", (4,)), b.input("y", "f32", (4,))
    given = [y if arg is Y else arg for arg in args]
    b.returns(b.extern(schema, x, *given, result=("f32", (4,)), **kwargs))
    return b.build()


def run(target: str, made: wir.Program) -> torch.Tensor:
    inputs = (X.clone(), Y.clone())
    if target == "interpreter":
        return wir.interpret(made, *inputs)[0]
    return wir.compile(made, target)(*inputs)[0]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(
            lambda: program(
                "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=2) -> Tensor",
                Y,
                alpha=2,
            ),
            X + 2 * Y,
            id="a number of torch's",
        ),
        pytest.param(
            lambda: program("declared::scale(Tensor x, float by=2.0) -> Tensor", 2.0),
            2 * X,
            id="by position",
        ),
        pytest.param(
            lambda: program(
                "declared::shift(Tensor x, *, bool up=False, str how='', int[] n=[5]) -> Tensor",
                up=False,
                how="",
                n=[5],
            ),
            X + 5,
            id="by name",
        ),
    ],
)
def test_an_argument_is_passed_though_it_equals_the_declared_default(
    made: Callable[[], wir.Program], expected: torch.Tensor, target: str
) -> None:
    assert torch.equal(run(target, made()), expected)


UNLIKE: dict[str, tuple[Callable[[], wir.Program], str]] = {
    "a default": (
        lambda: program("declared::scale(Tensor x, float by=2.0) -> Tensor"),
        r"the default of 'by' is 2\.0, registered 3",
    ),
    "a default of torch's": (
        lambda: program(
            "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=2) -> Tensor", Y
        ),
        "the default of 'alpha' is 2, registered 1",
    ),
    "an argument more": (
        lambda: program("declared::plus(Tensor x) -> Tensor"),
        "the registered op needs an argument 'n'",
    ),
    "an argument less": (
        lambda: program("declared::scale(Tensor x, float by, int n) -> Tensor", 1.0, 2),
        "the registered op takes no argument 'n'",
    ),
    "a name": (
        lambda: program("declared::plus(Tensor x, int m) -> Tensor", 3),
        "argument 1 is 'm', registered 'n'",
    ),
    "a type": (
        lambda: program("declared::plus(Tensor x, float n) -> Tensor", 2.5),
        "'n' is of type float, registered int",
    ),
    "results": (
        lambda: program("declared::two(Tensor x) -> Tensor"),
        r"its results are Tensor, registered \(Tensor, Tensor\)",
    ),
    "a write": (
        lambda: program("aten::relu_(Tensor self) -> Tensor"),
        "'self' is only read, registered written",
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("unlike", sorted(UNLIKE))
def test_an_op_declared_unlike_the_registered_one_is_refused_in_words(
    unlike: str, target: str
) -> None:
    made, words = UNLIKE[unlike]
    with pytest.raises(SchemaDifferenceError, match=words):
        run(target, made())


@pytest.mark.parametrize(
    ("declared", "registered"),
    [
        ("n::f(Tensor x) -> Tensor", "n::f(Tensor x, int n=1) -> Tensor"),
        ("n::f(Tensor x) -> Tensor", "n::f(Tensor? x) -> Tensor"),
        ("n::f(Tensor x, int n) -> Tensor", "n::f(Tensor x, SymInt n) -> Tensor"),
        ("n::f(Tensor x, int[2] n=1) -> Tensor", "n::f(Tensor x, int[2] n=[1, 1]) -> Tensor"),
        ("n::f(Tensor(a) x) -> Tensor(a)", "n::f(Tensor(z) x) -> Tensor(z)"),
        ("n::f(Tensor x, float n=1) -> Tensor", "n::f(Tensor x, float n=1.) -> Tensor"),
        ("n::f(Tensor x, int n=1) -> Tensor", "n::f(Tensor x, int n=2) -> Tensor"),  # always given
    ],
)
def test_what_changes_no_call_is_no_difference(declared: str, registered: str) -> None:
    left_out = () if "n=2" in registered else ("n",)
    assert difference(parse_schema(declared), parse_schema(registered), left_out) == ""


# Ops that change the shape of their argument: only the registered op says so, by a tag.

TURN = "declared::turn_(Tensor(a!) x) -> Tensor(a!)"


@pytest.fixture
def _turning() -> Iterator[None]:
    library: Any = torch.library.Library("declared", "FRAGMENT")
    library.define(TURN.removeprefix("declared::"), tags=(torch.Tag.inplace_view,))
    library.impl("turn_", lambda x: x.t_(), "CompositeExplicitAutograd")
    yield
    library._destroy()


def _turns() -> wir.Program:
    b = wir.Builder("turns")
    x = b.input("x", "f32", (2, 3))
    b.returns(b.extern(TURN, x, result=("f32", (2, 3))))
    return b.build()


@pytest.mark.usefixtures("_turning")
@pytest.mark.parametrize("target", TARGETS)
def test_an_op_that_is_tagged_as_changing_its_argument_is_refused(target: str) -> None:
    made: Any = _turns()

    def call() -> None:
        if target == "interpreter":
            wir.interpret(made, torch.zeros(2, 3))
        else:
            wir.compile(made, target)

    with pytest.raises(SchemaDifferenceError, match="changes the shape or the storage"):
        call()


@pytest.mark.usefixtures("_turning")
def test_a_front_end_refuses_such_an_op() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(2, 3)
    graph.output((graph.call_function(torch.ops.declared.turn_.default, (x,)),))
    with pytest.raises(wir.WrapperIRError, match="changes the shape or the storage"):
        wir.from_fx(torch.fx.GraphModule({}, graph))


def test_a_stored_program_is_refused_when_it_meets_the_op(tmp_path: Path) -> None:
    """A program of an op that nobody has registered verifies, and is stored, as its schema says."""
    text, package = str(_turns()), wir.export(_turns(), tmp_path / "m.pt2")
    library: Any = torch.library.Library("declared", "FRAGMENT")
    try:
        library.define(TURN.removeprefix("declared::"), tags=(torch.Tag.inplace_view,))
        with pytest.raises(SchemaDifferenceError):
            wir.compile(wir.parse(text))
        with pytest.raises(Exception, match=r"WIR0106.*declared::turn_"):
            wir.load_package(package)
        with pytest.raises(RuntimeError):  # torch's own loader prints the reason
            torch._inductor.aoti_load_package(str(package))
    finally:
        library._destroy()
