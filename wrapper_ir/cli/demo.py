"""The demo: its steps in order, the model, and a step of training."""

from __future__ import annotations

import copy
import functools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from wrapper_ir.api import emit
from wrapper_ir.cli import terminal
from wrapper_ir.cli.demo_report import (
    EAGER,
    OURS,
    PAIRED,
    STOCK,
    Report,
    count,
    interleaved_medians,
)
from wrapper_ir.cli.errors import BypassedError, MissingExampleError
from wrapper_ir.cli.files import MODULE, check_output, save_program, write_module
from wrapper_ir.cli.reference import import_file
from wrapper_ir.frontends.inductor import capture, record
from wrapper_ir.lines import GraphRole, Program
from wrapper_ir.planning import plan as plan_memory
from wrapper_ir.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


#: The demo logs its steps even if standard error is not a terminal.
step = functools.partial(terminal.step, log=True)

PAIRS = {f"{one} - {other}": (one, other) for one, other in PAIRED}


@dataclass(frozen=True)
class Plan:
    """The settings of the demo."""

    out: Path
    layers: int = 4
    rounds: int = 30
    threads: int = 1


def tell(plan: Plan) -> Report:
    """Run the demo and write ``program.wir`` and ``wrapper.py`` to ``plan.out``."""
    check_output(str(plan.out / "program.wir"))
    check_output(str(plan.out / "wrapper.py"), MODULE)
    torch.set_num_threads(plan.threads)
    with step("making the model"):
        example = load_example(plan.layers)
    report = Report(example.name, threads=plan.threads)
    _train(example, report, plan)
    results = _infer(example, report, plan)
    _export(example, report, plan, results)
    return report


def _train(example: Example, report: Report, plan: Plan) -> None:
    """Take one training step with each of the three, starting from equal weights."""
    models = {who: copy.deepcopy(example.model).train() for who in (EAGER, STOCK, OURS)}
    calls: dict[str, Callable[[Tensor], Tensor]] = {EAGER: models[EAGER]}
    outcomes: dict[str, Outcome] = {}
    with step("training: eager"):
        outcomes[EAGER] = train_step(example, models[EAGER], calls[EAGER])
    with step("training: compiling through wrapper_ir"), record() as programs:
        calls[OURS] = torch.compile(models[OURS], backend=OURS)
        outcomes[OURS] = train_step(example, models[OURS], calls[OURS])
    if {program.role for program in programs} != {GraphRole.FORWARD, GraphRole.BACKWARD}:
        raise BypassedError(what="the training step")
    with step("training: compiling through stock Inductor"):
        calls[STOCK] = torch.compile(models[STOCK], backend=STOCK)
        outcomes[STOCK] = train_step(example, models[STOCK], calls[STOCK])
    _add_programs(report, {program.role.value: program for program in programs})
    for name, (one, other) in PAIRS.items():
        for part, value in differences(outcomes[one], outcomes[other]).items():
            report.differences.setdefault(f"training: {part}", {})[name] = value
    steps = {
        who: functools.partial(bare_step, example, models[who], calls[who])
        for who in (EAGER, STOCK, OURS)
    }
    with step("training: timing", animate=False):
        report.times["training step"] = interleaved_medians(steps, rounds=plan.rounds)


def _infer(example: Example, report: Report, plan: Plan) -> dict[str, Tensor]:
    """Run the forward without gradients with each of the three; return the results."""
    model = example.model.eval()
    calls: dict[str, Any] = {EAGER: model}
    calls |= {backend: torch.compile(model, backend=backend) for backend in (OURS, STOCK)}
    results: dict[str, Tensor] = {}
    with torch.no_grad():
        with step("inference: eager"):
            results[EAGER] = model(example.tokens)
        with step("inference: compiling through wrapper_ir"), record() as programs:
            results[OURS] = calls[OURS](example.tokens)
        if not programs:
            raise BypassedError(what="the forward")
        with step("inference: compiling through stock Inductor"):
            results[STOCK] = calls[STOCK](example.tokens)
        report.differences["inference: output"] = {
            name: max_difference(results[one], results[other])
            for name, (one, other) in PAIRS.items()
        }
        functions = {who: functools.partial(call, example.tokens) for who, call in calls.items()}
        with step("inference: timing", animate=False):
            report.times["inference"] = interleaved_medians(functions, rounds=plan.rounds)
    return results


