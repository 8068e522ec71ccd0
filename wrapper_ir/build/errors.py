"""Mistakes that the builder detects at the offending call.

The verifier finds the rest when the program is built.
"""

from __future__ import annotations

from wrapper_ir.errors import WrapperIRError


class BuildError(WrapperIRError):
    """Base of the builder's errors."""

    code = "WIR0300"


class NameTakenError(BuildError):
    """A name that is already in use."""

    code = "WIR0301"
    template = "there is already a {what} '{name}'"
    default_hint = "leave the name out to get a fresh one"


class IllegalNameError(BuildError):
    """A name that is not an identifier."""

    code = "WIR0302"
    template = "{name!r} cannot name a {what}"
    default_hint = "names are ASCII letters, digits and underscores, and do not start with a digit"


class ForeignValueError(BuildError):
    """A buffer or kernel that belongs to another builder."""

    code = "WIR0303"
    template = "the {what} '{name}' belongs to another program"


class ArgumentError(BuildError):
    """An argument that the kernel or op does not accept."""

    code = "WIR0304"
    template = "{callee}: {reason}"


class ResultError(BuildError):
    """Results that do not match what the op or region returns."""

    code = "WIR0305"
    template = "{callee}: {reason}"


class LayoutError(BuildError):
    """A value that does not describe a layout."""

    code = "WIR0306"
    template = "{given!r} does not describe a layout: {reason}"


class UnfinishedError(BuildError):
    """A program whose results were never declared, or were declared twice."""

    code = "WIR0307"
    template = "{reason}"
