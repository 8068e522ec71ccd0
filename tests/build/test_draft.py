"""Drafts of programs, as front ends fill them: names, bodies, and whose storage a buffer is."""

from __future__ import annotations

import wrapper_ir as wir
from wrapper_ir.build.draft import ProgramDraft
from wrapper_ir.lines import (
    CPU,
    Access,
    Allocate,
    BufferArg,
    BufferInput,
    BufferValue,
    ComputeSymbol,
    DType,
    ExternKernel,
    Layout,
    Origin,
    Reinterpret,
    Relation,
    ResultBuffer,
    SymbolInfo,
    TorchOp,
)

LAYOUT = Layout.contiguous(DType.FLOAT32, (4,), CPU)


def draft_of(*names: str) -> ProgramDraft:
    draft = ProgramDraft()
    draft.buffers.update(dict.fromkeys(names, LAYOUT))
    return draft


def test_names_are_fresh() -> None:
    draft = draft_of("x", "x_1")
    draft.bind("n", SymbolInfo())
    draft.reserved.add("kept")
    assert [draft.fresh(stem) for stem in ("y", "x", "n", "kept")] == ["y", "x_2", "n_1", "kept_1"]
    assert draft.fresh("n", draft.buffers) == "n"
    assert draft.fresh("buf", draft.buffers, first=0, is_bare=False) == "buf0"
    draft.buffers["x_2"] = LAYOUT
    assert draft.fresh("x") == "x_3"


def test_expected_numbers_follow_from_definitions_and_ranges() -> None:
    draft = draft_of()
    for name, info in {
        "rows": SymbolInfo(hint=777),
        "few": SymbolInfo(lower=0, upper=30, unbacked=True),
        "many": SymbolInfo(lower=9000, unbacked=True),
        "area": SymbolInfo(),
        "twice": SymbolInfo(),
    }.items():
        draft.bind(name, info)
    draft.emit(ComputeSymbol("area", 64 * draft.symbol("rows")))
    draft.emit(ComputeSymbol("twice", 2 * draft.symbol("area")))
    found = {name: draft.expected(draft.symbol(name) + 1) for name in draft.symbols}
    assert found == {"rows": 778, "few": 31, "many": 9001, "area": 49729, "twice": 99457}
    assert draft.expected(3) == 3
    guesses = {name for name in draft.symbols if draft.is_guess(draft.symbol(name) + 1)}
    assert guesses == {"few", "many"}
    assert draft.expected(draft.symbol("rows") * 0.5) == 388.5


def test_equal_origins_and_the_same_values_have_one_entry() -> None:
    draft, value, other = draft_of(), [1], [1]
    assert [draft.origin(Origin(nodes=(n,))) for n in "aba"] == [0, 1, 0]
    draft.hold("a", value)
    draft.hold("b", value)
    assert list(draft.names_of(value)) == ["a", "b"]
    assert not draft.names_of(other)


def test_storage_is_told_by_the_lines() -> None:
    draft = draft_of("x", "y", "view", "part", "maybe", "inner")
    draft.declare("aten::relu_", TorchOp("aten::relu_(Tensor(a!) self) -> Tensor(a!)"))
    draft.emit(Reinterpret("view", "x"))
    draft.emit(Reinterpret("part", "view"))
    args = (BufferArg("view"), BufferArg("y"))
    result = ResultBuffer("maybe", (), Relation.MAY_ALIAS, ("view", "y"))
    draft.emit(ExternKernel("own::either", args, results=(result,)))
    draft.emit(Reinterpret("inner", "maybe"))
    assert draft.roots("part") == {"x"}
    assert draft.owner("part") == "x"
    assert draft.roots("inner") == {"x", "y"}
    assert draft.owner("inner") == "inner"  # it is not certain whose it is
    assert draft.is_certain("part")
    assert not draft.is_certain("inner")
    assert not draft.is_written("x")
    draft.emit(ExternKernel("aten::relu_", (BufferArg("part", Access.READ_WRITE),)))
    assert draft.is_written("x")
    assert not draft.is_written("y")


def test_lines_go_to_the_region_that_is_open() -> None:
    draft = draft_of("x", "y", "z")
    draft.inputs.append(BufferInput("x"))
    draft.emit(Allocate("y"))
    with draft.region() as body:
        draft.emit(Reinterpret("z", "x"))
    with draft.region(body):
        draft.emit(Allocate("z"))
    program = draft.program("made", [BufferValue("y")])
    assert body == [Reinterpret("z", "x"), Allocate("z")]
    assert program.body == (Allocate("y"),)
    assert program.results == (BufferValue("y"),)
    assert "@made" in wir.print_program(program)
