"""Options are checked by name and by value, before anything is compiled."""

from __future__ import annotations

import enum
import importlib.metadata
from typing import Any

import pytest
import torch

import wrapper_ir as wir
from wrapper_ir.backend import wrapper_ir
from wrapper_ir.errors import OptionError, OptionValueError
from wrapper_ir.frontends.inductor import Settings, install
from wrapper_ir.frontends.inductor.session import current_session


def test_defaults() -> None:
    settings = Settings.from_options(None)
    assert settings == Settings.from_options({})
    assert (settings.emitter, settings.memory, settings.on_unsupported) == (
        "python",
        None,  # as the planner has it: "reuse", or "pool" where arenas are kept
        "raise",
    )


def test_options_of_the_emitter_are_options_too() -> None:
    settings = Settings.from_options({"origins": True, "checks": "always", "memory": "none"})
    assert settings.memory == "none"
    assert dict(settings.emitter_options) == {"origins": True, "checks": "always"}
    assert settings != Settings.from_options({"memory": "none"})


def test_the_emitter_has_its_own_defaults() -> None:
    assert Settings.from_options({}).emitter_options == ()
    assert Settings.from_options({"emitter": "python"}) == Settings.from_options(None)


def test_an_unknown_option_is_refused_by_name_with_the_list() -> None:
    with pytest.raises(OptionError) as caught:
        Settings.from_options({"emiter": "python"})
    text = str(caught.value)
    assert "'emiter'" in text
    names = "arena, checks, cpp_wrapper, cuda_graph, cuda_graph_branches, cuda_graph_cuts"
    names += ", cuda_graph_limit, cuda_graph_results"
    names += ", debug, debug_filter, debug_poison, emitter, keep_buffers, memory"
    assert f"{names}, on_unsupported, origins, out, profile" in text
    assert "did you mean 'emitter'?" in text


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "arena"},
        {"arena": "always"},
        {"arena": "kept", "memory": "reuse"},
        {"on_unsupported": "ignore"},
        {"origins": 1},
        {"debug_poison": 1},
        {"emitter": 3},
        {"memory": ["reuse"]},
    ],
    ids=str,
)
def test_an_illegal_value_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionValueError, match=next(iter(options))):
        Settings.from_options(options)


def test_install_takes_the_same_options() -> None:
    with pytest.raises(OptionError, match="emiter"):
        install(emiter="python")
    with pytest.raises(OptionValueError, match="memory"):
        install(memory="arena")
    assert current_session() is None


def test_torch_compile_reports_the_option() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(torch.nn.Linear(2, 2), backend="wrapper_ir", options={"nope": 1})
    with pytest.raises(Exception, match="'nope'"):
        compiled(torch.ones(1, 2))


def test_a_mode_is_refused() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x + 1, backend="wrapper_ir", mode="max-autotune")
    with pytest.raises(Exception, match="'max-autotune'"):
        compiled(torch.ones(2))


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
