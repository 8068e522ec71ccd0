"""Who makes a graph: whoever made its forward makes its backward.

An installation is a state of a context, and a backward is compiled when it is first run: after the
block, or in a thread of autograd's, where there is no installation; or in the block, of a forward
from before it. AOTAutogradCache files both together, under what held for the forward. So the
session of an installation is that of the trace, which both share, and the first to ask decides.
"""

from __future__ import annotations

import weakref

from wrapper_ir.frontends.inductor.compat import AOTAutogradBypass, FxGraphBypass, TracingContext
from wrapper_ir.frontends.inductor.session import Session, current_session


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
