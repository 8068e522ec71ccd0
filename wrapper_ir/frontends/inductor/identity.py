"""Identity of the compiler of a graph, for cache keys and for tools that look for faults.

AOTAutogradCache and FxGraphCache answer before any of our code runs, from a key that knows nothing
of wrappers: after a stock compilation of the same model they would return stock's result to us, and
vice versa. Both keys contain the ``uuid`` of the pass in a device's registration slot
(``device_custom_pass``). So we register a pass there that changes nothing and identifies the
compiler. It is false outside our contexts: there Inductor hashes None, exactly as without us, so
compilations in other threads keep their keys while we are registered.

PyTorch's minifier and bisector, too, know only Inductor. Each has an extension point, and what we
register there asks for the identity in the same way.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from wrapper_ir.devices import DeviceKind, installed, is_registered, kind_of
from wrapper_ir.emitters.base import is_ours
from wrapper_ir.emitters.registry import emitter_class, make_emitter
from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.overlaps import overlapping
from wrapper_ir.frontends.inductor.session import Session, current_session, maker, open_recorders
from wrapper_ir.options.schema import options_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from wrapper_ir.frontends.inductor.settings import Settings


class CacheBypass(compat.FxGraphBypass, compat.AOTAutogradBypass):
    """Raised in place of a key: both caches then silently bypass themselves."""


class IdentityPass(compat.CustomGraphModulePass):
    """A pass that does nothing but carry our identity into Inductor's cache keys.

    The pass that was registered before for the device type stays in effect.
    """

    def __init__(self, device: str, previous: compat.CustomGraphModulePass | None) -> None:
        self._device = device
        self._previous = previous

    def __bool__(self) -> bool:
        """Return whether there is anything to hash in this context."""
        return self._maker() is not None or bool(self._previous)

    def _maker(self) -> Session | None:
        return maker() if is_registered(self._device) else None

    def __call__(self, gm: torch.fx.GraphModule) -> None:
        """Run the pass that was registered before, if any."""
        if self._previous:
            self._previous(gm)

    def uuid(self) -> Any:
        """Return the identity of this context's compilations.

        Raises:
            CacheBypass: The current compilation must neither come from a cache nor enter one.
        """
        previous = self._previous.uuid() if self._previous else None
        session = self._maker()
        if session is None:
            return previous
        if session.capture:
            raise CacheBypass("a program is being captured")
        return (
            "wrapper_ir",
            source_digest(),
            repr(session.settings),
            _of_emitter(session.settings),
            _of_device(kind_of(self._device)),
            overlapping(),
            previous,
            # While programs are recorded, they must be made: no other key is equal. The graph still
            # enters the caches: an artefact to be saved is what they took.
            *((uuid4().hex,) if open_recorders(session) else ()),
        )


def package_keys(stock: Callable[..., str]) -> Any:
    """Wrap Dynamo's key function for its package cache to keep our installations apart.

    Dynamo derives a key from the function alone, whatever compiles it. It asks for the key before
    anything is compiled, so the backend of ``torch.compile`` cannot be told from Inductor there.
    """

    def source_id_from_fn(fn: Callable[..., Any]) -> str:
        key, session = stock(fn), current_session()
        if session is None:
            return key
        facts: object
        try:
            kinds = [_of_device(kind) for kind in installed()]
            facts = (source_digest(), session.settings, _of_emitter(session.settings), kinds)
        except CacheBypass:
            facts = uuid4()  # what has this key is never found again
        return hashlib.sha256(repr((key, facts)).encode()).hexdigest()

    return staticmethod(source_id_from_fn)


def _of_device(kind: DeviceKind) -> str:
    """Return the parts of a device's kind that affect emitted text; a vendor's may change."""
    facts = (kind.scheduling, kind.languages, kind.memory, kind.python, kind.cpp, kind.queues)
    return repr((*facts, _of_passes((*kind.lowering, *kind.legalisation))))


def _of_emitter(settings: Settings) -> str:
    """Return the identity of a third-party emitter; settings and our sources are that of ours."""
    cls = emitter_class(settings.emitter)
    if is_ours(cls):
        return ""
    from wrapper_ir.passes.textual import code_digest  # noqa: PLC0415 - as below

    emitter = make_emitter(settings.emitter, dict(settings.emitter_options))
    passes = (*emitter.lowering(probed=False), *emitter.lowering(probed=True))
    digest = code_digest(cls.__module__)
    if digest is None:
        raise CacheBypass(f"the code of the emitter '{settings.emitter}' is in no file, or changed")
    return repr((digest, _of_passes((*passes, *emitter.legalisation()))))


def _of_passes(passes: tuple[str, ...]) -> str:
    """Return the identity of passes, which they must have to be cached."""
    if not passes:
        return ""
    # A process that finds all of its graphs in caches does without passes.
    from wrapper_ir.passes.textual import identity_of  # noqa: PLC0415 - see above

    identity = identity_of(passes)
    if identity is None:
        raise CacheBypass(f"the code of one of the passes {passes} is in no file, or has changed")
    return identity


#: Packages without influence on emitted text. Everything else has some: after an edit there, caches
#: must not return old text.
_APART: Final = ("cli", "debugging", "interpreter", "native", "testing")


@functools.cache
def source_digest() -> str:
    """Return a digest of the sources that affect emitted text, for caches shared by versions."""
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


# Scripts that reproduce a failure, written by the minifier and by ``TORCH_COMPILE_DEBUG=1``.


class Scripts:
    """Text that torch's reproducer scripts begin with while we are registered."""

    def __init__(self, previous: str) -> None:
        self._previous = previous

    def __str__(self) -> str:
        """Return the earlier text, plus an installation if the failing graph is ours."""
        session = maker()
        if session is None or session.capture:
            return self._previous
        return f"{self._previous}\n{_installation(session.settings)}"


