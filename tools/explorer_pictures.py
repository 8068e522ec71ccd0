"""Make the documents' pictures of the explorer: ``make pictures``, into docs/pictures.

A small transformer's training step is compiled and shown in a headless Chromium.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

import wrapper_ir as wir

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "docs" / "pictures"

#: The most bytes of a picture.
_MOST: Final = 200_000


def _programs() -> tuple[wir.Program, wir.Program]:
    """Return the forward of a small transformer's training step, and its inference program."""
    sys.path.insert(0, str(ROOT / "examples"))
    from decoder import make

    torch.manual_seed(0)
    model, (tokens,) = make(layers=2)
    with wir.record() as programs:
        torch.compile(model, backend="wrapper_ir")(tokens).sum().backward()
    return programs[0], wir.capture(model.eval(), (tokens,))


def _edited(program: wir.Program) -> wir.Program:
    """Return a program with a kernel and a call of an op changed."""
    text = wir.print_program(program, origins=True).replace(", 0.0, true)", ", 0.0, false)", 1)
    return wir.parse(text.replace("static_cast<float>(256.0)", "static_cast<float>(255.0)", 1))


def _from_source(page: Any) -> None:
    page.fill("#search", "attended = F.scaled_dot")
    page.locator("#hits li:has(.pane)").first.click()


def _peak(page: Any) -> None:
    page.get_by_role("button", name="peak").click()
    page.locator("table.held button").first.click()


def _recorded(program: wir.Program) -> Any:
    from decoder import make

    _, (tokens,) = make(layers=2)
    return wir.explore(program, found=[wir.debugging.record_run(program, [tokens])])


def _slowest(page: Any) -> None:
    page.locator("table[aria-label=Times] button").first.click()


_TRAINING: Final = """
import torch
from decoder import make
torch.manual_seed(0)
model, (tokens,) = make(layers=2)
torch.compile(model)(tokens).sum().backward()
"""


def _traced() -> Any:
    """Return the page of the same training step, compiled by stock torch in its own process."""
    with tempfile.TemporaryDirectory() as folder:
        changes = {"TORCH_TRACE": folder, "INDUCTOR_PROVENANCE": "1"}
        environment = {**os.environ, **changes, "PYTHONPATH": str(ROOT / "examples")}
        subprocess.run([sys.executable, "-c", _TRAINING], env=environment, check=True)
        return wir.explorer.explore_trace(folder)


def _kernel(page: Any) -> None:
    page.locator("#middle .row", has_text=re.compile(r"^\s*\d+\s*cpp_fused")).first.click()


def _changes(page: Any) -> None:
    page.locator("#below tr.changed button.link").first.click()


def main() -> None:
    """Make all pictures."""
    from playwright.sync_api import sync_playwright

    forward, whole = _programs()
    traced = _traced()
    edited = _edited(whole)
    pictures: dict[str, tuple[Any, Callable[[Any], None], str]] = {
        "explorer-source.png": (wir.explore(forward), _from_source, "light"),
        "explorer-peak.png": (wir.explore(whole), _peak, "light"),
        "explorer-run.png": (_recorded(whole), _slowest, "light"),
        "explorer-trace.png": (traced, _kernel, "light"),
        "explorer-changes.png": (wir.explore(whole, edited), _changes, "dark"),
    }
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as engine:
        chromium = engine.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for name, (made, act, scheme) in pictures.items():
            size = {"width": 1060, "height": 580}
            page = chromium.new_page(viewport=size, color_scheme=scheme)
            page.goto(made.save(Path(folder) / "page.html").as_uri())
            page.wait_for_selector("#right .row")
            act(page)
            page.wait_for_timeout(500)
            page.screenshot(path=FOLDER / name)
            print(f"{name}: {(FOLDER / name).stat().st_size:,} bytes")
            assert (FOLDER / name).stat().st_size < _MOST
        chromium.close()


if __name__ == "__main__":
    main()
