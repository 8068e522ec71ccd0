"""``wrapper-ir explain-call``: where the time of a model's call goes."""

from __future__ import annotations

import click

from wrapper_ir.cli import command as cli
from wrapper_ir.cli.files import check_target
from wrapper_ir.cli.terminal import step


@cli.command("""
wrapper-ir explain-call examples/decoder.py:make
wrapper-ir explain-call model.py:make --target cpp --json
wrapper-ir explain-call model.py:make --training
""")
@click.argument("reference", metavar="MODULE:CALLABLE", shell_complete=cli.FILES)
@cli.args_option("Arguments of the model.")
@cli.target_options()
@click.option("--training", is_flag=True, help="Record gradients, as in training.")
@click.option("--seconds", default=0.2, show_default=True, help="How long to measure each part.")
@cli.json_option
def explain_call(  # noqa: PLR0913 - one parameter per option
    reference: str,
    args_reference: str | None,
    target: str,
    options: tuple[str, ...],
    training: bool,
    seconds: float,
    as_json: bool,
) -> None:
    """Compile a model with torch.compile, and measure where the time of a call goes.

    MODULE:CALLABLE names a model as for `wrapper-ir capture`. The table shows Dynamo with each
    guard, torch's wrappers and why they are needed, the programs and their library ops, in
    microseconds, and what would make the call cheaper.
    """
    import torch

    from wrapper_ir.cli.reference import find_model
    from wrapper_ir.frontends.inductor.explain import explain_call as explain

    chosen = check_target(target, options)
    with step("importing the model"):
        found = find_model(reference, args_reference)
    if not isinstance(found.model, torch.nn.Module):
        raise click.UsageError("an ExportedProgram is not called through torch.compile")
    given = {"emitter": target, "build": "wait", **chosen}
    compiled = torch.compile(found.model, backend="wrapper_ir", options=given)
    with step("compiling and calling"), torch.set_grad_enabled(training):
        report = explain(compiled, *found.args, seconds=seconds, **(found.kwargs or {}))
    click.echo(report.to_json() if as_json else str(report))
