"""``wrapper-ir verify``: check programs against every rule."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from wrapper_ir.cli.command import examples, json_option, traceback_option

if TYPE_CHECKING:
    from wrapper_ir.lines import Program
    from wrapper_ir.verify import VerificationError


@click.command(epilog=examples("""
wrapper-ir verify program.wir
wrapper-ir verify *.wir --json | jq '.[] | select(.ok | not) | .file'
wrapper-ir capture model.py:make | wrapper-ir verify -
"""))
@click.argument("files", metavar="FILE.wir...", nargs=-1, required=True)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing about programs without faults.")
@json_option
@traceback_option
def verify(files: tuple[str, ...], quiet: bool, as_json: bool) -> None:
    """Check programs: all faults of each at once, every one under the line that has it.

    The exit code is 1 when a program breaks a rule, 2 when a file holds no program.
    """
    reports = [_check(file) for file in files]
    if as_json:
        click.echo(json.dumps([report for report, _ in reports], indent=2))
    else:
        for report, fault in reports:
            _say(report, fault, quiet=quiet)
    sys.exit(max(_code(report) for report, _ in reports))


def _check(file: str) -> tuple[dict[str, Any], Exception | None]:
    """Return what is to be said of a file, as data, and the error that says it in words."""
    from wrapper_ir.cli.files import read_program
    from wrapper_ir.errors import WrapperIRError
    from wrapper_ir.verify import VerificationError
    from wrapper_ir.verify import verify as verify_program

    try:
        program = read_program(file)
    except WrapperIRError as error:
        return {"file": file, "ok": False, "error": str(error), "diagnostics": []}, error
    try:
        verify_program(program)
    except VerificationError as error:
        return {"file": file, "ok": False, "diagnostics": _as_data(error)}, error
    return {"file": file, "ok": True, "diagnostics": [], **_counts(program)}, None


def _counts(program: Program) -> dict[str, Any]:
    from wrapper_ir.lines import walk

    return {
        "program": program.name,
        "stage": program.stage.value,
        "lines": sum(1 for _ in walk(program)),
        "buffers": len(program.buffers),
    }


def _as_data(error: VerificationError) -> list[dict[str, str]]:
    return [
        {
            "code": found.code,
            "rule": found.rule.name,
            "message": found.message,
            "place": found.place,
            "path": str(found.path),
            "source": found.source,
            "hint": found.hint,
        }
        for found in error.diagnostics
    ]


def _say(report: dict[str, Any], fault: Exception | None, *, quiet: bool) -> None:
    if fault is not None:
        name = "<stdin>" if report["file"] == "-" else report["file"]
        click.secho(f"{name}: ", bold=True, nl=False, err=True)
        click.echo(str(fault), err=True)
    elif not quiet:
        click.secho("ok", fg="green", nl=False)
        about = f"{report['stage']}, {report['lines']} lines, {report['buffers']} buffers"
        click.echo(f"  {report['file']}: {report['program']}, {about}")


def _code(report: dict[str, Any]) -> int:
    if "error" in report:
        return 2
    return 0 if report["ok"] else 1
