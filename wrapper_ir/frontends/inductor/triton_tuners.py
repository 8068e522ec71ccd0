"""Inductor's tuners of a graph's Triton kernels, compiled by Inductor's own pool of processes.

Inductor hands a kernel to its pool as soon as it has scheduled it, if the pool has started by then,
and else when the finished module is loaded. A program is finished only when each kernel has been
tuned; so all kernels of a graph are handed over before the first one is waited for. While the pool
has not started, kernels are compiled here, one by one, as Inductor does.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.compat import dynamo_timed
from wrapper_ir.frontends.inductor.errors import UnsupportedTorchError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wrapper_ir.frontends.inductor.notes import TritonNote

_AsyncCompile: Any = compat.AsyncCompile


class Tuners:
    """The tuners of kernels that are noted in one graph; each kernel is compiled once."""

    def __init__(self) -> None:
        self._waiting: dict[str, TritonNote] = {}
        self._begun: dict[str, Any] = {}

    def expect(self, notes: Iterable[TritonNote]) -> None:
        """Begin to compile kernels that will be asked for."""
        self._waiting |= {note.code: note for note in notes if note.code not in self._begun}
        self._hand_over()

    def get(self, note: TritonNote) -> Any:
        """Return Inductor's tuner of a kernel, each of its configurations compiled.

        Raises:
            UnsupportedTorchError: The tuner lacks what is needed.
        """
        self._hand_over()
        self._waiting.pop(note.code, None)
        if note.code not in self._begun:
            self._begun[note.code] = _compiling(note)
        found = self._begun[note.code]
        if hasattr(found, "result"):
            with dynamo_timed("wrapper_ir.wait_for_kernel", log_pt2_compile_event=True):
                found = self._begun[note.code] = found.result()
        try:
            for needed in ("launchers", "_create_compile_meta", "_create_compile_options"):
                getattr(found, needed)
        except AttributeError as error:
            raise UnsupportedTorchError(version=torch.__version__, problem=str(error)) from error
        return found

    def _hand_over(self) -> None:
        """Give the pool, once it has started, all kernels that it has not got."""
        if self._waiting and _AsyncCompile.use_process_pool():
            self._begun |= {code: _compiling(note) for code, note in self._waiting.items()}
            self._waiting.clear()


def _compiling(note: TritonNote) -> Any:
    """Return a kernel's tuner, or what waits for it; Inductor knows the kernel by its text."""
    return _AsyncCompile().triton(note.entry, note.code)


def compiled_files(tuner: Any, launcher: Any) -> Path | None:
    """Return the folder of Triton's cache with what a launcher launches; None if it is not known.

    Args:
        tuner: Inductor's tuner of a kernel.
        launcher: One of its launchers.
    """
    key = getattr(launcher, "cache_hash", None)
    if key is None:
        return None
    top: str = compat.triton_cache_dir(tuner.triton_meta.get("device") or 0)
    return Path(top, key)
