"""Grids of Triton kernels, as Inductor's launchers write them, against those launchers."""

from __future__ import annotations

from typing import Any

import pytest
from torch._inductor.runtime import triton_heuristics

from wrapper_ir.frontends.inductor.convert.cpp_and_triton import UnknownGridError, grid_of
from wrapper_ir.frontends.inductor.triton_tuning import LaunchGrid
from wrapper_ir.lines.expr import CeilDiv, Dim, FloorDiv, substitute, symbol

COMBO = {
    "num_kernels": 3,
    "min_blocks": 0,
    "default_config": None,
    **{f"no_x_dim_{n}": n == 2 for n in range(3)},
    **{f"xnumel_{n}": None if n else 700 for n in range(3)},
}

#: Name -> what Inductor notes of a kernel, its configuration, the values of its parameters.
CASES: dict[str, tuple[dict[str, Any], dict[str, int], dict[str, int]]] = {
    "line": ({"grid_type": "Grid1D"}, {"XBLOCK": 256}, {"xnumel": 1000}),
    "plane": ({"grid_type": "Grid2D"}, {"XBLOCK": 8, "YBLOCK": 4}, {"xnumel": 33, "ynumel": 9}),
    "space": (
        {"grid_type": "Grid3D"},
        {"XBLOCK": 8, "YBLOCK": 4, "ZBLOCK": 1},
        {"xnumel": 33, "ynumel": 9, "znumel": 7},
    ),
    "high": (
        {"grid_type": "Grid2DWithYZOverflow"},
        {"XBLOCK": 8, "YBLOCK": 1},
        {"xnumel": 33, "ynumel": 200_000},
    ),
    "blocks that wait": (
        {"grid_type": "CooperativeReductionGrid"},
        {"XBLOCK": 2, "RSPLIT": 32},
        {"xnumel": 5},
    ),
    "scan in parts": (
        {"grid_type": "SplitScanGrid"},
        {"XBLOCK": 1, "R0_BLOCK": 256},
        {"xnumel": 4, "r0_numel": 20_000},
    ),
    "given": (
        {"grid_type": "FixedGrid", "fixed_grid": ["_grid_0", "_grid_1", "_grid_2"]},
        {},
        {"_grid_0": 7, "_grid_1": 3, "_grid_2": 1},
    ),
    "tuned": (
        {
            "grid_type": "PrecomputedGrid",
            "precomputed_grids": [
                {"config": {"BLOCK": 64}, "python": ["1024", "1", "1"]},
                {"config": {"BLOCK": 256}, "python": ["((255 + _launcher_s0) // 256)", "2", "1"]},
            ],
        },
        {"BLOCK": 256},
        {"_launcher_s0": 1000},
    ),
    "one after the other": (
        {"grid_type": "SequentialComboKernelGrid", "combo_grid_meta": COMBO},
        {"XBLOCK": 64},
        {"xnumel_1": 100, "xnumel_2": 5},
    ),
    "in turn": (
        {
            "grid_type": "RoundRobinComboKernelGrid",
            "combo_grid_meta": {**COMBO, "min_blocks": 64, "ynumel_0": 10},
        },
        {"XBLOCK": 64, "YBLOCK": 4},
        {"xnumel_1": 100, "xnumel_2": 50},
    ),
}


def written(meta: dict[str, Any], config: dict[str, int]) -> Any:
    """What Inductor would write; its function for that needs Triton."""
    grid = getattr(triton_heuristics, meta["grid_type"])(inductor_meta=meta)
    grid.generate(config)
    return grid


def read(grid: Any) -> tuple[Dim, ...]:
    """What we make of it, as expressions over the names of parameters."""
    sizes = (grid.x_grid, grid.y_grid, grid.z_grid)
    return grid_of(LaunchGrid(sizes, tuple(grid.prefix)), symbol)


@pytest.mark.parametrize("name", CASES)
def test_the_same_as_inductors(name: str) -> None:
    meta, config, given = CASES[name]
    grid = written(meta, config)
    found = read(grid)
    values = [substitute(size, dict(given)) for size in found]
    assert (*values, 1, 1)[:3] == grid.eval_slow(dict(given))
    assert len(found) == 1 or found[-1] != 1


def test_expressions() -> None:
    n = symbol("n")

    def of(*sizes: str | int, steps: tuple[str, ...] = ()) -> tuple[Dim, ...]:
        return grid_of(LaunchGrid(sizes, steps), symbol)

    assert of("-((n) // -(128))", 1, 1) == (CeilDiv(n, 128),)
    assert of("(n + 127) // 128", 2, 1) == (FloorDiv(n + 127, 128), 2)
    assert of("a * 2", "max(n, 3)", steps=("a = n + 1",)) == of("(n + 1) * 2", "max(3, n)")


def test_ranges_without_elements_have_no_blocks() -> None:
    meta, config, _ = CASES["high"]
    grid = written(meta, config)
    found = read(grid)
    assert [substitute(size, {"xnumel": 8, "ynumel": 0}) for size in found] == [1, 0, 0]
    (size,) = grid_of(LaunchGrid(("-((n) // -(m))", 1, 1)), symbol)
    assert substitute(size, {"n": 0, "m": 0}) == 0


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(UnknownGridError, match="round"):
        grid_of(LaunchGrid(("round(n)", 1, 1)), symbol)

    def nothing(name: str) -> Dim:
        raise KeyError(name)

    with pytest.raises(UnknownGridError, match="'n', which is not passed"):
        grid_of(LaunchGrid(("n", 1, 1)), nothing)
