"""One harness over every class of line: what must hold of each holds of a new one too."""

from __future__ import annotations

import dataclasses
import pickle
import re
from typing import Any, ClassVar, get_args, get_type_hints

import pytest
import sympy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wrapper_ir as wir
import wrapper_ir.lines as ir
from tests import strategies
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines import (
    Access,
    Alias,
    AnyLine,
    BufferArg,
    ExternKernel,
    Layout,
    Line,
    LineVisitor,
    ListArg,
    PartialLineVisitor,
    Path,
    Program,
    Region,
    Relation,
    ResultBuffer,
    ResultSymbol,
    Role,
    ScalarArg,
    Step,
    UnvisitedLineError,
    effects,
    line_at,
    map_regions,
    regions_of,
    rewrite_lines,
    walk,
    walk_regions,
)
from wrapper_ir.lines.base import Runs, Trait
from wrapper_ir.lines.traits import REGION_FIELDS
from wrapper_ir.lines.walk import Renaming

CLASSES: tuple[type, ...] = get_args(AnyLine)
slowly = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=15)
each_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)

#: Whose words a line may not use: it says what is true for all targets.
TARGETS = re.compile(
    r"\b(python|c\+\+|cpp|fx|triton|cuda|javascript|rust|inductor)\b", re.IGNORECASE
)


def test_the_union_is_what_is_exported() -> None:
    exported = {
        value
        for name in ir.__all__  # type: ignore[attr-defined]
        if isinstance(value := getattr(ir, name), type)
        and issubclass(value, Line)
        and value is not Line
    }
    assert exported == set(CLASSES)
    assert set(strategies.LINES) == set(CLASSES)


def test_every_export_is_there_and_sorted_as_it_is_listed() -> None:
    assert len(set(ir.__all__)) == len(ir.__all__)  # type: ignore[attr-defined]
    assert all(hasattr(ir, name) for name in ir.__all__)  # type: ignore[attr-defined]


@each_class
def test_a_class_is_closed_frozen_data(cls: Any) -> None:
    assert cls.__final__
    assert dataclasses.is_dataclass(cls)
    assert cls.__dataclass_params__.frozen
    assert "__slots__" in vars(cls)
    assert cls.__bases__ == (Line,)
    assert cls.__module__.startswith("wrapper_ir.lines.")
    origin = next(field for field in dataclasses.fields(cls) if field.name == "origin")
    assert (origin.compare, origin.repr, origin.kw_only) == (False, False, True)


@each_class
def test_the_mnemonic_opens_the_text_form(cls: Any) -> None:
    assert cls.mnemonic
    assert cls.mnemonic in cls.__doc__.splitlines()[0] or cls.__name__ in (
        "BindSymbol",
        "ExternKernel",
    )
    mnemonics = [other.mnemonic for other in CLASSES]  # type: ignore[attr-defined]
    assert mnemonics.count(cls.mnemonic) == 1


@each_class
def test_the_docstring_opens_with_the_text_form(cls: Any) -> None:
    first = cls.__doc__.splitlines()[0]
    assert re.fullmatch(r"``.+`` .*— .+\.", first), first
    assert len(first) <= 97
    assert not TARGETS.search(cls.__doc__), cls.__doc__


@pytest.mark.parametrize(
    "make",
    [
        lambda value: ir.ComputeSymbol("u0", value),
        lambda value: ir.AssertSymbol(value, "why"),
        lambda value: ir.Probe("p", ir.When.BEFORE, ir.ProbeLevel.PRINT, (), (value,)),
        lambda value: ir.ScalarArg(value),
        lambda value: ir.ScalarValue(value),
    ],
)
def test_a_number_equals_what_prints_alike(make: Any) -> None:
    nan = make(float("nan"))
    assert pickle.loads(pickle.dumps(nan)) == nan
    assert hash(pickle.loads(pickle.dumps(nan))) == hash(nan)
    different = [
        make(value) for value in (0, 0.0, -0.0, 1, 1.0, True, complex(1), complex(1, -0.0))
    ]
    assert len(set(different)) == len(different)
    assert different[0] != different[1]
    assert make(1) != "1"


