"""Steps of the demonstration, in order."""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.api import emit
from wrapper_ir.cli import terminal
from wrapper_ir.cli.demo import report as reports
from wrapper_ir.cli.demo.model import Example, load_example
from wrapper_ir.cli.demo.report import EAGER, OURS, PAIRED, STOCK, Report
from wrapper_ir.cli.demo.timing import interleaved_medians
from wrapper_ir.cli.demo.training import Outcome, bare_step, differences, max_difference, train_step
from wrapper_ir.cli.emitting import write_module
from wrapper_ir.cli.errors import BypassedError
from wrapper_ir.cli.files import MODULE, check_output, save_program
from wrapper_ir.frontends.inductor import capture, record
from wrapper_ir.lines import GraphRole, Program
from wrapper_ir.planning import plan as plan_memory
from wrapper_ir.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor, nn

#: A demonstration tells what it does, on a terminal or not.
step = functools.partial(terminal.step, log=True)

PAIRS = {f"{one} - {other}": (one, other) for one, other in PAIRED}


@dataclass(frozen=True)
class Plan:
    """Settings of the demonstration."""

    out: Path
    layers: int = 4
    rounds: int = 30
    threads: int = 1


def tell(plan: Plan) -> Report:
    """Do everything, and leave ``program.wir`` and ``wrapper.py`` in ``plan.out``.

    Raises:
        BypassedError: A compilation did not go through us.
        WrapperIRError: Something else failed.
    """
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
    """One step of training by each of the three, from equal weights."""
    models = {who: copy.deepcopy(example.model).train() for who in (EAGER, STOCK, OURS)}
    calls: dict[str, Callable[[Tensor], Tensor]] = {EAGER: models[EAGER]}
    outcomes: dict[str, Outcome] = {}
    with step("training: eager"):
        outcomes[EAGER] = _step(example, models[EAGER], calls[EAGER])
    with step("training: compiling through wrapper_ir"), record() as programs:
        calls[OURS] = _compiled(models[OURS], OURS)
        outcomes[OURS] = _step(example, models[OURS], calls[OURS])
    if {program.role for program in programs} != {GraphRole.FORWARD, GraphRole.BACKWARD}:
        raise BypassedError(what="the training step")
    with step("training: compiling through stock Inductor"):
        calls[STOCK] = _compiled(models[STOCK], STOCK)
        outcomes[STOCK] = _step(example, models[STOCK], calls[STOCK])
    _add_programs(report, {f"{program.role.value}": program for program in programs})
    for name, (one, other) in PAIRS.items():
        for part, value in differences(outcomes[one], outcomes[other]).items():
            report.differences.setdefault(f"training: {part}", {})[name] = value
    steps = {
        who: functools.partial(bare_step, models[who], calls[who], example.tokens, example.targets)
        for who in (EAGER, STOCK, OURS)
    }
    with step("training: timing", animate=False):
        report.times["training step"] = interleaved_medians(steps, rounds=plan.rounds)


def _infer(example: Example, report: Report, plan: Plan) -> dict[str, Tensor]:
    """The forward alone, without gradients, by each of the three; gives the results."""
    model = example.model.eval()
    calls: dict[str, Any] = {EAGER: model, OURS: _compiled(model, OURS)}
    calls[STOCK] = _compiled(model, STOCK)
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
    """The model as a program of its own, weights included: what is left to read."""
    model = example.model.eval()
    with step("capturing the exported model"):
        program = capture(model, (example.tokens,))
    with step("verifying, planning and emitting"):
        verify(program)
        planned = plan_memory(program)
        artifact = emit(planned.program, "python")
    with step("loading what was emitted"):
        run = artifact.load()
    found = {**results, OURS: run(example.tokens)[0]}
    report.differences["exported: output"] = {
        name: max_difference(found[one], found[other]) for name, (one, other) in PAIRS.items()
    }
    _add_programs(report, {"exported": program})
    with step("writing"):
        save_program(planned.program, str(plan.out / "program.wir"))
        write_module(artifact, "python", str(plan.out / "wrapper.py"), constants=True)
    report.files = [str(plan.out / name) for name in ("program.wir", "wrapper.py")]


def _step(example: Example, model: nn.Module, call: Callable[[Tensor], Tensor]) -> Outcome:
    return train_step(model, call, example.tokens, example.targets)


def _compiled(model: nn.Module, backend: str) -> Callable[[Tensor], Tensor]:
    compiled: Callable[[Tensor], Tensor] = torch.compile(model, backend=backend)
    return compiled


def _add_programs(report: Report, programs: Mapping[str, Program]) -> None:
    for name, program in programs.items():
        planned = plan_memory(program)
        report.programs[name] = reports.count(planned.program, planned.report)
