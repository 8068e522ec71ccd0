"""Generate the option tables of the documents: ``python -m tools.option_table --write``.

They come from the option schema and from the mapping of Inductor's options.
"""

from __future__ import annotations

import argparse
import re
import types
import typing
from pathlib import Path

from wrapper_ir.aot.build.work import BuildOptions
from wrapper_ir.emitters import emitter_class, options_of
from wrapper_ir.emitters.base import is_ours
from wrapper_ir.emitters.registry import emitter_names
from wrapper_ir.frontends.inductor.settings import BACKEND_OPTIONS, LIBRARY_MAPPED, MAPPED, fates
from wrapper_ir.options import declared
from wrapper_ir.options.schema import REQUIRED, Option, type_name

PAGE = Path(__file__).resolve().parents[1] / "docs" / "options.md"

PAGES = (PAGE, PAGE.with_name("inductor-options.md"))

_PART = re.compile(
    r"(<!-- made by tools/option_table.py: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL
)


def emitters_table() -> str:
    """Return the emitters' options and defaults, with a row for each distinct default."""
    names = [name for name in emitter_names() if is_ours(emitter_class(name))]
    rows: dict[tuple[str, str, str], dict[str, str]] = {}
    for name in names:
        for option in options_of(emitter_class(name)):
            defaults = rows.setdefault((option.name, _takes(option), option.help), {})
            defaults[name] = _default(option)
    head = ["option", "takes", *(f"`{name}`" for name in names), ""]
    body = [
        [f"`{option}`", takes, *(defaults.get(name, "") for name in names), about]
        for (option, takes, about), defaults in sorted(rows.items())
    ]
    return _table(head, body)


def backend_table() -> str:
    """Return the options of the backend itself."""
    body = [[f"`{o.name}`", _takes(o), _default(o), o.help] for o in BACKEND_OPTIONS]
    return _table(["option", "takes", "default", ""], body)


def building_table() -> str:
    """Return the options for building a library."""
    options = [option for option in options_of(BuildOptions) if option.help]
    body = [[f"`{o.name}`", _takes(o), _default(o), o.help] for o in options]
    return _table(["option", "takes", "default", ""], body)


def variables_table() -> str:
    """Return the environment variables that set defaults."""
    options = [each for each in vars(declared).values() if isinstance(each, Option)]
    body = [[f"`{o.variable}`", f"`{o.name}`", o.help] for o in options if o.variable]
    return _table(["variable", "option", ""], body)


def mapped_table() -> str:
    """Return Inductor's options that map to ours, under ``torch.compile`` and for libraries."""
    body = [
        [f"`{name}`", f"`{value!r}`".replace("'", '"'), f"`{ours}={wanted!r}`".replace("'", '"')]
        for name, (ours, values) in (*MAPPED.items(), *LIBRARY_MAPPED.items())
        for value, wanted in values.items()
        if wanted is not None
    ]
    return _table(["option of Inductor's", "value", "here"], body)


def refused_table() -> str:
    """Return the refused options and their messages."""
    said = dict.fromkeys(fate.instead for fate in fates().values() if fate.way == "refused")
    body = [[_keys("refused", instead), instead] for instead in said]
    return _table(["options of Inductor's", "instead"], body)


def passed_list() -> str:
    """Return the options that are passed on."""
    return f"{_keys('passed')}\n"


def library_list() -> str:
    """Return the options that are read or passed on for libraries only."""
    return f"{_keys('library taken')}; passed on: {_keys('library passed')}\n"


def _keys(way: str, instead: str = "") -> str:
    found = (name for name, fate in fates().items() if fate == (way, instead))
    return ", ".join(f"`{name}`" for name in found)


TABLES = {
    "mapped": mapped_table,
    "refused": refused_table,
    "passed": passed_list,
    "libraries": library_list,
    "emitters": emitters_table,
    "backend": backend_table,
    "building": building_table,
    "variables": variables_table,
}


def made(page: str) -> str:
    """Return the page with regenerated tables."""
    return _PART.sub(lambda part: f"{part[1]}{TABLES[part[2]]()}{part[4]}", page)


def _takes(option: Option) -> str:
    if option.choices:
        return _values(option.choices)
    union = typing.get_origin(option.kind) in (typing.Union, types.UnionType)
    kinds = typing.get_args(option.kind) if union else (option.kind,)
    said = dict.fromkeys(_kind(kind, option) for kind in kinds if kind is not type(None))
    return ", ".join(said)


def _kind(kind: object, option: Option) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return _values(typing.get_args(kind))
    return _values((True, False)) if kind is bool else option.expected or type_name(kind)


def _values(values: tuple[object, ...]) -> str:
    return ", ".join(f"`{value!r}`" for value in values).replace("'", '"')


def _default(option: Option) -> str:
    if option.default is REQUIRED:
        return "must be given"
    return "" if option.default in (None, ()) else f"`{option.default!r}`".replace("'", '"')


def _table(head: list[str], body: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "".join(
        "| " + " | ".join(each.replace("|", "\\|") for each in line) + " |\n" for line in lines
    )


def main() -> None:
    """Write the tables into the pages, or report whether the pages are up to date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write them into the pages")
    writes = parser.parse_args().write
    for page in PAGES:
        found = page.read_text(encoding="utf-8")
        wanted = made(found)
        if writes:
            page.write_text(wanted, encoding="utf-8")
        elif wanted != found:
            raise SystemExit(f"{page} is not what the schema says; --write makes it so")


if __name__ == "__main__":
    main()
