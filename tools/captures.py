"""Programs of our models as a release of torch makes them, and a report on two releases.

``python -m tools.captures make FOLDER`` compiles the models of the tests with the torch at hand,
and saves their programs. ``python -m tools.captures report FOLDER`` compares such folders, which
are named after releases and lie in that one, with that of the torch at hand, and puts the tables
into ``docs/compare.md``. ``make compare TORCH=2.14.1`` does all of it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

import torch
from click.testing import CliRunner

import wrapper_ir as wir
from wrapper_ir.cli.app import main as wrapper_ir
from wrapper_ir.options.process import SNAPSHOTS, pinned

PAGE = Path(__file__).resolve().parents[1] / "docs" / "compare.md"

_PART = re.compile(r"(<!-- made by tools/captures.py -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def save_all(folder: Path) -> None:
    """Compile each model, for one machine whichever this is, and save its programs.

    Those that are trained in the tests are trained here, too: their forward and backward.
    """
    from tests.models.harness import OURS, run
    from tests.models.zoo import CASES

    shutil.rmtree(folder, ignore_errors=True)
    pinned.set(SNAPSHOTS)
    for case in CASES:
        torch._dynamo.reset()
        model, args = case.make()
        with wir.record() as programs, torch.no_grad():
            torch.compile(model.eval(), backend=OURS)(*args)
        trained = run(case, OURS, training=True, calls=1).programs if case.training else []
        names = save(case.name, [*programs, *trained], folder)
        print(f"{case.name}: {', '.join(names)}", flush=True)


def save(model: str, programs: list[wir.Program], folder: Path) -> list[str]:
    """Save the programs of a model by what they are for, and return the names of their files."""
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for role in wir.GraphRole:
        of_role = [program for program in programs if program.role is role]
        name = model if role is wir.GraphRole.INFERENCE else f"{model}-{role.value}"
        for number, program in enumerate(of_role):
            names.append(name if len(of_role) == 1 else f"{name}-{number}")
            program.save(folder / f"{names[-1]}.wir")
    return names


def report(folder: Path) -> str:
    """Return what changed from each release to that at hand."""
    new = folder / torch.__version__.partition("+")[0]
    others = sorted(each for each in folder.iterdir() if each != new)
    return "\n".join(["", *(_section(old, new) for old in others), ""])


def _section(old: Path, new: Path) -> str:
    structures = _compared(old, new, "--structure").splitlines()[0].strip("*")
    title = f"### From torch {old.name} to {new.name}"
    return f"{title}\n\n{_compared(old, new)}\nStructures alone: {structures}.\n"


def _compared(*words: str | Path) -> str:
    done = CliRunner().invoke(wrapper_ir, ["compare", *map(str, words), "--format", "markdown"])
    if done.exit_code > 1:
        sys.exit(done.stderr)
    return done.stdout


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("make").add_argument("folder", type=Path)
    commands.add_parser("report").add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.command == "make":
        save_all(given.folder)
        return
    made = report(given.folder)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_PART.sub(lambda m: m[1] + made + m[3], page), encoding="utf-8")
    print(made)


if __name__ == "__main__":
    main()
