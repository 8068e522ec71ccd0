"""What every kind of diff can do: be shown as rows, and be kept as JSON."""

from __future__ import annotations

import dataclasses
import enum
import json
import types
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wrapper_ir.diffing.render import Row

__all__ = ["Report"]


class Report(ABC):
    """Base of the diffs, which are frozen dataclasses; true when something differs."""

    __slots__ = ()

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether nothing differs."""

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """What is said of it, line by line, the summary first."""

    def __bool__(self) -> bool:
        return not self.is_empty

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self) -> str:
        """The diff as plain text."""
        from wrapper_ir.diffing.render import to_text  # noqa: PLC0415 - it imports what derives

        return to_text(self.rows())

    def to_html(self) -> str:
        """The diff as a page of HTML that needs no other file."""
        from wrapper_ir.diffing.render import to_html  # noqa: PLC0415 - as above

        return to_html(self.rows())

    def to_json(self) -> str:
        """The diff as JSON, which :meth:`from_json` reads back."""
        return json.dumps(_plain(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The diff that :meth:`to_json` wrote.

        Raises:
            ValueError: It is not such a text.
        """
        found = _read(json.loads(text), cls, "")
        assert isinstance(found, cls)
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return value


def _read(value: Any, hint: Any, where: str) -> Any:
    """A value of a type, from what JSON has of it."""
    args = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return None if value is None else _read(value, args[0], where)
    if get_origin(hint) is tuple and isinstance(value, list):
        return tuple(_read(item, args[0], f"{where}[{n}]") for n, item in enumerate(value))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict):
        hints = get_type_hints(hint)
        if value.keys() != {f.name for f in dataclasses.fields(hint)}:
            raise ValueError(f"{where or 'the diff'} is no {hint.__name__}")
        return hint(**{name: _read(value[name], hints[name], f"{where}.{name}") for name in value})
    if type(value) is not hint:
        raise ValueError(f"{where or 'the diff'} is no {getattr(hint, '__name__', hint)}")
    return value
