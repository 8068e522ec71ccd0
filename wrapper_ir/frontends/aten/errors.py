"""Errors of the conversion from an fx graph to a program, one class per mistake."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.errors import WrapperIRError


@dataclass(frozen=True, slots=True)
class Problem:
    """A node that has no equivalent in a program."""

    node: str
    """The node's name."""
    target: str
    """The callee."""
    reason: str
    source: str = ""
    """The line of the model that it comes from, ``file:line``; empty if unknown."""

    def __str__(self) -> str:
        place = f" ({self.source})" if self.source else ""
        return f"%{self.node} = {self.target}: {self.reason}{place}"


class UnsupportedGraphError(WrapperIRError):
    """Nodes of a graph have no equivalent in a program. All of them are listed.

    Fields: ``problems`` are the nodes, ``count`` is their number, ``listing`` is their text.
    """

    code = "WIR3101"
    template = "{count} of the graph cannot become wrapper lines:\n{listing}"

    def __init__(self, *, problems: tuple[Problem, ...], **fields: object) -> None:
        number = len(problems)
        made: dict[str, object] = {
            "count": f"{number} {'node' if number == 1 else 'nodes'}",
            "listing": "\n".join(f"  {problem}" for problem in problems),
        }
        super().__init__(problems=problems, **{**fields, **made})  # type: ignore[arg-type]


class NotAnAtenGraphError(WrapperIRError):
    """A graph module calls something other than an op of torch's registry, or lacks shapes.

    Fields: ``what`` is the reason.
    """

    code = "WIR3102"
    template = "the graph module is not a graph of ATen ops: {what}"
    default_hint = (
        "trace it with torch.export.export or torch.fx.experimental.proxy_tensor.make_fx first, or"
        " pass example_inputs to have it exported"
    )


class ExportError(WrapperIRError):
    """``torch.export`` failed.

    Fields: ``problem`` is its message.
    """

    code = "WIR3103"
    template = "the module cannot be exported: {problem}"


class NotAModelError(WrapperIRError):
    """The argument is not a graph.

    Fields: ``kind`` is its type.
    """

    code = "WIR3104"
    template = "from_fx takes an ExportedProgram or a GraphModule, not a {kind}"
    default_hint = "export the model first: torch.export.export(model, args)"
