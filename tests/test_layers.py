"""What the import contracts of pyproject.toml cannot express, checked on the source itself."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import wrapper_ir

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(wrapper_ir.__file__).parent

#: May not import torch, not even inside a function or for type checkers only.
TORCH_FREE = (
    "__init__",
    "analysis",
    "build",
    "debug_printer",
    "devices",
    "diffing",
    "errors",
    "frontends/releases",
    "lines",
    "passes",
    "planning",
    "tensors_file",
    "text",
    "verify",
)

#: May import torch inside functions, which run only when there is a tensor.
ON_TENSORS_ONLY = (
    "tensors_file",
    "text/files",
)

#: Private parts of torch with one importer, ``frontends/inductor``.
PRIVATE_TORCH = ("torch._inductor", "torch._dynamo", "torch._functorch", "torch.utils._sympy")


def modules() -> Iterator[tuple[str, Path]]:
    for file in sorted(ROOT.rglob("*.py")):
        yield file.relative_to(ROOT).with_suffix("").as_posix(), file


def imports(file: Path) -> Iterator[str]:
    """Yield every imported module's name; ``from a import b`` yields both ``a`` and ``a.b``."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute here"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def test_the_walk_sees_nested_and_from_imports(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text("def f():\n    from torch import _dynamo\n    import torch.utils._sympy.x\n")
    assert sum(within(name, PRIVATE_TORCH) for name in imports(file)) == 2


@pytest.mark.parametrize("package", TORCH_FREE)
def test_core_never_names_torch(package: str) -> None:
    offenders = [
        (name, imported)
        for name, file in modules()
        if name == package or name.startswith(package + "/")
        if name not in ON_TENSORS_ONLY
        for imported in imports(file)
        if within(imported, ("torch",))
    ]
    assert offenders == []


@pytest.mark.parametrize("name", ON_TENSORS_ONLY)
def test_tensor_modules_import_torch_in_functions_only(name: str) -> None:
    tree = ast.parse((ROOT / f"{name}.py").read_text(encoding="utf-8"))
    nested = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(a.name == "torch" for a in node.names):
            assert id(node) in nested


def test_private_torch_has_one_importer() -> None:
    offenders = [
        (name, imported)
        for name, file in modules()
        if not name.startswith("frontends/inductor/")
        for imported in imports(file)
        if within(imported, PRIVATE_TORCH)
    ]
    assert offenders == []


def test_runtime_imports_the_toolchain_and_devices_and_nothing_else_of_ours() -> None:
    rooms = ("runtime", "toolchain", "devices", "outputs", "tensors_file", "lazy", "errors")
    allowed = tuple(f"wrapper_ir.{name}" for name in rooms)
    offenders = [
        (name, imported)
        for name, file in modules()
        if name.startswith("runtime/")
        for imported in imports(file)
        if within(imported, ("wrapper_ir",)) and not within(imported, allowed)
    ]
    assert [pair for pair in offenders if pair[1] != "wrapper_ir"] == []


def within_package(known: dict[str, Path]) -> dict[str, set[str]]:
    """Return what each module imports of the others, at any level and for type checkers, too."""
    found: dict[str, set[str]] = {}
    for name, file in known.items():
        asked = set(imports(file)) & known.keys()
        # ``from package import module`` asks for the module: the package is on the way there.
        asked -= {".".join(other.split(".")[:-1]) for other in asked if other in known}
        found[name] = asked - {name}
    return found


def circles(found: dict[str, set[str]]) -> list[str]:
    """Return one circle of imports after the other, each broken where it was found."""
    seen = []
    while True:
        try:
            TopologicalSorter(found).prepare()
        except CycleError as error:
            circle = error.args[1]  # each is imported by the one behind it
            seen.append(" <- ".join(circle))
            found[circle[1]].discard(circle[0])
        else:
            return seen


def test_no_circles_of_imports() -> None:
    found = within_package(
        {
            f"wrapper_ir/{name}".removesuffix("/__init__").replace("/", "."): f
            for name, f in modules()
        }
    )
    assert circles(found) == [], "what does each know of the other? One of them is data"


