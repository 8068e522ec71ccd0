"""Origins of lines in the model: fx nodes, ATen ops, source locations, the module."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Final

import torch

from wrapper_ir.frontends.common.ranks import compiles_on_one_rank
from wrapper_ir.lines.program import Frame, Origin, is_torchs_own

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The folder that holds torch, and that under which its modules are recorded wherever it is: in a
#: source tree, nothing else tells them from the user's.
_HOME: Final = os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), "")
_INSTALLED: Final = "site-packages/"

#: The most characters of a call's arguments, which may be long lists of numbers.
_LONGEST: Final = 300

#: The types of arguments whose ``repr`` says what they are.
_PLAIN: Final = (
    *(torch.fx.Node, bool, int, float, complex, str, torch.SymInt, torch.SymFloat, torch.SymBool),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)

_FRAME: Final = re.compile(
    r'^\s*File "(?P<file>.*)", line (?P<line>\d+)(?:, in (?P<function>.*))?$'
)


def origin_of(
    nodes: Sequence[torch.fx.Node],
    values: tuple[str, ...] = (),
    handle: str = "",
    reads: tuple[str, ...] = (),
) -> Origin:
    """Return the joint origin of fx nodes, in their order.

    That of a call also has the nodes' values that its results hold and its arguments read, and its
    handle in Inductor's provenance.
    """
    frames: dict[Frame, None] = {}
    for node in nodes:
        for frame in _frames(node.meta.get("stack_trace") or ""):
            frames.pop(frame, None)  # the last node's come last, also if others have them too
            frames[frame] = None
    modules = list(filter(None, map(_module, nodes)))
    return Origin(
        nodes=tuple(node.name for node in nodes),
        ops=tuple(dict.fromkeys(filter(None, map(_op, nodes)))),
        frames=tuple(frames),
        module=modules[-1] if modules else "",
        values=values,
        handle=handle,
        calls=tuple(map(_call, nodes)),
        reads=reads,
    )


def _call(node: torch.fx.Node) -> str:
    """Return a node's op and its arguments, nodes by their names."""
    if node.op != "call_function":
        return ""
    named = (f"{name}={_shown(value)}" for name, value in node.kwargs.items())
    text = ", ".join((*map(_shown, node.args), *named))
    shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    target = node.target
    if isinstance(target, (FunctionType, BuiltinFunctionType)):
        return f"{target.__name__}({shown})"
    return f"{target}({shown})"


def _shown(value: object) -> str:
    """Return an argument as text that is the same in each process: objects by their types."""
    if isinstance(value, torch.device) and compiles_on_one_rank():
        value = torch.device(value.type)  # there is no other one in such a graph
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_shown(key)}: {_shown(each)}' for key, each in value.items())}}}"
    return repr(value) if value is None or isinstance(value, _PLAIN) else type(value).__name__


def _op(node: torch.fx.Node) -> str:
    op = node.meta.get("original_aten") or node.target
    return str(op) if node.op == "call_function" else ""


def _module(node: torch.fx.Node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    names = [entry[0] for entry in stack.values() if isinstance(entry, tuple)]
    return _plain_path(str(names[-1])) if names else ""


@lru_cache(maxsize=4096)
def _plain_path(name: str) -> str:
    """Return the module's path as the user writes it, from Dynamo's ``L['self'].layers[0]``."""
    name = re.sub(r"^L\['(\w+)'\]", r"\1", name)
    name = re.sub(r"\._modules\['([^']*)'\]|\['([^']*)'\]", r".\1\2", name)
    name = re.sub(r"\[(\d+)\]", r".\1", name)
    return name.removeprefix("self").lstrip(".")


@lru_cache(maxsize=4096)
def _frames(stack_trace: str) -> tuple[Frame, ...]:
    lines = stack_trace.splitlines()
    frames = []
    for index, text in enumerate(lines):
        match = _FRAME.match(text)
        if match is None:
            continue
        after = lines[index + 1].strip() if index + 1 < len(lines) else ""
        code = "" if _FRAME.match(after) else after
        file = _file(match["file"])
        frames.append(Frame(file, int(match["line"]), match["function"] or "", code))
    return tuple(frames)


def _file(path: str) -> str:
    """Return a file's path; one of torch's own is recorded as that of an installed torch."""
    is_own = path.startswith(os.path.join(_HOME, "torch", "")) and not is_torchs_own(path)
    return _INSTALLED + path.removeprefix(_HOME).replace(os.sep, "/") if is_own else path
