"""The comparison by declared fields: a kind of line that nobody knows needs nothing more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import wrapper_ir as wir
from wrapper_ir import lines as ir
from wrapper_ir.diffing.canonical_form import renaming
from wrapper_ir.diffing.keys import Fields, ProgramKeys, new_keys, roles_of
from wrapper_ir.diffing.model import FieldChange
from wrapper_ir.lines.base import Callee, Def, Kill, Line, Role, Runs


@dataclass(frozen=True, slots=True)
class Blend(Line):
    """``%out = blend @kernel %old, args, weight``."""

    mnemonic: ClassVar[str] = "blend"
    syntax: ClassVar[str] = "{out} = blend {kernel} {old}, {args}, {weight}"
    runs: ClassVar[Runs] = Runs.STREAM
    out: Def
    kernel: Callee
    old: Kill
    args: tuple[ir.Arg, ...]
    weight: int = 1


def blend(out: str, kernel: str, old: str, weight: int) -> Blend:
    return Blend(out, kernel, old, (ir.BufferArg(old), ir.ScalarArg(weight)), weight)


def test_a_new_kind_of_line_is_compared_by_its_fields() -> None:
    program = wir.Program()
    fields = Fields(program, program, renaming({"a": "x"}, {"k": "q"}, {}))
    assert list(fields.of(blend("b", "k", "a", 1), blend("y", "q", "x", 1))) == []
    assert list(fields.of(blend("b", "k", "c", 1), blend("y", "other", "x", 2))) == [
        FieldChange("kernel", "@k", "@other"),
        FieldChange("old", "%c", "%x"),
        FieldChange("args[0]", "%c", "%x"),
        FieldChange("args[1]", "1", "2"),
        FieldChange("weight", "1", "2"),
    ]


def test_a_new_kind_of_line_has_keys_without_names() -> None:
    keys = ProgramKeys(wir.Program(), new_keys(), {"k": 0, "q": 0, "other": 1})
    same = keys.shape(blend("b", "k", "a", 1))
    assert same == keys.shape(blend("y", "q", "x", 1))
    assert same != keys.shape(blend("b", "k", "a", 2))
    assert same != keys.shape(blend("b", "other", "a", 1))
    assert roles_of(blend("b", "k", "a", 1))["out"] is Role.DEFINE
