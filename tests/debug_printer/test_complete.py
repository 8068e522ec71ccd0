"""Every call of every program of the corpus has its entries, in all emitters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import wrapper_ir as wir
from tests.emitters.corpus import CASES, program
from tests.emitters.fx.support import ABSENT
from wrapper_ir.debug_printer import DebugPrinter, calls_of, debug_session, insert_probes
from wrapper_ir.interpreter import interpret
from wrapper_ir.lines.walk import regions_of, walk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("corpus_kernels")

WITH_CALLS = [n for n in CASES if n not in ABSENT if any(calls_of(program(n)))]

#: Programs that `make test` runs in C++ with probes: a library each, besides those of other tests.
IN_CPP = ("multi_output",)


def probed(name: str) -> wir.Program:
    return insert_probes(program(name), DebugPrinter("names", when="both"))


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", WITH_CALLS)
def test_every_call_is_rendered(name: str) -> None:
    """Two probes a call: in the program, in the text and the table of C++, in the graph of FX."""
    made = probed(name)
    count = 2 * sum(1 for _ in calls_of(made))
    assert sum(isinstance(line, wir.lines.Probe) for _, line in walk(made)) == count
    source = wir.emit(made, "cpp").source
    shown = sorted(map(int, re.findall(r"call\.probes->show\((\d+),", source)))
    assert shown == list(range(count))
    table = source[source.index("constexpr wir::ProbeInfo kProbes[]") :].partition("\n};")[0]
    assert len(re.findall(r"wir::ProbeLevel::kNames", table)) == count
    module = wir.emit(made, "fx").graph_module
    graphs = [each for each in module.modules() if isinstance(each, torch.fx.GraphModule)]
    shows = [node for each in graphs for node in each.graph.nodes if "show" in str(node.target)]
    assert len(shows) == count


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", WITH_CALLS)
def test_every_call_is_shown(name: str, tmp_path: Path) -> None:
    """As often as the interpreter, which is nobody's relative, comes by it."""
    targets = ["python", "fx", *(["cpp"] if name in IN_CPP else [])]
    check(name, targets, tmp_path)


@pytest.mark.models
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")
@pytest.mark.parametrize("name", WITH_CALLS)
def test_every_call_is_shown_in_cpp(name: str, tmp_path: Path) -> None:
    check(name, ["cpp"], tmp_path)


def check(name: str, targets: list[str], folder: Path) -> None:
    made = probed(name)
    expected = log(lambda *inputs: interpret(made, *inputs), name, folder / "interpreted")
    labels = [call.label for call in calls_of(made)]
    if not any(True for _, line in walk(made) if any(regions_of(line))):
        assert expected == [f"{label} {when}" for label in labels for when in ("before", "after")]
    assert {line.rpartition(" ")[0] for line in expected} <= set(labels)
    for target in targets:
        assert log(wir.compile(made, target), name, folder / target) == expected


def log(function: Callable[..., Any], name: str, file: Path) -> list[str]:
    torch.manual_seed(3)
    inputs = [x.clone() if isinstance(x, Tensor) else x for x in CASES[name].make()]
    with debug_session(output=file):
        function(*(CASES[name].make() if name in ("symbols", "asserts") else inputs))
    return file.read_text().splitlines()
