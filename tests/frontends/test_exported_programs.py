"""Capturing what was exported before: the same program, and all that the export assumed."""

from __future__ import annotations

import contextlib
import gc
import io
import math
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

import wrapper_ir as wir
from tests.frontends.support import DYNAMIC
from tests.frontends_aten.support import Function
from tests.release import TORCH
from wrapper_ir.frontends.inductor import CaptureError, LostSizesWarning
from wrapper_ir.runtime import SymbolError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor, *, more: dict[str, Tensor]) -> dict[str, Any]:
        y = self.norm(self.first(x)) + more["shift"]
        return {"y": y, "rest": (y.sum(0), None)}


# PyTorch 2.11 and 2.12 load weights from bytes that cannot be written.
pytestmark = pytest.mark.filterwarnings("ignore:The given buffer is not writable:UserWarning")

ARGS = (torch.linspace(-1, 1, 40).view(5, 8),)
KWARGS = {"more": {"shift": torch.ones(4)}}
SHAPES = {"x": {0: Dim("rows", min=3, max=64)}, "more": {"shift": None}}


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def exported(model: nn.Module) -> ExportedProgram:
    return torch.export.export(model, ARGS, KWARGS, dynamic_shapes=SHAPES)


def reloaded(exported: ExportedProgram) -> ExportedProgram:
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    return torch.export.load(file)


@pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)`:FutureWarning")
def test_it_is_the_program_of_the_model(model: nn.Module, exported: ExportedProgram) -> None:
    of_model = wir.capture(model, ARGS, KWARGS, dynamic_shapes=SHAPES)
    program = wir.capture(exported)
    assert program == of_model
    assert wir.capture(exported, ARGS, KWARGS) == of_model
    assert wir.capture(reloaded(exported)) == of_model
    names = {constant.qualified_name for constant in program.constants.values()}
    assert {"first.weight", "norm.running_mean"} <= names
    assert (program.in_spec, program.out_spec) == (of_model.in_spec, of_model.out_spec) != ("", "")
    assert [(i.lower, i.upper) for i in program.symbols.values()] == [(3, 64)]
    y, total = wir.compile(program)(torch.ones(7, 8), torch.zeros(4))[:2]
    wanted = model(torch.ones(7, 8), more={"shift": torch.zeros(4)})
    torch.testing.assert_close((y, total), (wanted["y"], wanted["rest"][0]))


def test_arguments_that_it_was_not_made_for(exported: ExportedProgram) -> None:
    with pytest.raises(CaptureError, match="do not match"):
        wir.capture(exported, (torch.ones(5, 9),), KWARGS)
    with pytest.raises(CaptureError, match="do not match"):
        wir.capture(exported, (torch.ones(5, 8), torch.ones(5)), KWARGS)
    with pytest.raises(CaptureError, match="already has its dynamic shapes") as caught:
        wir.capture(exported, dynamic_shapes=SHAPES)
    assert "torch.export.export" in str(caught.value.hint)


def test_a_model_needs_arguments(model: nn.Module) -> None:
    with pytest.raises(CaptureError, match="needs example arguments"):
        wir.capture(model)


class Branching(nn.Module):
    """Decides by sizes what it computes, of arguments in every place that they can have."""

    def forward(self, x: Tensor, *rest: Tensor, last: list[Tensor]) -> Tensor:
        if x.shape[0] % 2 == 0 and x.shape[0] + rest[1].shape[0] > 7:
            x = x * 5
        if last[0].shape[0] < rest[0].shape[0]:
            return x.sum() + rest[0].sum() + rest[1].sum()
        return x.sum() - last[0].sum()


@pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)`:FutureWarning")
@pytest.mark.parametrize("again", [lambda exported: exported, reloaded], ids=["fresh", "reloaded"])
def test_what_the_export_assumed_is_checked(again: Any) -> None:
    def tensors(*sizes: int) -> list[Tensor]:
        return [torch.ones(size) for size in sizes]

    x, a, b, c = tensors(4, 5, 6, 3)
    shapes = {"x": {0: DYNAMIC}, "rest": ({0: DYNAMIC},) * 2, "last": [{0: DYNAMIC}]}
    exported = torch.export.export(
        Branching(), (x, a, b), {"last": [c]}, dynamic_shapes=shapes, strict=False
    )
    exported = again(exported)
    program = wir.capture(exported)
    assert wir.capture(exported) == program  # nothing is forgotten the second time
    run = wir.compile(program)
    for sizes in ((4, 5, 6, 3), (8, 9, 2, 7)):
        x, a, b, c = tensors(*sizes)
        assert run(x, a, b, c)[0] == Branching()(x, a, b, last=[c])
    for sizes, said in (
        ((5, 5, 6, 3), r"x.size\(\)\[0\] % 2\) == 0"),
        ((2, 5, 4, 3), "> 7"),
        ((4, 5, 6, 5), "as the model was exported"),
    ):
        with pytest.raises(SymbolError, match=said):
            run(*tensors(*sizes))


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ("2 <= L['x'].size()[0] < 64", True),
        ("max(3, L['x'].size()[0] // 2) <= -(-7) or not L['x'].stride()[1] == 1", True),
        ("L['x'].size()[0] / 2 != math.ceil(2.5)", True),
        ("torch.sym_min(4, L['x'].size()[0]) <= (8 if L['x'].size()[0] > 3 else 9)", True),
        ("round(torch.sym_float(L['x'].size()[0]) ** 0.5) | 1 != torch._sym_sqrt(3) ** 2", True),
        ("math.log2(L['x'].size()[0] << 2) > math.trunc(0.7*torch.sym_float(3)) >> 1", True),
        ("round(L['x'].size()[0] / 3, 1) == 2.7", False),
        ("__import__('os').system('true') == 0", False),
        ("L['x'].size()[0].bit_length() == 2", False),
        ("L['y'].size()[0] == 2", False),
        ("L['x']", False),
        ("1 if L['x'].size()[0] > 3 else 2", False),
        ("(", False),
    ],
)
def test_texts_are_read_and_never_run(
    model: nn.Module, exported: ExportedProgram, text: str, legal: bool
) -> None:
    from wrapper_ir.frontends.inductor.export_guards import exported_guards

    changed = reloaded(exported)
    changed._guards_code = [text]
    if not legal:
        with pytest.raises(CaptureError, match="assumed"):
            exported_guards(changed, changed.module(check_guards=False))
    else:
        ((condition, message),) = exported_guards(changed, changed.module(check_guards=False))
        assert message.endswith("as the model was exported")
        assert len(condition.free_symbols) == 1


