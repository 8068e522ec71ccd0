"""Commands about programs in files: ``print``, ``upgrade``, ``verify`` and ``diff``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from wrapper_ir.cli.command import (
    emitter_options,
    examples,
    json_option,
    program_argument,
    traceback_option,
)
from wrapper_ir.cli.completion import FILES, TARGETS_AND_IR
from wrapper_ir.cli.files import STREAM, check_target, read_program, read_text, render, write_text
from wrapper_ir.cli.terminal import out, print_highlighted

if TYPE_CHECKING:
    from wrapper_ir.diffing import ProgramDiff, SourceDiff
    from wrapper_ir.lines import Program
    from wrapper_ir.verify import Diagnostic


#: Prefixes of the lines that --brief omits: kernels, the structure of arguments, unread names.
_ASIDE = ("|", "in_spec ", "out_spec ", "unread ")


@click.command(
    "print",
    epilog=examples("""
wrapper-ir print program.wir
wrapper-ir print program.wir --brief
wrapper-ir print program.wir --origins --color | less -R
wrapper-ir print - < program.wir > formatted.wir
"""),
)
@program_argument
@click.option("--origins", is_flag=True, help="Show where in the model each line comes from.")
@click.option("--brief", is_flag=True, help="Show only the wrapper, without kernel sources.")
@click.option("--color/--no-color", default=None, help="Use colour or not. Default: on a terminal.")
@traceback_option
def show(file: str, origins: bool, brief: bool, color: bool | None) -> None:
    """Print a program in its normal form; the text reads back as the same program.

    The exception is --brief, which omits the sources of kernels and the structure of arguments.
    """
    from wrapper_ir.text import print_program

    text = print_program(read_program(file), origins=origins)
    if brief:
        kept = (line for line in text.splitlines(True) if not line.lstrip().startswith(_ASIDE))
        text = "".join(kept)
    if color is None:
        color = sys.stdout.isatty()
    if not color:
        click.echo(text, nl=not text.endswith("\n"))
        return

    print_highlighted(text)


@click.command(epilog=examples("""
wrapper-ir upgrade tests/*.wir
wrapper-ir upgrade --check tests/*.wir
wrapper-ir upgrade - < old.wir > new.wir
"""))
@click.argument("files", metavar="FILE.wir...", nargs=-1, required=True, shell_complete=FILES)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file is old.")
@traceback_option
def upgrade(files: tuple[str, ...], check: bool) -> None:
    """Rewrite programs of older versions of the text form in place; - goes to standard output.

    Comments, indentation and empty lines are kept, as are the constants beside a file. Old files
    can be read without this; it is for other tools and for people. If a file is not a program,
    nothing is written.
    """
    from wrapper_ir.text import parse
    from wrapper_ir.text import upgrade as upgrade_text
    from wrapper_ir.text.files import PROGRAM

    upgraded = []
    for file in files:
        text = read_text(file)
        parse(text, source_name="<stdin>" if file == STREAM else file)
        new = upgrade_text(text)
        if new != text or (file == STREAM and not check):
            upgraded.append((file, new))
    if check:
        click.echo("".join(f"{file}\n" for file, _ in upgraded), nl=False)
        sys.exit(bool(upgraded))
    for file, new in upgraded:
        write_text(file, new, PROGRAM, in_place=True)
        if file != STREAM:
            click.echo(f"upgraded {file}", err=True)


# ``wrapper-ir verify``: check programs against every rule.


@click.command(epilog=examples("""
wrapper-ir verify program.wir
wrapper-ir verify *.wir --json | jq '.[] | select(.ok | not) | .file'
wrapper-ir capture model.py:make | wrapper-ir verify -
"""))
@click.argument("files", metavar="FILE.wir...", nargs=-1, required=True, shell_complete=FILES)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing about programs without faults.")
@click.option("--warnings", is_flag=True, help="Also report warnings, which may be intended.")
@json_option
@traceback_option
def verify(files: tuple[str, ...], quiet: bool, warnings: bool, as_json: bool) -> None:
    """Check programs, and show all faults of each, every one under its line.

    The exit code is 1 if a program breaks a rule and 2 if a file is not a program; warnings leave
    it at 0.
    """
    reports = [_check(file, warnings=warnings) for file in files]
    if as_json:
        click.echo(json.dumps([report for report, _ in reports], indent=2))
    else:
        for report, words in reports:
            _say(report, words, quiet=quiet)
    sys.exit(max(2 if "error" in report else int(not report["ok"]) for report, _ in reports))


def _check(file: str, *, warnings: bool) -> tuple[dict[str, Any], str]:
    """Return the report on a file as data and as text; the text is empty if all is well."""
    from wrapper_ir.errors import WrapperIRError
    from wrapper_ir.lines import walk
    from wrapper_ir.verify import VerificationError, diagnose
    from wrapper_ir.verify.diagnostics import annotated

    try:
        program = read_program(file)
    except WrapperIRError as error:
        return {"file": file, "ok": False, "error": str(error), "diagnostics": []}, str(error)
    diagnostics = diagnose(program, warnings=warnings)
    is_ok = all(diagnostic.rule.is_warning for diagnostic in diagnostics)
    report = {"file": file, "ok": is_ok, "diagnostics": _as_data(diagnostics)}
    if not is_ok:
        return report, str(VerificationError(program, diagnostics))
    report |= {
        "program": program.name,
        "stage": program.stage.value,
        "lines": sum(1 for _ in walk(program)),
        "buffers": len(program.buffers),
    }
    return report, "\n".join(annotated(program, diagnostics)) if diagnostics else ""


def _as_data(diagnostics: tuple[Diagnostic, ...]) -> list[dict[str, str]]:
    return [
        {
            "code": each.code,
            "rule": each.rule.name,
            "severity": "warning" if each.rule.is_warning else "error",
            "message": each.message,
            "place": each.place,
            "path": str(each.path),
            "source": each.source,
            "hint": each.hint,
        }
        for each in diagnostics
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


# ``wrapper-ir diff``: the differences between two programs, or between their emitted texts.


@click.command(epilog=examples("""
wrapper-ir diff before.wir after.wir
wrapper-ir diff before.wir after.wir --target python | less
wrapper-ir print new.wir | wrapper-ir diff old.wir - --format json | jq .lines
wrapper-ir diff golden.wir now.wir > /dev/null || echo they differ
"""))
@click.argument("before", metavar="A.wir", shell_complete=FILES)
@click.argument("after", metavar="B.wir", shell_complete=FILES)
@click.option(
    "--target",
    default="ir",
    show_default=True,
    metavar="NAME",
    help="ir, or an emitter whose output to compare.",
    shell_complete=TARGETS_AND_IR,
)
@emitter_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["rich", "text", "json"]),
    help="Output format. Default: rich on a terminal, else text.",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@traceback_option
def diff(before: str, after: str, target: str, options: tuple[str, ...], form: str | None) -> None:
    """Compare two programs by meaning: names and origins do not count.

    Lines are matched by what they do. Lines in a different place are shown as moved; of changed
    lines, the changed parts are shown. The exit code is 0 if the programs are the same, 1 if they
    differ, 2 if something is wrong with a file.
    """
    from wrapper_ir.diffing import diff as diff_programs

    if before == after == STREAM:
        raise click.UsageError("standard input holds one program, not two")
    if target == "ir" and options:
        raise click.UsageError("-O needs --target")
    chosen = {} if target == "ir" else check_target(target, options)
    a, b = read_program(before), read_program(after)
    result = diff_programs(a, b) if target == "ir" else _sources(a, b, target, chosen)
    _show(result, form or ("rich" if sys.stdout.isatty() else "text"))
    sys.exit(1 if result else 0)


def _sources(a: Program, b: Program, target: str, options: dict[str, object]) -> SourceDiff:
    """Compare the emitted texts, after renaming the first program to the second's names."""
    from wrapper_ir.diffing import aligned, diff_sources
    from wrapper_ir.verify import VerificationError

    try:
        texts = [render(program, target, options).source for program in (aligned(a, b), b)]
    except VerificationError as error:
        click.echo(str(error), err=True)
        sys.exit(2)  # this error's own exit code would mean that the programs differ
    return diff_sources(texts[0], texts[1], target)


def _show(result: ProgramDiff | SourceDiff, form: str) -> None:
    if form == "rich":
        from wrapper_ir.diffing.model import to_rich

        console = out(color=True)
        for line in to_rich(result.rows()):
            console.print(line, soft_wrap=True)
        return
    texts = {"text": result.to_text, "json": result.to_json}
    text = texts[form]()
    click.echo(text, nl=not text.endswith("\n"))
