"""A vendor's own lowering: passes that a kind of device names run on every way to an artifact."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch._inductor.utils import fresh_cache

import wrapper_ir as wir
from tests import warm
from tests.alone import alone
from tests.devices import lowerings
from tests.devices.loops import LOOPS, cpu_with
from wrapper_ir import devices
from wrapper_ir.emitters import make_emitter
from wrapper_ir.errors import OptionError, OptionValueError
from wrapper_ir.frontends.inductor import install, statistics
from wrapper_ir.lines import DeviceKernel, ExternKernel, walk
from wrapper_ir.passes import (
    PassFaultError,
    PassLoadError,
    PassOutputError,
    PassSpellingError,
    pipeline_for,
    run_passes,
)
from wrapper_ir.testing.device_conformance import DeviceConformance

if TYPE_CHECKING:
    from collections.abc import Iterator

PLACE = "tests.devices.lowerings"

LANGUAGES = (*devices.CPU.languages, LOOPS)


@pytest.fixture
def lowering() -> Iterator[None]:
    """A CPU whose kind names a pass, for a language that it brings."""
    with fresh_cache(), cpu_with(languages=LANGUAGES, lowering=(f"{PLACE}:lower",)):
        torch._dynamo.reset()
        yield
    torch._dynamo.reset()


def model() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(8, 16, bias=False), nn.ReLU(), nn.Linear(16, 4, bias=False))
    return layers.requires_grad_(False)


X = torch.randn(3, 8)


def kernels(program: wir.Program) -> list[str]:
    return [n for n, each in program.kernels.items() if isinstance(each.source, DeviceKernel)]


def ops(program: wir.Program) -> list[str]:
    return [line.op for _, line in walk(program) if isinstance(line, ExternKernel)]


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("lowering")
def test_captured_programs_are_lowered_on_their_way_to_an_emitter() -> None:
    size = torch.export.Dim("n", min=1, max=64)
    program = wir.capture(model(), (X,), dynamic_shapes=({0: size},))
    assert ops(program) == ["aten::mm.out"] * 2  # what the front end made is what is returned
    lowered = wir.lower(program)
    assert (kernels(lowered), ops(lowered)) == (["loops_mm"], [])
    assert wir.lower(lowered) is lowered
    assert wir.parse(str(lowered)) == lowered.replace(data={})
    run = wir.compile(program)
    for rows in (1, 5):
        x = torch.randn(rows, 8)
        close(run(x), wir.interpret(program, x))
        close(run(x), (model()(x),))


@pytest.mark.usefixtures("lowering")
def test_every_way_to_a_plan_is_a_way_to_its_lowering() -> None:
    program = wir.capture(model(), (X,))
    assert ops(wir.plan_memory(program)) == []
    assert wir.prepare(program, scratch_bytes=0) == wir.plan_memory(program)
    assert wir.emit(program).source == wir.emit(wir.prepare(program)).source
    assert "loops_mm" in str(wir.diff(program, wir.prepare(program)))


@pytest.mark.usefixtures("lowering")
def test_programs_from_graphs_of_ops_are_lowered_too_and_in_regions() -> None:
    def choose(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: torch.relu(x), lambda x: torch.relu(-x), (x,))

    class Choice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return choose(x)

    program = wir.from_fx(torch.export.export(Choice(), (X,)))
    assert "aten::relu" in ops(program)
    lowered = wir.lower(program)
    assert "aten::relu" not in ops(lowered)
    assert kernels(lowered) == ["loops_relu"]
    run = wir.compile(program)
    for x in (X.abs(), -X.abs()):
        assert torch.equal(run(x)[0], choose(x))


@pytest.mark.usefixtures("lowering")
@pytest.mark.parametrize("way", ["backend", "install"])
def test_what_torch_compiles_is_lowered(way: str) -> None:
    statistics.reset()
    net = model().requires_grad_(True)
    x = X.clone().requires_grad_()
    expected = net(x).sum()
    wanted = torch.autograd.grad(expected, [x, *net.parameters()])
    with wir.record() as programs, torch._dynamo.config.patch(assume_static_by_default=False):
        if way == "backend":
            result = torch.compile(net, backend="wrapper_ir")(x).sum()
        else:
            with install():
                result = torch.compile(net)(x).sum()
        found = torch.autograd.grad(result, [x, *net.parameters()])
    assert statistics.programs == 2  # the backward, too
    assert all("aten::mm.out" in ops(each) for each in programs)
    assert not any("aten::mm.out" in ops(wir.lower(each)) for each in programs)
    close(result, expected)
    close(found, wanted)


@pytest.mark.usefixtures("lowering")
def test_the_module_that_inductor_gets_is_of_the_lowered_program() -> None:
    from tests.models.watch import watch_inductor

    with watch_inductor() as seen:
        close(torch.compile(model(), backend="wrapper_ir")(X), model()(X))
    (source,) = seen.sources
    assert "from tests.devices.loops import Loops" in source
    assert "aten.mm" not in source


@pytest.mark.usefixtures("lowering")
def test_probes_are_put_round_what_the_pass_made() -> None:
    program = wir.capture(model(), (X,))
    probed = wir.prepare(program, debug=wir.DebugPrinter("check", kernels="loops_mm"))
    assert str(probed).count("probe ") > 0
    close(wir.compile(program, debug="check")(X), (model()(X),))


@pytest.mark.slow
def test_packages_hold_what_the_pass_made(tmp_path: Path) -> None:
    import dataclasses

    assert devices.CPU.cpp is not None
    side = dataclasses.replace(devices.CPU.cpp, python=True)
    with cpu_with(languages=LANGUAGES, cpp=side, lowering=(f"{PLACE}:lower",)):
        program = wir.capture(model(), (X,))
        assert "loops_mm" in wir.emit(program, "cpp").source
        packaged = wir.load_package(wir.export(program, tmp_path / "model.pt2"))
        close(packaged(X), model()(X))


# What a pass may not do. Each error names the pass and who names it.


def program() -> wir.Program:
    b = wir.Builder("small")
    x = b.input("x", "f32", (4,))
    y = b.extern("aten::relu(Tensor self) -> Tensor", x, result=("f32", (4,)))
    b.returns(y)
    return b.build()


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("defines_twice", PassOutputError, r"returned an invalid program:\nWIR1000"),
        ("forgets_results", PassOutputError, "returned a program with other results"),
        ("plans", PassOutputError, "returned a planned program, where a logical one is expected"),
        ("returns_nothing", PassOutputError, "returned a 'NoneType', not a program"),
        ("fails", PassFaultError, "failed: KeyError: 'small'"),
    ],
)
def test_faults_of_a_pass_are_told_as_its_own(
    name: str, error: type[Exception], words: str
) -> None:
    whole = re.escape(f"the pass '{PLACE}:{name}', of the kind of device 'cpu', ") + words
    with cpu_with(lowering=(f"{PLACE}:{name}",)):
        for use in (wir.lower, wir.plan_memory, wir.prepare, wir.emit, wir.compile):
            with pytest.raises(error, match=whole):
                use(program())


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("tests.devices.nowhere:lower", PassLoadError, "No module named 'tests.devices.nowhere'"),
        (f"{PLACE}:lour", PassLoadError, "has no attribute 'lour'"),
        (f"{PLACE}:NO_PASS", PassLoadError, "it is a 'int'"),
        (f"{PLACE}:lower{{exact=true}}", OptionError, "has no option 'exact'"),
        (f"{PLACE}:Remark{{words=x}}", OptionError, "has no option 'words'"),
        ("branch{limit=many}", OptionValueError, "'many'"),
        ("lowr", OptionError, "the list of passes has no option 'lowr'"),
        ("lower it", PassSpellingError, "'lower it' is not a pass"),
    ],
)
def test_what_is_no_pass_is_told_before_anything_runs(
    text: str, error: type[Exception], words: str
) -> None:
    with cpu_with(lowering=(text,)), pytest.raises(error, match=re.escape(words)):
        wir.emit(program())


@pytest.mark.parametrize("given", [f"{PLACE}:lower", (lowerings.lower,), [f"{PLACE}:lower"]])
def test_passes_are_named_by_a_tuple_of_texts(given: Any) -> None:
    with cpu_with(lowering=given), pytest.raises(PassSpellingError, match=r"package\.module"):
        wir.emit(program())


def test_a_fault_reaches_the_caller_of_torch_compile_even_with_stock_as_a_way_out() -> None:
    torch._dynamo.reset()
    options = {"on_unsupported": "stock"}
    with fresh_cache(), cpu_with(lowering=(f"{PLACE}:defines_twice",)):
        run = torch.compile(lambda x: x + 1, backend="wrapper_ir", options=options)
        with pytest.raises(Exception, match=re.escape(f"{PLACE}:defines_twice")):
            run(torch.ones(3))
    torch._dynamo.reset()


def test_what_a_pass_refuses_is_left_to_stock_if_that_is_asked_for() -> None:
    lowering = (f"{PLACE}:needs_what_is_not_there",)

    def compiled(**options: Any) -> Any:
        torch._dynamo.reset()
        return torch.compile(lambda x: x + 1, backend="wrapper_ir", options=options)

    with fresh_cache(), cpu_with(lowering=lowering):
        with pytest.raises(Exception, match="is not supported by the made-up device"):
            compiled()(torch.ones(3))
        with pytest.warns(UserWarning, match="is not supported by the made-up device"):
            assert compiled(on_unsupported="stock")(torch.ones(3)).tolist() == [2] * 3
    torch._dynamo.reset()


def test_constants_that_a_pass_adds_are_there_also_from_a_cache(tmp_path: Path) -> None:
    from tests.models.watch import watch_inductor

    net = model()[0]
    place = alone(lowerings, tmp_path).__name__
    with fresh_cache(), cpu_with(lowering=(f"{place}:doubles_products",)):
        for emitter in ("python", "fx"):
            for lowered in (1, 0):
                torch._dynamo.reset()
                run = torch.compile(net, backend="wrapper_ir", options={"emitter": emitter})
                with watch_inductor() as seen:
                    close(run(X), 2 * net(X))
                assert seen.lowered == lowered
        program = wir.capture(net, (X,))
        close(wir.compile(program)(X)[0], 2 * net(X))
    torch._dynamo.reset()


def test_passes_take_options_and_run_in_order_at_their_stages() -> None:
    remark = f"{PLACE}:Remark{{text=%s}}"
    stages = {"lowering": (remark % "one", remark % "two"), "legalisation": (remark % "last",)}
    with cpu_with(**stages):
        names = [each.name for each in pipeline_for(program(), make_emitter("python", {}))]
        lowered = ["remark", "remark", "check-results", "plan-memory"]
        assert names == [*lowered, "remark", "keep-storage"]
        comments = [str(line.text) for line in wir.prepare(program()).body if hasattr(line, "text")]
        assert comments == ["last", "two", "one"]
        planned = wir.planning.plan_memory(program())  # the planner alone
        assert "two" not in str(planned)
        prepared = wir.prepare(planned)
        assert "last" in str(prepared)
        assert "two" not in str(prepared)  # a planned program is past its lowering
        assert wir.prepare(prepared) == prepared


def test_a_pass_of_a_kind_runs_for_programs_on_its_devices_alone() -> None:
    b = wir.Builder("elsewhere", device="npu:0")
    x = b.input("x", "f32", (4,))
    b.returns(x)
    other = b.build()
    with cpu_with(lowering=(f"{PLACE}:Remark",)):
        assert wir.lower(other) is other
        assert wir.lower(program()) != program()


def test_passes_of_places_are_spelled_as_others_are() -> None:
    once = run_passes(program(), [f"{PLACE}:Remark{{text=here}}", "plan-memory"], verify_each=True)
    assert str(once).count("// here") == 1


# The conformance kit.


class OnTheCpu(DeviceConformance):
    device = "cpu"


def test_the_kit_runs_passes_and_finds_what_is_wrong_with_them(
    lowering: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = OnTheCpu()
    assert kernels(kit.program("residual")) == ["loops_mm"]
    kit.test_results_are_the_cpus("residual")
    kit.test_passes_obey_the_rules()
    monkeypatch.setattr(lowerings, "MM", lowerings.MM.replace("sum +=", "sum -="))
    with pytest.raises(AssertionError):
        kit.test_results_are_the_cpus("residual")


@pytest.mark.parametrize("stage", ["lowering", "legalisation"])
def test_the_kit_finds_passes_that_do_something_each_time(stage: str) -> None:
    with (
        cpu_with(**{stage: (f"{PLACE}:remarks_each_time",)}),
        pytest.raises(AssertionError, match="a second run of the pass"),
    ):
        OnTheCpu().test_passes_obey_the_rules()


# Caches.

_PACKAGE = """
from wrapper_ir.lines import Comment

