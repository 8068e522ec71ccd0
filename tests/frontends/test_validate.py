"""``validate``: programs are compared with their graphs, and changed ones are found."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn
from torch._dynamo.exc import BackendCompilerFailed
from torch.nn import functional

import wrapper_ir as wir
from tests.seeded.changes import CHANGES, dropped_calls, older_arguments, swapped_calls
from wrapper_ir.cli.app import main
from wrapper_ir.debugging import Validation
from wrapper_ir.errors import OptionValueError, WrapperIRError
from wrapper_ir.frontends.inductor import (
    ContractError,
    ContractWarning,
    GraphMismatchError,
    contract_check,
)
from wrapper_ir.interpreter import NoTypicalValueError, interpret
from wrapper_ir.lines import (
    KernelCall,
    KernelDefinition,
)
from wrapper_ir.lines.kernels import CppKernel
from wrapper_ir.lines.walk import Path
from wrapper_ir.verify import diagnose, rules
from wrapper_ir.verify.diagnostics import Diagnostic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wrapper_ir import Program


def written_between(x: Tensor, w: Tensor) -> Any:
    y = torch.mm(x, w)
    x.mul_(2)
    z = torch.mm(x, w)
    x.add_(z)
    return y, torch.mm(x, w)


def pieces(x: Tensor, w: Tensor) -> Any:
    left, right = torch.mm(x, w), torch.mm(w, x)
    return torch.cat([left.relu(), right.sigmoid()], 1), left - right


def attention(x: Tensor, w: Tensor) -> Any:
    q, k, v = (each.unsqueeze(0) for each in (torch.mm(x, w), torch.mm(w, x), x))
    return functional.scaled_dot_product_attention(q, k, v).squeeze(0).softmax(-1)


def scattered(x: Tensor, w: Tensor) -> Any:
    rows = torch.tensor([0, 2])
    y = torch.mm(x, w).index_add(0, rows, w[:2])
    x[1] = y[0]
    return y, torch.mm(x, y)


def normalized(x: Tensor, w: Tensor) -> Any:
    mean, deviation = x.mean(0), x.std(0)
    y = torch.mm((x - mean) / deviation, w)
    return functional.layer_norm(y, (4,)), y.topk(2).values


def of_lists(x: Tensor, w: Tensor) -> Any:
    torch._foreach_add_([x, w], 1)
    return torch.mm(x, w), *torch._foreach_mul([x, w], 2)


FUNCTIONS = (written_between, pieces, attention, scattered, normalized, of_lists)


def arguments() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(4, 4, generator=generator) for _ in range(2)]


def recorded(function: Callable[..., Any]) -> tuple[Program, torch.fx.GraphModule]:
    torch._dynamo.reset()
    with wir.record() as programs:
        torch.compile(function, backend="wrapper_ir", fullgraph=True)(*arguments())
    (program,), (graph,) = programs, programs.graphs
    return program, graph


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_a_program_is_what_its_graph_says_also_when_it_is_planned(
    function: Callable[..., Any],
) -> None:
    program, graph = recorded(function)
    for each in (program, wir.plan_memory(program), wir.plan_memory(program, "pool")):
        found = wir.validate(each, graph)
        assert found.ok, str(found)
        assert not found.not_shown
        assert found.lines == len(each.body) + len(each.results)


def test_forward_and_backward_of_a_model_are_what_their_graphs_say() -> None:
    torch._dynamo.reset()
    layers = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)
    )
    with wir.record() as programs:
        torch.compile(layers, backend="wrapper_ir")(torch.randn(2, 3, 6, 6)).sum().backward()
    assert len(programs) == 2
    for program, graph in zip(programs, programs.graphs, strict=True):
        found = wir.validate(program, graph)
        assert found.ok, str(found)
        assert not found.not_shown


def scatter_of_a_product(x: Tensor, w: Tensor) -> Any:
    y = torch.mm(x, w)
    return torch.diagonal_scatter(y, x[1]), torch.diagonal_scatter(y, y.diagonal())[1:], y


# Torch's own lowering of a diagonal calls a function of torch's that is deprecated.
@pytest.mark.filterwarnings("ignore:.*check. is deprecated:FutureWarning")
def test_a_kernel_may_write_to_the_memory_that_it_makes() -> None:
    """A clone, and the write to it that makes it a scatter, are one kernel."""
    program, graph = recorded(scatter_of_a_product)
    found = wir.validate(program, graph, run=True)
    assert found.ok, str(found)
    assert not found.not_shown
    missing = [each for _, each in dropped_calls(program) if not diagnose(each)]
    assert len(missing) >= 2
    assert not any(wir.validate(each, graph, run=True).ok for each in missing)


# Changed programs. Whether a change is harmful, the interpreter tells.


def outcome(program: Program) -> list[Tensor]:
    """The results of a program, and its arguments afterwards."""
    inputs = arguments()
    return [*interpret(program, *inputs), *inputs]


def is_harmful(program: Program, expected: Sequence[Tensor]) -> bool:
    found = outcome(program)
    pairs = zip(found, expected, strict=True)
    return not all(torch.equal(one.nan_to_num(9e9), other) for one, other in pairs)


def test_harmful_changes_are_found() -> None:
    """Those that the verifier refuses are found already; ``validate`` is for the others."""
    found, missed = 0, []
    for function in FUNCTIONS:
        program, graph = recorded(function)
        expected = outcome(program)
        for change in CHANGES.values():
            for name, changed in change(program):
                if diagnose(changed):
                    continue
                if not wir.validate(changed, graph).ok:
                    found += 1
                elif is_harmful(changed, expected):
                    missed.append(f"{function.__name__}: {name}")
    assert found > 60
    # Which of a fused kernel's buffers is which, its nodes do not say; nor, with the schedules of
    # older releases, what was in a buffer that a fused kernel overwrites.
    assert len(missed) <= 4
    assert all(each.startswith(("pieces: %buf", "attention: without")) for each in missed)


# Values.


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_a_run_compares_what_calls_write_and_what_is_left(
    function: Callable[..., Any],
) -> None:
    program, graph = recorded(function)
    for each in (program, wir.plan_memory(program)):
        found = wir.validate(each, graph, run=True, inputs=arguments())
        assert found.ok, str(found)
        assert found.compared >= len(program.results)
        assert not found.skipped.get("cannot be computed eagerly")
        assert wir.validate(each, graph, run=True, seed=1).compared == found.compared


def with_other_numbers(program: Program) -> Iterator[tuple[str, Program]]:
    """Yield the program with the last number in each of its C++ kernels increased."""
    for index, line in enumerate(program.body):
        if not isinstance(line, KernelDefinition) or not isinstance(line.source, CppKernel):
            continue
        code = line.source.code
        *_, last = re.finditer(r"<float>\((\d+)(?=\.0\))", code)
        code = code[: last.start(1)] + str(int(last[1]) + 1) + code[last.end(1) :]
        changed = dataclasses.replace(line, source=dataclasses.replace(line.source, code=code))
        body = (*program.body[:index], changed, *program.body[index + 1 :])
        yield line.name, program.replace(body=body)


def test_a_run_names_the_kernel_that_is_wrong_and_no_other() -> None:
    program, graph = recorded(normalized)
    rows = list(with_other_numbers(program))
    assert len(rows) == 2
    for name, changed in rows:
        assert wir.validate(changed, graph).ok  # what a kernel computes is taken on trust
        found = wir.validate(changed, graph, run=True, inputs=arguments())
        assert {each.rule.code for each in found.faults} == {"WIR1139"}
        lines = [changed.body[each.path[0][1]] for each in found.faults if each.path]
        assert {line.kernel for line in lines if isinstance(line, KernelCall)} == {name}
        assert all("test_validate.py" in each.source for each in found.faults if each.path)


def test_a_run_finds_harmful_changes_that_the_lines_do_not_show() -> None:
    """Which parameter of a fused kernel gets which value may not be recorded; a run tells."""
    program, graph = recorded(pieces)
    origins = (dataclasses.replace(each, reads=()) for each in program.origins)
    program = program.replace(origins=tuple(origins))
    expected, found = outcome(program), 0
    for change in CHANGES.values():
        for name, changed in change(program):
            if diagnose(changed) or wir.validate(changed, graph).ok is False:
                continue
            is_found = not wir.validate(changed, graph, run=True, inputs=arguments()).ok
            assert is_found == is_harmful(changed, expected), name
            found += is_found
    assert found


def compared(x: Tensor, w: Tensor) -> Any:
    return torch.mm(x, w).relu() < torch.mm(w, x).sigmoid()


def test_lines_show_which_value_a_kernel_reads_through_which_argument() -> None:
    program, graph = recorded(compared)
    expected, messages = outcome(program), set()
    for name, changed in older_arguments(program):
        if not diagnose(changed) and is_harmful(changed, expected):
            faults = wir.validate(changed, graph).faults
            assert faults, name
            messages |= {each.message for each in faults}
    assert "%buf1 is read here, but it holds mm_1, and mm is taken here" in messages


def joined(x: Tensor, w: Tensor) -> Any:
    """Two calls of a library each write a part of one buffer, which a third reads."""
    return torch.mm(torch.cat([torch.mm(x, w), torch.mm(w, x)], 1), torch.cat([x, w]))


def test_lines_show_that_a_part_of_a_buffer_is_missing() -> None:
    program, graph = recorded(joined)
    changes = [each for _, each in (*dropped_calls(program), *swapped_calls(program))]
    expected, partial = outcome(program), 0
    for changed in changes:
        if not diagnose(changed) and is_harmful(changed, expected):
            faults = wir.validate(changed, graph).faults
            assert faults
            partial += any("values in a part alone" in each.message for each in faults)
    assert partial >= 2


def scaled(x: Tensor, w: Tensor) -> Any:
    y = torch.mm(x, w)
    x.mul_(3)
    return y


def test_a_run_says_what_is_left_in_an_input() -> None:
    program, graph = recorded(scaled)
    ((_, changed),) = with_other_numbers(program)
    found = wir.validate(changed, graph, run=True, inputs=arguments())
    assert ["%arg0_1" in each.message for each in found.faults] == [True]
    *_, (_, changed) = dropped_calls(program)
    found = wir.validate(changed, graph, run=True, inputs=arguments())
    assert [each.part for each in found.faults if each.rule is rules.WRONG_VALUE] == ["inputs[0]"]


UNKNOWN = """wir 2
program @unknown inference logical

