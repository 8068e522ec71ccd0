"""The command line: reads two releases and prints the differences that affect us."""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tools.radar.compare import STEPS, drift
from tools.radar.release import NoTorchError, opened, version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tools.radar.compare import Finding

__all__ = ["main"]

_OURS = Path(__file__).resolve().parents[2] / "wrapper_ir"

_TITLES = {
    "breaks": "Breaks: what we rely on is gone, or takes something else",
    "changed": "Changed: what we rely on differs, in a way that need not break anything",
    "new": "New: what a program may now meet",
}

_EPILOGUE = """\
A release is a folder that holds torch (site-packages, an unpacked wheel), an environment, or a
wheel. Nothing of it is imported or run. Both should be builds of the same kind: what the older one
lacks is not missed in the newer one. The status is 0 where nothing that we rely on is gone or has
changed, 1 where something is, 2 where a release cannot be read.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how the parts of torch we rely on differ between two releases; return the status."""
    options = _options(arguments)
    try:
        with opened(options.old) as old, opened(options.new) as new:
            title = f"torch {version(old)} -> {version(new)}"
            found = _with_progress(old, new, options.ours)
    except (NoTorchError, OSError, SyntaxError, BadZipFile) as error:
        print(f"drift: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([finding.as_json() for finding in found], indent=2))
    else:
        print("\n".join([title, *_report(found)]))
    return int(any(finding.severity != "new" for finding in found))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/drift.py",
        description="What of torch that we rely on differs between two releases, and what is new.",
        epilog=_EPILOGUE,
    )
    parser.add_argument("old", type=Path, metavar="OLD", help="a release that we support")
    parser.add_argument("new", type=Path, metavar="NEW", help="the release to look at")
    parser.add_argument(
        "--ours", type=Path, default=_OURS, metavar="FOLDER", help="the package that relies on them"
    )
    parser.add_argument("--json", action="store_true", help="print the findings as a list in JSON")
    return parser.parse_args(arguments)


def _with_progress(old: Path, new: Path, ours: Path) -> list[Finding]:
    if not sys.stderr.isatty():
        return drift(old, new, ours)
    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tick = partial(progress.update, progress.add_task("", total=STEPS), advance=1)
        return drift(old, new, ours, lambda step: tick(description=step))


def _report(found: Iterable[Finding]) -> Iterator[str]:
    """Yield the report: one line per finding, with the settings of a module combined."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    settings: defaultdict[str, list[str]] = defaultdict(list)
    for finding in sorted(found, key=lambda f: (f.kind, f.name)):
        if finding.kind == "setting":
            module, _, key = finding.name.partition(".config.")
            settings[f"{module}.config"].append(key)
        else:
            groups[finding.severity].append(_line(finding))
    for module, keys in settings.items():
        groups["new"].append(f"settings of {module}: {', '.join(keys)}")
    for severity, title in _TITLES.items():
        yield f"\n{title} ({len(groups[severity])})"
        yield from (f"  {line}" for line in groups[severity] or ["nothing"])


def _line(finding: Finding) -> str:
    places = " -> ".join(filter(None, (finding.old, finding.new)))
    more = f" and {len(finding.ours) - 3} more" if len(finding.ours) > 3 else ""
    ours = f"; ours: {', '.join(finding.ours[:3])}{more}" if finding.ours else ""
    return f"{finding.kind} {finding.name}: {finding.what} [{places}{ours}]"
