"""The compiler behind ``torch.compile(model, backend="wrapper_ir")``."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.devices import CPP, kind_of
from wrapper_ir.emitters.base import faults_of
from wrapper_ir.emitters.registry import emitter_class, make_emitter
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.identity import saved_for_minifier
from wrapper_ir.frontends.inductor.registration import registered
from wrapper_ir.frontends.inductor.session import Session, open_recorders
from wrapper_ir.frontends.inductor.settings import Settings, pinned_settings
from wrapper_ir.frontends.inductor.untried import named
from wrapper_ir.runtime.triton import prepare_launcher
from wrapper_ir.toolchain.kernels import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


# Torch's registry of backends, in which threads may register one backend at a time twice.
#
# ``torch.compile(model, backend="wrapper_ir")`` loads our entry point and then registers what it
# got. Torch checks for the name before it loads, takes no lock, and refuses a name that is
# registered already. Threads that compile for the first time therefore all load, one of them
# registers, and the others fail. Loading is the only step that is ours, so it makes registering
# again harmless.


class _Repeatable(dict[str, Any]):
    """Torch's table of backends by name; of some names it never says that it has them.

    Torch then loads and registers these once more, which changes nothing.
    """

    def __init__(self, table: dict[str, Any]) -> None:
        super().__init__(table)
        self.names: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name not in self.names and super().__contains__(name)


_lock = threading.Lock()


def let_register_again(name: str) -> None:
    """Let threads register the backend of an entry point again, which would be an error."""
    with named(), _lock:
        table = compat.backend_registry._COMPILER_FNS
        if not isinstance(table, _Repeatable):
            ours = _Repeatable(table)
            compat.backend_registry._COMPILER_FNS = ours
            # What another thread registered between the two lines above.
            ours.update(table)
            table = ours
        table.names.add(name)


def compile_graph(
    gm: torch.nn.Module, example_inputs: Sequence[Any], settings: Settings
) -> Callable[..., Any]:
    """Compile a module of tensors, such as one of Dynamo's graphs, with Inductor and our wrapper.

    A backward is lowered when it first runs, long after this returns and perhaps in another thread,
    so the session is entered again around each graph.

    Raises:
        UnsupportedLineError: The graph has no typed form (unless ``on_unsupported="stock"``).
    """
    session = Session(settings, recorders=open_recorders())
    machine = pinned_settings()  # the thread of a backward has another context
    # With a fresh cache, compile the one-time parts while Inductor works on the schedule.
    types = {each.device.type for each in example_inputs if isinstance(each, torch.Tensor)}
    kinds = [kind_of(type_) for type_ in types]
    if not kinds or any(kind.runs(CPP) for kind in kinds):
        prepare()
    prepare_launcher(kinds)
    with faults_of(emitter_class(settings.emitter), "preparing to load its programs"):
        make_emitter(settings.emitter, dict(settings.emitter_options)).prepare_loading()

    def inner_compile(*args: Any, **kwargs: Any) -> Any:
        with named(), registered(session), _config(settings, machine):
            try:
                compiled = compat.compile_fx_inner(*args, **kwargs)
            except compat.InductorError as error:
                inner = getattr(error, "inner_exception", None)
                if isinstance(inner, WrapperIRError):
                    raise inner from None
                raise
        return saved_for_minifier(compiled, lambda: registered(session))

    with named(), registered(session), _config(settings, machine):
        how: Any = {"inner_compile": inner_compile}
        module: Any = gm  # it takes any module
        compiled: Any = compat.inductor_entry.compile_fx(module, example_inputs, **how)
        return compiled  # type: ignore[no-any-return]  # a callable, since nothing is ahead of time


def _config(settings: Settings, machine: Mapping[str, Any]) -> Any:
    """Patch Inductor's settings as the options say, and keep it on its Python wrapper.

    We choose the target ourselves. With ``cpp_wrapper`` Inductor would lower the graph for its own
    C++.
    """
    patches = {**machine, **dict(settings.inductor), "cpp_wrapper": False}
    return compat.inductor_config.patch(patches)
