"""Registration of our entries in Inductor's device slots, and its removal.

``register_backend_for_device`` is Inductor's interface for external backends. Its tables belong to
the process. So we register *dispatching* entries, which check at each use whether this context's
compilations are ours, and otherwise delegate to the entry that was there before. The first session
registers them; the last one to end restores the very objects that it found.

Some code paths bypass these tables: compilations ahead of time and in other processes, keys of
Dynamo's cache, reproducer scripts, questions about sizes. There we replace functions of torch with
ones that make the same check.

Every device type gets entries, even the types that we do not support: otherwise Inductor's own
wrapper would silently compile a graph on such a device.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

from wrapper_ir.devices import is_registered
from wrapper_ir.errors import OptionValueError, WrapperIRError
from wrapper_ir.frontends.inductor import (
    compat,
    devices,
    errors,
    groups,
    identity,
    in_place,
    messages,
    one_rank,
    overlaps,
    spec_guards,
    straight,
    straight_subclasses,
    waits,
)
from wrapper_ir.frontends.inductor import session as sessions
from wrapper_ir.frontends.inductor.choices import with_free_choices
from wrapper_ir.frontends.inductor.compat import V, codegen_common, inductor_entry
from wrapper_ir.frontends.inductor.settings import Settings
from wrapper_ir.frontends.inductor.untried import named
from wrapper_ir.frontends.inductor.views import computing_reads


class WrapperEntry:
    """Stands in for a wrapper class in a slot, and decides anew for each graph.

    Inductor asks a wrapper class for ``create``; everything else is delegated to ``stock``, the
    class that was registered before. ``setting`` selects this slot, if we refuse the slot.
    """

    def __init__(self, device: str, stock: Any, setting: str | None) -> None:
        self._device = device
        self._stock = stock
        self._setting = setting

    def create(self, *args: Any, **kwargs: Any) -> Any:
        """Make the wrapper of a graph: ours in one of our contexts, else the previous class's."""
        session = sessions.maker()
        if session is None or _is_stock(session, *args):
            return self._stock.create(*args, **kwargs)
        error = _refusal(self._device, self._setting)  # a device kind may have come since
        if error is not None:
            sessions.refuse(session, error)
            sessions.announce(str(error))
            return self._stock.create(*args, **kwargs)
        return _create_wrapper(session, *args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Construct the previous class."""
        return self._stock(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stock, name)


class FxEntry(WrapperEntry):
    """The fx slot: ours only while a program is being captured, which uses this slot."""

    def create(self, *args: Any, **kwargs: Any) -> Any:
        """Make the wrapper of a graph."""
        session = sessions.maker()
        if session is not None and session.capture and is_registered(self._device):
            return _create_wrapper(session, *args, **kwargs)
        return super().create(*args, **kwargs)


@dataclass(slots=True)
class _Previous:
    """A device's entries before ours; all None for a device that Inductor did not know."""

    codegen: Any
    custom_pass: Any
    custom_config: Any
    ours: Any = None
    take_back: Callable[[], None] | None = None


_lock = threading.RLock()
_sessions = 0
_previous: dict[str, _Previous] = {}

#: Uses that ended while another thread held the lock.
_overdue: deque[None] = deque()


def acquire() -> None:
    """Register our entries unless they are registered; each call needs one ``release``.

    A vendor's device may have appeared since the last call: since PyTorch 2.15, the function that
    fills Inductor's tables calls the device's hook ``_inductor_backend_init``.
    """
    global _sessions
    with _lock:
        _sessions += 1  # first: what registering allocates may end another use
        try:
            with named():
                _register()
        except BaseException:
            release()
            raise


def release() -> None:
    """End one use; the last one restores what the first one found."""
    global _sessions
    with _lock:
        _sessions -= 1
        while _overdue:
            _overdue.pop()
            _sessions -= 1
        if _sessions == 0:
            _restore()


def release_unawaited() -> None:
    """End one use without waiting, for callers in garbage collection.

    If another thread holds the lock, the next use that ends also ends this one.
    """
    if _lock.acquire(blocking=False):
        try:
            release()
        finally:
            _lock.release()
    else:
        _overdue.append(None)


@contextlib.contextmanager
def registered(session: sessions.Session) -> Iterator[None]:
    """Route this context's compilations through us for the length of a block."""
    acquire()
    try:
        with sessions.use_session(session):
            yield
    finally:
        release()


# What converts and emits graphs is imported for the first graph that needs it. A process that finds
# all of its graphs in Inductor's caches does without.


def _create_wrapper(session: sessions.Session, *args: Any, **kwargs: Any) -> Any:
    from wrapper_ir.frontends.inductor.wrapper import create_wrapper  # noqa: PLC0415 - see above

    return create_wrapper(session, *args, **kwargs)


def _with_library_emission(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def compile_fx_aot(*args: Any, **kwargs: Any) -> Any:
        from wrapper_ir.frontends.inductor.aot_compile import (  # noqa: PLC0415 - see above
            with_library_emission,
        )

        return with_library_emission(stock)(*args, **kwargs)

    return compile_fx_aot


def _is_made() -> bool:
    return sessions.maker() is not None


_with_devices = partial(devices.with_devices, _is_made)
_unless_with_copies = partial(in_place.unless_with_copies, _is_made)
_keeping_storages = partial(in_place.keeping_storages, _is_made)


def _with_our_calls(stock: Callable[..., Any]) -> Callable[..., Any]:
    for wrap in (
        one_rank.with_one_compiler,
        straight.with_straight_calls,
        spec_guards.with_spec_guards,
        overlaps.with_overlaps,
        messages.with_messages,
        groups.with_groups,
    ):
        stock = wrap(_is_made, stock)
    return _with_devices(stock)


def _noting_contract(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def codegen_and_compile(*args: Any, **kwargs: Any) -> Any:
        if not _is_made():
            return stock(*args, **kwargs)
        # It brings the verifier, which a graph from a cache does not need.
        from wrapper_ir.frontends.inductor.contract_check import (  # noqa: PLC0415
            noting_contract,
        )

        return noting_contract(stock)(*args, **kwargs)

    return groups.with_overloads(_is_made, codegen_and_compile)


#: Replaced functions of torch: module or class, name, and a function from theirs to ours.
_PLACES: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (inductor_entry, "compile_fx", _with_our_calls),
    (inductor_entry, "compile_fx_inner", _with_devices),
    (inductor_entry, "compile_fx_aot", _with_library_emission),
    (compat.partitioners, "fx_graph_cse", partial(waits.with_one_wait, _is_made)),
    (inductor_entry._InProcessFxCompile, "codegen_and_compile", _noting_contract),
    *((module, name, _unless_with_copies) for module, name in compat.in_place_passes),
    *((module, name, _keeping_storages) for module, name in compat.copy_removing_passes),
    (compat.CachedResult, "wrap_post_compile", overlaps.noting_metadata),
    (
        *(compat.runtime_wrappers, "create_synthetic_base_metadata"),
        partial(overlaps.with_views_of_bases, _is_made),
    ),
    (compat.RuntimeWrapper, "post_compile", straight.noting_graph),
    (compat.AOTDispatchSubclassWrapper, "post_compile", straight_subclasses.noting_inside),
    (compat.AOTDispatchAutograd, "process_runtime_tangent", overlaps.with_plain_gradients),
    (compat.CompilePackage, "source_id_from_fn", identity.package_keys),
    (compat.SerializedFxCompile, "serialize_compile", partial(sessions.with_context, registered)),
    (compat.GraphLowering, "mark_buffer_mutated", partial(computing_reads, _is_made)),
    (compat.ShapeEnv, "evaluate_expr", with_free_choices),
    *((module, "extra_imports", identity.Scripts) for module in compat.repro_writers),
    *(one_rank.places(_is_made) if compat.has_one_rank else ()),
)

#: The replacements in effect: place, name, their function, and ours.
_replaced: list[tuple[Any, str, Any, Any]] = []


def _register() -> None:
    for device, codegen in list(devices.codegens()):
        if device in _previous:
            continue
        previous = _Previous(
            codegen_common.device_codegens.get(device),
            codegen_common.custom_backend_passes.get(device),
            codegen_common.custom_backend_codegen_configs.get(device),
        )
        _previous[device] = previous
        codegen_common.register_backend_for_device(
            device,
            devices.entry(partial(_is_ours, device), codegen.scheduling),
            _entry(device, codegen.wrapper_codegen),
            _entry(device, codegen.cpp_wrapper_codegen, "cpp_wrapper"),
            _fx_entry(device, codegen.fx_wrapper_codegen),
            identity.IdentityPass(device, previous.custom_pass),
            previous.custom_config,
        )
        previous.ours = codegen_common.device_codegens[device]
        if previous.codegen is None:
            previous.take_back = devices.answer_for_device(device)
    if not _replaced:
        for place, name, make in _PLACES:
            stock = inspect.getattr_static(place, name)
            _replaced.append((place, name, stock, make(stock)))
            setattr(place, name, _replaced[-1][-1])


def _restore() -> None:
    for device, previous in _previous.items():
        # Leave an entry alone that somebody else has registered over ours.
        if codegen_common.device_codegens.get(device) is previous.ours:
            codegen_common.device_codegens[device] = previous.codegen
            codegen_common.custom_backend_passes[device] = previous.custom_pass
            codegen_common.custom_backend_codegen_configs[device] = previous.custom_config
            if previous.take_back is not None:
                del codegen_common.device_codegens[device]
                previous.take_back()
    _previous.clear()
    for place, name, stock, ours in _replaced:
        if inspect.getattr_static(place, name) is ours:
            setattr(place, name, stock)
    _replaced.clear()


def _entry(device: str, stock: Any, setting: str | None = None) -> Any:
    return None if stock is None else WrapperEntry(device, stock, setting)


def _fx_entry(device: str, stock: Any) -> Any:
    """Return the entry of the fx slot, even if the vendor of a registered device has none."""
    if stock is None and not is_registered(device):
        return None
    return FxEntry(device, stock or compat.WrapperFxCodegen, "fx_wrapper")


def _is_stock(
    session: sessions.Session,
    is_subgraph: bool,  # noqa: FBT001 - Inductor's
    _: str | None,
    parent: Any,
    *__: Any,
) -> bool:
    """Return whether one of our graphs gets Inductor's own wrapper during a bisection."""
    if is_subgraph:
        return not hasattr(parent, "session")
    graph: Any = V.graph
    return identity.is_bisected_away(session, graph.module.graph)


def _is_ours(device: str) -> bool:
    return is_registered(device) and sessions.maker() is not None


def _refusal(device: str, setting: str | None) -> WrapperIRError | None:
    """Return the error with which our contexts refuse a slot, or None if they do not."""
    if not is_registered(device):
        return errors.UnsupportedDeviceError(device=device)
    return None if setting is None else errors.UnsupportedConfigError(setting=setting)


# ``install``: in its block every compilation by Inductor is ours, whoever starts it.


class Installation:
    """The state between ``install()`` and ``uninstall()``; as a context manager it ends itself."""

    def __init__(self, session: sessions.Session) -> None:
        self.session = session
        self._undo = contextlib.ExitStack()
        acquire()
        self._undo.callback(release)
        self._undo.callback(sessions.set_session, sessions.set_session(session))
        _stack.set((*_stack.get(), self))

    def uninstall(self) -> None:
        """Restore what ``install`` replaced, for this and all inner installations; only once."""
        stack = _stack.get()
        if self in stack:
            inner = stack[stack.index(self) + 1 :]
            for installation in reversed(inner):
                installation.uninstall()
            _stack.set(stack[: stack.index(self)])
        self._undo.close()

    def __enter__(self) -> Installation:
        """Return the installation, which is already in effect."""
        return self

    def __exit__(self, *error: object) -> None:
        """Uninstall, also after an exception."""
        self.uninstall()


_stack: ContextVar[tuple[Installation, ...]] = ContextVar("wrapper_ir.installations", default=())


def install(emitter: str | None = None, **options: Any) -> Installation:
    """Route every compilation by Inductor in this context through us, from now on.

    Use it as a context manager, or end it with ``uninstall()``. Installations nest; the innermost
    wins. Other threads are not affected: their compilations remain Inductor's own. A function that
    Dynamo has already compiled is not compiled again. A backward is compiled by whatever compiled
    its forward, whenever and in whichever thread it first runs.

    Args:
        emitter: Name of the emitter; the default comes from ``wir.settings`` or the environment.
        **options: As for ``torch.compile(..., backend="wrapper_ir", options=...)``, except for
            those that would be passed on to Inductor.

    Raises:
        OptionError: There is no such option.
        OptionValueError: The option exists, but not with that value.
    """
    chosen = {} if emitter is None else {"emitter": emitter}
    settings = Settings.from_options({**chosen, **options})
    for name, value in settings.inductor:  # a backward may come after the block
        expected = "the option left out: set it in torch._inductor.config or in torch.compile"
        raise OptionValueError(option=name, value=value, expected=expected)
    return Installation(sessions.Session(settings, hold=_hold, recorders=sessions.open_recorders()))


def _hold(trace: object) -> None:
    """Stay registered while a trace is alive, because its backward may still be compiled."""
    acquire()
    weakref.finalize(trace, release_unawaited)


def uninstall() -> None:
    """End the innermost installation of this context.

    Raises:
        InstallOrderError: There is none.
    """
    installations = _stack.get()
    if not installations:
        raise errors.InstallOrderError
    installations[-1].uninstall()
