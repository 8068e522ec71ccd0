"""Mistakes that the builder can tell at the call that makes them.

What it cannot tell there, the verifier finds when the program is built.
"""

from __future__ import annotations

from wrapper_ir.errors import WrapperIRError


class BuildError(WrapperIRError):
    """Base of the builder's errors."""

    code = "WIR0300"


class NameTakenError(BuildError):
    """A name that the program has already."""

    code = "WIR0301"
    template = "there is a {what} '{name}' already"
    default_hint = "leave the name out to get a fresh one"


class IllegalNameError(BuildError):
    """A name that is no identifier."""

    code = "WIR0302"
    template = "{name!r} cannot name a {what}"
    default_hint = "names are ASCII letters, digits and underscores, and do not start with a digit"


class ForeignValueError(BuildError):
    """A buffer or kernel of another builder."""

    code = "WIR0303"
    template = "the {what} '{name}' belongs to another program"


class ArgumentError(BuildError):
    """An argument that the kernel or op cannot take."""

    code = "WIR0304"
    template = "{callee}: {reason}"


class ResultError(BuildError):
    """Results that do not fit what the op or region gives."""

    code = "WIR0305"
    template = "{callee}: {reason}"


class LayoutError(BuildError):
    """A layout that cannot be made of what was given."""

    code = "WIR0306"
    template = "no layout can be made of {given!r}: {reason}"


class UnfinishedError(BuildError):
    """A program that was not given its results, or was given them twice."""

    code = "WIR0307"
    template = "{reason}"
