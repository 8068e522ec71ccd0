"""Who makes a graph: caches keep our entries apart by it, and tools know whose a fault is.

Whoever made a graph's forward makes its backward. An installation is a state of a context, and a
backward is compiled when it is first run: after the block, or in a thread of autograd's, where
there is no installation; or in the block, of a forward from before it. AOTAutogradCache files both
together, under what held for the forward. So the session of an installation is that of the trace,
which both share, and the first to ask decides.

AOTAutogradCache and FxGraphCache answer before any of our code runs, from a key that knows nothing
of wrappers: after a stock compilation of the same model they would serve us stock's result, and
the other way round. Both keys do contain the ``uuid`` of the pass in a device's registration slot
(``device_custom_pass``). So we put a pass there that changes nothing and says who is compiling.
It is false in a context that is not ours: then Inductor hashes None, exactly as without us, and
the compilations of other threads keep their keys while we are registered.

PyTorch's minifier and bisector know of Inductor alone, too. Each has a place where somebody from
outside can say a word; what we put there asks in the same way.
"""

from __future__ import annotations

import functools
import hashlib
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.devices import is_registered, kind_of
from wrapper_ir.frontends.inductor.compat import (
    BISECTED_BACKENDS,
    AOTAutogradBypass,
    BisectSubsystem,
    CompilerBisector,
    CustomGraphModulePass,
    FxGraphBypass,
    TracingContext,
    dynamo_config,
)
from wrapper_ir.frontends.inductor.session import Session, current_session, open_recorders
from wrapper_ir.options.schema import options_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from wrapper_ir.frontends.inductor.settings import Settings


class CacheBypass(FxGraphBypass, AOTAutogradBypass):
    """Raised where a key is asked for: both caches take it as "not this one", silently."""


#: Traces of graphs that went through an installation, with its session.
_makers: weakref.WeakKeyDictionary[TracingContext, Session] = weakref.WeakKeyDictionary()

#: Those whose backward may come after the installation.
_held: weakref.WeakSet[TracingContext] = weakref.WeakSet()


def maker() -> Session | None:
    """Return the session of the graph that is compiled now; None: Inductor makes it alone."""
    session = current_session()
    trace = TracingContext.try_get()
    if trace is None or (session is not None and session.hold is None):
        return session
    known = _makers.get(trace)
    if known is None and session is not None and not _is_backward(trace):
        known = _makers[trace] = session
    if known is not None and known.hold and trace not in _held and _is_training(trace):
        _held.add(trace)
        known.hold(trace)
    return known


def _is_training(trace: TracingContext) -> bool:
    """Return whether a graph has a backward: whether anything has a gradient to begin with."""
    return trace.fw_metadata is not None and bool(trace.fw_metadata.traced_tangents)


def _is_backward(trace: TracingContext) -> bool:
    """Return whether a graph is compiled whose forward has been.

    AOTAutograd describes a forward in the trace before it is compiled, and collects strides there
    only while it is.
    """
    return trace.fw_metadata is not None and trace.output_strides is None


class IdentityPass(CustomGraphModulePass):
    """A pass that does nothing but carry our identity into Inductor's cache keys.

    Args:
        device: The device type that it is registered for.
        found: The pass that was registered before, which goes on working.
    """

    def __init__(self, device: str, found: CustomGraphModulePass | None) -> None:
        self._device = device
        self._found = found

    def __bool__(self) -> bool:
        """Return whether there is anything to hash in this context."""
        return self._maker() is not None or bool(self._found)

    def _maker(self) -> Session | None:
        return maker() if is_registered(self._device) else None

    def __call__(self, gm: torch.fx.GraphModule) -> None:
        """Run the pass that was there before, if any."""
        if self._found:
            self._found(gm)

    def uuid(self) -> Any:
        """Return what identifies this context's compilations.

        Raises:
            CacheBypass: What is compiled now must neither come from a cache nor go into one.
        """
        found = self._found.uuid() if self._found else None
        session = self._maker()
        if session is None:
            return found
        _refuse_uncacheable(session)
        return (
            "wrapper_ir",
            source_digest(),
            repr(session.settings),
            _of_device(self._device),
            found,
        )


