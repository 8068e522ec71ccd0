"""Errors between an fx graph and a program, one class per mistake."""

from __future__ import annotations

from dataclasses import dataclass

from wrapper_ir.errors import WrapperIRError


@dataclass(frozen=True, slots=True)
class Problem:
    """One node that has no form in a program."""

    node: str
    """The node's name."""
    target: str
    """What it calls."""
    reason: str
    source: str = ""
    """The line of the model that it comes from, ``file:line``; empty where that is not known."""

    def __str__(self) -> str:
        place = f" ({self.source})" if self.source else ""
        return f"%{self.node} = {self.target}: {self.reason}{place}"


class UnsupportedGraphError(WrapperIRError):
    """Nodes of a graph have no form in a program; all of them are listed.

    Fields: ``problems`` are the nodes, ``count`` says how many, ``listing`` shows them.
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
    """A graph module calls something other than operators of torch's registry, or knows no shapes.

    Fields: ``what`` says what is wrong with it.
    """

    code = "WIR3102"
    template = "the graph module is not a graph of ATen ops: {what}"
    default_hint = (
        "trace it with torch.export.export or torch.fx.experimental.proxy_tensor.make_fx first, or"
        " pass example_inputs and it is exported for you"
    )


class ExportError(WrapperIRError):
    """``torch.export`` could not make a graph of ATen ops.

    Fields: ``problem`` says why.
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