def _export(example: Example, report: Report, plan: Plan, results: dict[str, Tensor]) -> None:
    """Export the model as one program with its weights, and write it for the user to read."""
    model = example.model.eval()
    with step("capturing the exported model"):
        program = capture(model, (example.tokens,))
    with step("verifying, planning and emitting"):
        verify(program)
        planned = plan_memory(program)
        artifact = emit(planned.program, "python")
    with step("loading what was emitted"):
        run = artifact.load()
    outputs = {**results, OURS: run(example.tokens)[0]}
    report.differences["exported: output"] = {
        name: max_difference(outputs[one], outputs[other]) for name, (one, other) in PAIRS.items()
    }
    _add_programs(report, {"exported": program})
    with step("writing"):
        save_program(planned.program, str(plan.out / "program.wir"))
        write_module(artifact, "python", str(plan.out / "wrapper.py"), constants=True)
    report.files = [str(plan.out / name) for name in ("program.wir", "wrapper.py")]


def _add_programs(report: Report, programs: Mapping[str, Program]) -> None:
    for name, program in programs.items():
        planned = plan_memory(program)
        report.programs[name] = count(planned.program, planned.report)


# The model of the demo: ``examples/decoder.py``.


@dataclass(frozen=True)
class Example:
    """A decoder with its input and the expected output.

    ``tokens`` and ``targets`` are integers of shape (batch, time).
    """

    name: str
    model: nn.Module
    tokens: Tensor
    targets: Tensor


def load_example(layers: int) -> Example:
    """Return the decoder with random weights, in evaluation mode.

    Raises:
        MissingExampleError: The example is not installed.
    """
    module = import_file(_find("decoder.py"))
    model, (tokens,) = module.make(layers=layers)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    batch, time = tokens.shape
    name = f"decoder, {layers} layers, {parameters / 1e6:.1f} M parameters, {batch} x {time} tokens"
    return Example(name, model, tokens, torch.roll(tokens, -1, dims=1))


def _find(name: str) -> Path:
    # In a checkout it is beside the package; otherwise it is among the wheel's shared files.
    checkout = Path(__file__).parents[2]
    paths = [checkout / "examples" / name, Path(sys.prefix) / "share/wrapper_ir/examples" / name]
    for path in paths:
        if path.is_file():
            return path
    raise MissingExampleError(file=str(paths[0]))


# One step of training, and the differences between two models after it.


@dataclass(frozen=True)
class Outcome:
    """The outcome of one training step: results, gradients and updated parameters."""

    output: Tensor
    loss: Tensor
    gradients: dict[str, Tensor]
    parameters: dict[str, Tensor]


def train_step(example: Example, model: nn.Module, call: Callable[[Tensor], Tensor]) -> Outcome:
    """Take one step: forward, cross entropy, backward, gradient descent.

    The optimiser is not Adam, whose first step divides each gradient by its own magnitude: rounding
    errors in tiny gradients would become differences as large as the learning rate. ``call`` is the
    model itself, or the result of compiling it.
    """
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    output = call(example.tokens)
    loss = _loss(output, example.targets)
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    optimiser.step()
    optimiser.zero_grad()
    parameters = {name: value.detach().clone() for name, value in model.named_parameters()}
    return Outcome(output.detach(), loss.detach(), gradients, parameters)


def bare_step(example: Example, model: nn.Module, call: Callable[[Tensor], Tensor]) -> None:
    """Run forward and backward and discard the gradients, for timing."""
    _loss(call(example.tokens), example.targets).backward()  # type: ignore[no-untyped-call]
    model.zero_grad()


def _loss(output: Tensor, targets: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(output.flatten(0, 1), targets.flatten())


def differences(one: Outcome, other: Outcome) -> dict[str, float]:
    """Return the largest absolute difference in each part of two outcomes.

    Raises:
        ValueError: The outcomes have gradients for different parameters.
    """
    if one.gradients.keys() != other.gradients.keys():
        raise ValueError("the two models have gradients for different parameters")
    return {
        "output": max_difference(one.output, other.output),
        "loss": max_difference(one.loss, other.loss),
        "gradients": _largest(one.gradients, other.gradients),
        "parameters after the step": _largest(one.parameters, other.parameters),
    }


def max_difference(one: Tensor, other: Tensor) -> float:
    """Return the largest absolute difference of two tensors; NaN if one of them has a NaN."""
    if one.shape != other.shape:
        raise ValueError(f"shapes {tuple(one.shape)} and {tuple(other.shape)} differ")
    return float((one.double() - other.double()).abs().max()) if one.numel() else 0.0


def _largest(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    each = [max_difference(one[name], other[name]) for name in one]
    return float(torch.tensor(each, dtype=torch.float64).max()) if each else 0.0
