"""Who names a kind of device: rooms called after it, and nobody else asks for it by its name."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from tests.pages import ROOT
from wrapper_ir import devices

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What is the host's own is the CPU's; of any other kind of device there is something to ask.
TYPES: Final = frozenset(kind.type for kind in (devices.CUDA,)) | {"xpu", "mps", "hip"}

ROOMS: Final = re.compile("|".join([*TYPES, "devices", "triton"]))


def compared(tree: ast.AST) -> Iterator[int]:
    """Yield the number of each line that compares something with the name of a device type."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare | ast.MatchValue):
            values = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
            if any(isinstance(value, str) and value in TYPES for value in values):
                yield node.lineno


def test_kinds_of_devices_are_asked_not_named() -> None:
    found = [
        f"{name}:{number}"
        for path in sorted((ROOT / "wrapper_ir").rglob("*.py"))
        if not ROOMS.search(name := path.relative_to(ROOT).as_posix())
        for number in compared(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "ask device.kind instead (docs/architecture.md), at " + ", ".join(found)


def test_the_search_finds_comparisons() -> None:
    text = "device.type == 'cuda'\nx in ('cpu', 'cuda')\ndevice.type == 'cpu'\ny = 'cuda'"
    assert list(compared(ast.parse(text))) == [1, 2]