def lower(program):
    remark = Comment("{remark}")
    return program if remark in program.body else program.replace(body=(remark, *program.body))
"""

_COMPILE = """
import sys
sys.path[:0] = [sys.argv.pop(1), sys.argv.pop(1)]
import torch
from tests.devices.loops import cpu_with
from tests.models.watch import watch_inductor
from wrapper_ir.frontends.inductor import statistics

with cpu_with(lowering=("vendors_passes.first:lower",)):
    with watch_inductor() as seen:
        torch.compile(lambda x: x.sin() + 1, backend="wrapper_ir")(torch.ones(8))
    (source,) = seen.sources
    print(statistics.programs, [w for w in ("one", "another") if f"# {w} remark" in source])
"""


def test_a_changed_pass_never_serves_what_its_elder_made(tmp_path: Path) -> None:
    package = tmp_path / "site" / "vendors_passes"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "first.py").write_text("from vendors_passes.second import lower\n")
    root = Path(__file__).parents[2]

    # The words differ in length: of a file of the same size that changes twice in a second, Python
    # itself takes old bytecode for that of the new text.
    def compiled(word: str) -> str:
        (package / "second.py").write_text(_PACKAGE.format(remark=f"{word} remark"))
        cache = str(tmp_path / "inductor")
        done = warm.run(_COMPILE, package.parent, root, TORCHINDUCTOR_CACHE_DIR=cache)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    assert compiled("one") == "1 ['one']"
    assert compiled("one") == "0 ['one']"  # from the cache
    assert compiled("another") == "1 ['another']"
    assert compiled("one") == "0 ['one']"


def test_keys_of_dynamo_s_package_cache_hold_passes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from wrapper_ir.frontends.inductor.identity import package_keys
    from wrapper_ir.frontends.inductor.session import Session, use_session
    from wrapper_ir.frontends.inductor.settings import Settings

    keys = package_keys(lambda _: "stock").__func__

    def key(*lowering: str) -> str:
        with cpu_with(lowering=lowering), use_session(Session(Settings())):
            return str(keys(key))

    assert keys(key) == "stock"
    known = [key(), key(f"{PLACE}:lower"), key(f"{PLACE}:Remark"), key(f"{PLACE}:Remark{{text=a}}")]
    assert len({*known}) == 4
    assert key(f"{PLACE}:lower") == known[1]
    made = type(sys)("made_up_passes")
    made.__dict__["lower"] = lambda program: program
    monkeypatch.setitem(sys.modules, "made_up_passes", made)
    assert key("made_up_passes:lower") != key("made_up_passes:lower")  # it has no identity


def test_code_in_no_file_has_no_identity_and_none_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wrapper_ir.passes.textual import code_digest, identity_of

    assert identity_of(["strip-comments"]) == identity_of(["strip-comments"])
    assert identity_of([f"{PLACE}:lower"]) is not None
    assert identity_of([f"{PLACE}:Remark{{text=a}}"]) != identity_of([f"{PLACE}:Remark{{text=b}}"])
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "changing_passes.py"
    file.write_text("def lower(program):\n    return program\n")
    before = code_digest("changing_passes")
    assert before is not None
    assert code_digest("changing_passes") == before
    file.write_text("def lower(program):\n    return program  # still loaded as it was\n")
    assert code_digest("changing_passes") is None
    made = type(sys)("made_up_passes")
    made.__dict__["lower"] = lambda program: program
    monkeypatch.setitem(sys.modules, "made_up_passes", made)
    assert identity_of(["made_up_passes:lower"]) is None