class PackageKeys:
    """Keys of Dynamo's cache of whole functions, where installations have entries of their own.

    Dynamo makes a key of the function alone, whatever compiles it. It asks for it when nothing is
    compiled yet, so the backend of ``torch.compile`` cannot be told from Inductor there.

    Args:
        found: Dynamo's function for keys.
    """

    def __init__(self, found: Callable[..., str]) -> None:
        self._found = found

    def __call__(self, fn: Callable[..., Any]) -> str:
        """Return the key of a function in this context."""
        key, session = self._found(fn), current_session()
        if session is None:
            return key
        told = repr((key, source_digest(), session.settings))
        return hashlib.sha256(told.encode()).hexdigest()


def _of_device(device: str) -> str:
    """Return what the kind of a device says of what is emitted: a vendor's may change."""
    kind = kind_of(device)
    return repr((kind.scheduling, kind.languages, kind.memory, kind.python, kind.cpp, kind.queues))


def _refuse_uncacheable(session: Session) -> None:
    if open_recorders(session):
        raise CacheBypass("programs are being recorded, so they must be made")
    if session.capture:
        raise CacheBypass("a program is being captured")


#: What decides nothing of the text that is emitted for a graph. All else does: an edit there must
#: not be served old text.
_APART: Final = ("cli", "debugging", "interpreter", "native", "testing")


@functools.cache
def source_digest() -> str:
    """Return a digest of the sources that decide what is emitted, for caches across versions."""
    root = Path(__file__).parents[2]
    files = [path for path in _sources(root) if path.relative_to(root).parts[0] not in _APART]
    digest = hashlib.sha256()
    for path in files:
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _sources(root: Path) -> list[Path]:
    """Return the modules and tables in a folder."""
    return sorted(each for ending in ("py", "txt") for each in root.rglob(f"*.{ending}"))


# Scripts that show a failure again, which the minifier and ``TORCH_COMPILE_DEBUG=1`` write.


class Scripts:
    """Text that torch's scripts of failures begin with, as long as we are registered.

    Args:
        found: What they began with before.
    """

    def __init__(self, found: str) -> None:
        self._found = found

    def __str__(self) -> str:
        """Return what was found, and an installation where the failing graph is ours."""
        session = maker()
        if session is None or session.capture:
            return self._found
        return f"{self._found}\n{_installation(session.settings)}"


def _installation(settings: Settings) -> str:
    given = {option.name: getattr(settings, option.name) for option in options_of(type(settings))}
    given = {name: value for name, value in given.items() if value is not None}
    given |= dict(settings.emitter_options)
    options = ", ".join(f"{name}={value!r}" for name, value in given.items())
    return (
        "# Without the next two lines, Inductor's own wrapper is tried.\n"
        "from wrapper_ir.frontends.inductor import install\n"
        f"install({options})\n"
    )


def saved_for_minifier(
    compiled: Callable[..., Any], within: Callable[[], Any]
) -> Callable[..., Any]:
    """Return a compiled graph such that what the minifier writes when it is called is ours, too.

    The minifier looks at the results of calls; where it is off, nothing is added to them.

    Args:
        compiled: The graph.
        within: Makes the context in which compilations are ours.
    """
    if dynamo_config.repro_after != "aot":
        return compiled

    @functools.wraps(compiled)
    def call(*args: Any, **kwargs: Any) -> Any:
        with within():
            return compiled(*args, **kwargs)

    return call


# PyTorch's bisector: which backend is at fault, and which part of it, the how many-th time.

#: What it calls us: a backend of its own, and a part of Inductor, which installations replace.
_NAME: Final = "wrapper_ir"

BISECTED_BACKENDS["inductor"].insert(0, BisectSubsystem(_NAME))
BISECTED_BACKENDS.setdefault(_NAME, [BisectSubsystem(_NAME)])


def is_bisected_away(session: Session, graph: torch.fx.Graph) -> bool:
    """Return whether PyTorch's bisector tries a graph with Inductor's own wrapper."""

    def in_words() -> str:
        ops = (str(node.target) for node in graph.nodes if node.op == "call_function")
        return f"a graph of {', '.join(dict.fromkeys(ops))}"

    return not session.capture and any(
        CompilerBisector.disable_subsystem(backend, _NAME, in_words)
        for backend in ("inductor", _NAME)
    )
