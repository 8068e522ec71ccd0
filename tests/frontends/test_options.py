"""Options are checked by name and by value, before anything is compiled."""

from __future__ import annotations

import enum
import importlib.metadata
import re
from itertools import chain
from typing import Any

import pytest
import torch
from torch._inductor.utils import run_and_get_code

import wrapper_ir as wir
from wrapper_ir.backend import wrapper_ir
from wrapper_ir.emitters.registry import emitter_class, emitter_names
from wrapper_ir.errors import OptionError, OptionValueError
from wrapper_ir.frontends.inductor import Settings, install, settings
from wrapper_ir.frontends.inductor.session import current_session
from wrapper_ir.frontends.inductor.settings import (
    BACKEND_OPTIONS,
    LIBRARY_MAPPED,
    MAPPED,
    fates,
    with_cpp_wrapper,
)
from wrapper_ir.options.schema import options_of


def test_defaults() -> None:
    settings = Settings.from_options(None)
    assert settings == Settings.from_options({})
    assert (settings.emitter, settings.strategy, settings.on_unsupported) == (
        "python",
        None,  # as the planner has it: "reuse", or "pool" where arenas are kept
        "raise",
    )


def test_options_of_the_emitter_are_options_too() -> None:
    settings = Settings.from_options({"origins": True, "checks": "always", "strategy": "none"})
    assert settings.strategy == "none"
    assert dict(settings.emitter_options) == {"origins": True, "checks": "always"}
    assert settings != Settings.from_options({"strategy": "none"})


def test_the_emitter_has_its_own_defaults() -> None:
    assert Settings.from_options({}).emitter_options == ()
    assert Settings.from_options({"emitter": "python"}) == Settings.from_options(None)


def test_an_older_name_of_an_option_warns() -> None:
    with pytest.warns(DeprecationWarning, match="'memory' is called 'strategy' now"):
        settings = Settings.from_options({"memory": "none"})
    assert settings == Settings.from_options({"strategy": "none"})


def test_an_unknown_option_is_refused_by_name_with_the_list() -> None:
    with pytest.raises(OptionError) as caught:
        Settings.from_options({"emiter": "python"})
    text = str(caught.value)
    assert "'emiter'" in text
    names = "arena, build, checks, cpp_wrapper, cuda_graph, cuda_graph_branches, cuda_graph_cuts"
    names += ", cuda_graph_limit, cuda_graph_results"
    names += ", debug, debug_filter, debug_poison, emitter, mode, on_breach"
    names += ", on_unsupported, origins, out, profile, scratch_bytes, strategy, validate"
    names += ", verify_ranks, verify_ranks_seconds"
    assert names in text
    assert "did you mean 'emitter'?" in text


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "arena"},
        {"arena": "always"},
        {"arena": "kept", "strategy": "reuse"},
        {"on_unsupported": "ignore"},
        {"origins": 1},
        {"debug_poison": 1},
        {"emitter": 3},
        {"strategy": ["reuse"]},
    ],
    ids=str,
)
def test_an_illegal_value_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionValueError, match=next(iter(options))):
        Settings.from_options(options)


def test_install_takes_the_same_options() -> None:
    with pytest.raises(OptionError, match="emiter"):
        install(emiter="python")
    with pytest.raises(OptionValueError, match="strategy"):
        install(strategy="arena")
    assert current_session() is None


def test_torch_compile_reports_the_option() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(torch.nn.Linear(2, 2), backend="wrapper_ir", options={"nope": 1})
    with pytest.raises(Exception, match="'nope'"):
        compiled(torch.ones(1, 2))


MODES = ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_gives_what_stock_gives_for_it(mode: str) -> None:
    """Inductor searches as it does for itself; what captures is the emitter."""
    torch._dynamo.reset()
    function, x = (lambda x: (x * 3).sin().sum(1)), torch.linspace(-1, 1, 256).view(16, 16)
    with wir.record() as programs:
        ours = torch.compile(function, backend="wrapper_ir", mode=mode)(x)
    assert len(programs) == 1
    torch._dynamo.reset()
    assert torch.equal(ours, torch.compile(function, mode=mode)(x))
    settings = Settings.from_options({"mode": mode})
    stock = torch._inductor.list_mode_options(mode)
    captures = stock.pop("triton.cudagraphs", False)
    assert dict(settings.inductor) == stock
    assert dict(settings.emitter_options).get("cuda_graph", False) == captures


