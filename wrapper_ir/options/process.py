"""Defaults of options for this process: what it assigns, else what its environment says."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from wrapper_ir.errors import OptionError
from wrapper_ir.options import declared
from wrapper_ir.options.schema import ASSIGNED, Option

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ProcessSettings", "settings"]


def _option(name: str) -> Option:
    """Return the option of a name.

    Raises:
        OptionError: No option that a process has a default for is called so.
    """
    known = {
        each.name: each
        for each in vars(declared).values()
        if isinstance(each, Option) and each.variable
    }
    if name not in known:
        raise OptionError(option=name, legal=known, owner="wir.settings")
    return known[name]


class ProcessSettings:
    """Defaults of options for the whole process, as attributes.

    They are the options that have an environment variable. Reading one gives what holds: what was
    assigned, else what the variable says, else the option's default. ``del`` takes back what was
    assigned. What holds when something is compiled counts; an argument or option there counts more.

    Raises:
        OptionError: There is no such setting.
        OptionValueError: There is, but not with that value.
    """

    def __getattr__(self, name: str) -> object:
        """Return what holds."""
        if name.startswith("__"):  # asked for by Python itself
            raise AttributeError(name)
        return _option(name).from_environment()

    def __setattr__(self, name: str, value: object) -> None:
        """Say what holds from here on."""
        option = _option(name)
        option.check(value)
        ASSIGNED[option.variable] = value

    def __delattr__(self, name: str) -> None:
        """Have the environment say what holds."""
        ASSIGNED.pop(_option(name).variable, None)

    @contextlib.contextmanager
    def patch(self, **values: object) -> Iterator[None]:
        """Assign for the length of a block, in all threads."""
        before = dict(ASSIGNED)
        try:
            for name, value in values.items():
                setattr(self, name, value)
            yield
        finally:
            ASSIGNED.clear()
            ASSIGNED.update(before)


settings = ProcessSettings()
"""The defaults of this process."""
