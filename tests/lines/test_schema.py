"""Schemas are read as torch reads them: every operator that torch knows is the test."""

from __future__ import annotations

import pytest
import torch

from wrapper_ir.lines import OpSchema, SchemaError, SchemaType, parse_schema
from wrapper_ir.lines.schema import QUALIFIED_OP_NAME

#: Schemas with "..." take whatever comes; they are TorchScript's own, and no wrapper calls them.
SCHEMAS = [schema for schema in torch._C._jit_get_all_schemas() if "..." not in str(schema)]


def test_there_are_schemas_to_read() -> None:
    assert len(SCHEMAS) > 3000


def test_every_schema_of_torch_is_read_as_torch_reads_it() -> None:
    for schema in SCHEMAS:
        found = parse_schema(str(schema))
        overload = f".{schema.overload_name}" if schema.overload_name else ""
        assert found.name == schema.name + overload
        assert QUALIFIED_OP_NAME.fullmatch(found.name)
        assert [a.name for a in found.args] == [a.name for a in schema.arguments], schema
        assert len(found.returns) == len(schema.returns), schema
        assert found.returns_tuple == (len(schema.returns) != 1), schema
        for ours, theirs in zip(found.args, schema.arguments, strict=True):
            assert ours.keyword_only == theirs.kwarg_only, schema
            assert (ours.default is not None) == theirs.has_default_value(), schema
            check_alias(ours.type, theirs, str(schema))
        for type_, returned in zip(found.returns, schema.returns, strict=True):
            check_alias(type_, returned, str(schema))


def check_alias(type_: SchemaType, argument: torch._C.Argument, schema: str) -> None:
    info = argument.alias_info
    assert type_.writes == (info is not None and info.is_write), schema
    before = set() if info is None else {s.removeprefix("alias::") for s in info.before_set}
    # Of a list torch keeps the sets with the element, where Python cannot see them.
    assert type_.alias_sets == before or (type_.is_list and not before), schema


def test_types_are_torchs_types() -> None:
    for schema in SCHEMAS:
        for ours, theirs in zip(parse_schema(str(schema)).args, schema.arguments, strict=True):
            kind = theirs.real_type
            is_optional = isinstance(kind, torch.OptionalType)
            assert ours.type.is_optional == is_optional, schema
            inner = kind.getElementType() if is_optional else kind
            assert ours.type.is_list == isinstance(inner, torch.ListType), schema
            text = str(inner)
            if text == "Tensor":
                assert ours.type.is_tensor, schema


def test_the_parts_of_a_schema() -> None:
    schema = parse_schema(
        "aten::addmm.out(Tensor self, Tensor mat1, *, Scalar beta=1, Tensor(a!)? out) -> Tensor(a!)"
    )
    assert schema.name == "aten::addmm.out"
    assert [a.name for a in schema.positional] == ["self", "mat1"]
    out, beta = schema.arg("out"), schema.arg("beta")
    assert out is not None
    assert out.type == SchemaType("Tensor", "?", "a!")
    assert out.type.writes
    assert beta is not None
    assert beta.default == "1"
    assert schema.arg("gamma") is None
    assert not schema.returns_tuple


@pytest.mark.parametrize(
    ("text", "reason", "column"),
    [
        ("", "an operator name", 1),
        ("relu(Tensor self) -> Tensor", "an operator name", 1),
        ("aten::relu", "'(' is missing", 11),
        ("aten::relu(Tensor self", "',' is missing", 23),
        ("aten::relu(Tensor)", "an argument name", 18),
        ("aten::relu(Tensor self)", "'->' is missing", 24),
        ("aten::relu(Tensor self) -> ", "a type is missing", 28),
        ("aten::relu(Tensor self=) -> Tensor", "a default value", 24),
        ("aten::relu(Tensor(a self) -> Tensor", "an argument name", 27),
        ("aten::relu(Tensor self) -> Tensor x y", "text after the end", 37),
        ("aten::rélu(Tensor self) -> Tensor", "'(' is missing", 8),
        ("aten::f(...) -> Tensor", "a type is missing", 9),
    ],
)
def test_what_is_no_schema(text: str, reason: str, column: int) -> None:
    with pytest.raises(SchemaError, match="WIR0103") as caught:
        parse_schema(text)
    assert reason in str(caught.value)
    assert caught.value.fields["column"] == column


def test_schemas_are_values() -> None:
    text = "aten::relu(Tensor self) -> Tensor"
    assert parse_schema(text) == parse_schema(text)
    assert isinstance(hash(parse_schema(text)), int)
    assert isinstance(parse_schema(text), OpSchema)
