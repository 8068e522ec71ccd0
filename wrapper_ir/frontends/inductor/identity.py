"""Cache keys that keep our entries apart from Inductor's, and from those of other options.

AOTAutogradCache and FxGraphCache answer before any of our code runs, from a key that knows nothing
of wrappers: after a stock compilation of the same model they would serve us stock's result, and
the other way round. Both keys do contain the ``uuid`` of the pass in a device's registration slot
(``device_custom_pass``). So we put a pass there that changes nothing and says who is compiling.
It is false in a context that is not ours: then Inductor hashes None, exactly as without us, and
the compilations of other threads keep their keys while we are registered.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.devices import is_registered
from wrapper_ir.frontends.inductor.compat import CustomGraphModulePass
from wrapper_ir.frontends.inductor.makers import CacheBypass, maker
from wrapper_ir.frontends.inductor.session import Session, open_recorders

if TYPE_CHECKING:
    import torch


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
            found,
        )


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
