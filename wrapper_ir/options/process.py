"""What holds beyond a call: process-wide defaults of options, and the machine to compile for.

Inductor's C++ depends on the width of vectors and on the number of threads. Snapshots are to be the
same on every machine, so the fixtures for them pin both.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wrapper_ir.errors import OptionError
from wrapper_ir.options import declared
from wrapper_ir.options.schema import ASSIGNED, Option

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ProcessSettings", "settings"]


def _option(name: str) -> Option:
    """Return the option of this name that has a process-wide default."""
    options = (each for each in vars(declared).values() if isinstance(each, Option))
    known = {each.name: each for each in options if each.variable}
    if name not in known:
        raise OptionError(option=name, legal=known, owner="wir.settings")
    return known[name]


class ProcessSettings:
    """Process-wide defaults of options, as attributes.

    There is one for each option that has an environment variable. Its value is the one assigned
    here, or else the variable's, or else the option's default. ``del`` undoes an assignment. The
    value at the time something is compiled counts; an argument or option given there overrides it.

    Raises:
        OptionError: There is no such setting.
        OptionValueError: The value is not legal.
    """

    def __getattr__(self, name: str) -> object:
        """Return the value in effect."""
        if name.startswith("__"):  # a lookup by Python itself
            raise AttributeError(name)
        return _option(name).from_environment()

    def __setattr__(self, name: str, value: object) -> None:
        """Assign a value, which takes effect at once."""
        option = _option(name)
        option.check(value)
        ASSIGNED[option.variable] = value

    def __delattr__(self, name: str) -> None:
        """Undo an assignment."""
        ASSIGNED.pop(_option(name).variable, None)

    @contextlib.contextmanager
    def patch(self, **values: object) -> Iterator[None]:
        """Assign values for the duration of a block, in all threads."""
        before = dict(ASSIGNED)
        try:
            for name, value in values.items():
                setattr(self, name, value)
            yield
        finally:
            ASSIGNED.clear()
            ASSIGNED.update(before)


settings: ProcessSettings = ProcessSettings()
"""The process-wide defaults."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts of a machine that the text of a kernel depends on."""

    isa: str  #: the instruction set, as Inductor calls it
    bits: int  #: the width of its vectors
    threads: int


SNAPSHOTS: Final = Machine("avx2", bits=256, threads=4)
"""The machine of snapshots. Processors without AVX2 get kernels without vectors."""

pinned: Final[ContextVar[Machine | None]] = ContextVar("pinned", default=None)
"""The machine that captures in this context are for; None for the one at hand."""