def halves_and_roots(x: Tensor) -> tuple[Tensor, ...]:
    """Take a number of rows that follows from all rows, in the ways that Python and torch have."""
    n = x.shape[0]
    return (
        x[: min(n, 4)],
        x[: max(n - 2, 1)],
        x.topk(min(3, n)).values,
        x[: round(n / 2)],
        x[: n & 3],
        x[: math.trunc(n * 0.7)],
        x * 2 if n**0.5 > 2 else x,
        x * 3 if 0.7 * n > 2.5 and n ^ 1 > 4 else x,
    )


def test_rounded_and_bounded_sizes_are_taken() -> None:
    model = Function(halves_and_roots)
    exported = torch.export.export(model, (torch.ones(8),), dynamic_shapes=({0: DYNAMIC},))
    lost: Any = contextlib.nullcontext() if TORCH >= (2, 15) else pytest.warns(LostSizesWarning)
    with lost:
        run = wir.compile(wir.capture(exported))
    # Before 2.15 Inductor takes it for known that there are none of n & 3 rows.
    for n in (8, 9, 17, 40) if TORCH >= (2, 15) else (8, 40):
        x = torch.linspace(-1, 1, n)
        torch.testing.assert_close(run(x), halves_and_roots(x))
    for n, said in ((4, r"\*\* 0.5 > 2"), (6, "& 3")):
        with pytest.raises(SymbolError, match=said):
            run(torch.ones(n))


def test_a_condition_that_no_program_has_is_refused_by_both_front_ends() -> None:
    exported = torch.export.export(
        Function(lambda x: x * 2 if round(x.shape[0] / 3, 1) > 2 else x),
        (torch.ones(8),),
        dynamic_shapes=({0: DYNAMIC},),
    )
    for front_end in (wir.capture, wir.from_fx):
        with pytest.raises(wir.WrapperIRError, match="no form in a program"):
            front_end(exported)


