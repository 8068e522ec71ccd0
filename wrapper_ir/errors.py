"""The errors of wrapper_ir: one base class, one class per mistake, one stable code per class.

Every mistake a user can make has a class of its own, and that class carries the text of the
message as data (``template``), so that messages can be listed, tested and reworded in one place.
The code (``WIR0042``) never changes once it was released: it is what people search for and what
tools match on.

Packages declare their errors in their own files and take codes from their own range:

========  ==========================================
``00xx``  this file: options, unsupported requests; ``devices``
``01xx``  ``lines``: expressions, layouts, programs
``02xx``  ``text``: lexer, parser, files
``03xx``  ``build``
``1xxx``  ``verify``: one code per rule
``13xx``  ``planning``
``14xx``  ``passes``
``15xx``  ``debug_printer``
``2xxx``  ``emitters``
``21xx``  ``toolchain``
``24xx``  ``interpreter``
``3xxx``  ``frontends``
``4xxx``  ``cli``
``5xxx``  ``testing``
========  ==========================================

This module is the bottom layer: it imports the standard library and nothing else.
"""

from __future__ import annotations

import difflib
import re
import string
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "OptionError",
    "OptionValueError",
    "UnsupportedError",
    "WrapperIRError",
    "nearest",
]

_CODE = re.compile(r"WIR\d{4}")

#: Control characters (newline and tab excepted) are shown as ``\x1b``: messages quote text from
#: outside, and a quoted name must not be able to drive the reader's terminal.
_CONTROL = {c: f"\\x{c:02x}" for c in (*range(9), *range(11, 32), *range(127, 160))}


class WrapperIRError(Exception):
    """Base of every error that wrapper_ir raises on purpose.

    Subclasses set ``code`` and ``template``; the template's fields are given by keyword::

        class DuplicateNameError(WrapperIRError):
            code = "WIR0199"
            template = "buffer {name!r} is defined twice"
            default_hint = "give the second definition a name of its own"

        raise DuplicateNameError(name="buf0", path="body[3]", origin="model.py:12")

    ``path``, ``origin`` and ``hint`` are not available as names of template fields.

    Args:
        path: Address of the offending line inside the program, such as ``body[3].then[2]``.
        origin: Where the line came from in the user's model; anything with a readable ``str``.
        hint: What to do about it; when absent, the class's ``default_hint``, formatted likewise.
        **fields: Values of the template's fields, kept in ``fields``.

    Raises:
        TypeError: A field that the template names was not given (a mistake of the caller's code).
    """

    code: ClassVar[str] = "WIR0000"
    template: ClassVar[str] = "{message}"
    default_hint: ClassVar[str | None] = None

    def __init__(
        self,
        *,
        path: object | None = None,
        origin: object | None = None,
        hint: str | None = None,
        **fields: object,
    ) -> None:
        #: Values of the template's fields, by name.
        self.fields: dict[str, object] = fields
        #: Address of the offending line, or None where no line is to blame.
        self.path: object | None = path
        #: Source location in the user's model, or None where unknown.
        self.origin: object | None = origin
        #: The message alone: one template filled in, without code, path or hint.
        self.message: str = self._fill(self.template)
        if hint is None and self.default_hint is not None:
            hint = self._fill(self.default_hint)
        #: What to do about it, or None.
        self.hint: str | None = hint
        super().__init__(self.message)

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Refuse a malformed code when the class is made, not when it is first raised."""
        super().__init_subclass__(**kwargs)
        if not _CODE.fullmatch(cls.code):
            raise TypeError(f"{cls.__name__}.code must look like 'WIR0042', not {cls.code!r}")

    def __str__(self) -> str:
        """Return code and message, then, each on a line of its own, place and hint."""
        lines = [f"{self.code}: {self.message}"]
        if self.path is not None and self.origin is not None:
            lines.append(f"  at {self.path} ({self.origin})")
        elif self.path is not None:
            lines.append(f"  at {self.path}")
        elif self.origin is not None:
            lines.append(f"  from {self.origin}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(line.translate(_CONTROL) for line in lines)

    def __reduce__(
        self,
    ) -> tuple[Callable[..., WrapperIRError], tuple[type[WrapperIRError], dict[str, object]]]:
        """Pickle by keyword, which ``Exception`` cannot (process pools send errors back so)."""
        keywords = {**self.fields, "path": self.path, "origin": self.origin, "hint": self.hint}
        return _rebuild, (type(self), keywords)

    def _fill(self, template: str) -> str:
        missing = sorted(_field_names(template) - self.fields.keys())
        if missing:
            raise TypeError(f"{type(self).__name__} needs the field(s) {', '.join(missing)}")
        return template.format_map(self.fields)


class UnsupportedError(WrapperIRError):
    """Something is legal but cannot be done here.

    Fields: ``what`` names the thing, ``where`` the part that cannot do it.
    """

    code = "WIR0001"
    template = "{what} is not supported by {where}"


class OptionError(WrapperIRError):
    """An option does not exist.

    Args:
        option: The name that was given.
        legal: All names that exist; listed in the message, the nearest one in the hint.
        owner: Whose options these are, for instance ``emitter 'python'``.
        path: As in the base class.
        origin: As in the base class.
        hint: Replaces the hint made from the nearest legal name.
    """

    code = "WIR0002"
    template = "{owner} has no option {option!r}; {choices}"

    def __init__(
        self,
        *,
        option: str,
        legal: Iterable[str],
        owner: str = "wrapper_ir",
        path: object | None = None,
        origin: object | None = None,
        hint: str | None = None,
    ) -> None:
        names = sorted(legal)
        super().__init__(
            option=option,
            legal=names,
            owner=owner,
            choices=_listed("it has", names),
            path=path,
            origin=origin,
            hint=hint or _did_you_mean(option, names),
        )

    def __reduce__(
        self,
    ) -> tuple[Callable[..., WrapperIRError], tuple[type[WrapperIRError], dict[str, object]]]:
        """Pickle without ``choices``, which the constructor makes itself."""
        rebuild, (cls, keywords) = super().__reduce__()
        return rebuild, (cls, {k: v for k, v in keywords.items() if k != "choices"})


class OptionValueError(WrapperIRError):
    """An option exists, but not with this value.

    Fields: ``option`` names it, ``value`` is what was given, ``expected`` says what is legal.
    """

    code = "WIR0003"
    template = "option {option!r} cannot be {value!r}; expected {expected}"


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that looks most like ``name``, or None when none is close."""
    # A user may have given anything for a name.
    found = difflib.get_close_matches(str(name), sorted(candidates), n=1, cutoff=0.6)
    return found[0] if found else None


def _did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    best = nearest(name, candidates)
    return None if best is None else f"did you mean {best!r}?"


def _listed(intro: str, names: list[str]) -> str:
    return f"{intro} {', '.join(names)}" if names else f"{intro} none"


def _field_names(template: str) -> set[str]:
    fields = (field for _, field, _, _ in string.Formatter().parse(template) if field)
    return {re.split(r"[.\[]", field, maxsplit=1)[0] for field in fields}


def _rebuild(cls: type[WrapperIRError], keywords: dict[str, object]) -> WrapperIRError:
    return cls(**keywords)  # type: ignore[arg-type]  # keywords came from the same class
