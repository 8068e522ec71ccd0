"""Commands about files: ``print``, ``upgrade``, ``verify``, ``diff``, ``inspect``, ``check``."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import click

from wrapper_ir.cli import command as cli
from wrapper_ir.cli.files import STREAM, check_target, read_program, read_text, render, write_text
from wrapper_ir.cli.terminal import human, out, print_highlighted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.aot.package.archive import Model
    from wrapper_ir.diffing import ProgramDiff, SourceDiff
    from wrapper_ir.lines import Program


#: Prefixes of the lines that --brief omits: kernels, the structure of arguments, unread names.
_ASIDE = ("|", "in_spec ", "out_spec ", "unread ")

#: The number of constants shown without --constants.
_MOST_SHOWN = 10


@cli.command(
    """
wrapper-ir print program.wir
wrapper-ir print program.wir --brief
wrapper-ir print program.wir --origins --color | less -R
wrapper-ir print - < program.wir > formatted.wir
""",
    "print",
)
@cli.program_argument
@click.option("--origins", is_flag=True, help="Show where in the model each line comes from.")
@click.option("--brief", is_flag=True, help="Show only the wrapper, without kernel sources.")
@click.option("--structure", is_flag=True, help="Show only kernels, calls and their order.")
@click.option("--color/--no-color", default=None, help="Use colour or not. Default: on a terminal.")
def show(file: str, origins: bool, brief: bool, structure: bool, color: bool | None) -> None:
    """Print a program in its normal form; the text reads back as the same program.

    The exceptions are --brief, which omits the sources of kernels and the structure of arguments,
    and --structure, which is for comparing: it leaves out what a new torch writes otherwise.
    """
    from wrapper_ir.diffing import structure as structure_of
    from wrapper_ir.text import print_program

    program = read_program(file)
    text = print_program(structure_of(program) if structure else program, origins=origins)
    if brief:
        kept = (line for line in text.splitlines(True) if not line.lstrip().startswith(_ASIDE))
        text = "".join(kept)
    if color or (color is None and sys.stdout.isatty()):
        print_highlighted(text)
    else:
        click.echo(text, nl=not text.endswith("\n"))


@cli.command("""
wrapper-ir upgrade tests/*.wir
wrapper-ir upgrade --check tests/*.wir
wrapper-ir upgrade - < old.wir > new.wir
""")
@cli.programs_argument
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a file is old.")
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


@cli.command("""
wrapper-ir verify program.wir
wrapper-ir verify *.wir --json | jq '.[] | select(.ok | not) | .file'
wrapper-ir capture model.py:make | wrapper-ir verify -
""")
@cli.programs_argument
@click.option("-q", "--quiet", is_flag=True, help="Print nothing about programs without faults.")
@click.option("--warnings", is_flag=True, help="Also report warnings, which may be intended.")
@cli.json_option
def verify(files: tuple[str, ...], quiet: bool, warnings: bool, as_json: bool) -> None:
    """Check programs, and show all faults of each, every one under its line.

    The exit code is 1 if a program breaks a rule and 2 if a file is not a program; warnings leave
    it at 0.
    """
    reports = [_verified(file, warnings=warnings) for file in files]
    if as_json:
        cli.echo_json([report for report, _ in reports])
    else:
        for report, words in reports:
            _say(report, words, quiet=quiet)
    sys.exit(max(2 if "error" in report else int(not report["ok"]) for report, _ in reports))


def _verified(file: str, *, warnings: bool) -> tuple[dict[str, Any], str]:
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
    data = [each.as_data() for each in diagnostics]
    report = {"file": file, "ok": is_ok, "diagnostics": data}
    if not is_ok:
        return report, str(VerificationError(program, diagnostics))
    report |= {"program": program.name, "stage": program.stage.value}
    report |= {"lines": sum(1 for _ in walk(program)), "buffers": len(program.buffers)}
    return report, "\n".join(annotated(program, diagnostics)) if diagnostics else ""


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


@cli.command("""
wrapper-ir diff before.wir after.wir
wrapper-ir diff before.wir after.wir --target python | less
wrapper-ir diff torch-2.14.wir torch-2.15.wir --structure
wrapper-ir print new.wir | wrapper-ir diff old.wir - --format json | jq .lines
wrapper-ir diff golden.wir now.wir > /dev/null || echo they differ
""")
@click.argument("before", metavar="A.wir", shell_complete=cli.FILES)
@click.argument("after", metavar="B.wir", shell_complete=cli.FILES)
@cli.valued(
    *("--target", "NAME", "ir, or an emitter whose output to compare."),
    default="ir",
    show_default=True,
    shell_complete=cli.words(lambda: ("ir", *cli.targets())),
)
@cli.emitter_options
@click.option("--structure", is_flag=True, help="Compare only kernels, calls and their order.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["rich", "text", "json"]),
    help="Output format. Default: rich on a terminal, else text.",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
def diff(
    before: str,
    after: str,
    target: str,
    options: tuple[str, ...],
    structure: bool,
    form: str | None,
) -> None:
    """Compare two programs by meaning: names and origins do not count.

    Lines are matched by what they do. Lines in a different place are shown as moved; of changed
    lines, the changed parts are shown. The exit code is 0 if the programs are the same, 1 if they
    differ, 2 if something is wrong with a file.
    """
    from wrapper_ir.diffing import diff as diff_programs
    from wrapper_ir.diffing import structure as structure_of

    if before == after == STREAM:
        raise click.UsageError("standard input holds one program, not two")
    if target == "ir" and options:
        raise click.UsageError("-O needs --target")
    if target != "ir" and structure:
        raise click.UsageError("--structure compares programs, not their texts for a target")
    chosen = {} if target == "ir" else check_target(target, options)
    a, b = read_program(before), read_program(after)
    if structure:
        a, b = structure_of(a), structure_of(b)
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
    text = result.to_json() if form == "json" else result.to_text()
    click.echo(text, nl=not text.endswith("\n"))


# ``wrapper-ir inspect``: the models of a package.


@cli.command("""
wrapper-ir inspect model.pt2
wrapper-ir inspect model.pt2 --verify
wrapper-ir inspect model.pt2 --constants
wrapper-ir inspect model.pt2 --json | jq '.models.model[0].needs'
""")
@click.argument("file", metavar="FILE.pt2", shell_complete=cli.FILES)
@click.option("--verify", is_flag=True, help="Read every part and compare it with its hash.")
@click.option("--constants", "every", is_flag=True, help="List every constant.")
@cli.json_option
def inspect(file: str, verify: bool, every: bool, as_json: bool) -> None:
    """Show the models of a package: inputs, results, requirements and weights.

    Nothing is loaded or unpacked, and torch is not imported. Hashes reveal damage, not the origin
    of a package: a library runs as code, so only load what you trust. With --verify the exit code
    is 1 if a part was damaged.
    """
    from wrapper_ir.aot.package.archive import models_of, opened

    archive = opened(file)
    models = models_of(archive)
    checked = [model for variants in models.values() for model in variants if verify]
    damages = [damage for model in checked for damage in model.damages()]
    if as_json:
        about = {name: [dict(model.about) for model in each] for name, each in models.items()}
        cli.echo_json({"models": about} | ({"damages": damages} if verify else {}))
    else:
        for name, variants in models.items():
            for number, model in enumerate(variants):
                click.echo(f"{name}, variant {number}" if number else name)
                _show_model(model, every=every)
        if verify:
            click.echo("\n".join(damages) or "every part is intact")
    sys.exit(1 if damages else 0)


def _show_model(model: Model, *, every: bool) -> None:
    """Print the index of a model in aligned rows."""
    about = model.about
    needs, made, checked = about["needs"], about["made by"], about["checked"]
    level = "" if needs["isa"] == "native" else f"{needs['isa']}: "
    rows = [
        ("program", about["program"]),
        ("made by", f"wrapper_ir {made['wrapper_ir']}, PyTorch {made['torch']}"),
        ("needs", f"PyTorch {needs['torch']} or later, {needs['platform']} {needs['machine']}"),
        ("device", needs["device"] + "".join(f" sm_{arch}" for arch in needs["architectures"])),
        ("built for", level + (" ".join(needs["features"]) or "any processor")),
        ("checked", f"by the verifier's {checked['verifier']}; in calls: {checked['calls']}"),
        ("probes", " ".join(checked["probes"])),
        ("objects", ", ".join(about["objects"])),
    ]
    rows += [("input", f"{row['name']} : {_tensor(row)}") for row in about["inputs"]]
    rows += [("symbol", f"{name} : {_range(row)}") for name, row in about["symbols"].items()]
    rows += [("result", _tensor(row)) for row in about["results"]]
    library = about["files"][about["library"]]
    rows += [("library", human(library["bytes"])), ("weights", _weights(model))]
    constants = about["constants"]
    shown = constants if every else constants[:_MOST_SHOWN]
    rows += [("constant", f"{r['model_name'] or r['name']} : {_tensor(r)}") for r in shown]
    if len(shown) < len(constants):
        rows.append(("", f"and {len(constants) - len(shown)} more; --constants lists them"))
    for what, text in rows:
        if text:
            click.echo(f"  {what:<10} {text}")


def _tensor(row: Mapping[str, Any]) -> str:
    if "number" in row:
        return str(row["number"])
    if "class" in row:
        return f"object of class {row['class']}"
    size = ", ".join(map(str, row["size"]))
    written = ", written" if row.get("written") else ""
    return f"{row['dtype']}[{size}] on {row['device']}{written}"


def _range(row: Mapping[str, Any]) -> str:
    ends = {"lower": "-inf", "upper": "inf"}
    lower, upper = (end if row[key] is None else row[key] for key, end in ends.items())
    return f"{row['kind']} in {lower} .. {upper}"


def _weights(model: Model) -> str:
    about = model.about["weights"]
    if about is None:
        return "in the library" if model.about["constants"] else "none"
    if model.takes_weights:
        return f"{human(about['bytes'])}, to be passed when it is loaded"
    mapped = "mapped" if model.weights_are_mapped else "unpacked"
    return f"{human(about['bytes'])} in {model.weights}, {mapped} when it is loaded"


# ``wrapper-ir check``: compare a folder of source with its program.


@cli.command("""
wrapper-ir export program.wir -o model/ --target python && wrapper-ir check model/
wrapper-ir check model/ --json | jq '.[] | .file, .line'
""")
@click.argument("folder", metavar="FOLDER/", type=click.Path(file_okay=False))
@cli.json_option
def check(folder: str, as_json: bool) -> None:
    """Check whether the source in an exported folder still matches the program in it.

    The program is rendered again, and both texts are compared line by line; lines that are empty or
    comments do not count. Each edit is shown with its place and with the kernel or the line of
    the program there. Nothing is compiled or run. The exit code is 1 if something was edited.
    """
    from wrapper_ir.aot.source.checking import check_folder

    edits = check_folder(folder)
    if as_json:
        cli.echo_json([dataclasses.asdict(edit) for edit in edits])
    else:
        click.echo("\n".join(map(str, edits)) or f"{folder} still matches its program")
    sys.exit(1 if edits else 0)
