"""What stock Inductor does while it compiles: who writes text, which lines, which kinds of kernels.

Seen from outside, in Inductor itself, so that nothing of ours decides what counts as reached.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from torch._inductor.codegen.common import IndentedBuffer
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.codegen.triton import TritonScheduling
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, WrapperLine
from torch._inductor.fx_passes import pad_mm
from torch._inductor.ir import Reduction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

__all__ = ["KINDS", "Traced", "traced"]

#: The kinds of kernels, and decisions about them, that a GPU's sweep is to reach.
KINDS: Final = (
    "pointwise",
    "looped reduction",
    "persistent reduction",
    "cooperative reduction",
    "reduction of mixed order",
    "reduction in two kernels",
    "scan in parts",
    "64-bit indices",
    "template",
    "combo kernel",
    "kernel of a user",
    "product padded",
)


@dataclass
class Traced:
    """What was seen.

    Attributes:
        places: The functions that wrote text, as the radar names them.
        lines: The classes of lines that were written, and how often.
        kernels: The kinds of kernels, and how many.
    """

    places: set[str] = field(default_factory=set)
    lines: Counter[str] = field(default_factory=Counter)
    kernels: Counter[str] = field(default_factory=Counter)

    def note(self, line: Any, writer: FrameType) -> None:
        """Note what is written, and by whom."""
        if isinstance(line, WrapperLine):
            self.lines[type(line).__name__] += 1
        elif isinstance(line, str) and (place := _place(writer)).startswith("_inductor."):
            self.places.add(place)


#: What hands on what others write.
_HANDED_ON: Final = (".writelines", ".set_writeline.dispatch")


def _place(frame: FrameType | None) -> str:
    """Name a function as the radar does: below torch, without the marks of what is local."""
    name = ""
    while frame is not None:
        module = frame.f_globals.get("__name__", "").removeprefix("torch.")
        words = frame.f_code.co_qualname.replace(".<locals>", "").partition(".<")[0]
        name, frame = f"{module}.{words}", frame.f_back
        if not name.endswith(_HANDED_ON):
            break
    return name


@contextlib.contextmanager
def traced() -> Iterator[Traced]:
    """Watch the compilations of a block."""
    seen = Traced()
    with contextlib.ExitStack() as stack:
        for owner in (IndentedBuffer, PythonWrapperCodegen):
            for name in ("writeline", "writelines"):
                _patch(stack, owner, name, _noting_lines(seen, getattr(owner, name)))
        for scheduling in (TritonScheduling, CppScheduling):
            define = _noting_kernels(seen, scheduling.define_kernel)
            _patch(stack, scheduling, "define_kernel", define)
        users = PythonWrapperCodegen.define_user_defined_triton_kernel
        counted = _counting(seen, users, "kernel of a user")
        _patch(stack, PythonWrapperCodegen, "define_user_defined_triton_kernel", counted)
        parts = Reduction.create_multilayer_helper.__func__  # type: ignore[attr-defined]
        counted = _counting(seen, parts, "reduction in two kernels")
        _patch(stack, Reduction, "create_multilayer_helper", classmethod(counted))
        _patch(stack, pad_mm, "should_pad", _noting_padding(seen, pad_mm.should_pad))
        yield seen


def _patch(stack: contextlib.ExitStack, owner: Any, name: str, new: Any) -> None:
    stack.enter_context(mock.patch.object(owner, name, new))


def _noting_lines(seen: Traced, original: Callable[..., Any]) -> Callable[..., Any]:
    def writing(self: Any, what: Any, *args: Any, **kwargs: Any) -> Any:
        writer = sys._getframe(1)
        for line in what if isinstance(what, (list, tuple)) else (what,):
            seen.note(line, writer)
        return original(self, what, *args, **kwargs)

    return writing


def _counting(seen: Traced, original: Callable[..., Any], kind: str) -> Callable[..., Any]:
    def counting(*args: Any, **kwargs: Any) -> Any:
        seen.kernels[kind] += 1
        return original(*args, **kwargs)

    return counting


def _noting_padding(seen: Traced, original: Callable[..., Any]) -> Callable[..., Any]:
    def padding(*args: Any, **kwargs: Any) -> Any:
        is_padded = original(*args, **kwargs)
        seen.kernels["product padded"] += bool(is_padded)
        return is_padded

    return padding


def _noting_kernels(seen: Traced, original: Callable[..., Any]) -> Callable[..., Any]:
    def defining(self: Any, source: str, nodes: Any, *args: Any, **kwargs: Any) -> Any:
        kernel = args[0] if args else kwargs.get("kernel")
        seen.kernels.update(_kinds(self, kernel))
        return original(self, source, nodes, *args, **kwargs)

    return defining


def _kinds(scheduling: Any, kernel: Any) -> Iterator[str]:
    if isinstance(scheduling, CppScheduling):
        yield "C++"
        return
    match type(kernel).__name__:
        case "TritonTemplateKernel":
            yield "template"
            return
        case "ComboKernel":
            yield "combo kernel"
            return
        case "TritonSplitScanKernel":
            yield "scan in parts"
    if kernel.mix_order_reduction:
        yield "reduction of mixed order"
    if kernel.cooperative_reduction:
        yield "cooperative reduction"
    elif kernel.inside_reduction and kernel.features.is_reduction():
        yield "persistent reduction" if kernel.persistent_reduction else "looped reduction"
    else:
        yield "pointwise"
    if kernel.index_dtype == "tl.int64":
        yield "64-bit indices"
