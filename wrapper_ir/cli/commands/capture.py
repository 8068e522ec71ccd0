"""Turning a model into a wrapper program: ``capture``."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

import click

from wrapper_ir.cli.command import (
    TRACEBACK,
    examples,
    flag,
    force_option,
    frontend_option,
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
