"""Whole scripts, with stock Inductor and with us: the same bits in all that they do."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests.scripts.scripts import SCRIPTS
from wrapper_ir.frontends import inductor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.long,
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

#: Those that call Inductor by themselves, with the emitter that ours is installed with.
INSTALLED = {"piecewise": "python", "exporting": "cpp", "serving": "cpp"}


def run(script: Callable[..., list[torch.Tensor]], backend: str, folder: Path) -> Any:
    folder.mkdir()
    torch._dynamo.reset()
    torch.manual_seed(0)
    return script(backend, folder)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_does_what_it_did(name: str, tmp_path: Path) -> None:
    script = SCRIPTS[name]
    stock = run(script, "inductor", tmp_path / "stock")
    emitter = INSTALLED.get(name)
    with inductor.install(emitter=emitter) if emitter else contextlib.nullcontext():
        before = inductor.statistics.programs
        ours = run(script, "wrapper_ir", tmp_path / "ours")
    assert inductor.statistics.programs > before
    assert len(ours) == len(stock) > 0
    for number, (mine, theirs) in enumerate(zip(ours, stock, strict=True)):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        assert torch.equal(mine, theirs), f"result {number} has other bits"
