"""Errors of bisecting, extracting and reducing."""

from __future__ import annotations

from wrapper_ir.errors import WrapperIRError


class CallNotFoundError(WrapperIRError):
    """A program has no such call. Fields: ``call``, and ``known``, some that it has."""

    code = "WIR1511"
    template = "the program has no call {call!r}; it has {known}"
    default_hint = "name a call by its number, its kernel or op, or its path, such as body[3]"


class CallNotReachedError(WrapperIRError):
    """A call was not made with the given inputs. Field: ``call``."""

    code = "WIR1512"
    template = "call '{call}' was not made with these inputs"
    default_hint = "it stands in a branch that was not taken, or in a loop that did not run"


class DifferentCallsError(WrapperIRError):
    """Two programs that are to be compared do not make the same calls. Field: ``place``."""

    code = "WIR1513"
    template = "the two programs do not make the same calls: {place}"
    default_hint = "compare two versions of one program, or one program with two emitters"


class NoFailureError(WrapperIRError):
    """A program that is to be reduced does not fail. Field: ``program``."""

    code = "WIR1514"
    template = "program '{program}' does not fail, so there is nothing to reduce"
    default_hint = "a command fails by a status other than 0, and has to say what --says wants"


class CommandError(WrapperIRError):
    """The command that is to judge programs cannot be run. Fields: ``command`` and ``reason``."""

    code = "WIR1515"
    template = "cannot run {command!r}: {reason}"


class OtherGraphError(WrapperIRError):
    """A graph is not the one that a program was made of. Field: ``reason``."""

    code = "WIR1516"
    template = "the program was not made of this graph: {reason}"
    default_hint = "record() keeps the graph of each program: programs.graphs[0]"


class NoOriginsError(WrapperIRError):
    """Nothing in a program says which node's value a buffer holds."""

    code = "WIR1517"
    template = "nothing in the program says which node of a graph a buffer stands for"
    default_hint = "capture the model anew; in text, origins are what save() writes"
