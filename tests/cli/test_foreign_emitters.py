"""An emitter of another package, the tutorial's: installed by pip, and blamed for its faults."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

import wrapper_ir as wir
from tests.pages import ROOT, blocks
from wrapper_ir.emitters import ArtifactError, EmitterFaultError, make_emitter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Invoke

TUTORIAL = ROOT / "docs/tutorials/emitter.md"

#: A program with a constant, of lines that the tutorial's emitter renders.
WITH_CONSTANT = """\
wir 2
program @held inference logical

input %x : f32[4] @cpu
constant %w : f32[4] @cpu = parameter "w"

kernel @add(a: in f32, b: in f32, out: out f32) cpp
  | extern "C" void kernel(const float* a, const float* b, float* out)
  | {
  |     for (int i = 0; i < 4; ++i) out[i] = a[i] + b[i];
  | }
  |

  %y = allocate : f32[4] @cpu
  call @add(%x, %w, out %y)
return %y
"""

RENDER = "        made = Statements(program, problems)\n"
NAME = '    name: ClassVar[str] = "plain"\n'
LOAD = "    def load(self) -> Any:\n"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip has put the tutorial's package, built in a folder with all the tutorial's files."""
    folder, site = tmp_path_factory.mktemp("package"), tmp_path_factory.mktemp("site")
    for block in blocks(TUTORIAL):
        if block.file:
            with (folder / block.file).open("a", encoding="utf-8") as file:
                file.write(block.text + "\n")
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["pyproject.toml", "test_plain.py", "wir_plain.py"]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--target", str(site)]
    done = subprocess.run(
        [*pip, *options, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return site


@pytest.fixture
def plain(package: Path, room: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Have the package found, in a room with programs; what it gives changes its text."""
    site = room / "site"
    subprocess.run(["cp", "-r", str(package), str(site)], check=True)
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "wir_plain", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    program = wir.parse(WITH_CONSTANT)
    program.replace(data={"w": torch.ones(4)}).save(room / "held.wir")

    def change(old: str, new: str) -> None:
        module = site / "wir_plain.py"
        text = module.read_text(encoding="utf-8")
        assert text.count(old) == 1
        module.write_text(text.replace(old, new), encoding="utf-8")

    return change


def test_pip_installs_the_package_with_its_tests_there(package: Path) -> None:
    found = {path.name for path in package.iterdir()} - {"__pycache__"}
    assert found == {"wir_plain.py", "wir_plain-0.1.0.dist-info"}


@pytest.mark.usefixtures("plain")
def test_constants_beside_are_refused_where_the_text_takes_none(invoke: Invoke, room: Path) -> None:
    words = ("emit", "held.wir", "--target", "plain", "-o", "c.py")
    result = invoke(*words, "--constants", "beside")
    assert result.exit_code == 2
    assert "WIR0001" in result.stderr
    assert "emitter 'plain'" in result.stderr
    assert not list(room.glob("c.py*"))
    assert invoke(*words).exit_code == 0


@pytest.mark.usefixtures("plain")
def test_a_program_without_its_values_says_so(invoke: Invoke) -> None:
    assert invoke("run", "held.wir", "--random", "0", "--target", "plain").exit_code == 0
    result = invoke("run", "-", "--random", "0", "--target", "plain", stdin=WITH_CONSTANT)
    assert result.exit_code == 2
    assert "WIR2006: program 'held' has no values for its constants 'w'" in result.stderr


def test_constants_beside_are_what_the_artifact_says(
    invoke: Invoke, room: Path, plain: Callable[[str, str], None]
) -> None:
    method = "    def constants_beside(self) -> Any:\n        return {'named': torch.zeros(2)}\n\n"
    plain(LOAD, method + LOAD)
    plain("import builtins\n", "import builtins\nimport torch\n")
    words = ("emit", "held.wir", "--target", "plain", "-o", "c.py", "--constants", "beside")
    assert invoke(*words).exit_code == 0
    from wrapper_ir.runtime import load_constants

    assert load_constants(str(room / "c.py"), "c.py.safetensors")["named"].tolist() == [0, 0]


#: What is changed in the package, a command, and what it says then.
FAULTS = {
    "render": (
        (RENDER, '        raise KeyError("w")\n'),
        "emit held.wir",
        "failed while rendering the program 'held': KeyError: 'w'",
    ),
    "load": (
        (LOAD, LOAD + '        raise NameError("no w")\n'),
        "run held.wir --random 0",
        "failed while what it made was loaded: NameError: no w",
    ),
    "call": (
        ('return module["call"]', "return lambda inputs: {}['gone']"),
        "run held.wir --random 0",
        "failed while its program was called: KeyError: 'gone'",
    ),
    "no load": (
        (LOAD, LOAD.replace("load", "loaded")),
        "emit held.wir",
        "returned no artifact: a 'PlainArtifact' has no method 'load'",
    ),
    "no text": (
        ('"\\n".join(lines) + "\\n", program', "lines, program"),
        "emit held.wir",
        "returned no artifact: its text is a 'list'",
    ),
    "options": (
        (
            NAME,
            NAME + '\n    def __post_init__(self) -> None:\n        raise LookupError("none")\n',
        ),
        "emit held.wir",
        "failed while reading its options: LookupError: none",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_the_packages(
    invoke: Invoke, plain: Callable[[str, str], None], fault: str
) -> None:
    (old, new), command, said = FAULTS[fault]
    plain(old, new)
    result = invoke(*command.split(), "--target", "plain")
    assert f"emitter 'plain' of wir-plain 0.1.0 {said}" in result.stderr
    assert "the fault is in that package" in result.stderr
    assert result.exit_code == 3


@pytest.mark.parametrize("new", ["1 / 0\n", "import no_such_module_at_all\n", "def (\n"])
def test_a_module_that_cannot_be_imported_is_the_packages(
    invoke: Invoke, plain: Callable[[str, str], None], new: str
) -> None:
    plain("import builtins\n", new)
    result = invoke("emit", "held.wir", "--target", "plain")
    assert result.exit_code == 2
    assert "WIR2005: emitter 'plain' (wir_plain:PlainEmitter, of wir-plain 0.1.0)" in result.stderr
    listed = invoke("emitters")
    assert listed.exit_code == 0
    assert "wir-plain 0.1.0) cannot be loaded" in listed.stdout


def test_a_fault_keeps_its_cause(plain: Callable[[str, str], None]) -> None:
    plain(RENDER, '        raise KeyError("w")\n')
    program = wir.plan_memory(wir.parse(WITH_CONSTANT))
    with pytest.raises(EmitterFaultError) as caught:
        make_emitter("plain", {}).emit(program)
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.fields["package"] == "wir-plain 0.1.0"


def test_torch_compile_names_the_package(plain: Callable[[str, str], None]) -> None:
    plain("    def load_boxed(self) -> Any:\n", "    def load_boxed(self) -> Any:\n        1 / 0\n")
    torch._dynamo.reset()
    options: dict[str, Any] = {"emitter": "plain"}
    compiled = torch.compile(lambda x: x.relu() + 1, backend="wrapper_ir", options=options)
    with pytest.raises(Exception, match=r"emitter 'plain' of wir-plain 0\.1\.0 failed"):
        compiled(torch.ones(4))


def test_our_own_faults_are_not_blamed_on_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from wrapper_ir.emitters.python import PythonEmitter

    def broken(*_: object) -> object:
        raise KeyError("ours")

    monkeypatch.setattr(PythonEmitter, "render", broken)
    with pytest.raises(KeyError, match="ours"):
        wir.emit(wir.parse(WITH_CONSTANT))
    monkeypatch.setattr(PythonEmitter, "render", lambda *_: "a text")
    with pytest.raises(ArtifactError, match="a 'str' has no 'source'"):
        wir.emit(wir.parse(WITH_CONSTANT))