symbol s0 : int
input %x : f32[s0] @cpu

return %x
"""


def test_inputs_that_cannot_be_made_up_are_asked_for() -> None:
    program = wir.parse(UNKNOWN)
    graph = torch.fx.symbolic_trace(lambda n: n)
    with pytest.raises(NoTypicalValueError, match="WIR1405: no value can be made up for s0"):
        wir.validate(program, graph, run=True)


@pytest.mark.parametrize("graph", [None, "graph", torch.nn.Linear(1, 1)])
def test_what_is_no_graph_is_refused(graph: Any) -> None:
    program, _ = recorded(pieces)
    with pytest.raises(OptionValueError, match="the program's source graph"):
        wir.validate(program, graph)


# In every compilation.


def test_the_option_compares_every_program() -> None:
    options = {"validate": "error"}
    for function in FUNCTIONS:
        torch._dynamo.reset()
        torch.compile(function, backend="wrapper_ir", options=options)(*arguments())


def test_a_result_that_a_guard_keeps_empty_needs_no_kernel() -> None:
    def ones(x: Tensor, n: int, m: int) -> Tensor:
        return x.new_ones((n, m))

    torch._dynamo.reset()
    options = {"validate": "error"}
    compiled = torch.compile(ones, backend="wrapper_ir", dynamic=True, options=options)
    for n, m in ((2, 0), (3, 0), (2, 3), (5, 2)):
        assert torch.equal(compiled(torch.ones(5), n, m), torch.ones(n, m))


def test_a_program_that_is_not_its_graph_is_an_error_or_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program, graph = recorded(pieces)
    changes = (changed for _, changed in older_arguments(program) if not diagnose(changed))
    changed = next(each for each in changes if not wir.validate(each, graph).ok)
    stock = contract_check.compare_lines  # type: ignore[attr-defined]
    monkeypatch.setattr(contract_check, "compare_lines", lambda _, graph: stock(changed, graph))
    torch._dynamo.reset()
    compiled = torch.compile(pieces, backend="wrapper_ir", options={"validate": "error"})
    with pytest.raises(BackendCompilerFailed) as caught, wir.record():
        compiled(*arguments())
    assert isinstance(caught.value.inner_exception, GraphMismatchError)
    assert isinstance(caught.value.inner_exception, WrapperIRError)
    assert "WIR1129" in str(caught.value)
    torch._dynamo.reset()
    compiled = torch.compile(pieces, backend="wrapper_ir", options={"validate": "warn"})
    with pytest.warns(ContractWarning, match="WIR3010"), wir.record():
        compiled(*arguments())


# Captured programs, and the command line.

MODEL = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.one = torch.nn.Linear(8, 16)
        self.norm = torch.nn.BatchNorm1d(16)

    def forward(self, x):
        return self.norm(self.one(x)).relu().softmax(-1)


def make():
    return Net(), (torch.ones(4, 8),)
"""


