"""However broken a program is, the verifier says so and does not break itself."""

from __future__ import annotations

import dataclasses
import gc
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wrapper_ir.lines import (
    Allocate,
    AllocateFromPool,
    AllocatePool,
    AnyLine,
    DType,
    Free,
    FrozenMap,
    Layout,
    Program,
    Region,
    Reinterpret,
    Stage,
    SymbolInfo,
    map_regions,
    symbol,
)
from wrapper_ir.text import parse
from wrapper_ir.verify import VerificationError, diagnose

ROOT = Path(__file__).parents[1]
FILES = sorted([*(ROOT / "programs").rglob("*.wir"), *(ROOT / "invalid").glob("*.wir")])
ALL = [parse(file.read_text(encoding="utf-8")) for file in FILES]
LINES = [line for program in ALL for line in program.body]
LAYOUTS = [layout for program in ALL for layout in program.buffers.values()]

ODD = [
    Layout(DType.FLOAT32, LAYOUTS[0].device, (4,), ()),
    Layout(DType.FLOAT32, LAYOUTS[0].device, (), (1, 2)),
    Layout(DType.FLOAT64, LAYOUTS[0].device, (-3, symbol("s0") - 9), (1, 1), -1),
    Layout(DType.BOOL, LAYOUTS[0].device, (symbol("nowhere"),), (0,)),
    Layout(DType.INT64, LAYOUTS[0].device, (2**70, 0), (1, 2**70)),
]


def _shuffled(draw: st.DrawFn, body: tuple[AnyLine, ...]) -> tuple[AnyLine, ...]:
    """The lines with some lost, doubled, moved, or exchanged for those of other programs."""
    lines = list(body)
    for _ in range(draw(st.integers(1, 4))):
        if not lines:
            break
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.integers(0, 4)):
            case 0:
                del lines[at]
            case 1:
                lines.insert(draw(st.integers(0, len(lines))), lines[at])
            case 2:
                lines.insert(draw(st.integers(0, len(lines) - 1)), lines.pop(at))
            case 3:
                lines[at] = draw(st.sampled_from(LINES))
            case _:
                lines[at] = map_regions(lines[at], lambda region: _broken_region(draw, region))
    return tuple(lines)


def _broken_region(draw: st.DrawFn, region: Region) -> Region:
    return dataclasses.replace(
        region,
        params=region.params[draw(st.integers(0, 1)) :],
        body=_shuffled(draw, region.body),
        results=region.results[draw(st.integers(0, 1)) :],
    )


@st.composite
def broken(draw: st.DrawFn) -> Program:
    program = draw(st.sampled_from(ALL))
    buffers = dict(program.buffers)
    for name in draw(st.lists(st.sampled_from(sorted(buffers)), max_size=3)) if buffers else ():
        layout = draw(st.sampled_from([None, *ODD, *LAYOUTS]))
        if layout is None:
            buffers.pop(name, None)
        else:
            buffers[name] = layout
    symbols = program.symbols if draw(st.booleans()) else FrozenMap[SymbolInfo]()
    return program.replace(
        body=_shuffled(draw, program.body),
        inputs=program.inputs[draw(st.integers(0, 1)) :],
        buffers=FrozenMap(buffers),
        symbols=symbols,
        stage=draw(st.sampled_from(Stage)),
    )


@settings(max_examples=300, deadline=None)
@given(broken())
def test_any_mixture_of_lines_gets_diagnostics_and_a_rendering(program: Program) -> None:
    found = diagnose(program)
    assert found == diagnose(program)
    text = str(VerificationError(program, found))
    for diagnostic in found[:20]:
        assert diagnostic.code in text


def chain(count: int, broken: bool) -> Program:
    layout = Layout.contiguous(DType.FLOAT32, (8,))
    names = [f"b{n}" for n in range(count)]
    views = [Reinterpret(f"v{n}", "b0" if n else "gone") for n in range(count)]
    body: list[AnyLine] = [Allocate(name) for name in names]
    body += views if broken else views[1:]
    body += [Free(name) for name in names]
    if broken:
        body += [Free(name) for name in names]
        body += [Free(f"x{n}") for n in range(count)]
    defined = [*names, *(view.out for view in (views if broken else views[1:]))]
    return Program(body=tuple(body), buffers=FrozenMap(dict.fromkeys(defined, layout)))


def slices(count: int) -> Program:
    layout = Layout.contiguous(DType.FLOAT32, (16,))
    pool = Layout.contiguous(DType.UINT8, (64 * count,))
    body: list[AnyLine] = [AllocatePool("pool")]
    body += [AllocateFromPool(f"b{n}", "pool", 64 * (n * 7919 % count)) for n in range(count)]
    body += [Free(f"b{n}") for n in range(count)]
    body.append(Free("pool"))
    buffers = {"pool": pool, **{f"b{n}": layout for n in range(count)}}
    return Program(body=tuple(body), buffers=FrozenMap(buffers), stage=Stage.PLANNED)


def seconds(program: Program, faults: int) -> float:
    """Of this process, without the collector: it walks whatever other tests have left."""
    gc.disable()
    try:
        begin = time.process_time()
        found = diagnose(program)
        taken = time.process_time() - begin
    finally:
        gc.enable()
    assert len(found) == faults
    return taken


@pytest.mark.long
def test_time_grows_with_the_lines_only_however_many_aliases_slices_or_faults() -> None:
    for small, large, faults in (
        (chain(1000, broken=False), chain(16000, broken=False), (0, 0)),
        (chain(1000, broken=True), chain(16000, broken=True), (2001, 32001)),
        (slices(1000), slices(16000), (0, 0)),
    ):
        before = max(seconds(small, faults[0]) for _ in range(3))
        # Sixteen times the lines: 256 times as long would be quadratic.
        after = min(seconds(large, faults[1]) for _ in range(2))
        assert after < 16 * 5 * max(before, 0.005)