def test_the_emitter_is_chosen_beside_a_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the process or its environment: torch.compile takes a mode or options, not both."""
    function, x = (lambda x: (x * 5).cos().sum(1)), torch.linspace(-1, 1, 256).view(16, 16)

    def codes() -> list[str]:
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="wrapper_ir", mode="reduce-overhead")
        return list(run_and_get_code(compiled, x)[1])

    with wir.settings.patch(emitter="cpp"):
        assert ["wir::ProgramInfo" in code for code in codes()] == [True]
        assert Settings.from_options({"emitter": "python"}).emitter == "python"
    assert ["wir::ProgramInfo" in code for code in codes()] == [False]
    monkeypatch.setenv("WRAPPER_IR_EMITTER", "cpp")
    monkeypatch.setenv("WRAPPER_IR_ON_UNSUPPORTED", "stock")
    with install():
        session = current_session()
        assert session is not None
        assert (session.settings.emitter, session.settings.on_unsupported) == ("cpp", "stock")
    assert wir.settings.emitter == "cpp"
    wir.settings.emitter = "fx"
    assert Settings.from_options(None).emitter == wir.settings.emitter == "fx"
    del wir.settings.emitter
    assert wir.settings.emitter == "cpp"


def test_settings_of_the_process_are_checked() -> None:
    with pytest.raises(
        OptionError, match=r"(?s)wir\.settings has no option 'emiter'.*did you mean"
    ):
        wir.settings.emiter = "cpp"
    with (
        pytest.raises(OptionValueError, match="'raise', 'stock'"),
        wir.settings.patch(emitter="cpp", on_unsupported="ignore"),
    ):
        pass
    assert wir.settings.emitter == "python"


@pytest.mark.parametrize("mode", ["default", "lite", *MODES])
def test_a_mode_of_stock_goes_through_an_installation(mode: str) -> None:
    if mode not in torch._inductor.list_mode_options():
        return
    function, x = (lambda x: (x * 7).sin().sum(0)), torch.linspace(-1, 1, 256).view(16, 16)
    torch._dynamo.reset()
    with install(), wir.record() as programs:
        ours = torch.compile(function, mode=mode)(x)
    assert len(programs) == 1
    torch._dynamo.reset()
    assert torch.equal(ours, torch.compile(function, mode=mode)(x))


def test_a_mode_that_there_is_not_is_refused() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x + 1, backend="wrapper_ir", mode="fastest")
    with pytest.raises(Exception, match="'fastest'"):
        compiled(torch.ones(2))
    with pytest.raises(OptionValueError, match="'fx', which has no option 'cuda_graph'"):
        Settings.from_options({"mode": "reduce-overhead", "emitter": "fx"})


def test_what_is_said_besides_a_mode_counts_more() -> None:
    options = {"mode": "max-autotune", "max_autotune": False, "cuda_graph": False}
    settings = Settings.from_options(options)
    assert dict(settings.inductor) == {"max_autotune": False, "coordinate_descent_tuning": True}
    assert settings.emitter_options == (("cuda_graph", False),)


def test_options_of_inductor_hold_for_the_compilation_and_its_backward() -> None:
    for options, is_vectorised in (({}, True), ({"cpp.simdlen": 1}, False)):
        torch._dynamo.reset()
        x = torch.ones(8, 64, requires_grad=True)
        with wir.record() as programs:
            compiled = torch.compile(lambda x: (x * 2).sin(), backend="wrapper_ir", options=options)
            compiled(x).sum().backward()
        assert len(programs) == 2
        assert ["Vectorized<" in str(program) for program in programs] == [is_vectorised] * 2
    assert torch._inductor.config.cpp.simdlen is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_autotune": 1}, "True or False"),
        ({"fx_wrapper": True}, "emitter='fx'"),
        ({"triton.cudagraph_trees": False}, "cuda_graph"),
        ({"aot_inductor.package": True}, "wir.export"),
        ({"triton.debug_sync_graph": True}, "waits for the GPU"),
        ({"profiler-mark-wrapper-call": True}, "the option profile"),
        ({1: True}, "has no option '1'"),
        ({"max_autotun": True}, "did you mean Inductor's 'max_autotune'"),
    ],
    ids=str,
)
def test_options_of_inductor_that_mean_nothing_here_are_refused(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(wir.WrapperIRError, match=re.escape(words)):
        Settings.from_options(options)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"allow_buffer_reuse": False}, {"strategy": "none"}),
        ({"memory_planning": True}, {"strategy": "pool"}),
        ({"memory_planning": False}, {}),
        ({"triton.cudagraphs": True}, {"cuda_graph": True}),
        ({"cpp.enable_kernel_profile": True}, {"profile": True}),
    ],
    ids=str,
)
def test_options_of_inductor_that_decide_about_the_wrapper_are_ours(
    theirs: dict[str, Any], ours: dict[str, Any]
) -> None:
    assert Settings.from_options(theirs) == Settings.from_options(ours)


def test_settings_of_inductor_that_decide_about_the_wrapper_are_heeded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def memory(options: dict[str, Any], **changes: Any) -> str | None:
        with torch._inductor.config.patch(changes):
            return Settings.from_options(options).with_inductors().strategy

    settings._tell.cache_clear()
    assert memory({}) is None
    assert memory({}, memory_planning=True) == "pool"
    assert memory({}, allow_buffer_reuse=False) == "none"
    assert memory({"strategy": "reuse"}, memory_planning=True) == "reuse"
    assert memory({"arena": "kept"}, allow_buffer_reuse=False) is None
    assert not caplog.messages
    assert memory({}, size_asserts=False) is memory({}, size_asserts=False) is None
    (told,) = caplog.messages
    assert told.endswith("has no effect: the option checks says when sizes are checked")


def test_an_installation_heeds_settings_of_inductor() -> None:
    layers = [torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.Linear(64, 64)]
    with install(), torch.no_grad():
        function = torch.compile(torch.nn.Sequential(*layers), options={"memory_planning": True})
        _, (code, *_) = run_and_get_code(function, torch.ones(4, 64))
    assert "pool" in code


def test_each_option_of_this_release_of_inductor_is_passed_on_or_mapped_or_refused() -> None:
    """A release brings new ones: say in ``inductor_options.txt`` what becomes of each."""
    known = fates()
    assert sorted(set(torch._inductor.config._config) - set(known)) == []  # type: ignore[attr-defined]
    ways = {way: {name for name in known if known[name].way == way} for way, _ in known.values()}
    assert set(ways) == {
        *("passed", "ours", "mapped", "refused"),
        *("library passed", "library mapped", "library taken"),
    }
    assert ways["mapped"] == {*MAPPED}
    assert ways["library mapped"] == {*LIBRARY_MAPPED}
    assert all(known[name].instead for name in ways["refused"])
    emitters = (options_of(emitter_class(name)) for name in emitter_names())
    assert ways["ours"] == known.keys() & {o.name for o in chain(BACKEND_OPTIONS, *emitters)}


@pytest.mark.filterwarnings("ignore::FutureWarning")  # some are on their way out
@pytest.mark.parametrize("way", ["passed", "refused"])
def test_an_option_of_inductor_does_what_the_table_says(way: str) -> None:
    """With another value than holds, each that is a truth value or a number."""
    config: Any = torch._inductor.config
    for name, fate in fates().items():
        if name not in config._config or fate.way != way:
            continue
        value = getattr(config, name)
        if type(value) not in (bool, int, float):
            continue
        other = not value if type(value) is bool else value + 1
        if way == "passed":
            assert dict(Settings.from_options({name: other}).inductor) == {name: other}
            continue
        with pytest.raises(OptionValueError, match="the option left out"):
            Settings.from_options({name: other})


def test_an_option_that_nobody_has_classified_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: fate for name, fate in fates().items() if name != "max_autotune"}
    monkeypatch.setattr(settings, "fates", lambda: known)
    with pytest.raises(OptionValueError, match="its effect here is not known"):
        Settings.from_options({"max_autotune": True})


def test_options_of_inductor_may_have_dashes_or_be_aliases_or_say_what_holds() -> None:
    assert dict(Settings.from_options({"max-autotune": True}).inductor) == {"max_autotune": True}
    assert Settings.from_options(with_cpp_wrapper({"cpp-wrapper": True})).emitter == "cpp"
    aliased = Settings.from_options({"force_disable_caches": True})
    assert dict(aliased.inductor) == {"force_disable_caches": True}
    Settings.from_options({"size_asserts": torch._inductor.config.size_asserts})


def test_install_leaves_to_inductor_what_is_inductors() -> None:
    with pytest.raises(OptionValueError, match=r"torch\._inductor\.config"):
        install(mode="max-autotune")
    with install(mode="reduce-overhead"):
        session = current_session()
        assert session is not None
        assert session.settings.emitter_options == (("cuda_graph", True),)
    assert current_session() is None


def test_an_unknown_emitter_is_refused_by_name() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x + 1, backend="wrapper_ir", options={"emitter": "fortran"})
    with pytest.raises(Exception, match="'fortran'"):
        compiled(torch.ones(2))


def test_torch_finds_the_backend_by_name() -> None:
    (point,) = importlib.metadata.entry_points(group="torch_dynamo_backends", name="wrapper_ir")
    assert point.load() is wrapper_ir
    assert "wrapper_ir" in torch._dynamo.list_backends()
    assert wir.WrapperIRError is not None


class Checks(enum.StrEnum):
    """Words of a program of somebody's, each equal to one of ours."""

    ALWAYS = "always"


def test_what_no_text_stands_for_is_no_value() -> None:
    with pytest.raises(OptionValueError, match="a plain value"):
        Settings.from_options({"checks": Checks.ALWAYS})


def test_options_that_do_not_go_together() -> None:
    assert Settings.from_options({"arena": "kept", "strategy": "pool"}).arena == "kept"
    with pytest.raises(OptionValueError, match=r"'arena' cannot be 'kept'.*'none'"):
        Settings.from_options({"arena": "kept", "strategy": "none"})
    with pytest.raises(OptionValueError, match="'out' cannot be True"):
        Settings.from_options({"out": True})
