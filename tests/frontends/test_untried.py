"""What a newer torch than those we know has changed is named, or found where it is silent."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from typing_extensions import override

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends.inductor import UnsupportedTorchError, untried
from wrapper_ir.frontends.inductor.convert import line_fields, lines
from wrapper_ir.frontends.inductor.wrapper import NotingSubgraphWrapper, NotingWrapper


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.16.0")


def fails(error: Exception) -> None:
    with untried.named():
        raise error


@pytest.mark.usefixtures("newer")
def test_an_error_of_pythons_becomes_one_that_names_the_place() -> None:
    with pytest.raises(UnsupportedTorchError) as caught:
        fails(AttributeError("'Switch' object has no attribute 'is_cond'"))
    said = str(caught.value)
    assert "WIR3002: the Inductor front end does not support torch 2.16.0: AttributeError" in said
    assert "no attribute 'is_cond' (in fails, " in said
    assert "test_untried.py:" in said
    assert isinstance(caught.value.__cause__, AttributeError)


@pytest.mark.usefixtures("newer")
def test_what_inductor_wraps_is_told_and_our_own_errors_stay() -> None:
    wrapped = RuntimeError("outer")
    wrapped.inner_exception = TypeError("takes 2 arguments")  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedTorchError, match="TypeError: takes 2 arguments"):
        fails(wrapped)
    own = UnsupportedTorchError(version="2.16.0", problem="own")
    with pytest.raises(WrapperIRError, match="own"):
        fails(own)
    wrapped.inner_exception = own  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedTorchError, match=": own"):
        fails(wrapped)


def test_on_a_supported_release_an_error_stays_what_it_is() -> None:
    with pytest.raises(AttributeError, match="gone"):
        fails(AttributeError("gone"))


class _Theirs:
    def written(self) -> None:
        """A method of torch's."""


_Theirs.__module__ = "torch.somewhere"


class _Ours(_Theirs):
    @override
    def written(self) -> None:
        """Takes its place."""


@pytest.mark.usefixtures("newer")
def test_a_method_that_is_overridden_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    untried.check_overrides(_Ours)
    untried.check_overrides(NotingWrapper)
    untried.check_overrides(NotingSubgraphWrapper)
    monkeypatch.delattr(_Theirs, "written")
    with pytest.raises(UnsupportedTorchError, match="_Theirs has no method 'written'"):
        untried.check_overrides(_Ours)


@dataclasses.dataclass
class AllocateLine:
    node: Any
    comm_buffer: bool = False
    zeroed: bool = False


def test_a_new_field_counts_where_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    known = line_fields.known_fields("AllocateLine")
    line = AllocateLine(None, zeroed=True)
    assert untried.unknown_field(line, known) == ""
    monkeypatch.setattr(torch, "__version__", "2.16.0")
    assert untried.unknown_field(line, known) == "zeroed"
    assert untried.unknown_field(AllocateLine(None, comm_buffer=True), known) == ""
    assert untried.unknown_field(line, line_fields.known_fields("PrefetchLine")) == ""


def test_the_fields_of_all_lines_that_are_converted_are_known() -> None:
    """Of this release, too: whoever adds one adds what the next release is compared with."""
    from torch._inductor.codegen import wrapper

    kinds = [*lines._SILENT, *lines._LINES, *lines._CALLS, *lines._NOTED]
    there = [getattr(wrapper, kind) for kind in kinds if hasattr(wrapper, kind)]
    assert len(there) >= 20
    for kind in filter(dataclasses.is_dataclass, there):
        fields = {field.name for field in dataclasses.fields(kind)}
        known = line_fields.known_fields(kind.__name__)
        assert fields <= (known or {"wrapper"}), kind.__name__


def test_programs_are_compared_with_their_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [untried.validation(each) for each in ("off", "warn")] == ["off", "warn"]
    monkeypatch.setattr(torch, "__version__", "2.16.0")
    assert [untried.validation(each) for each in ("off", "warn")] == ["error", "warn"]


def test_branches_stand_in_the_order_of_their_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = torch.fx.Graph()
    one, other = graph.get_attr("one"), graph.get_attr("other")
    graph.call_function(torch.ops.higher_order.cond, (graph.placeholder("p"), one, other, ()))
    graph.call_function(torch.ops.higher_order.switch, (graph.placeholder("i"), [other, one], ()))
    untried.check_branches(graph, ["other", "one"], is_cond=True)
    monkeypatch.setattr(torch, "__version__", "2.16.0")
    untried.check_branches(graph, ["one", "other"], is_cond=True)
    untried.check_branches(graph, ["other", "one"], is_cond=False)
    with pytest.raises(UnsupportedTorchError, match=r"branches other, one of ir\.Switch"):
        untried.check_branches(graph, ["other", "one"], is_cond=True)
