"""``wrapper-ir explain-call``: where the time of a model's call goes."""

from __future__ import annotations

import click

from wrapper_ir.cli import command as cli
from wrapper_ir.cli import files as io
from wrapper_ir.cli.files import check_target
from wrapper_ir.cli.terminal import step


@cli.command("""
wrapper-ir explain-call examples/decoder.py:make
wrapper-ir explain-call model.py:make --target cpp --json
wrapper-ir explain-call model.py:make --training
wrapper-ir explain-call model.py:make --trace call.json
""")
@click.argument("reference", metavar="MODULE:CALLABLE", shell_complete=cli.FILES)
@cli.args_option("Arguments of the model.")
@cli.target_options()
@click.option("--training", is_flag=True, help="Record gradients, as in training.")
@click.option("--seconds", default=0.2, show_default=True, help="How long to measure each part.")
@cli.valued("--trace", "PATH", "Write one call as a Chrome trace (JSON), which Perfetto shows.")
@cli.json_option
def explain_call(  # noqa: PLR0913 - one parameter per option
    reference: str,
    args_reference: str | None,
    target: str,
    options: tuple[str, ...],
    training: bool,
    seconds: float,
    trace: str | None,
    as_json: bool,
) -> None:
    """Compile a model with torch.compile, and measure where the time of a call goes.

    MODULE:CALLABLE names a model as for `wrapper-ir capture`. The table shows Dynamo with each
    guard, torch's wrappers and why they are needed, the programs with their checks, lines and
    library ops, in microseconds, and what would make the call cheaper. A trace has lines and
    allocations, too, with `-O profile=true`.
    """
    import torch

    from wrapper_ir.cli.reference import find_model
    from wrapper_ir.explorer.events import TRACE
    from wrapper_ir.frontends.inductor.explain import explain_call as explain

    if as_json and trace == io.STREAM:
        raise click.UsageError("standard output takes one of them")
    io.check_output(trace, TRACE)
    chosen = check_target(target, options)
    with step("importing the model"):
        found = find_model(reference, args_reference)
    if not isinstance(found.model, torch.nn.Module):
        raise click.UsageError("an ExportedProgram is not called through torch.compile")
    given = {"emitter": target, "build": "wait", **chosen}
    compiled = torch.compile(found.model, backend="wrapper_ir", options=given)
    with step("compiling and calling"), torch.set_grad_enabled(training):
        report = explain(compiled, *found.args, seconds=seconds, **(found.kwargs or {}))
    if trace is not None:
        io.write_text(trace, f"{report.to_trace()}\n", TRACE)
    if trace != io.STREAM:
        click.echo(report.to_json() if as_json else str(report))