def _installation(settings: Settings) -> str:
    values = {option.name: getattr(settings, option.name) for option in options_of(type(settings))}
    values = {name: value for name, value in values.items() if value is not None}
    values |= dict(settings.emitter_options)
    options = ", ".join(f"{name}={value!r}" for name, value in values.items())
    return (
        "# Without the next two lines, Inductor's own wrapper is tried.\n"
        "from wrapper_ir.frontends.inductor import install\n"
        f"install({options})\n"
    )


def saved_for_minifier(
    compiled: Callable[..., Any], within: Callable[[], Any]
) -> Callable[..., Any]:
    """Wrap a compiled graph so that what the minifier compiles during a call is ours too.

    The minifier examines the results of calls; while it is off, the graph is returned as it is.
    """
    if compat.dynamo_config.repro_after != "aot":
        return compiled

    @functools.wraps(compiled)
    def call(*args: Any, **kwargs: Any) -> Any:
        with within():
            return compiled(*args, **kwargs)

    return call


# PyTorch's bisector: which backend is at fault, which part of it, and at which graph.

#: Our name there: as a backend, and as the part of Inductor that installations replace.
_NAME: Final = "wrapper_ir"

compat.BISECTED_BACKENDS["inductor"].insert(0, compat.BisectSubsystem(_NAME))
compat.BISECTED_BACKENDS.setdefault(_NAME, [compat.BisectSubsystem(_NAME)])


def is_bisected_away(session: Session, graph: torch.fx.Graph) -> bool:
    """Return whether PyTorch's bisector tries a graph with Inductor's own wrapper."""

    def in_words() -> str:
        ops = (str(node.target) for node in graph.nodes if node.op == "call_function")
        return f"a graph of {', '.join(dict.fromkeys(ops))}"

    return not session.capture and any(
        compat.CompilerBisector.disable_subsystem(backend, _NAME, in_words)
        for backend in ("inductor", _NAME)
    )
