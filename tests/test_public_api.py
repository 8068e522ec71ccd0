"""The public names of ``wrapper_ir``: lazy, complete, and not hidden by submodules."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.resources
import importlib.util
import itertools
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import wrapper_ir
from tests.pages import ROOT
from wrapper_ir import emitters
from wrapper_ir.frontends.inductor.settings import BACKEND_OPTIONS

#: Importing one of these must not import torch: they are usable where torch is absent.
TORCH_FREE = (
    "build",
    "debug_printer",
    "diffing",
    "errors",
    "lines",
    "passes",
    "planning",
    "text",
    "verify",
)

_BLOCK_TORCH = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(f"{name} is absent here", name=name)

sys.meta_path.insert(0, Refuse())
"""


def run(code: str) -> str:
    """Run code in a fresh interpreter, with this one's warnings policy, and return its output."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def present(name: str) -> bool:
    return importlib.util.find_spec(f"wrapper_ir.{name}") is not None


def test_importing_the_package_imports_neither_torch_nor_sympy() -> None:
    code = (
        "import sys, wrapper_ir; print([m for m in ('torch', 'sympy', 'rich') if m in sys.modules])"
    )
    assert run(code) == "[]"


@pytest.mark.parametrize("name", [name for name in TORCH_FREE if present(name)])
def test_core_packages_work_with_torch_absent(name: str) -> None:
    walk = f"""
import importlib, pkgutil
package = importlib.import_module("wrapper_ir.{name}")
for info in pkgutil.walk_packages(getattr(package, "__path__", []), package.__name__ + "."):
    importlib.import_module(info.name)
print("torch" in sys.modules)
"""
    assert run(_BLOCK_TORCH + walk) == "False"


@pytest.mark.parametrize("name", sorted(wrapper_ir._EXPORTS))
def test_every_export_exists_and_comes_from_its_module(name: str) -> None:
    home = importlib.import_module(wrapper_ir._EXPORTS[name])
    assert getattr(wrapper_ir, name) is getattr(home, name)
    assert not isinstance(getattr(wrapper_ir, name), types.ModuleType)


def test_every_line_class_is_public() -> None:
    lines = importlib.import_module("wrapper_ir.lines")
    assert lines.__all__
    for name in lines.__all__:
        assert getattr(wrapper_ir, name) is getattr(lines, name)
    assert set(lines.__all__) <= set(dir(wrapper_ir))


def test_no_name_is_claimed_twice() -> None:
    lines = set(importlib.import_module("wrapper_ir.lines").__all__)
    assert lines.isdisjoint(wrapper_ir._EXPORTS)
    assert lines.isdisjoint(wrapper_ir._SUBMODULES)
    assert set(wrapper_ir._EXPORTS).isdisjoint(wrapper_ir._SUBMODULES)


def test_unknown_name_is_an_attribute_error_and_private_ones_import_nothing() -> None:
    with pytest.raises(AttributeError, match="no attribute 'verfy'"):
        wrapper_ir.verfy  # type: ignore[attr-defined]  # noqa: B018
    code = (
        "import sys, wrapper_ir; print(hasattr(wrapper_ir, '__wrapped__'), 'sympy' in sys.modules)"
    )
    assert run(code) == "False False"


@pytest.mark.parametrize(
    "first",
    [
        "import wrapper_ir.verify",
        "from wrapper_ir.verify import diagnose",
        "import importlib; importlib.import_module('wrapper_ir.verify')",
        "wir.verify",
        "from wrapper_ir import verify",
        "wir.diagnose; import wrapper_ir.verify",
    ],
)
def test_verify_is_the_function_whatever_was_imported_first(first: str) -> None:
    code = f"""
import sys, wrapper_ir as wir
{first}
from wrapper_ir.verify import VerificationError
assert wir.verify is sys.modules["wrapper_ir.verify"].verify, wir.verify
assert wir.VerificationError is VerificationError
print(type(wir.verify).__name__)
"""
    assert run(code) == "function"


def test_other_attributes_of_the_package_can_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    replacement = object()
    monkeypatch.setattr(wrapper_ir, "verify", replacement)
    assert wrapper_ir.verify is replacement


def test_entry_points_lead_somewhere() -> None:
    groups = {"torch_dynamo_backends", "wrapper_ir.emitters"}
    found = {
        (point.group, point.name): point
        for point in importlib.metadata.distribution("wrapper-ir").entry_points
        if point.group in groups or point.name == "wrapper-ir"
    }
    assert {
        ("torch_dynamo_backends", "wrapper_ir"),
        ("wrapper_ir.emitters", "python"),
        ("console_scripts", "wrapper-ir"),
    } <= set(found)
    for point in found.values():
        assert callable(point.load())


def test_typed_marker_ships() -> None:
    files = importlib.resources.files("wrapper_ir")
    assert files.joinpath("py.typed").is_file()


def test_installed_version_is_the_package_version() -> None:
    assert importlib.metadata.version("wrapper-ir") == wrapper_ir.__version__


def test_type_checkers_see_what_users_see() -> None:
    source = Path(wrapper_ir.__file__).read_text(encoding="utf-8")
    blocks = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name)
    ]
    seen = {
        (statement.module, alias.name)
        for statement in ast.walk(blocks[0])
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    expected = {(module, name) for name, module in wrapper_ir._EXPORTS.items()}
    expected |= {("wrapper_ir", name) for name in wrapper_ir._SUBMODULES}
    expected.add(("wrapper_ir.lines", "*"))
    assert seen == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [("release", "release_kept_memory"), ("keep_freed_memory", "keep_malloc_memory")],
)
def test_older_names_work_with_a_warning(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"wir.{old} is called wir.{new} now"):
        found = getattr(wrapper_ir, old)
    assert found is getattr(wrapper_ir, new)


def test_the_documents_name_what_is_on_its_way_out() -> None:
    targets = [emitters.emitter_class(name) for name in ("python", "cpp", "fx")]
    options = [*BACKEND_OPTIONS, *itertools.chain(*map(emitters.options_of, targets))]
    older = {option.formerly: option.name for option in options if option.formerly}
    older |= wrapper_ir._RENAMED
    assert len(older) > 4
    for name in ("CHANGELOG.md", "docs/stability.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for old, new in older.items():
            assert re.search(rf"\b{old}`", text), (name, old)
            assert re.search(rf"\b{new}`", text), (name, new)


LAZY = (
    *("emitters.fx", "emitters.python", "frontends", "frontends.inductor", "runtime", "testing"),
    "toolchain",
)


@pytest.mark.parametrize("package", LAZY)
def test_lazy_packages_have_every_name_and_no_other(package: str) -> None:
    module = importlib.import_module(f"wrapper_ir.{package}")
    for name in module.__all__:
        assert getattr(module, name) is getattr(module, name)
        assert name in vars(module), f"{name} is looked up again each time"
    with pytest.raises(AttributeError, match=f"'wrapper_ir.{package}' has no attribute 'nothing'"):
        _ = module.nothing
