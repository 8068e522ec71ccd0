"""Build what is released, from a clean clone, and try it: sdist, wheel, checksums.

    python -m tools.release --output dist [--python python3.12 ...] [--home-url https://...]

The address of the project is not in ``pyproject.toml``, since the same tag may be released from any
forge: it is written into the clone, and from there into the metadata of both files.

The version is that of the tag. A commit without one makes files that say so, such as
``0.1.0.dev0+g1a2b3c4``, so that nobody takes them for the release.

The sdist is built from a clone of HEAD, and the wheel from the sdist, so each holds what the next
one needs. The wheel is installed in an empty environment of each interpreter, with what it asks for
and nothing else. There ``wrapper-ir doctor``, the quickstarts of the README and the tutorials that
it leads to run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.pages import blocks, tour
from wrapper_ir import __version__

ROOT = Path(__file__).resolve().parents[1]

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: The pages behind the doors of the README, each tried as a reader would.
_DOORS = ("export", "emitter", "snapshots", "debugging")

_WHERE = "import sys, wrapper_ir; print(sys.version_info[:2], wrapper_ir.__file__)"


def run(*words: object, cwd: Path = ROOT, **environment: str) -> str:
    """Run a command, show it, and return what it writes; end with its messages if it fails."""
    shown = " ".join(map(str, words))
    print(f"$ {shown}", flush=True)
    env = {**os.environ, **environment}
    done = subprocess.run(
        [*map(str, words)], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{shown}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def objection(changes: str, tags: Iterable[str], version: str) -> str:
    """Return why a checkout cannot be released, or an empty text."""
    if changes:
        return f"there are changes that are not committed:\n{changes}"
    if wrong := [tag for tag in tags if tag.startswith("v") and tag != f"v{version}"]:
        return f"the tag is {wrong[0]}, and wrapper_ir.__version__ is {version}"
    return ""


def address(text: str) -> str:
    """Return the address of a project, without a slash at its end.

    Raises:
        argparse.ArgumentTypeError: It is none that a browser opens.
    """
    parts = urlsplit(text)
    printable = text.isascii() and text.isprintable() and not set(text) & set(' "<>\\')
    if parts.scheme not in ("http", "https") or not parts.hostname or not printable:
        raise argparse.ArgumentTypeError(f"{text!r} is no address such as https://host/project")
    return text.rstrip("/")


def with_address(project: str, home: str) -> str:
    """Return the text of ``pyproject.toml`` with an address of the project."""
    table = "[project.urls]\n"
    if table in project:
        raise SystemExit("pyproject.toml has [project.urls]: --home-url would not be used")
    before, following, after = project.partition("[project.optional-dependencies]\n")
    assert following
    return f"{before}{table}Homepage = {json.dumps(home)}\n\n{following}{after}"


def released(version: str, tags: Iterable[str], commit: str) -> str:
    """Return the version of what is built: that of the tag, or one before the next release."""
    return version if f"v{version}" in tags else f"{version}.dev0+g{commit}"


def with_version(module: str, old: str, new: str) -> str:
    """Return the text of the package's module with another version."""
    before, line, after = module.partition(f'__version__ = "{old}"\n')
    assert line
    return f'{before}__version__ = "{new}"\n{after}'


def build(room: Path, version: str, home: str | None = None) -> tuple[Path, Path]:
    """Build the sdist from a clone of HEAD and the wheel from the sdist; return both."""
    epoch = {"SOURCE_DATE_EPOCH": run("git", "log", "-1", "--format=%ct")}
    run("git", "clone", "--quiet", ROOT, room / "clone")
    module = room / "clone/wrapper_ir/__init__.py"
    module.write_text(with_version(module.read_text("utf-8"), __version__, version), "utf-8")
    if home:
        file = room / "clone/pyproject.toml"
        file.write_text(with_address(file.read_text("utf-8"), home), "utf-8")
    made = room / "made"
    hatch = (sys.executable, "-m", "hatchling", "build", "-d", made)
    run(*hatch, "-t", "sdist", cwd=room / "clone", **epoch)
    (sdist,) = made.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(room, filter="data")
    run(*hatch, "-t", "wheel", cwd=room / sdist.name.removesuffix(".tar.gz"), **epoch)
    (wheel,) = made.glob("*.whl")
    return sdist, wheel


def try_wheel(wheel: Path, python: str, room: Path) -> None:
    """Install a wheel in an empty environment of an interpreter, and use it as newcomers do."""
    run(python, "-m", "venv", room / "env")
    inside = room / "env/bin/python"
    pip = (inside, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", f"{wheel}[testing]")
    place = room / "work"
    place.mkdir()
    path = {"PATH": f"{inside.parent}:{os.environ['PATH']}", "PYTHONPATH": "", "CI": ""}
    assert str(room) in run(inside, "-c", _WHERE, cwd=place, **path)
    print(run(inside.parent / "wrapper-ir", "doctor", cwd=place, **path))
    _quickstarts(inside, place, path)


def _quickstarts(python: Path, place: Path, path: Mapping[str, str]) -> None:
    readme = ROOT / "README.md"
    for number, block in enumerate(blocks(readme)):
        if block.language == "python" and not block.note:
            (place / f"quickstart_{number}.py").write_text(block.text, encoding="utf-8")
            run(python, f"quickstart_{number}.py", cwd=place, **path)
    for page in (readme, *(ROOT / f"docs/tutorials/{door}.md" for door in _DOORS)):
        print(f"$ what {page.relative_to(ROOT)} says", flush=True)
        (folder := place / page.stem).mkdir()
        tour(page, folder, {**os.environ, **path})


def write_checksums(folder: Path) -> Path:
    """Write ``SHA256SUMS`` for the files of a folder, as ``sha256sum --check`` reads it."""
    files = sorted(file for file in folder.iterdir() if file.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (sums := folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    return sums


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Read the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--python", action="append", help="an interpreter; may be repeated")
    parser.add_argument(
        "--home-url", type=address, help="the project's address, for the metadata; none if left out"
    )
    return parser.parse_args(words)


def main() -> None:
    """Build, try and copy to the output folder, which is emptied first."""
    options = arguments()
    tags = run("git", "tag", "--points-at", "HEAD").split()
    if problem := objection(run("git", "status", "--porcelain"), tags, __version__):
        raise SystemExit(problem)
    with tempfile.TemporaryDirectory(prefix="wrapper_ir_release_") as name:
        room = Path(name)
        commit = run("git", "rev-parse", "--short", "HEAD")
        made = build(room, version := released(__version__, tags, commit), options.home_url)
        for number, python in enumerate(options.python or [sys.executable]):
            (folder := room / str(number)).mkdir()
            try_wheel(made[1], python, folder)
            shutil.rmtree(folder)  # gigabytes
        shutil.rmtree(options.output, ignore_errors=True)
        options.output.mkdir(parents=True)
        for file in made:
            shutil.copy(file, options.output)
    print(write_checksums(options.output).read_text("utf-8"), end="")
    print(options.home_url or "no link in the metadata: HOME_URL=https://... would write one")
    print(version if version == __version__ else f"{version}: HEAD has no tag yet, a rehearsal")


if __name__ == "__main__":
    main()
