"""The reference pages: each public name described once, and lists that link to it.

A name is public if it is in ``__all__`` of one of the modules below. A name exported by several
modules is described under the first.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import wrapper_ir
from wrapper_ir.errors import WrapperIRError

from .docstrings import markdown, prose, summary
from .signatures import class_line, constant, remarks, signature

if TYPE_CHECKING:
    import enum
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]

#: Maps a page to its title and the modules whose names it describes, in this order.
PAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "run": (
        "Emit, compile, export",
        (
            *("api", "aot.package.loader", "aot.source.checking", "aot.meanwhile", "backend"),
            *("options.process", "runtime.kept"),
        ),
    ),
    "lines": ("Programs and lines", ("lines", "lines.expr")),
    "text": ("Text form", ("text",)),
    "build": ("Builder", ("build",)),
    "verify": ("Verifier", ("verify", "verify.ranks")),
    "planning": ("Memory planner", ("planning", "planning.offsets")),
    "passes": ("Passes", ("passes",)),
    "diffing": ("Comparing programs", ("diffing",)),
    "emitters": (
        "Emitters",
        (
            *("emitters", "emitters.names", "emitters.writer", "emitters.kernel_types"),
            *("emitters.functions", "emitters.python.exprs", "lines.expr_printer"),
            *("emitters.python", "emitters.cpp", "aot.emitter", "emitters.fx"),
        ),
    ),
    "devices": ("Devices", ("devices",)),
    "frontends": ("Front ends", ("frontends.inductor", "frontends.aten")),
    "debugging": ("Debugging", ("debug_printer", "debugging", "runtime.probes")),
    "explorer": ("Explorer", ("explorer",)),
    "interpreter": ("Interpreter", ("interpreter",)),
    "testing": (
        "Testing",
        ("testing", "testing.conformance", "testing.corpus", "testing.plugin"),
    ),
    "runtime": ("Runtime of emitted Python", ("runtime", "runtime.cuda_graphs")),
    "toolchain": ("Toolchain", ("toolchain",)),
    "errors": ("Errors", ("errors",)),
}


@dataclass(frozen=True)
class Entry:
    """A public name and the place of its description."""

    name: str
    value: Any
    module: str
    page: str


class Reference:
    """All public names, collected for one run."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        for page, (_, modules) in PAGES.items():
            for short in modules:
                module = importlib.import_module(f"wrapper_ir.{short}")
                for name in module.__all__:
                    found = getattr(module, name)
                    if not inspect.ismodule(found):
                        self.entries.setdefault(
                            name, Entry(name, found, f"wrapper_ir.{short}", page)
                        )

    def link(self, name: str) -> str:
        """Return a name as Markdown: a link to its entry, or code."""
        last = name.rpartition(".")[2]
        entry = self.entries.get(last)
        parent = self.entries.get(name.rpartition(".")[0])
        if entry is None and parent is not None:
            return f"[`{name}`]({parent.page}.md#{name})"
        return f"`{name}`" if entry is None else f"[`{last}`]({entry.page}.md#{last})"

    def pages(self) -> dict[str, str]:
        """Return the text of every page by file name."""
        texts = {"index": self._index(), **{page: self._page(page) for page in PAGES}}
        return {
            f"{name}.md": "\n\n".join(filter(None, text)) + "\n" for name, text in texts.items()
        }

    def link_from(self, cls: type) -> Callable[[str], str]:
        """Like :meth:`link`, for a class's own docstring: its members take precedence."""
        home = self.entries[cls.__name__]
        own = {name for name, _ in self._members(cls)}

        def link(name: str) -> str:
            return f"[`{name}`](#{home.name}.{name})" if name in own else self.link(name)

        return link

    def _index(self) -> Iterator[str]:
        yield "# API reference"
        yield (
            "Every public name, with its signature. Names without a package are attributes of "
            "`wrapper_ir`, usually imported as `wir`; they and the packages are imported when they "
            "are first used. [All errors](errors.md) by code."
        )
        public = {*dir(wrapper_ir)}
        for page, (title, _) in PAGES.items():
            entries = [each for each in self.entries.values() if each.page == page]
            top = [each for each in entries if each.name in public]
            rows = [f"| {self.link(each.name)} | {self._first_line(each)} |" for each in top]
            others = ", ".join(self.link(each.name) for each in entries if each not in top)
            yield f"## [{title}]({page}.md)"
            if rows:
                yield "\n".join(["| `wir.` | |", "|---|---|", *rows])
            if others:
                yield f"{'Also' if rows else 'Names'}: {others}."

    def _first_line(self, entry: Entry) -> str:
        return summary(self._docstring(entry), self.link).replace("|", "\\|")

    def _docstring(self, entry: Entry) -> str:
        if _is_described(entry.value):
            return _own_docstring(entry.value)
        return _remark(entry)

    def _page(self, page: str) -> Iterator[str]:
        title, modules = PAGES[page]
        yield f"# {title}"
        for short in modules:
            name = f"wrapper_ir.{short}"
            entries = [e for e in self.entries.values() if (e.page, e.module) == (page, name)]
            if entries:
                yield f"## {name} {{#{name}}}"
                yield markdown(importlib.import_module(name).__doc__ or "", self.link)
            for entry in entries:
                yield from self._entry(entry)
        if page == "errors":
            yield from self._errors()

    def _entry(self, entry: Entry) -> Iterator[str]:
        yield f"### {entry.name} {{#{entry.name}}}"
        if not _is_described(entry.value):
            yield _code(constant(entry.value, entry.name))
            yield markdown(_remark(entry), self.link)
        elif isinstance(entry.value, type):
            yield from self._class(entry)
        else:
            yield _code(f"def {signature(entry.value, entry.name)}")
            yield markdown(_own_docstring(entry.value), self.link)

    def _class(self, entry: Entry) -> Iterator[str]:
        cls = entry.value
        link = self.link_from(cls)
        if issubclass(cls, WrapperIRError) and cls is not WrapperIRError:
            yield f"`{cls.code}`: {_message(cls)}".removesuffix(": ")
        else:
            yield _code(class_line(cls))
        yield markdown(_own_docstring(cls), link)
        yield "\n".join(_fields(cls, link))
        silent = [name for name, member in self._members(cls) if not inspect.getdoc(member)]
        if silent:
            yield f"Also: {', '.join(f'`{name}`' for name in silent)}."
        for name, member in self._members(cls):
            if name in silent:
                continue
            yield f"#### {entry.name}.{name} {{#{entry.name}.{name}}}"
            if isinstance(member, (property, functools.cached_property)):
                read = member.fget if isinstance(member, property) else member.func
                found = read.__annotations__.get("return", "")
                yield _code(f"{name}: {found}" if found else name)
            else:
                mark = "@classmethod\n" if isinstance(member, classmethod) else ""
                yield _code(f"{mark}def {signature(getattr(cls, name), name)}")
            yield markdown(inspect.getdoc(member) or "", link)

    def _members(self, cls: type) -> Iterator[tuple[str, Any]]:
        """Yield public methods and properties, except those described in a documented base."""
        for found in inspect.classify_class_attrs(cls):
            home = found.defining_class
            is_ours = home.__module__.startswith("wrapper_ir")
            is_elsewhere = home is not cls and home.__name__ in self.entries
            is_code = found.kind != "data" or isinstance(found.object, functools.cached_property)
            if is_ours and is_code and not is_elsewhere and not found.name.startswith("_"):
                yield found.name, found.object

    def _errors(self) -> Iterator[str]:
        yield "## All errors {#all}"
        yield (
            "What is in braces is filled in. The [verifier's rules](../verifier.md#all-rules) have "
            "the codes from WIR1001 on."
        )
        rows = ["| code | class | | message |", "|---|---|---|---|"]
        for cls in sorted(_error_classes(), key=lambda each: (each.code, each.__name__)):
            about = summary(cls.__doc__ or "", self.link).replace("|", "\\|")
            is_public = any(each.value is cls for each in self.entries.values())
            name = self.link(cls.__name__) if is_public else f"`{cls.__name__}`"
            rows.append(f"| {cls.code} | {name} | {about} | {_message(cls)} |")
        yield "\n".join(rows)