@each_class
@slowly
@given(data=st.data())
def test_equality_hash_and_origin(cls: Any, data: st.DataObject) -> None:
    line = data.draw(strategies.LINES[cls])
    moved = dataclasses.replace(line, origin=7)
    assert moved == line
    assert hash(moved) == hash(line)
    assert moved.origin == 7
    assert line.origin is None
    assert repr(moved) == repr(line)  # so a dump does not change when a model's file is edited
    assert pickle.loads(pickle.dumps(moved)) == line
    assert pickle.loads(pickle.dumps(moved)).origin == 7
    # Replacing any field keeps where the line comes from.
    for field in dataclasses.fields(cls):
        if field.name != "origin":
            same = dataclasses.replace(moved, **{field.name: getattr(moved, field.name)})
            assert same == line
            assert same.origin == 7
    with pytest.raises(dataclasses.FrozenInstanceError):
        line.origin = 3


@each_class
@slowly
@given(data=st.data())
def test_a_line_is_no_other_line(cls: Any, data: st.DataObject) -> None:
    line = data.draw(strategies.LINES[cls])
    other = data.draw(strategies.any_lines)
    assert (line == other) == (_exactly(line) == _exactly(other))
    assert line != "line"


def _exactly(value: Any) -> Any:
    """What a value is to the last bit; the ``repr`` of an expression rounds its numbers."""
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value) if field.compare]
        return (type(value), *(_exactly(getattr(value, name)) for name in fields))
    if isinstance(value, tuple):
        return tuple(map(_exactly, value))
    return sympy.srepr(value) if isinstance(value, sympy.Basic) else repr(value)


# Effects.


def names_in(value: Any) -> set[str]:
    """Every buffer name in a line, found without looking at roles: what must have an effect."""
    if isinstance(value, BufferArg):
        return {value.buffer}
    if isinstance(value, ResultBuffer):
        return {value.out, *value.of}
    if isinstance(value, ListArg):
        return {name for item in value.items for name in names_in(item)}
    return set()


@each_class
@slowly
@given(data=st.data())
def test_effects_are_complete(cls: Any, data: st.DataObject) -> None:
    line = data.draw(strategies.LINES[cls])
    found = effects(line, Program())
    told = {
        *found.defines,
        *found.touched,
        *found.peeks,
        *found.calls,
        *(alias.name for alias in found.aliases),
        *(alias.source for alias in found.aliases),
    }
    hints = get_type_hints(cls, include_extras=True, localns={"AnyLine": object})
    symbols: set[str] = set()
    for field in dataclasses.fields(cls):
        value = getattr(line, field.name)
        role = next(
            (e for e in getattr(hints[field.name], "__metadata__", ()) if isinstance(e, Role)), None
        )
        if role is Role.DEFINE_SYMBOL:
            assert value in found.defines_symbols
        elif role is not None:
            assert value in told, (role, line)
        for item in value if isinstance(value, tuple) else (value,):
            assert names_in(item) <= told, (field.name, line)
            if isinstance(item, ResultSymbol):
                symbols.add(item.symbol)
            pair = item[1] if isinstance(item, tuple) and len(item) == 2 else None
            assert names_in(pair) <= told, (field.name, line)
    assert symbols <= set(found.defines_symbols)


def test_what_each_role_does() -> None:
    program = Program()
    assert effects(ir.Allocate("a"), program).defines == ["a"]
    assert effects(ir.Free("a"), program).kills == ["a"]
    reuse = effects(ir.Reuse("b", "a"), program)
    assert (reuse.defines, reuse.takes, reuse.aliases) == (["b"], ["a"], [])
    view = effects(ir.Reinterpret("b", "a"), program)
    assert (view.defines, view.uses, view.aliases) == (["b"], ["a"], [Alias("b", "a", may=False)])
    slice_ = effects(ir.AllocateFromPool("b", "pool", 64), program)
    assert (slice_.defines, slice_.uses, slice_.aliases) == (["b"], ["pool"], [])
    item = effects(ir.BindSymbol("u0", ir.ItemOf("a")), program)
    assert (item.defines_symbols, item.reads, item.uses) == (["u0"], ["a"], [])
    size = effects(ir.BindSymbol("s0", ir.SizeOf("a", 0)), program)
    assert (size.defines_symbols, size.reads, size.uses) == (["s0"], [], ["a"])
    check = effects(ir.AssertSymbol(ir.symbol("s0") < ir.symbol("s1")), program)
    assert check.uses_symbols == {"s0", "s1"}
    probe = ir.Probe("p", ir.When.AFTER, ir.ProbeLevel.PRINT, ("a",), (ir.symbol("s0"),))
    assert effects(probe, program).peeks == ["a"]
    assert effects(probe, program).touched == []


