"""Compile, train and run a small transformer, and compare with eager and stock Inductor.

    python examples/demo.py
    python examples/demo.py -o /tmp/demo --layers 8 --threads 4
    python examples/demo.py --layers 1 --quick --json

A decoder with random weights (``decoder.py``) is trained for one step and run in eager mode, by
torch.compile with stock Inductor and by torch.compile with ``backend="wrapper_ir"``, from equal
weights. Then it is exported, captured as one program, verified, planned and emitted. The first run
takes a minute or two: kernels are compiled for both backends.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import functools
import json
import logging
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import decoder
import torch
from demo_report import (
    EAGER,
    OURS,
    PAIRED,
    STOCK,
    Report,
    count,
    farewell,
    interleaved_medians,
    show,
)
from rich.console import Console
from torch import Tensor, nn

import wrapper_ir as wir
from wrapper_ir.planning import plan as plan_memory
from wrapper_ir.runtime import save_constants

# Inductor's compiler imports this, and warns amid our progress if there is no GPU.
logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """Print what is being done, then how long it took."""
    print(f"  {what} … ", end="", file=sys.stderr, flush=True)
    start = time.perf_counter()
    yield
    print(f"{time.perf_counter() - start:.1f} s", file=sys.stderr)


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
    with step("training: compiling through wrapper_ir"), wir.record() as programs:
        calls[OURS] = torch.compile(models[OURS], backend=OURS)
        outcomes[OURS] = train_step(example, models[OURS], calls[OURS])
    if {program.role for program in programs} != {wir.GraphRole.FORWARD, wir.GraphRole.BACKWARD}:
        raise SystemExit("the training step was compiled, but not by wrapper_ir")
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
    with step("training: timing"):
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
        with step("inference: compiling through wrapper_ir"), wir.record() as programs:
            results[OURS] = calls[OURS](example.tokens)
        if not programs:
            raise SystemExit("the forward was compiled, but not by wrapper_ir")
        with step("inference: compiling through stock Inductor"):
            results[STOCK] = calls[STOCK](example.tokens)
        report.differences["inference: output"] = {
            name: max_difference(results[one], results[other])
            for name, (one, other) in PAIRS.items()
        }
        functions = {who: functools.partial(call, example.tokens) for who, call in calls.items()}
        with step("inference: timing"):
            report.times["inference"] = interleaved_medians(functions, rounds=plan.rounds)
    return results


def _export(example: Example, report: Report, plan: Plan, results: dict[str, Tensor]) -> None:
    """Export the model as one program with its weights, and write it for the user to read."""
    model = example.model.eval()
    with step("capturing the exported model"):
        program = wir.capture(model, (example.tokens,))
    with step("verifying, planning and emitting"):
        wir.verify(program)
        planned = plan_memory(program)
        artifact = wir.emit(planned.program, "python")
    with step("loading what was emitted"):
        run = artifact.load()
    outputs = {**results, OURS: run(example.tokens)[0]}
    report.differences["exported: output"] = {
        name: max_difference(outputs[one], outputs[other]) for name, (one, other) in PAIRS.items()
    }
    _add_programs(report, {"exported": program})
    with step("writing"):
        planned.program.save(plan.out / "program.wir")
        module = plan.out / "wrapper.py"
        beside = module.with_name("wrapper.py.safetensors")
        identity = save_constants(beside, artifact.constants_beside(), owner=module)
        module.write_text(artifact.naming(identity), encoding="utf-8")
    report.files = [str(plan.out / name) for name in ("program.wir", "wrapper.py")]


def _add_programs(report: Report, programs: Mapping[str, wir.Program]) -> None:
    for name, program in programs.items():
        planned = plan_memory(program)
        report.programs[name] = count(planned.program, planned.report)


# The model.


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
    """Return the decoder with random weights, in evaluation mode."""
    model, (tokens,) = decoder.make(layers=layers)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    batch, time = tokens.shape
    name = f"decoder, {layers} layers, {parameters / 1e6:.1f} M parameters, {batch} x {time} tokens"
    return Example(name, model, tokens, torch.roll(tokens, -1, dims=1))


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


def main() -> None:
    """Run the demo as the command line says."""
    summary, _, about = str(__doc__).partition("\n")
    parser = argparse.ArgumentParser(description=summary, epilog=about.rpartition("\n\n")[2])
    parser.add_argument("-o", "--output", type=Path, default=Path(), metavar="FOLDER")
    parser.add_argument("--layers", type=int, default=4, help="depth")
    parser.add_argument("--threads", type=int, default=1, help="threads of the CPU")
    parser.add_argument("--quick", action="store_true", help="time a few calls only")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    chosen = parser.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)
    rounds = 5 if chosen.quick else 30
    report = tell(Plan(chosen.output, chosen.layers, rounds, chosen.threads))
    if chosen.json:
        print(json.dumps(dataclasses.asdict(report), indent=2))
        return
    show(report, Console())
    farewell(report, Console())


if __name__ == "__main__":
    main()