def _fields(cls: type, link: Callable[[str], str]) -> Iterator[str]:
    """Yield fields and their remarks; enumeration members are listed without one, too."""
    notes = remarks(cls.__module__)
    members: dict[str, enum.Enum] = getattr(cls, "__members__", {})
    for name in (*members, *inspect.get_annotations(cls)):
        note = prose(notes.get(f"{cls.__name__}.{name}", ""), link).replace("\n", "\n    ")
        if name in members:
            yield f"- `{name}` = `{members[name].value!r}`{': ' if note else ''}{note}"
        elif note and not name.startswith("_"):
            yield f"- `{name}`: {note}"


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _message(cls: type[WrapperIRError]) -> str:
    first = cls.template.split("\n")[0].rstrip(":").replace("|", "\\|")
    return "" if first == "{message}" or "{excerpt}" in first else f"`` {first} ``"


def _is_described(value: object) -> bool:
    """Check for a class or function of ours, as opposed to a constant or a type alias."""
    is_code = isinstance(value, type) or inspect.isroutine(value)
    return is_code and getattr(value, "__module__", "").startswith("wrapper_ir")


def _own_docstring(value: Any) -> str:
    text = value.__doc__ or ""
    # The docstring that dataclasses generate only repeats the signature.
    return "" if text.startswith(f"{value.__name__}(") else text


def _remark(entry: Entry) -> str:
    """Return the remark on a constant, from the module that defines it."""
    for name in (entry.module, *_neighbours(entry.module)):
        importlib.import_module(name)
        found = remarks(name).get(entry.name)
        if found:
            return found
    # Functions from Python itself, such as ``math.sqrt``.
    return inspect.getdoc(entry.value) or "" if inspect.isroutine(entry.value) else ""


def _neighbours(name: str) -> list[str]:
    """Return the modules inside a package, or beside a module."""
    package = importlib.import_module(name)
    if not hasattr(package, "__path__"):
        package = importlib.import_module(name.rpartition(".")[0])
    return [each.name for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]


def _error_classes() -> set[type[WrapperIRError]]:
    """Return every error class, including those that no package exports."""
    for each in pkgutil.walk_packages(wrapper_ir.__path__, "wrapper_ir."):
        if not each.name.endswith("__main__"):
            importlib.import_module(each.name)
    found: set[type[WrapperIRError]] = set()
    waiting = [WrapperIRError]
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if cls.code != "WIR0000" and cls.__module__.startswith("wrapper_ir"):
            found.add(cls)
    return found
