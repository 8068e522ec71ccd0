"""Passes: their protocol, and how those of packages are run, with their results checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from wrapper_ir.analysis.devices import devices_in, is_relative
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines import BufferInput, BufferValue, Device, Program, Stage, map_devices
from wrapper_ir.verify import VerificationError, verify


@runtime_checkable
class Pass(Protocol):
    """A pass: a name, and a call that returns a new program."""

    @property
    def name(self) -> str:
        """The name of the pass, such as ``plan-memory``."""

    def __call__(self, program: Program) -> Program:
        """Return the changed program, or the same object if there is nothing to do."""


class PassOutputError(WrapperIRError):
    """A pass returned something that cannot be used.

    Fields: the ``name`` of the pass, who names it (``owner``; empty for a pass of the library), and
    the ``reason``. If the result breaks rules of the IR, the cause is the ``VerificationError``.
    """

    code = "WIR1402"
    template = "the pass '{name}'{owner} returned {reason}"
    default_hint = "the fault is in the pass, neither in the model nor in the emitter"


class PassFaultError(WrapperIRError):
    """A pass of a package raised an exception that is not a :class:`WrapperIRError`.

    The original exception is the cause of this one. Fields: the ``name`` of the pass, who names it
    (``owner``), and the ``error`` as text.
    """

    code = "WIR1403"
    template = "the pass '{name}'{owner} failed: {error}"
    default_hint = (
        "the fault is in the pass; the traceback (--traceback on the command line) shows where"
    )


@dataclass(frozen=True, slots=True)
class Checked:
    """A pass of a package, which answers for its result.

    Attributes:
        inner: The pass.
        owner: Who names it, as messages say it: ", of the kind of device 'npu',".
        stage: The stage of its argument, which is also that of its result.
    """

    inner: Pass
    owner: str
    stage: Stage

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.inner.name

    def __call__(self, program: Program) -> Program:
        """Return what the pass returns.

        Raises:
            PassFaultError: It raised an exception that is not an error of wrapper_ir.
            PassOutputError: It returned no program, an invalid one, or one of another stage.
            VerificationError: The program is invalid, before the pass already.
        """
        try:
            result: object = self.inner(program)
        except WrapperIRError:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}".removesuffix(": ")
            raise PassFaultError(name=self.name, owner=self.owner, error=text) from error
        if result is program:
            return program
        if not isinstance(result, Program):
            reason = f"a '{type(result).__name__}', not a program"
            raise PassOutputError(name=self.name, owner=self.owner, reason=reason)
        if result.stage is not self.stage:
            reason = f"a {result.stage.value} program, where a {self.stage.value} one is expected"
            raise PassOutputError(name=self.name, owner=self.owner, reason=reason)
        check_result(self, program, result)
        return result


def check_result(pass_: Pass, before: Program, after: Program) -> None:
    """Check what a pass made of a program.

    Raises:
        VerificationError: The program was invalid before.
        PassOutputError: The result breaks rules of the IR, its slices of a pool share bytes, or
            callers would have to pass other inputs or get other results.
    """
    from wrapper_ir.planning import PlanError, check_plan  # noqa: PLC0415 - the planner is large

    owner = pass_.owner if isinstance(pass_, Checked) else ""
    try:
        verify(after)
        check_plan(after)
    except (VerificationError, PlanError) as error:
        verify(before)
        reason = f"an invalid program:\n{error}"
        raise PassOutputError(name=pass_.name, owner=owner, reason=reason) from error
    of_before = _interface(_without_numbers(before, after))
    for what, one, other in zip(_INTERFACE, of_before, _interface(after), strict=True):
        if one != other:
            reason = f"a program with other {what}"
            raise PassOutputError(name=pass_.name, owner=owner, reason=reason)


def _without_numbers(before: Program, after: Program) -> Program:
    """Return a program without the numbers of devices that a pass has left out."""
    current = frozenset(filter(is_relative, devices_in(after)))

    def change(device: Device) -> Device:
        return plain if (plain := Device(device.type)) in current else device

    return map_devices(before, change) if current else before


_INTERFACE = ("inputs", "layouts of inputs", "results", "trees of arguments")


def _interface(program: Program) -> tuple[object, ...]:
    """Return what callers of a program depend on. Names of results are not part of it."""
    taken = [each.name for each in program.inputs if isinstance(each, BufferInput)]
    results = [
        program.layout(each.buffer) if isinstance(each, BufferValue) else each
        for each in program.results
    ]
    layouts = [program.layout(name) for name in taken]
    return program.inputs, layouts, results, (program.in_spec, program.out_spec)