def test_circles_are_found(tmp_path: Path) -> None:
    for name, text in (
        ("a", "from b import x"),
        ("b", "if TYPE_CHECKING:\n    import c"),
        ("c", "def f():\n    from a import y"),
        ("d", "import a"),
    ):
        (tmp_path / f"{name}.py").write_text(text + "\n")
    found = within_package({name: tmp_path / f"{name}.py" for name in "abcd"})
    (circle,) = circles(found)
    assert set(circle.split(" <- ")) == {"a", "b", "c"}


def test_every_module_is_in_a_package() -> None:
    assert [name for name, file in modules() if not file.with_name("__init__.py").is_file()] == []


def test_emitters_read_no_text_by_patterns() -> None:
    emitters = [(name, file) for name, file in modules() if name.startswith("emitters/")]
    using = [name for name, file in emitters if "re" in imports(file)]
    # Both look at what comes from outside: names that are to be identifiers, and comments.
    assert using == ["emitters/names", "emitters/python/literals"]


def by_string(file: Path) -> Iterator[str]:
    """Yield the names that a module imports as strings, which no contract sees."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("import_module", "__import__"):
                yield str(node.args[0].value)


def upwards_by_string(known: Iterable[tuple[str, Path]]) -> list[tuple[str, str]]:
    """Return the modules that name others of ours in strings; a package may look up its own so."""
    found = []
    for name, file in known:
        package = f"wrapper_ir.{name.removesuffix('__init__').replace('/', '.')}"
        asked = [each for each in by_string(file) if within(each, ("wrapper_ir",))]
        found += [(name, each) for each in asked if not each.startswith(package)]
    return found


def test_nothing_of_ours_is_imported_by_a_string() -> None:
    assert upwards_by_string(modules()) == [], "only the table of entry points names what is above"


def test_imports_by_string_are_found(tmp_path: Path) -> None:
    texts = {
        "lines/walk": "import_module('wrapper_ir.lines.args')",
        "text/__init__": "importlib.import_module('wrapper_ir.text.reader')",
        "emitters/base": "def f():\n    return __import__('wrapper_ir.aot.load')",
        "planning/sizes": "import_module('sympy'), import_module(name)",
        "verify/__init__": "import_module('wrapper_ir.verifying')",
    }
    known = []
    for number, (name, text) in enumerate(texts.items()):
        (file := tmp_path / f"{number}.py").write_text(text + "\n")
        known.append((name, file))
    assert [name for name, _ in upwards_by_string(known)] == [
        "lines/walk",
        "emitters/base",
        "verify/__init__",
    ]


def targets_compared(file: Path) -> Iterator[str]:
    """Yield the comparisons with a target's name, and reads of attributes that may be missing."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        compared = isinstance(node, ast.Compare) and [node.left, *node.comparators]
        if compared and {n.value for n in compared if isinstance(n, ast.Constant)} & TARGETS:
            yield ast.unparse(node)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr"):
            subject = ast.unparse(node.args[0])
            if subject.rpartition(".")[2] in ("artifact", "emitter"):
                yield ast.unparse(node)


TARGETS = {"cpp", "fx", "python"}


def test_what_a_target_offers_is_declared() -> None:
    """A third-party emitter offers as much as ours: no one asks for the name of one."""
    found = [(name, each) for name, file in modules() for each in targets_compared(file)]
    assert found == [], "the base class of emitters or a protocol of artifacts says what it offers"


def test_comparisons_of_targets_are_found(tmp_path: Path) -> None:
    (file := tmp_path / "m.py").write_text(
        "if settings.emitter == 'cpp': pass\n"
        "if 'python' != target: pass\n"
        "kind = getattr(self.emitter, 'builds', False)\n"
        "has = hasattr(artifact, 'as_module')\n"
        "fine = emitter.builds and language == 'cuda' and getattr(line, name)\n"
    )
    assert len([*targets_compared(file)]) == 4
