"""Schemas of torch's operators, parsed without torch.

The grammar is that of ``str(torch.ops.aten.addmm.out._schema)``:
``aten::addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1,
Tensor(a!) out) -> Tensor(a!)``. A schema tells how many arguments there are, which of them are
written, and how results alias arguments. So programs can be verified without torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from wrapper_ir.errors import WrapperIRError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["OpSchema", "SchemaArg", "SchemaError", "SchemaType", "parse_schema"]

T = TypeVar("T")

QUALIFIED_OP_NAME = re.compile(
    r"[A-Za-z_][A-Za-z0-9_]*::[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?", re.ASCII
)
"""``namespace::name`` with an optional ``.overload``, which torch's default overload lacks."""

CLASS_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*::[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
"""``namespace::Class``: the name under which torch registers a custom class."""

GENERATOR: Final = "torch::Generator"
"""The class of random number generators, which have their own type in schemas."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_GENERIC: Final = frozenset(("Dict", "Future", "Await", "RRef"))
_CLASS_PREFIX: Final = "__torch__.torch.classes."


class SchemaError(WrapperIRError):
    """An operator's schema cannot be read."""

    code = "WIR0103"
    template = "cannot read the operator schema '{schema}': {reason} at column {column}"


class SchemaDifferenceError(WrapperIRError):
    """A program that is being loaded declares an op unlike the one that is registered.

    Fields: ``program``, ``op``, and ``difference`` in words.
    """

    code = "WIR0106"
    template = "program '{program}' declares '{op}' unlike the op that is registered: {difference}"
    default_hint = (
        "load the version of the op that the program was made with, or make the program again"
    )


@dataclass(frozen=True, slots=True)
class SchemaType:
    """A type: ``Tensor``, ``int[]``, ``Tensor(a!)?[]``."""

    base: str
    suffix: str = ""
    alias: str = ""
    """Alias annotation without its parentheses: ``a``, ``a!``, ``a -> *``. Empty if absent."""

    @property
    def writes(self) -> bool:
        """True if the annotation marks the argument as written."""
        return "!" in self.alias

    @property
    def is_tensor(self) -> bool:
        """True for a tensor, or a list or optional of tensors."""
        return self.base == "Tensor"

    @property
    def class_name(self) -> str:
        """The custom class, ``namespace::Class``; empty for other types."""
        if self.base == "Generator":
            return GENERATOR
        namespace, _, name = self.base.removeprefix(_CLASS_PREFIX).partition(".")
        return f"{namespace}::{name}" if self.base.startswith(_CLASS_PREFIX) and name else ""

    @property
    def is_list(self) -> bool:
        """True for a list or an optional list."""
        return "[" in self.suffix

    @property
    def is_optional(self) -> bool:
        """True if ``None`` is allowed."""
        return self.suffix.endswith("?")

    @property
    def alias_sets(self) -> frozenset[str]:
        """Names of the alias sets that contain the value."""
        before = self.alias.partition("->")[0].replace("!", "")
        return frozenset(name.strip() for name in before.split("|") if name.strip())


@dataclass(frozen=True, slots=True)
class SchemaArg:
    """One argument of an operator."""

    name: str
    type: SchemaType
    keyword_only: bool = False
    default: str | None = None
    """The default as written; ``None`` for a required argument."""


@dataclass(frozen=True, slots=True)
class OpSchema:
    """A parsed schema."""

    name: str
    """Qualified name, overload included: ``aten::addmm.out``."""
    args: tuple[SchemaArg, ...]
    returns: tuple[SchemaType, ...]
    returns_tuple: bool = False
    """True if the op returns a tuple, that is, not exactly one value."""

    @property
    def positional(self) -> tuple[SchemaArg, ...]:
        """The arguments that may be passed by position."""
        return tuple(a for a in self.args if not a.keyword_only)

    def arg(self, name: str) -> SchemaArg | None:
        """Return the argument called ``name``, if any."""
        return next((a for a in self.args if a.name == name), None)

    def given(self, args: Iterable[T], kwargs: Iterable[tuple[str, T]]) -> dict[str, T]:
        """Bind a call's values to argument names."""
        names = (a.name for a in self.positional)
        return {**dict(zip(names, args, strict=False)), **dict(kwargs)}

    def sharing(self, sets: frozenset[str], given: Mapping[str, T]) -> Iterator[T]:
        """Yield a call's values for the arguments in any of these alias sets."""
        for a in self.args:
            if a.name in given and ("*" in sets or sets & a.type.alias_sets):
                yield given[a.name]

    def type_at(self, path: tuple[int | str, ...]) -> SchemaType | None:
        """Return the type of the result at a path, as far as the first step determines it."""
        first = path[0] if self.returns_tuple and path else 0
        known = isinstance(first, int) and 0 <= first < len(self.returns)
        return self.returns[int(first)] if known else None


@lru_cache(maxsize=8192)
def parse_schema(text: str) -> OpSchema:
    """Parse a schema.

    Raises:
        SchemaError: The text does not follow the grammar.
    """
    return _Parser(text).schema()


class _Parser:
    """A recursive-descent parser of one schema."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def schema(self) -> OpSchema:
        name = self.match(QUALIFIED_OP_NAME, "an operator name such as aten::relu")
        args = self.args()
        self.expect("->")
        returns, is_tuple = self.returns()
        if self.skip() != len(self.text):
            self.fail("text after the end")
        return OpSchema(name, args, returns, is_tuple)

    def args(self) -> tuple[SchemaArg, ...]:
        self.expect("(")
        result: list[SchemaArg] = []
        keyword_only = False
        while not self.accept(")"):
            if result or keyword_only:
                self.expect(",")
            if self.accept("*"):
                keyword_only = True
                continue
            kind = self.type()
            name = self.match(_NAME, "an argument name")
            default = self.default() if self.accept("=") else None
            result.append(SchemaArg(name, kind, keyword_only, default))
        return tuple(result)

    def returns(self) -> tuple[tuple[SchemaType, ...], bool]:
        if not self.accept("("):
            return (self.named_type(),), False
        result: list[SchemaType] = []
        while not self.accept(")"):
            if result:
                self.expect(",")
            result.append(self.named_type())
        return tuple(result), len(result) != 1

    def named_type(self) -> SchemaType:
        kind = self.type()
        self.accept_pattern(_NAME)
        return kind

    def type(self) -> SchemaType:
        base = self.base()
        alias = ""
        suffix = ""
        while True:
            found = self.accept_pattern(re.compile(r"\[\d*\]|\?"))
            if found:
                suffix += found
            elif base in _GENERIC and self.peek("("):
                base += f"({self.bracketed()})"
            elif not alias and self.peek("("):
                alias = self.bracketed()
            else:
                return SchemaType(base, suffix, alias)

    def base(self) -> str:
        if self.peek("("):
            return f"({self.bracketed()})"
        return self.match(re.compile(r"[A-Za-z_][A-Za-z0-9_.]*", re.ASCII), "a type")

    def bracketed(self) -> str:
        """Return the text between matching parentheses."""
        self.expect("(")
        start, depth = self.at, 1
        while depth:
            if self.at >= len(self.text):
                self.fail("a bracket that is not closed")
            depth += {"(": 1, ")": -1}.get(self.text[self.at], 0)
            self.at += 1
        return self.text[start : self.at - 1]

    def default(self) -> str:
        pattern = re.compile(
            r"""\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\[[^\[\]()]*\]|[A-Za-z0-9_.+:-]+)""",
            re.ASCII,
        )
        return self.match(pattern, "a default value").strip()

    def skip(self) -> int:
        while self.at < len(self.text) and self.text[self.at] == " ":
            self.at += 1
        return self.at

    def peek(self, token: str) -> bool:
        return self.text.startswith(token, self.skip())

    def accept(self, token: str) -> bool:
        if not self.peek(token):
            return False
        self.at += len(token)
        return True

    def accept_pattern(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.skip())
        if found is None:
            return ""
        self.at = found.end()
        return found[0]

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(f"'{token}' is missing")

    def match(self, pattern: re.Pattern[str], what: str) -> str:
        found = self.accept_pattern(pattern)
        if not found:
            self.fail(f"{what} is missing")
        return found

    def fail(self, reason: str) -> None:
        raise SchemaError(schema=self.text, reason=reason, column=self.at + 1)
