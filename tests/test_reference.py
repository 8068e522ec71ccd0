"""The reference in the site: complete, and what docstrings say of arguments is so."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import TYPE_CHECKING

import pytest

import wrapper_ir
from tools.api import docstrings, pages, signatures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.api.pages import Reference


@pytest.fixture(scope="module")
def reference() -> Reference:
    return pages.Reference()


def functions(reference: Reference) -> Iterator[tuple[str, object]]:
    """The public functions and classes, and the methods of these."""
    for name, entry in reference.entries.items():
        if inspect.isroutine(entry.value):
            yield name, entry.value
        if isinstance(entry.value, type):
            yield name, entry.value
            for method, value in inspect.getmembers(entry.value, inspect.isroutine):
                if not method.startswith("_"):
                    yield f"{name}.{method}", value


def test_every_public_module_has_its_page(reference: Reference) -> None:
    described = {
        f"wrapper_ir.{module}" for _, modules in pages.PAGES.values() for module in modules
    }
    assert {f"wrapper_ir.{each}" for each in wrapper_ir._SUBMODULES} - described == {
        "wrapper_ir.frontends"  # whose two packages are there instead
    }
    assert wrapper_ir._EXPORTS.keys() <= reference.entries.keys()


def test_lists_of_names_are_public() -> None:
    public = {module for _, modules in pages.PAGES.values() for module in modules}
    root = pages.ROOT / "wrapper_ir"
    lists = {
        ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for file in root.rglob("*.py")
        if re.search("^__all__", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    for name in lists - public - {"frontends"}:  # the two packages of front ends have pages
        package, _, _ = name.rpartition(".")
        assert package in public, name
        exported = importlib.import_module(f"wrapper_ir.{package}").__all__
        assert {*importlib.import_module(f"wrapper_ir.{name}").__all__} <= {*exported}


def test_every_page_is_in_the_menu() -> None:
    config = (pages.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [name for name in ("index", *pages.PAGES) if f"- api/{name}.md\n" not in config] == []


def test_what_is_said_of_arguments_is_of_parameters(reference: Reference) -> None:
    wrong = []
    for name, function in functions(reference):
        said = docstrings.documented(inspect.getdoc(function) or "", "Args")
        if said and not (isinstance(function, type) and issubclass(function, Exception)):
            parameters = {*inspect.signature(function).parameters} - {"self"}
            if {*said} != parameters:
                wrong.append((name, {*said} ^ parameters))
    assert wrong == []


def test_every_entry_says_what_it_is(reference: Reference) -> None:
    rows = "\n".join(reference._index()).splitlines()
    lists = [row for row in rows if row.startswith("| [")]
    assert len(lists) > 100
    assert [line for line in lists if line.endswith("|  |")] == []


def test_a_docstring_becomes_markdown() -> None:
    text = """Plan ``x`` by :func:`~wrapper_ir.plan`, a*b < c.

    Like this::

        plan(x)

    Args:
        x: What to plan, in
            two lines.
        **rest: Others.

    Raises:
        PlanError: It *cannot* be.
    """
    assert docstrings.markdown(text, lambda name: f"[{name}]") == """\
Plan ``x`` by [wrapper_ir.plan], a\\*b &lt; c.

Like this:

    plan(x)

**Args**

- `x`: What to plan, in
    two lines.
- `**rest`: Others.

**Raises**

- [PlanError]: It \\*cannot* be."""
    assert docstrings.summary(text, lambda name: name).startswith("Plan ``x`` by wrapper_ir.plan")


def test_signatures_are_the_same_in_every_process() -> None:
    def function(a: int, /, b: str = "x", *, c: object = object(), **d: float) -> None: ...

    shown = 'f(a: int, /, b: str = "x", *, c: object = ..., **d: float) -> None'
    assert signatures.signature(function, "f") == shown
