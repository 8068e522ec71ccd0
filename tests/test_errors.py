from __future__ import annotations

import importlib
import pickle
import pkgutil
import re
from collections import defaultdict
from string import Formatter
from typing import TYPE_CHECKING

import pytest

import wrapper_ir
from wrapper_ir.errors import (
    OptionError,
    OptionValueError,
    UnsupportedError,
    WrapperIRError,
    nearest,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class SampleError(WrapperIRError):
    code = "WIR9998"
    template = "buffer {name!r} has {count:03d} ends"
    default_hint = "free {name} once"


def test_message_place_and_hint_each_have_a_line() -> None:
    error = SampleError(name="buf0", count=2, path="body[3].then[2]", origin="model.py:12")
    assert str(error) == (
        "WIR9998: buffer 'buf0' has 002 ends\n"
        "  at body[3].then[2] (model.py:12)\n"
        "  hint: free buf0 once"
    )
    assert error.message == "buffer 'buf0' has 002 ends"
    assert error.fields == {"name": "buf0", "count": 2}


def test_without_place_there_is_no_empty_line() -> None:
    assert str(WrapperIRError(message="no")) == "WIR0000: no"
    assert str(WrapperIRError(message="no", origin="m.py:1")) == "WIR0000: no\n  from m.py:1"


def test_given_hint_wins() -> None:
    assert SampleError(name="a", count=0, hint="look").hint == "look"


def test_a_missing_field_is_named() -> None:
    with pytest.raises(TypeError, match=r"SampleError needs the field\(s\) count"):
        SampleError(name="buf0")


def test_malformed_code_is_refused_at_class_creation() -> None:
    with pytest.raises(TypeError, match="must look like"):
        type("Bad", (WrapperIRError,), {"code": "W1"})


def test_quoted_text_cannot_drive_the_terminal() -> None:
    shown = str(WrapperIRError(message="evil \x1b[2J\x07 \x9b", path="a\x1bb"))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", shown)
    assert r"\x1b[2J" in shown


def test_unknown_option_names_itself_the_legal_ones_and_the_nearest() -> None:
    error = OptionError(option="emiter", legal=["strategy", "emitter"], owner="backend")
    assert error.message == "backend has no option 'emiter'; it has emitter, strategy"
    assert error.hint == "did you mean 'emitter'?"
    assert OptionError(option="qqq", legal=["emitter"]).hint is None
    assert OptionError(option="x", legal=[]).message.endswith("it has none")


def test_nearest_is_deterministic_whatever_the_order() -> None:
    names = {"reuse", "pool", "none"}
    assert {nearest("resue", order) for order in (sorted(names), sorted(names, reverse=True))} == {
        "reuse"
    }
    assert nearest("zzzz", names) is None


@pytest.mark.parametrize(
    "error",
    [
        SampleError(name="buf0", count=2, path="body[0]", hint="h"),
        OptionError(option="emiter", legal=["emitter"], owner="backend", path="p"),
        OptionValueError(option="opt", value=9, expected="0 to 3"),
        UnsupportedError(what="a probe", where="the fx emitter", origin="m.py:3"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_pickling(error: WrapperIRError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.fields == error.fields


def _package_errors() -> list[type[WrapperIRError]]:
    for module in pkgutil.walk_packages(wrapper_ir.__path__, "wrapper_ir."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    # dataclass(slots=True) makes a class twice; the name tells the twins apart from real clashes.
    found = {cls.__module__ + "." + cls.__qualname__: cls for cls in _walk(WrapperIRError)}
    return [cls for cls in found.values() if cls.__module__.startswith("wrapper_ir")]


def _walk(cls: type[WrapperIRError]) -> Iterator[type[WrapperIRError]]:
    yield cls
    for sub in cls.__subclasses__():
        yield from _walk(sub)


def test_every_code_belongs_to_one_class() -> None:
    owners = defaultdict(list)
    for cls in _package_errors():
        if "code" in vars(cls):
            owners[cls.code].append(cls.__qualname__)
    assert len(owners) >= 4
    assert {code: names for code, names in owners.items() if len(names) > 1} == {}


def test_every_code_is_in_the_range_of_its_package() -> None:
    ranges = {
        "errors": r"00\d\d",
        "lines": r"01\d\d",
        "text": r"02\d\d",
        "verify": r"1[0-24-9]\d\d",
        "planning": r"13\d\d",
        "toolchain": r"21\d\d",
        "emitters": r"2[02-9]\d\d",
        "frontends": r"3\d\d\d",
        "cli": r"4\d\d\d",
    }
    strays = [
        (cls.__module__, cls.__qualname__, cls.code)
        for cls in _package_errors()
        if (pattern := ranges.get(cls.__module__.split(".")[1])) and "code" in vars(cls)
        if not re.fullmatch("WIR" + pattern, cls.code)
    ]
    assert strays == []


def test_every_template_is_well_formed() -> None:
    for cls in _package_errors():
        for template in filter(None, (cls.template, cls.default_hint)):
            names = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
            assert all(names), f"{cls.__qualname__}: fields are given by keyword, never by position"
            assert not {"path", "origin", "hint"} & set(names), cls.__qualname__
