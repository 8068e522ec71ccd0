"""Commands about exports: ``inspect`` shows a package, ``check`` compares a folder of source."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from wrapper_ir.cli.command import examples, json_option, traceback_option
from wrapper_ir.cli.completion import FILES
from wrapper_ir.cli.terminal import human

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wrapper_ir.aot.package.archive import Model

#: The number of constants shown without --constants.
_MOST_SHOWN = 10


@click.command(epilog=examples("""
wrapper-ir inspect model.pt2
wrapper-ir inspect model.pt2 --verify
wrapper-ir inspect model.pt2 --constants
wrapper-ir inspect model.pt2 --json | jq '.models.model[0].needs'
"""))
@click.argument("file", metavar="FILE.pt2", shell_complete=FILES)
@click.option("--verify", is_flag=True, help="Read every part and compare it with its hash.")
@click.option("--constants", "every", is_flag=True, help="List every constant.")
@json_option
@traceback_option
def inspect(file: str, verify: bool, every: bool, as_json: bool) -> None:
    """Show the models of a package: inputs, results, requirements and weights.

    Nothing is loaded or unpacked, and torch is not imported. Hashes reveal damage, not the origin
    of a package: a library runs as code, so only load what you trust. With --verify the exit code
    is 1 if a part was damaged.
    """
    from wrapper_ir.aot.package.archive import models_of, opened

    archive = opened(file)
    models = models_of(archive)
    damages = [
        damage
        for variants in models.values()
        for model in variants
        for damage in (model.damages() if verify else ())
    ]
    if as_json:
        shown: dict[str, Any] = {
            "models": {name: [dict(m.about) for m in each] for name, each in models.items()}
        }
        if verify:
            shown["damages"] = damages
        click.echo(json.dumps(shown, indent=2))
    else:
        for name, variants in models.items():
            for number, model in enumerate(variants):
                click.echo(f"{name}, variant {number}" if number else name)
                _show(model, every=every)
        if verify:
            click.echo("\n".join(damages) or "every part is intact")
    sys.exit(1 if damages else 0)


def _show(model: Model, *, every: bool) -> None:
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
    lower, upper = (
        ("-inf", "inf")[at] if row[key] is None else row[key]
        for at, key in enumerate(("lower", "upper"))
    )
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


@click.command(epilog=examples("""
wrapper-ir export program.wir -o model/ --target python && wrapper-ir check model/
wrapper-ir check model/ --json | jq '.[] | .file, .line'
"""))
@click.argument("folder", metavar="FOLDER/", type=click.Path(file_okay=False))
@json_option
@traceback_option
def check(folder: str, as_json: bool) -> None:
    """Check whether the source in an exported folder still matches the program in it.

    The program is rendered again, and both texts are compared line by line; lines that are empty or
    comments do not count. Each edit is shown with its place and with the kernel or the line of
    the program there. Nothing is compiled or run. The exit code is 1 if something was edited.
    """
    from wrapper_ir.aot.source.checking import check_folder

    edits = check_folder(folder)
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(edit) for edit in edits], indent=2))
    else:
        click.echo("\n".join(map(str, edits)) or f"{folder} still matches its program")
    sys.exit(1 if edits else 0)
