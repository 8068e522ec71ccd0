"""Turning a model into a wrapper program: ``capture``, and ``demo`` with a model of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wrapper_ir.cli.command import (
    TRACEBACK,
    examples,
    flag,
    force_option,
    frontend_option,
    json_option,
    target_options,
    traceback_option,
)
from wrapper_ir.cli.completion import FILES
from wrapper_ir.cli.files import (
    MODULE,
    check_output,
    check_target,
    render,
    save_program,
    write_module,
)
from wrapper_ir.cli.terminal import out as console
from wrapper_ir.cli.terminal import step
from wrapper_ir.options.declared import ISA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.cli.reference import Capturable
    from wrapper_ir.lines import Program


@click.command(epilog=examples("""
wrapper-ir capture examples/decoder.py:make -o decoder.wir
wrapper-ir capture mypackage.model:net --args mypackage.model:example_inputs -o net.wir
wrapper-ir capture model.py:make --emit wrapper.py        # straight to Python
wrapper-ir capture model.py:make | wrapper-ir plan -      # through a pipe
wrapper-ir capture model.py:make --frontend aten          # ATen ops as they are, no Inductor
"""))
@click.argument("reference", metavar="MODULE:CALLABLE", shell_complete=FILES)
@click.option("--args", "args_reference", metavar="MODULE:ATTR", help="Arguments of the model.")
@click.option("-o", "--output", metavar="PATH", help="Write the program here (.wir).")
@click.option(
    "--emit",
    "emit_to",
    metavar="PATH",
    help="Also render it to this file, with constants beside it if the text can read them.",
)
@frontend_option("The front end: Inductor, which fuses, or one call for each ATen op.")
@flag(ISA, metavar="NAME")
@click.option(
    "--freeze",
    is_flag=True,
    default=None,
    help="Fold everything that depends only on parameters, and pack weights for oneDNN.",
)
@target_options()
@force_option
@traceback_option
def capture(  # noqa: PLR0913 - one parameter per option
    reference: str,
    args_reference: str | None,
    output: str | None,
    emit_to: str | None,
    frontend: str,
    isa: str,
    freeze: bool | None,
    target: str,
    options: tuple[str, ...],
) -> None:
    """Export a model, let Inductor schedule it, and keep the wrapper as a program.

    With --frontend aten nothing is scheduled or fused: each ATen op of the export is a call.

    MODULE:CALLABLE names an nn.Module, an ExportedProgram, or a function without parameters that
    returns (module, args), optionally followed by kwargs and dynamic_shapes. MODULE is imported as
    Python would import it in the current directory, or is the path of a .py file. --args names a
    tuple of arguments or a function that returns it. Constants go to a .safetensors file beside the
    program (-o) and the module (--emit); without -o and --emit the program is printed.
    """
    from wrapper_ir.cli.reference import find_model

    if options and emit_to is None:
        raise click.UsageError("-O needs --emit PATH")
    chosen = check_target(target, options) if emit_to is not None else {}
    with step("importing the model"):
        model = find_model(reference, args_reference)
    check_output(output)
    check_output(emit_to, MODULE)
    with step("capturing"):
        program = _from_fx(model) if frontend == "aten" else _capture(model, isa, freeze=freeze)
    if emit_to is not None:
        from wrapper_ir.emitters import TakesConstants

        with step(f"emitting {target}"):
            artifact = render(program, target, chosen)
        beside = emit_to != "-" and isinstance(artifact, TakesConstants)
        write_module(artifact, target, emit_to, constants=beside)
    if output is not None or emit_to is None:
        save_program(program, output or "-")


def _capture(model: Capturable, isa: str, *, freeze: bool | None) -> Program:
    from wrapper_ir.frontends.inductor import capture as capture_model

    with _quiet():
        return capture_model(
            model.model,
            model.args,
            model.kwargs,
            dynamic_shapes=model.dynamic_shapes,
            isa=isa,
            freeze=freeze,
        )


def _from_fx(model: Capturable) -> Program:
    from torch import nn

    from wrapper_ir.frontends.aten import capture as capture_model

    if not isinstance(model.model, nn.Module):
        raise click.UsageError("--frontend aten takes an nn.Module")
    with _quiet():
        return capture_model(
            model.model, model.args, model.kwargs, dynamic_shapes=model.dynamic_shapes
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    # If the model fails, torch logs its own traceback in addition to raising the error we show.
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    was_disabled = logger.disabled
    logger.disabled = TRACEBACK not in click.get_current_context().meta
    try:
        yield
    finally:
        logger.disabled = was_disabled


# ``wrapper-ir demo``: a small transformer, taken through every step.


@click.command(epilog=examples("""
wrapper-ir demo
wrapper-ir demo -o /tmp/demo --layers 8 --threads 4
wrapper-ir demo --layers 1 --quick --json
"""))
@click.option(
    "-o",
    "--output",
    "out",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Where to write program.wir and wrapper.py. Default: here.",
)
@click.option("--layers", type=click.IntRange(1, 64), default=4, show_default=True, help="Depth.")
@click.option(
    "--threads",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="CPU threads; a single thread shows the cost of wrappers best.",
)
@click.option("--quick", is_flag=True, help="Time a few calls only.")
@json_option
@force_option
@traceback_option
def demo(out: Path, layers: int, threads: int, quick: bool, as_json: bool) -> None:
    """Compile, train and run a small transformer, and compare with eager and stock Inductor.

    A decoder with random weights (examples/decoder.py) is trained for one step and run in eager
    mode, by torch.compile with stock Inductor and by torch.compile with backend="wrapper_ir", from
    equal weights. Then it is exported, captured as one program, verified, planned and emitted. The
    first run takes a minute or two: kernels are compiled for both backends.
    """
    from wrapper_ir.cli.demo import Plan, tell
    from wrapper_ir.cli.demo_report import farewell, show

    out.mkdir(parents=True, exist_ok=True)
    report = tell(Plan(out, layers=layers, rounds=5 if quick else 30, threads=threads))
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(report), indent=2))
        return
    show(report, console())
    farewell(report, console())
