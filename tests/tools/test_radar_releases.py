"""The radar over torch itself: with seeded changes, and over two releases."""

from __future__ import annotations

import os
import random
import re
import shutil
from pathlib import Path

import pytest
import torch

from tests.release import TORCH
from tests.sweep.coverage import report
from tools.radar import drift
from tools.radar.facts import Release
from tools.radar.modules import Definition
from tools.radar.ours import python_uses
from tools.radar.sources import Sources

pytestmark = pytest.mark.releases

ROOT = Path(__file__).resolve().parents[2]
OURS = ROOT / "wrapper_ir"
INSTALLED = Path(torch.__file__).parent

#: Where an environment with torch 2.13 is: ``make setup TORCH=2.13.0`` makes it.
OLDER = Path(os.environ.get("WRAPPER_IR_TORCH_2_13", ROOT / ".venv-2.13.0"))


def _copy(folder):
    """Return a torch like the installed one, of which Inductor may be changed."""
    made = folder / "torch"
    made.mkdir()
    for entry in INSTALLED.iterdir():
        if entry.name not in ("_inductor", "__pycache__"):
            (made / entry.name).symlink_to(entry)
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(INSTALLED / "_inductor", made / "_inductor", ignore=ignored)
    return made


def _relied_on():
    """Return the definitions of Inductor's that we rely on, by file and line."""
    sources = Sources.read(OURS)
    release = Release(INSTALLED, sources.headers)
    classes = {name: found.name for name, found in release.classes.items()}
    uses, _ = python_uses(sources.package, release.package, classes, lambda _: None)
    chains = {
        tuple(use.name.split(".")) for use in uses if use.kind in ("name", "member", "override")
    }
    found = {chain: release.lookup.find(chain) for chain in chains}
    ways = {chain[:end] for chain in chains for end in range(1, len(chain))}
    return {
        definition.place: definition.name
        for chain, definition in sorted(found.items())
        if isinstance(definition, Definition)
        and definition.kind in ("class", "function", "value")
        and definition.name[:2] == ("torch", "_inductor")
        and definition.name[-1] == chain[-1]
        # Python's own names: a class that loses one has its base's.
        and not definition.name[-1].startswith("__")
        # What is in something that is gone is not named besides.
        and not ways.intersection((chain, definition.name))
    }


def _rename(package, place, name):
    """Rename a definition wherever its file names it; a class in all files: it may be a base."""
    path, _, line = place.rpartition(":")
    file = package.parent / path
    is_class = file.read_text().splitlines()[int(line) - 1].startswith("class ")
    for each in sorted((package / "_inductor").rglob("*.py")) if is_class else [file]:
        each.write_text(re.sub(rf"\b{name}\b", f"{name}_renamed", each.read_text()))


def test_seeded_renames_in_torch_are_found_and_no_others(tmp_path):
    draw = random.Random(0)
    relied_on = _relied_on()
    drawn = dict(draw.sample(sorted(relied_on.items()), 20))
    renamed = {place: name[-1] for place, name in drawn.items()}
    changed = _copy(tmp_path)
    for place, name in renamed.items():
        _rename(changed, place, name)

    found = drift(INSTALLED, changed, OURS)

    assert len(relied_on) > 60
    assert {f.old for f in found} >= set(renamed)
    names = {*renamed.values(), *(f"{name}_renamed" for name in renamed.values())}
    strange = [f for f in found if not names & set(re.findall(r"\w+", f"{f.name} {f.what}"))]
    assert strange == []


@pytest.mark.skipif(not OLDER.exists(), reason="there is no environment with torch 2.13")
@pytest.mark.skipif(TORCH != (2, 15), reason="what is new is that of torch 2.15")
def test_from_2_13_to_2_15():
    found = drift(OLDER, INSTALLED, OURS)

    named = {(f.severity, f.kind, f.name.rpartition(".")[2].partition(" ")[0]) for f in found}
    assert named >= {
        ("new", "line class", "SwitchLine"),
        ("new", "line class", "GroupedAssertSizeStrideLine"),
        ("new", "line class", "AssertAlignmentLine"),
        ("new", "line class", "EnterKernelProfileScopeLine"),
        ("new", "line class", "ExitKernelProfileScopeLine"),
        ("new", "line class", "EnterCudaMemPoolContextLine"),
        ("new", "line class", "ExitCudaMemPoolContextLine"),
        ("new", "higher-order op", "switch"),
        ("new", "loader symbol", "AOTInductorModelContainerDidCallLoadConstants"),
        ("new", "loader symbol", "AOTInductorModelContainerCreateWithExternalConstants"),
        ("breaks", "override", "codegen_conditional"),
        ("changed", "class", "AssertSizeStrideLine"),
        ("changed", "class", "KernelCallLine"),
        ("changed", "class", "SymbolicCallArgLine"),
    }
    said = "\n".join(f"{f.kind} {f.name}: {f.what}" for f in found)
    assert (
        "override torch._inductor.codegen.wrapper.PythonWrapperCodegen.codegen_conditional" in said
    )
    assert "hook _inductor_backend_init in torch._inductor.codegen.common" in said
    assert "SwitchLine: has no form yet, perhaps for ConditionalLine" in said or (
        "SwitchLine: is there, perhaps for ConditionalLine" in said
    )
    assert "EnterDeviceContextManagerWithStreamInfoLine.codegen" in said


def test_every_function_that_writes_text_into_wrappers_is_in_the_documents():
    page = (ROOT / "docs/wrapper-text.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w.]+)`", page))
    for folder in (INSTALLED, *(ROOT.glob(".venv-*/lib/python3.*/site-packages/torch"))):
        missing = {
            function
            for function in Release(folder, ()).writing
            if not any(function.endswith(f".{name}") for name in named)
        }
        assert missing == set(), folder


def test_the_sweep_says_what_of_the_page_was_reached():
    """Places that were seen while Inductor compiled are found among those that its sources have."""
    place = "_inductor.codegen.wrapper.PythonWrapperCodegen.codegen_while_loop"
    row = {
        "places": [place],
        "lines": {"KernelCallLine": 2},
        "kernels": {"template": 1},
        "ours": {},
    }
    told = "\n".join(report([row], "cuda"))
    assert re.search(r"Written by the wrapper for a node: 1 of \d+; not (?!.*while_loop)", told)
    assert re.search(
        r"Written while kernels are scheduled: 0 of \d+; not .*_codegen_mix_order", told
    )
    assert re.search(r"Classes of Inductor's lines: 1 of \d+; not (?!.*KernelCallLine)", told)
    assert re.search(r"Kinds of kernels: 1 of \d+; not .*cooperative reduction", told)
    assert "On no page" not in told
