"""``wrapper-ir verify``: check programs against every rule."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from wrapper_ir.cli.command import examples, json_option, traceback_option
from wrapper_ir.cli.completion import PROGRAMS

if TYPE_CHECKING:
    from wrapper_ir.lines import Program
    from wrapper_ir.verify import Diagnostic


@click.command(epilog=examples("""
wrapper-ir verify program.wir
wrapper-ir verify *.wir --json | jq '.[] | select(.ok | not) | .file'
wrapper-ir capture model.py:make | wrapper-ir verify -
"""))
@click.argument("files", metavar="FILE.wir...", nargs=-1, required=True, shell_complete=PROGRAMS)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing about programs without faults.")
@click.option("--warnings", is_flag=True, help="Also report warnings, about what may be intended.")
@json_option
@traceback_option
def verify(files: tuple[str, ...], quiet: bool, warnings: bool, as_json: bool) -> None:
    """Check programs: all faults of each at once, every one under the line that has it.

    The exit code is 1 when a program breaks a rule, 2 when a file holds no program; warnings leave
    it at 0.
    """
    reports = [_check(file, warnings=warnings) for file in files]
    if as_json:
        click.echo(json.dumps([report for report, _ in reports], indent=2))
    else:
        for report, words in reports:
            _say(report, words, quiet=quiet)
    sys.exit(max(_code(report) for report, _ in reports))


def _check(file: str, *, warnings: bool) -> tuple[dict[str, Any], str]:
    """Return what is to be said of a file, as data and in words; no words where all is well."""
    from wrapper_ir.cli.files import read_program
    from wrapper_ir.errors import WrapperIRError
    from wrapper_ir.verify import VerificationError, diagnose
    from wrapper_ir.verify.diagnostics import annotated

    try:
        program = read_program(file)
    except WrapperIRError as error:
        return {"file": file, "ok": False, "error": str(error), "diagnostics": []}, str(error)
    found = diagnose(program, warnings=warnings)
    if any(not diagnostic.rule.is_warning for diagnostic in found):
        report = {"file": file, "ok": False, "diagnostics": _as_data(found)}
        return report, str(VerificationError(program, found))
    report = {"file": file, "ok": True, "diagnostics": _as_data(found), **_counts(program)}
    return report, "\n".join(annotated(program, found)) if found else ""


def _counts(program: Program) -> dict[str, Any]:
    from wrapper_ir.lines import walk

    return {
        "program": program.name,
        "stage": program.stage.value,
        "lines": sum(1 for _ in walk(program)),
        "buffers": len(program.buffers),
    }


def _as_data(diagnostics: tuple[Diagnostic, ...]) -> list[dict[str, str]]:
    return [
        {
            "code": found.code,
            "rule": found.rule.name,
            "severity": "warning" if found.rule.is_warning else "error",
            "message": found.message,
            "place": found.place,
            "path": str(found.path),
            "source": found.source,
            "hint": found.hint,
        }
        for found in diagnostics
    ]


def _say(report: dict[str, Any], words: str, *, quiet: bool) -> None:
    if words:
        name = "<stdin>" if report["file"] == "-" else report["file"]
        click.secho(f"{name}: ", bold=True, nl=False, err=True)
        click.echo(words, err=True)
    if report["ok"] and not quiet:
        click.secho("ok", fg="green", nl=False)
        about = f"{report['stage']}, {report['lines']} lines, {report['buffers']} buffers"
        click.echo(f"  {report['file']}: {report['program']}, {about}")


def _code(report: dict[str, Any]) -> int:
    if "error" in report:
        return 2
    return 0 if report["ok"] else 1
