"""The conformance kit on an emitter that comes from outside, and on our own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

import wrapper_ir as wir
from tests.emitters.fx.support import ABSENT
from wrapper_ir.emitters import Legal, unregister_emitter
from wrapper_ir.emitters.python import PythonEmitter
from wrapper_ir.testing.conformance import EmitterConformance
from wrapper_ir.testing.watched import names_missing

if TYPE_CHECKING:
    from collections.abc import Callable


class TestNumpy(EmitterConformance):
    """The package in ``tests/plugin_emitter``, installed with the tests."""

    target = "numpy"
    refused = frozenset("""
        aliases apart arguments asserts attention backward bits channels_last comments
        complex_numbers cond cond_integers cond_nested constants definitions_between dtypes
        dynamic_shapes effects
        embedding extern_fresh extern_out foreach fourier half_types index_put input_mutation item
        items list_results masks multi_output planned pools_types probes probes_in_regions residual
        reuse switch symbols topk unbacked while while_double while_in_cond while_number
        while_stacked while_without_rounds zeroed
        """.split())  # noqa: SIM905 - one name a line would take the page
    has_probes = False


@pytest.mark.usefixtures("corpus_kernels")
class TestPython(EmitterConformance):
    target = "python"


@pytest.mark.models
class TestCpp(EmitterConformance):
    target = "cpp"


@pytest.mark.models
class TestFx(EmitterConformance):
    target = "fx"
    refused = frozenset(ABSENT)
    has_branches = False


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ('{"checks": true, "name": null}', []),
        ("[true]", []),
        ("null", []),
        ("", []),
        ("int main() { return x; }", []),
        ("y = x + 1", ["x"]),
        ("import json\njson.dumps(x)", ["x"]),
    ],
)
def test_only_modules_of_python_have_names_to_define(text: str, missing: list[str]) -> None:
    assert names_missing(text) == missing


class WithoutProbes(EmitterConformance):
    target = "numpy"


class WithoutChecks(EmitterConformance):
    target = "python"

    def _function(self, program: wir.Program) -> Callable[..., tuple[Any, ...]]:
        return lambda *_: ()


def test_failures_say_what_it_is_about(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(pytest.fail.Exception, match="has_probes = False says so"):
        WithoutProbes().test_debugging_changes_nothing("relu_twice", capfd)
    with pytest.raises(AssertionError, match="accepted: no inputs, one input too many, "):
        WithoutChecks().test_wrong_inputs_are_refused("relu_twice")


@dataclass(frozen=True)
class Forgetful(PythonEmitter):
    """An emitter that declares what is legal, and names another pass than the one for that."""

    name: ClassVar[str] = "forgetful"
    legal: ClassVar[Legal] = Legal(mixed_pools=False)

    def legalisation(self) -> tuple[str, ...]:
        return ("strip-comments",)


class OfForgetful(EmitterConformance):
    target = "forgetful"


def test_what_an_emitter_cannot_render_is_lowered_by_its_passes() -> None:
    wir.register_emitter("forgetful", Forgetful)
    try:
        with pytest.raises(AssertionError, match=r"no pass makes it legal: .*AllocateFromPool"):
            OfForgetful().test_passes_obey_the_rules()
    finally:
        unregister_emitter("forgetful")