class Numbers(nn.Module):
    """Takes and returns what is no tensor."""

    def __init__(self, *values: Any) -> None:
        super().__init__()
        self.values = values

    def forward(self, x: Tensor, number: Any) -> Any:
        return x + (1 if number == number else 2), *self.values, {"number": number}


def test_results_that_are_no_tensors() -> None:
    values = (2.5, True, None, 3, math.inf)
    program = wir.capture(Numbers(*values), (torch.ones(2), 4))
    assert wir.compile(program)(torch.ones(2), 4)[1:] == (*values, 4)
    with pytest.raises(CaptureError, match="result 1 is the str 'text'"):
        wir.capture(Numbers("text"), (torch.ones(2), 4))


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 2.5, True, 3], ids=str)
def test_a_number_that_was_given_is_the_only_one_taken(number: float) -> None:
    run = wir.compile(wir.capture(lambda x, n: x + 1, (torch.ones(2), number)))
    (result,) = run(torch.ones(2), number)
    assert result[0] == 2
    others = {-math.inf, -1.5, 0, 7, 1e300, math.inf} - {number}
    for other in (False, 1) if number is True else others:
        with pytest.raises(wir.WrapperIRError):
            run(torch.ones(2), other)
    if number == number:
        with pytest.raises(wir.WrapperIRError):
            run(torch.ones(2), math.nan)


def test_truth_values_are_taken_as_such() -> None:
    program = wir.capture(
        lambda x, up, down: (x @ x if up else x, down), (torch.eye(2), True, False)
    )
    assert [i.kind.value for i in program.symbols.values()] == ["bool", "bool"]
    wanted = torch.full((2, 2), 2.0)
    for run in (wir.compile(program, "fx"), lambda *args: wir.interpret(program, *args)):
        result, down = run(torch.ones(2, 2), True, False)
        assert torch.equal(result, wanted)
        assert down is False


def test_a_truth_value_read_from_a_tensor_counts() -> None:
    class Chosen(nn.Module):
        def forward(self, x: Tensor, p: Tensor) -> Any:
            return x @ x, p.item()

    program = wir.capture(Chosen(), (torch.eye(2), torch.tensor(True)))
    for value in (True, False):
        assert wir.interpret(program, torch.eye(2), torch.tensor(value))[1] is value


def test_constants_stay_those_of_the_model() -> None:
    """Also under an option with which Inductor would compute with them when it loads a package."""
    layer = nn.Linear(4, 4).bfloat16().eval()
    option = {"aot_inductor.use_runtime_constant_folding": True}
    with torch._inductor.config.patch(option), torch.no_grad():
        program = wir.capture(layer, (torch.ones(2, 4).bfloat16(),))
    assert {c.qualified_name for c in program.constants.values()} == {"weight", "bias"}
    x = torch.linspace(-1, 1, 8).view(2, 4).bfloat16()
    torch.testing.assert_close(wir.interpret(program, x)[0], layer(x).detach())


def test_an_argument_that_no_program_takes() -> None:
    with pytest.raises(CaptureError, match=r"takes tensors|torch.export says"):
        wir.capture(lambda x, n: x + 1, (torch.ones(2), 1j))


def wordless(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError


def test_an_error_without_words_says_where_it_comes_from() -> None:
    with pytest.raises(CaptureError, match=r"says: NotImplementedError in wordless \(.*\.py\)"):
        wir.capture(wordless, (torch.ones(2),))


def test_an_argument_that_is_none_stays_none() -> None:
    run = wir.compile(wir.capture(lambda x, mask: x if mask is None else x * mask, (ARGS[0], None)))
    assert torch.equal(run(ARGS[0], None)[0], ARGS[0])
    with pytest.raises(wir.WrapperIRError, match="'mask' has the wrong type"):
        run(ARGS[0], ARGS[0])


def test_nothing_keeps_a_captured_model() -> None:
    model = nn.Linear(4, 4)
    weight = weakref.ref(model.weight)
    program = wir.capture(model, (torch.ones(2, 4),))
    del model
    gc.collect()
    assert weight() is None
    assert program.data["weight"].shape == (4, 4)  # the memory is still the program's