def test_what_is_called_and_declared_is_told() -> None:
    assert effects(ir.KernelCall("k", ())).calls == ["k"]
    assert effects(ExternKernel("aten::relu", ())).calls == ["aten::relu"]
    relu = ir.TorchOp("aten::relu(Tensor self) -> Tensor")
    assert effects(ir.KernelDefinition("aten::relu", (), relu)).declares == ["aten::relu"]
    assert effects(ir.KernelDefinition("k", (), ir.CppKernel("x"))).declares == ["k"]


def test_names_are_renamed_by_their_roles_alone() -> None:
    renaming = Renaming(lambda n: f"b_{n}", lambda n: f"k_{n}", lambda n: f"s_{n}")
    relu = ir.TorchOp("aten::relu(Tensor self) -> Tensor")
    library = ir.KernelDefinition("aten::relu", (), relu)
    assert renaming.value(library) is library
    kernel = ir.KernelDefinition("k", (), ir.CppKernel("x"))
    assert renaming.value(kernel).name == "k_k"
    call = ExternKernel(
        "ns::f",
        (ListArg((BufferArg("a"), ir.ObjectArg("q"), ScalarArg(ir.symbol("s")))),),
        (),
        (ResultBuffer("b", (), Relation.MAY_ALIAS, ("a",)), ir.ResultObject("o", "ns::C", (1,))),
    )
    assert renaming.value(call) == ExternKernel(
        "ns::f",
        (ListArg((BufferArg("b_a"), ir.ObjectArg("b_q"), ScalarArg(ir.symbol("s_s")))),),
        (),
        (
            ResultBuffer("b_b", (), Relation.MAY_ALIAS, ("b_a",)),
            ir.ResultObject("b_o", "ns::C", (1,)),
        ),
    )


def test_the_effects_of_a_call() -> None:
    call = ExternKernel(
        "aten::f",
        (BufferArg("a"), ListArg((BufferArg("b", Access.WRITE), ScalarArg(ir.symbol("s0"))))),
        (("out", BufferArg("c", Access.READ_WRITE)),),
        (
            ResultBuffer("d"),
            ResultBuffer("e", (1,), Relation.MAY_ALIAS, ("a", "b")),
            ResultSymbol("u0", (2,)),
        ),
    )
    layout = Layout.contiguous(ir.DType.FLOAT32, (ir.symbol("s1"),))
    found = effects(call, Program(buffers=ir.FrozenMap({"d": layout})))
    assert found.reads == ["a", "c"]
    assert found.writes == ["b", "c"]
    assert found.defines == ["d", "e"]
    assert found.aliases == [Alias("e", "a", may=True), Alias("e", "b", may=True)]
    assert found.defines_symbols == ["u0"]
    assert found.uses_symbols == {"s0", "s1"}
    assert found.touched == ["a", "c", "b"]


def test_regions_are_not_looked_into() -> None:
    region = Region((), (ir.Free("inside"),), (ir.BufferValue("inside"),))
    line = ir.Cond((ResultBuffer("r"),), BufferArg("p"), (BufferArg("x"),), region, region)
    found = effects(line, Program())
    assert (found.defines, found.reads, found.kills) == (["r"], ["p", "x"], [])


# Visitors.


def test_a_visitor_has_a_method_for_each_class() -> None:
    methods = {name for name in vars(LineVisitor) if name.startswith("visit_")}
    expected = {"visit_" + re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower() for cls in CLASSES}
    assert methods == expected
    assert LineVisitor.__abstractmethods__ == methods


def test_a_visitor_that_forgets_a_line_cannot_be_made() -> None:
    class Forgetful(LineVisitor[None]):
        def visit_free(self, line: ir.Free) -> None:
            """Only this."""

    with pytest.raises(TypeError, match="abstract"):
        Forgetful()  # type: ignore[abstract]


@each_class
@slowly
@given(data=st.data())
def test_every_line_gets_to_its_method(cls: Any, data: st.DataObject) -> None:
    name = "visit_" + re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
    one = type("One", (PartialLineVisitor,), {name: lambda self, line: ("seen", line)})
    line = data.draw(strategies.LINES[cls])
    assert one().visit(line) == ("seen", line)
    other: Any = next(other for other in CLASSES if other is not cls)
    with pytest.raises(UnvisitedLineError, match=f"'{other.mnemonic}'"):
        one().visit(data.draw(strategies.LINES[other]))


