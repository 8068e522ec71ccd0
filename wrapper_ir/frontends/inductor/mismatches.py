"""Errors of programs that are not what their graphs say.

They show the program's text, for which they need the verifier; a graph from a cache needs neither.
"""

from __future__ import annotations

from wrapper_ir.verify.diagnostics import VerificationError


class GraphMismatchError(VerificationError):
    """A program does something else than the graph that it was made from, by what is recorded.

    ``diagnostics`` says what, and in which line.
    """

    code = "WIR3010"
    template = "{name} is not what its graph says, and breaks {count}"


class ContractError(GraphMismatchError):
    """A program does to its caller's memory what the graph that it was made from does not.

    It overwrites an input, or returns memory that it shares with one. Inductor's own wrapper would
    do the same. ``diagnostics`` says what, and in which line.
    """

    code = "WIR3009"
    template = "{name} does to its caller's memory what its graph does not, and breaks {count}"
