"""The FX emitter's artifact: a graph module, its text, and ways to run it."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import fx
from torch._ops import HigherOrderOperator, OpOverload

from wrapper_ir.emitters.base import MissingConstantError
from wrapper_ir.emitters.facts import only_accelerator
from wrapper_ir.emitters.fx.kernels import KERNELS, op_name, op_schema
from wrapper_ir.emitters.fx.loaded import as_boxed, as_function
from wrapper_ir.emitters.fx.triton import described, launched
from wrapper_ir.emitters.writer import CodeWriter
from wrapper_ir.lines.program import Program
from wrapper_ir.lines.walk import Path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wrapper_ir.emitters.fx.triton import PinnedKernel
    from wrapper_ir.emitters.writer import SourceMap


# A graph module as text to read: one line a node, with types in the program's own symbols.
#
# It looks like the code that FX generates and is not meant to be run. Everything from outside is
# printed as a literal or in a comment, in ASCII.

_INFIX: Final = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.floordiv: "//",
    operator.mod: "%",
    operator.truediv: "/",
    operator.pow: "**",
    operator.eq: "==",
    operator.ne: "!=",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.and_: "&",
    operator.or_: "|",
    operator.xor: "^",
    operator.lshift: "<<",
    operator.rshift: ">>",
}


def readable(module: fx.GraphModule, title: str) -> CodeWriter:
    """The text of a graph module, with the line of the program that each line comes from.

    Args:
        module: The module.
        title: What it is, for the first line.
    """
    writer = CodeWriter()
    writer.lines(f"# {_plain(title)}", "import torch")
    kernels = getattr(module, KERNELS, None)
    for definition in getattr(kernels, "definitions", ()):
        name = op_name(definition)
        schema = op_schema(definition).removeprefix(name)
        writer.lines("", f"# C++ kernel {_plain(definition.name)}", f"# {name}{schema}")
        for form in getattr(kernels, "forms", ()):
            if form.definition == definition:
                writer.line(f"# {form.schema}")
    for definition in getattr(kernels, "launched", ()):
        writer.lines("", *(f"# {_plain(line)}" for line in described(definition)))
    for name, value in _tensors(module):
        kind = str(value.dtype).removeprefix("torch.")
        writer.lines("", f"# {_plain(name)}: {kind}{list(value.shape)}")
    for name, inner in reversed(list(_modules(module))):
        writer.blank(2)
        _write_class(writer, inner, name)
    writer.blank(2)
    _write_class(writer, module, type(module).__name__)
    return writer


def _tensors(module: fx.GraphModule) -> Iterator[tuple[str, Any]]:
    yield from sorted(module.state_dict(keep_vars=True).items())


def _modules(module: fx.GraphModule) -> Iterator[tuple[str, fx.GraphModule]]:
    """Graphs inside a graph, outer ones first."""
    for name, inner in module.named_children():
        if isinstance(inner, fx.GraphModule):
            yield name, inner
            yield from _modules(inner)


def _write_class(writer: CodeWriter, module: fx.GraphModule, name: str) -> None:
    inputs = ", ".join(
        node.name + _type(node) for node in module.graph.nodes if node.op == "placeholder"
    )
    writer.line(f"class {name}(torch.nn.Module):")
    with writer.indent():
        writer.line(f"def forward(self{', ' if inputs else ''}{inputs}):")
        with writer.indent():
            for node in module.graph.nodes:
                path = node.meta.get("wrapper_ir_path")
                with writer.at(Path.parse(path) if path else None):
                    for comment in node.meta.get("wrapper_ir_comments", ()):
                        writer.lines(*(f"# {_plain(line)}".rstrip() for line in _lines(comment)))
                    if node.op != "placeholder":
                        writer.line(_statement(node))


def _lines(text: str) -> list[str]:
    return text.splitlines() or [""]


def _plain(text: str) -> str:
    """Text from outside, in printable ASCII."""
    return text.encode("unicode_escape").decode("ascii")


def _type(node: fx.Node) -> str:
    text = node.meta.get("wrapper_ir_type")
    return f': "{text}"' if text else ""


def _statement(node: fx.Node) -> str:
    if node.op == "output":
        return f"return {_text(node.args[0])}"
    if node.op == "get_attr":
        return f"{node.name}{_type(node)} = self.get({str(node.target)!a})"
    call = _call(node)
    return f"{node.name}{_type(node)} = {call}" if node.users else call


def _call(node: fx.Node) -> str:
    if kernel := launched(node):
        return _launch(node, kernel)
    target: Any = node.target
    args = [_text(arg) for arg in node.args]
    if target in _INFIX and len(args) == 2:
        return f"{args[0]} {_INFIX[target]} {args[1]}"
    if target is operator.getitem:
        return f"{args[0]}[{args[1]}]"
    args += [f"{key}={_text(value)}" for key, value in node.kwargs.items()]
    if node.op == "call_method":
        return f"{args[0]}.{target}({', '.join(args[1:])})"
    return f"{_function(target)}({', '.join(args)})"


def _launch(node: fx.Node, kernel: PinnedKernel) -> str:
    """A launch of a kernel of ours: named, where the node has its number."""
    given: Any = node.kwargs
    args = (f"{_plain(name)}={_text(value)}" for name, value in given["kwargs"].items())
    name = _plain(kernel.definition.name)
    return f"{_function(node.target)}({name}, {_text(given['grid'])}, {', '.join(args)})"


def _function(target: Any) -> str:
    if isinstance(target, (OpOverload, HigherOrderOperator)):
        prefix = "" if isinstance(target, OpOverload) else "higher_order."
        return f"torch.ops.{prefix}{target}"
    module = getattr(target, "__module__", None) or "builtins"
    name: str = target.__name__
    return name if module == "builtins" else f"{module.removeprefix('_')}.{name}"


def _text(value: Any) -> str:
    if isinstance(value, fx.Node):
        return value.name
    if isinstance(value, tuple):
        comma = "," if len(value) == 1 else ""
        return f"({', '.join(map(_text, value))}{comma})"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return f"torch.{value!r}" if isinstance(value, torch.device) else ascii(value)


# The FX emitter's artifact: a graph module, and ways to run it.


@dataclass(frozen=True, slots=True, eq=False)
class FxArtifact:
    """An emitted graph.

    Attributes:
        program: What it was made from.
        graph_module: The graph, with the program's constants. It may be changed; what is loaded
            afterwards is what it is by then.
        missing: Constants whose values are not there; in the module they are tensors without data.
    """

    program: Program
    graph_module: fx.GraphModule
    missing: tuple[str, ...]

    @property
    def source(self) -> str:
        """The graph as readable Python."""
        return self._text().text()

    @property
    def source_map(self) -> SourceMap:
        """Map from lines of the text to lines of the program."""
        return self._text().source_map()

    def _text(self) -> CodeWriter:
        title = f"Wrapper program {self.program.name}, {self.program.role.value}."
        return readable(self.graph_module, title)

    def load(self) -> Callable[..., tuple[Any, ...]]:
        """``callable(*inputs) -> tuple of results``; runs without autograd and without autocast.

        Raises:
            MissingConstantError: The program has constants whose values are not there.
        """
        return as_function(self.load_boxed(), self.program)

    def load_boxed(self) -> Callable[[list[Any]], tuple[Any, ...]]:
        """The graph as a function that takes a list, which it empties.

        Raises:
            MissingConstantError: The program has constants whose values are not there.
        """
        if self.missing:
            names = ", ".join(f"'{name}'" for name in self.missing)
            raise MissingConstantError(program=self.program.name, names=names)
        return as_boxed(self.graph_module, only_accelerator(self.program))