def double(x: Tensor) -> Tensor:
    return x * 2


def test_a_captured_program_is_compared_if_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wir.capture(double, (torch.ones(3),), validate="error")
    fault = Diagnostic(rules.WRONG_RESULT, "result 0 holds y", Path(), "results[0]", None, "")
    monkeypatch.setattr(contract_check, "compare_lines", lambda *_: Validation(1, (fault,)))
    with pytest.raises(GraphMismatchError, match="WIR1128"):
        wir.capture(double, (torch.ones(3),), validate="error")
    with pytest.warns(ContractWarning, match="WIR3010"):
        wir.capture(double, (torch.ones(3),), validate="warn")
    with pytest.raises(OptionValueError, match="validate"):
        wir.capture(double, (torch.ones(3),), validate="yes")


def test_on_the_command_line(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)

    def told(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["validate", "net.wir", "model.py:make", *words])
        return done.exit_code, done.stdout

    made = CliRunner().invoke(
        main, ["capture", "model.py:make", "-o", "net.wir", "--validate", "error"]
    )
    assert made.exit_code == 0, made.output
    status, text = told("--proved")
    assert status == 0
    assert text.endswith("lines and results shown, 0 faults\n")
    status, text = told("--random", "0", "--json")
    assert status == 0
    assert json.loads(text)["compared"] >= 3
    wrong = pathlib.Path("net.wir").read_text().replace("tmp0 - tmp", "tmp0 + tmp")
    pathlib.Path("net.wir").write_text(wrong)
    assert told()[0] == 0
    status, text = told("--random", "0", "--json")
    assert status == 1
    fault, *_ = json.loads(text)["faults"]
    assert fault["code"] == "WIR1139"
    assert "model.py" in fault["source"]
    assert told("--random", "0", "--inputs", "x.pt")[0] == 2


def test_what_is_read_too_late_is_an_error_without_any_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of programs whose graphs write; others are not compared."""

    def product_then_doubled(x: Tensor, w: Tensor) -> Tensor:
        y = torch.mm(x, w)
        x.mul_(2)
        return y

    monkeypatch.delenv("WRAPPER_IR_VALIDATE")
    program, _ = recorded(product_then_doubled)
    ((_, late),) = swapped_calls(program)
    stock, compared = contract_check.compare_lines, []  # type: ignore[attr-defined]

    def changed(_: Program, graph: torch.fx.GraphModule) -> Any:
        compared.append(graph)
        return stock(late, graph)

    monkeypatch.setattr(contract_check, "compare_lines", changed)
    torch._dynamo.reset()
    with pytest.raises(BackendCompilerFailed, match="WIR1125") as caught, wir.record():
        torch.compile(product_then_doubled, backend="wrapper_ir")(*arguments())
    assert isinstance(caught.value.inner_exception, ContractError)
    assert len(compared) == 2  # the second time without passes that write in place
    torch._dynamo.reset()
    with wir.record():
        torch.compile(pieces, backend="wrapper_ir")(*arguments())
    assert len(compared) == 2
