"""The errors of wrapper_ir: one base class, one class per mistake, one stable code per class.

Every mistake a user can make has its own class, which carries the text of the message as data
(``template``), so that messages can be listed, tested and reworded in one place. A code
(``WIR0042``) never changes once released: people search for it and tools match on it.

Packages declare their errors in their own files, with codes from their own range:

========  ==========================================
``00xx``  this file: options, unsupported requests; ``devices``
``01xx``  ``lines``: expressions, layouts, programs
``02xx``  ``text``: lexer, parser, files
``03xx``  ``build``
``1xxx``  ``verify``: one code per rule
``13xx``  ``planning``
``14xx``  ``passes``
``15xx``  ``debugging``, ``runtime.probes``
``16xx``  ``explorer``
``2xxx``  ``emitters``
``21xx``  ``toolchain``
``24xx``  ``interpreter``
``3xxx``  ``frontends``
``4xxx``  ``cli``
``5xxx``  ``testing``
========  ==========================================

This module is the bottom layer: it imports only the standard library.
"""

from __future__ import annotations

import difflib
import re
import string
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["OptionError", "OptionValueError", "UnsupportedError", "WrapperIRError", "nearest"]

_CODE = re.compile(r"WIR\d{4}")

#: Control characters except newline and tab are shown as ``\x1b``: messages quote untrusted text,
#: and a quoted name must not be able to drive the reader's terminal.
_CONTROL = {c: f"\\x{c:02x}" for c in (*range(9), *range(11, 32), *range(127, 160))}


class WrapperIRError(Exception):
    """Base of every error that wrapper_ir raises on purpose.

    Subclasses set ``code`` and ``template``; the template's fields are passed by keyword::

        class DuplicateNameError(WrapperIRError):
            code = "WIR0199"
            template = "buffer {name!r} is defined twice"
            default_hint = "give the second definition a name of its own"

        raise DuplicateNameError(name="buf0", path="body[3]", origin="model.py:12")

    Template fields may not be called ``path``, ``origin`` or ``hint``.

    Args:
        path: The address of the offending line in the program, such as ``body[3].then[2]``.
        origin: The line's place in the user's model; anything with a readable ``str``.
        hint: What to do about it. The default is the class's ``default_hint``, also a template.
        **fields: Values of the template's fields, kept in ``fields``.

    Raises:
        TypeError: A field of the template is missing (a bug in the calling code).
    """

    code: ClassVar[str] = "WIR0000"
    template: ClassVar[str] = "{message}"
    default_hint: ClassVar[str] = ""

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
        #: Address of the offending line, or None if no line is at fault.
        self.path: object | None = path
        #: Source location in the user's model, or None if unknown.
        self.origin: object | None = origin
        #: The filled-in template, without code, path or hint.
        self.message: str = self._fill(self.template)
        if hint is None and self.default_hint:
            hint = self._fill(self.default_hint)
        #: What to do about it, or None.
        self.hint: str | None = hint
        super().__init__(self.message)

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Reject a malformed code when the class is defined, not when it is first raised."""
        super().__init_subclass__(**kwargs)
        if not _CODE.fullmatch(cls.code):
            raise TypeError(f"{cls.__name__}.code must look like 'WIR0042', not {cls.code!r}")

    def __str__(self) -> str:
        """Return the code and the message, then the place and the hint on lines of their own."""
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
        """Pickle by keyword, which ``Exception`` cannot; process pools pickle errors."""
        keywords = {**self.fields, "path": self.path, "origin": self.origin, "hint": self.hint}
        return _rebuild, (type(self), keywords)

    def _fill(self, template: str) -> str:
        missing = sorted(_field_names(template) - self.fields.keys())
        if missing:
            raise TypeError(f"{type(self).__name__} needs the field(s) {', '.join(missing)}")
        return template.format_map(self.fields)


class UnsupportedError(WrapperIRError):
    """Something is legal but not supported here.

    Fields: ``what`` names the thing, ``where`` the part that does not support it.
    """

    code = "WIR0001"
    template = "{what} is not supported by {where}"


class OptionError(WrapperIRError):
    """An option does not exist.

    Args:
        option: The unknown name.
        legal: All names that exist; listed in the message, the nearest one in the hint.
        owner: The owner of the options, such as ``emitter 'python'``.
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
            choices=f"it has {', '.join(names) or 'none'}",
            path=path,
            origin=origin,
            hint=hint or did_you_mean(option, names),
        )

    def __reduce__(
        self,
    ) -> tuple[Callable[..., WrapperIRError], tuple[type[WrapperIRError], dict[str, object]]]:
        """Pickle without ``choices``, which the constructor computes."""
        rebuild, (cls, keywords) = super().__reduce__()
        return rebuild, (cls, {k: v for k, v in keywords.items() if k != "choices"})


class OptionValueError(WrapperIRError):
    """An option has an illegal value.

    Fields: ``option`` is its name, ``value`` the illegal value, ``expected`` describes legal ones.
    """

    code = "WIR0003"
    template = "option {option!r} cannot be {value!r}; expected {expected}"


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate most similar to ``name``, or None if none is close."""
    # str: a user may pass any object as a name.
    matches = difflib.get_close_matches(str(name), sorted(candidates), n=1, cutoff=0.6)
    return matches[0] if matches else None


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """Return a hint that names the nearest candidate, or None if none is close."""
    best = nearest(name, candidates)
    return None if best is None else f"did you mean {best!r}?"


def _field_names(template: str) -> set[str]:
    fields = (field for _, field, _, _ in string.Formatter().parse(template) if field)
    return {re.split(r"[.\[]", field, maxsplit=1)[0] for field in fields}


def _rebuild(cls: type[WrapperIRError], keywords: dict[str, object]) -> WrapperIRError:
    return cls(**keywords)  # type: ignore[arg-type]  # keywords came from the same class