# Walking.


@slowly
@given(strategies.any_programs())
def test_walking_meets_every_line_once(program: Program) -> None:
    paths = [path for path, _ in walk(program)]
    assert len(set(paths)) == len(paths)
    for path, line in walk(program):
        assert line_at(program, path) is line
        assert Path.parse(str(path)) == path
    counted = sum(len(region.body) for _, _, region in walk_regions(program))
    assert counted == len(paths)


@slowly
@given(strategies.any_programs())
def test_rewriting_to_the_same_is_the_same(program: Program) -> None:
    assert rewrite_lines(program.body, lambda line: (line,)) == program.body
    assert rewrite_lines(program.body, lambda line: ()) == ()
    doubled = rewrite_lines(program.body, lambda line: (line, line))
    assert len(doubled) == 2 * len(program.body)
    for line in program.body:
        assert map_regions(line, lambda region: region) == line
        assert bool(regions_of(line)) is isinstance(line, ir.RegionLine)


def test_paths() -> None:
    path = Path().then("body", 3).then("then", 2)
    assert str(path) == "body[3].then[2]"
    assert path == (Step("body", 3), Step("then", 2))
    assert Path.parse("") == Path()
    for text in ("body", "body[x]", "body[1]then[2]", "body[-1]", "[1]"):
        with pytest.raises(ValueError, match="not a path"):
            Path.parse(text)
    program = Program(body=(ir.Free("x"),))
    for missing in (
        Path(),
        Path.parse("body[1]"),
        Path.parse("then[0]"),
        Path.parse("body[0].then[0]"),
    ):
        with pytest.raises(LookupError):
            line_at(program, missing)


def test_errors_are_of_the_family_and_have_a_code_of_its_range() -> None:
    kinds = [v for v in vars(ir).values() if isinstance(v, type) and issubclass(v, WrapperIRError)]
    assert {kind.code for kind in kinds} == {f"WIR010{n}" for n in range(1, 6)}


def test_the_set_of_lines_is_closed_and_says_so() -> None:
    """A class of lines of somebody else's is refused in words that name what to use instead."""

    @dataclasses.dataclass(frozen=True)
    class DmaCopy(Line):
        mnemonic: ClassVar[str] = "dma"
        syntax: ClassVar[str] = "dma"
        runs: ClassVar[Runs] = Runs.CALLER

    good = wir.parse("wir 2\nprogram @p inference planned\ninput %x : f32[2] @cpu\nreturn %x\n")
    bad = good.replace(body=(DmaCopy(),))
    for use in (wir.verify, str, lambda p: wir.diff(good, p), lambda p: wir.diff(p, good)):
        with pytest.raises(WrapperIRError, match="DmaCopy") as caught:
            use(bad)
        assert "ExternKernel" in str(caught.value)
        assert "DeviceKernel" in str(caught.value)

    class Nothing(ir.PartialLineVisitor[None]):
        pass

    with pytest.raises(ir.NotALineError, match="DmaCopy is not a class of lines"):
        Nothing().visit(DmaCopy())


@pytest.mark.parametrize("missing", ["mnemonic", "syntax", "runs"])
def test_a_class_that_leaves_a_declaration_out_fails_when_it_is_made(missing: str) -> None:
    stated = {"mnemonic": "dma", "syntax": "dma", "runs": Runs.CALLER}
    type("DmaCopy", (Line,), stated)
    del stated[missing]
    with pytest.raises(TypeError, match=f"DmaCopy does not state its '{missing}'"):
        type("DmaCopy", (Line,), stated)


@pytest.mark.parametrize("cls", get_args(AnyLine))
def test_what_a_class_states_fits_its_fields(cls: type[Line]) -> None:
    fields = {field.name for field in dataclasses.fields(cls)}
    assert ("stream" in fields) == (cls.runs in (Runs.STREAM, Runs.EVENT))
    assert ("event" in fields) == (cls.runs is Runs.EVENT)
    assert ("mempool" in fields) == (Trait.TAKES_MEMORY in cls.traits)
    assert ("kept" in fields) == (Trait.ALLOCATES in cls.traits)
    assert ("after" in fields) == (Trait.ENDS in cls.traits)
    if REGION_FIELDS[cls]:
        assert cls.runs is Runs.CALLER
    if cls.runs.orders:
        assert "device" in fields
