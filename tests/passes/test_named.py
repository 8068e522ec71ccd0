"""Passes that an emitter names."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import torch
from torch._inductor.utils import fresh_cache

import wrapper_ir as wir
from tests.alone import alone
from tests.devices import lowerings
from tests.models.watch import watch_inductor
from wrapper_ir.emitters import make_emitter, unregister_emitter
from wrapper_ir.emitters.base import EmitterFaultError
from wrapper_ir.emitters.fx import FxEmitter
from wrapper_ir.emitters.python import PythonEmitter
from wrapper_ir.frontends.inductor import statistics
from wrapper_ir.passes import PassOutputError, pipeline_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wrapper_ir.lines import Program

#: Where the passes are.
PLACE = "tests.devices.lowerings"


def remark(text: str) -> str:
    return f"{PLACE}:Remark{{text={text}}}"


@dataclass(frozen=True)
class Remarking(PythonEmitter):
    """Python, after passes with an option of the emitter's."""

    name: ClassVar[str] = "remarking"

    word: str = "first"

    def lowering(self, *, probed: bool) -> tuple[str, ...]:
        asked = "probed" if probed else self.word
        return (*super().lowering(probed=probed), remark(asked))

    def legalisation(self) -> tuple[str, ...]:
        return ("strip-comments", remark(f"{self.word} and last"))


@dataclass(frozen=True)
class Graphs(FxEmitter):
    """Graphs, after a pass that is not idempotent."""

    name: ClassVar[str] = "graphs"

    def legalisation(self) -> tuple[str, ...]:
        return (f"{PLACE}:remarks_each_time",)


@dataclass(frozen=True)
class Faulty(PythonEmitter):
    """An emitter whose pass leaves what it returns invalid."""

    name: ClassVar[str] = "faulty"

    def legalisation(self) -> tuple[str, ...]:
        return (f"{PLACE}:defines_twice",)


@contextlib.contextmanager
def registered(*emitters: Any) -> Iterator[None]:
    for each in emitters:
        wir.register_emitter(each.name, each)
    with fresh_cache():
        yield
    for each in emitters:
        unregister_emitter(each.name)
    torch._dynamo.reset()


@pytest.fixture
def here() -> Iterator[None]:
    with registered(Remarking, Graphs, Faulty):
        yield


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[None]:
    """The same in modules of their own, for caches."""
    copy = alone(sys.modules[__name__], tmp_path)
    copy.PLACE = alone(lowerings, tmp_path).__name__
    with registered(copy.Remarking, copy.Graphs):
        yield


def program() -> Program:
    b = wir.Builder("small")
    x = b.input("x", "f32", (4,))
    b.returns(b.extern("aten::relu(Tensor self) -> Tensor", x, result=("f32", (4,))))
    return b.build()


@pytest.mark.usefixtures("here")
def test_they_follow_its_options_and_those_of_its_base() -> None:
    emitter = make_emitter("remarking", {"word": "second", "cuda_graph": True})
    names = [each.name for each in pipeline_for(program(), emitter)]
    assert names == [
        "check-results",
        "prepare-capture",
        "remark",
        "plan-memory",
        "strip-comments",
        "remark",
    ]
    assert "// second\n" in str(wir.lower(program(), "remarking", word="second"))
    prepared = str(wir.prepare(program(), "remarking", word="second"))
    assert "// second and last\n" in prepared
    assert "// second\n" not in prepared


@pytest.mark.usefixtures("here")
def test_it_is_told_that_probes_will_come() -> None:
    printer = wir.DebugPrinter("print")
    emitter = make_emitter("remarking", {})
    names = [each.name for each in pipeline_for(program(), emitter, printer)]
    assert names == [
        "check-results",
        "remark",
        "plan-memory",
        "insert-probes",
        "strip-comments",
        "remark",
    ]
    assert emitter.lowering(probed=True) == (remark("probed"),)


@pytest.mark.usefixtures("here")
def test_they_run_for_a_planned_program_where_they_are_legalisation() -> None:
    planned = wir.plan_memory(program())
    assert "# first and last" in wir.emit(planned, "remarking").source
    assert wir.emit(planned, "python").source == wir.emit(program(), "python").source


@pytest.mark.usefixtures("here")
def test_an_emitter_that_fails_to_name_them_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Remarking, "legalisation", lambda _: {}["none"])
    with pytest.raises(EmitterFaultError, match=r"'remarking' .* failed while it named its passes"):
        wir.emit(program(), "remarking")


@pytest.mark.usefixtures("here")
def test_faults_name_the_emitter() -> None:
    words = f"the pass '{PLACE}:defines_twice', of the emitter 'faulty', returned"
    with pytest.raises(PassOutputError, match=words):
        wir.emit(program(), "faulty")


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("emitter", ["remarking", "graphs"])
def test_graphs_from_a_cache_do_not_go_through_them_again(emitter: str) -> None:
    options = {"emitter": emitter}
    for made in (1, 0):
        torch._dynamo.reset()
        statistics.reset()
        with watch_inductor() as seen:
            found = torch.compile(lambda x: x.sin(), backend="wrapper_ir", options=options)
            torch.testing.assert_close(found(torch.ones(8)), torch.ones(8).sin())
        assert statistics.programs == made
        (source,) = seen.sources
        assert source.count("again") + source.count("# first and last") == 1


@pytest.mark.usefixtures("apart")
def test_each_option_of_its_passes_is_another_entry() -> None:
    for word, made in (("one", 1), ("two", 1), ("one", 0)):
        torch._dynamo.reset()
        statistics.reset()
        options = {"emitter": "remarking", "word": word}
        torch.compile(lambda x: x.cos(), backend="wrapper_ir", options=options)(torch.ones(8))
        assert statistics.programs == made


@pytest.mark.usefixtures("here")
def test_a_pass_of_the_library_that_breaks_a_program_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its result is verified with the program that is rendered, and found by running it again."""
    from wrapper_ir.passes import StripComments

    broken = lambda self, each: each.replace(body=each.body[:-1])  # noqa: E731
    monkeypatch.setattr(StripComments, "__call__", broken)

    with pytest.raises(PassOutputError, match="the pass 'strip-comments' returned an invalid"):
        wir.emit(program(), "remarking")


@pytest.mark.usefixtures("here")
def test_what_a_front_end_got_wrong_is_not_blamed_on_a_pass() -> None:
    made = program()
    with pytest.raises(wir.VerificationError):
        wir.emit(made.replace(body=made.body[:-1]), "python")
