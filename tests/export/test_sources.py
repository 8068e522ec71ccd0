"""Folders of source: they run, are edited, and are compared with their programs."""

from __future__ import annotations

import importlib
import json
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import wrapper_ir as wir
from tests import warm
from tests.export.support import captured, nested, plus_one
from wrapper_ir.aot.errors import ExportPathError
from wrapper_ir.aot.source.checking import NotExportedError
from wrapper_ir.emitters.base import MissingConstantError
from wrapper_ir.errors import OptionError, OptionValueError, UnsupportedError
from wrapper_ir.lines import ScalarInput
from wrapper_ir.runtime import ConstantsError, ProgramRunError, SourceFolder, SourceFolderError
from wrapper_ir.runtime.main import obstacle

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

TARGETS = ("python", "cpp")


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory whose folders can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("model", "moved"):
            del sys.modules[name]


def loaded(name: str = "model") -> ModuleType:
    for known in [each for each in sys.modules if each.partition(".")[0] == name]:
        del sys.modules[known]
    importlib.invalidate_caches()
    return importlib.import_module(name)


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


# They run.


@pytest.mark.parametrize("target", TARGETS)
def test_a_folder_runs_wherever_it_is(room: Path, target: str) -> None:
    _, x, shift = nested()
    wir.export(captured(), room / "model", target).rename(room / "moved")
    done = warm.run(room / "moved" / "wrapper.py", "--calls", "1", "--batches", "1")
    assert done.returncode == 0, done.stderr
    assert "result 0: float32[4, 8]" in done.stdout
    module = loaded("moved")
    for got, expected in zip(module.run(x, shift), wir.compile(captured())(x, shift), strict=True):
        assert torch.equal(got, expected)
    assert wir.check_folder(room / "moved") == []
    # The program is whole: its values lie beside it.
    again = wir.load(room / "moved" / "program.wir")
    assert torch.equal(wir.compile(again)(x, shift)[0], module.run(x, shift)[0])


@pytest.mark.parametrize("target", TARGETS)
def test_a_folder_takes_no_part_of_the_ir_where_it_runs(tmp_path: Path, target: str) -> None:
    """It is built and loaded in half a second because nothing else is imported."""
    wir.export(captured(), tmp_path / "model", target)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import model;"
        "print(*(f'wrapper_ir.{each}' in sys.modules for each in ('runtime', 'lines', 'emitters')))"
    )
    done = warm.run(code, tmp_path, ours=False)
    assert done.stdout.split() == ["True", "False", "False"]


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_shipped_names_no_path_and_no_code_of_this_machine(
    tmp_path: Path, target: str
) -> None:
    folder = wir.export(captured(), tmp_path / "model", target)
    for file in folder.rglob("*"):
        if file.is_file() and file.suffix not in (".bin", ".safetensors"):
            text = file.read_text()
            assert str(tmp_path) not in text, file
            assert sys.prefix not in text, file
            assert "self.first(x)" not in text, file


@pytest.mark.parametrize("target", TARGETS)
def test_an_edited_kernel_is_compiled_alone(
    room: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wrapper_ir.toolchain import compiler

    folder = wir.export(plus_one(extra=2), f"{room}/model/", target)
    x = torch.zeros(4)
    assert loaded().run(x)[0].tolist() == [6.0] * 4
    edit(
        folder / "kernels/plus_1.cpp", "2.0f", f"10.0f /* {room.parent.name} */"
    )  # known to no cache
    started: list[str] = []
    plain = compiler.run
    monkeypatch.setattr(
        compiler, "run", lambda c, *a, **k: (started.append(" ".join(c)), plain(c, *a, **k))
    )
    assert loaded().run(x)[0].tolist() == [14.0] * 4
    assert sum(" -c " in command for command in started) == 1


def test_what_is_wrong_with_an_edited_kernel_is_told(room: Path) -> None:
    folder = wir.export(plus_one(), room / "model")
    edit(folder / "kernels/plus_0.cpp", "x[i] +", "z[i] +")
    with pytest.raises(wir.WrapperIRError, match=r"kernels/plus_0\.cpp:4:.*'z'"):
        loaded()
    edit(folder / "kernels/plus_0.cpp", "void kernel(", "void other(")
    with pytest.raises(wir.WrapperIRError, match="defines no function 'kernel'"):
        loaded()
    (folder / "kernels/plus_0.cpp").unlink()
    with pytest.raises(SourceFolderError, match=r"kernels/plus_0\.cpp cannot be read"):
        loaded()


class Odd(nn.Module):
    """Weights that lie in memory in every way that there is."""

    def __init__(self) -> None:
        super().__init__()
        base = torch.arange(24.0)
        self.register_buffer("columns", base.view(4, 6).t())
        self.register_buffer("part", base[2:6])
        self.register_buffer("wide", torch.ones(1, 4).expand(3, 4))
        self.register_buffer("complex", torch.tensor([1 + 2j, 3 - 1j]))
        self.register_buffer("none", torch.zeros(0, 3))

    def forward(self, x: torch.Tensor) -> Any:
        y = x @ self.columns.to(x.dtype) + self.part
        return y * self.wide.sum(), self.complex * 2, self.none + 1, self.columns


@pytest.mark.parametrize("target", TARGETS)
def test_constants_come_as_the_program_lays_them_out(room: Path, target: str) -> None:
    program = wir.capture(Odd(), (torch.ones(3, 6),))
    wir.export(program, room / "model", target)
    x = torch.randn(3, 6)
    for got, expected in zip(loaded().run(x), wir.compile(program)(x), strict=True):
        assert torch.equal(got, expected)
        assert got.stride() == expected.stride()


def test_values_may_come_later(room: Path) -> None:
    folder = wir.export(captured(), room / "model", "python", constants="none")
    with pytest.raises(ConstantsError, match=r"program\.safetensors: there is no such file"):
        loaded()
    captured().save(folder / "program.wir")
    _, x, shift = nested()
    assert torch.equal(loaded().run(x, shift)[0], wir.compile(captured())(x, shift)[0])
    with pytest.raises(MissingConstantError):
        wir.export(captured().replace(data={}), room / "moved", "python")


def test_values_of_another_model_are_refused(room: Path) -> None:
    folder = wir.export(captured(), room / "model", "python")
    other = captured()
    values = {name: value + 1 for name, value in other.data.items()}
    other.replace(data=values).save(room / "program.wir")
    (folder / "program.safetensors").write_bytes((room / "program.safetensors").read_bytes())
    with pytest.raises(ConstantsError, match="not the values that were saved with the program"):
        loaded()
    other.replace(data=values).save(folder / "program.wir")
    _, x, shift = nested()
    expected = wir.compile(other.replace(data=values))(x, shift)
    assert torch.equal(loaded().run(x, shift)[0], expected[0])


def test_constants_that_are_no_tensors_in_files_are_left_to_libraries(tmp_path: Path) -> None:
    program = captured()
    objects = wir.parse(
        'wir 2\nprogram @p inference planned\n\nobject &q : ns::Q = "q"\n\nreturn\n'
    ).objects
    with pytest.raises(UnsupportedError, match="the constant 'q'"):
        wir.export(program.replace(objects=objects), tmp_path / "model", "python")
    assert [*tmp_path.iterdir()] == []


# Forward and backward.


@cache
def trained() -> tuple[list[wir.Program], list[Any], torch.Tensor, list[torch.Tensor | None]]:
    """Programs of a training graph; the forward's inputs, its result, and their gradients."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 3))
    given: list[Any] = []

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Any:
        call = torch._dynamo.lookup_backend("wrapper_ir")(graph, examples)

        def run(*inputs: Any) -> Any:
            given.extend(
                each.detach().clone().requires_grad_(each.requires_grad) for each in inputs
            )
            return call(*inputs)

        return run

    torch._dynamo.reset()
    x = torch.randn(5, 6, requires_grad=True)
    with wir.record() as programs:
        y = torch.compile(model, backend=backend)(x)
        loss(y).backward()
    parameters = [*model.parameters(), x]
    found = [
        (
            next(p.grad for p in parameters if p.shape == each.shape and torch.equal(p, each))
            if each.requires_grad
            else None
        )
        for each in given
    ]
    return list(programs), given, y.detach(), found


def loss(y: torch.Tensor) -> torch.Tensor:
    return y.square().mean()


@pytest.mark.parametrize("target", TARGETS)
def test_a_forward_and_its_backward_are_a_function_for_autograd(room: Path, target: str) -> None:
    programs, given, expected, gradients = trained()
    wir.export(programs, room / "model", target)
    module = loaded()
    inputs = [each.detach().clone().requires_grad_(each.requires_grad) for each in given]
    before = [each._version for each in inputs]
    (y,) = module.run(*inputs)
    assert torch.equal(y, expected)
    written = [not torch.equal(a, b) for a, b in zip(inputs, given, strict=True)]
    assert [a._version > b for a, b in zip(inputs, before, strict=True)] == written
    assert sum(written) == 3  # the statistics of the batch norm
    loss(y).backward(retain_graph=True)
    for each, gradient in zip(inputs, gradients, strict=True):
        assert (each.grad is None) == (gradient is None)
        assert gradient is None or torch.equal(each.grad, gradient)
    with pytest.raises(ProgramRunError, match="has consumed the values that its forward saved"):
        loss(y).backward()
    assert wir.check_folder(room / "model") == []
    edit(room / "model/__init__.py", "results=1", "results=2")
    edit(room / "model/backward/wrapper.py", "run_main(call", "run_main(print")
    told = [str(each) for each in wir.check_folder(room / "model")]
    assert [each.partition(":")[0] for each in told] == ["backward/wrapper.py", "__init__.py"]


def test_results_without_gradients_and_numbers_between_the_two(room: Path) -> None:
    weight = torch.randn(4, 4, requires_grad=True)

    def both(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = (x @ weight).relu()
        return y.argmax(1), y, (y * x.shape[0]).sum()

    torch._dynamo.reset()
    with wir.record() as programs:
        call = torch.compile(both, backend="wrapper_ir", dynamic=True)
        _, y, total = call(torch.ones(5, 4))
        (y.sum() + total).backward()
    assert [program.tangents for program in programs] == [(), (1, 2)]
    wir.export(programs, room / "model", "python")
    leaf = weight.detach().clone().requires_grad_()
    inputs: list[Any] = []
    for each in programs[0].inputs:
        if isinstance(each, ScalarInput):
            inputs.append({5: 3}.get(programs[0].symbols[each.symbol].hint, 4))
        else:
            is_weight = len(programs[0].layout(each.name).symbols) < 2
            inputs.append(leaf if is_weight else torch.ones(3, 4))
    best, y, total = loaded().run(*inputs)
    assert not best.requires_grad
    (y.t().sum() + total).backward()  # a gradient of other strides
    expected = weight.detach().clone().requires_grad_()
    y = (torch.ones(3, 4) @ expected).relu()
    (y.sum() + (y * 3).sum()).backward()
    torch.testing.assert_close(leaf.grad, expected.grad)


def test_programs_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    (forward, backward), *_ = trained()
    shorter = forward.replace(results=forward.results[1:])
    with pytest.raises(OptionValueError, match="a forward and its backward"):
        wir.export([shorter, backward], tmp_path / "model")
    with pytest.raises(OptionValueError, match="a forward and its backward"):
        wir.export([forward, forward], tmp_path / "model")
    with pytest.raises(OptionValueError, match="names that Python can import"):
        wir.export({"a-b": forward, "c": backward}, tmp_path / "model")
    assert [*tmp_path.iterdir()] == []


def test_several_programs_have_folders_of_their_own(room: Path) -> None:
    programs = {"one": plus_one(), "two": plus_one(extra=1)}
    wir.export(programs, room / "model", "python")
    loaded()
    got = [importlib.import_module(f"model.{name}").run(torch.zeros(4))[0][0] for name in programs]
    assert got == [1.0, 3.0]
    assert wir.check_folder(room / "model") == wir.check_folder(room / "model/two") == []


# They say what they need.


def test_a_machine_that_has_less_is_refused_in_words(room: Path) -> None:
    folder = wir.export(captured(), room / "model", "python")
    about = json.loads((folder / "wrapper_ir.json").read_text())
    for key, value, words in (
        ("torch", "2.3.0", "it is source for PyTorch 2.3.0, and this is 2."),
        ("torch", "99.0.0", "it is source for PyTorch 99.0.0, and this is 2."),
        ("device", "mtia", "it runs on mtia, and there is none"),
        ("kernels", ["sve256"], "its kernels were written for 'sve256': it belongs to arm"),
    ):
        changed = {**about, "needs": {**about["needs"], key: value}}
        (folder / "wrapper_ir.json").write_text(json.dumps(changed))
        with pytest.raises(SourceFolderError, match=words) as caught:
            loaded()
        assert "wrapper_ir.json" in str(caught.value.hint)
    for text in ("{}", "[", '{"needs": {"torch": 2}}'):
        (folder / "wrapper_ir.json").write_text(text)
        with pytest.raises(SourceFolderError, match=r"its wrapper_ir\.json is damaged"):
            SourceFolder(str(folder / "wrapper.py"))
    (folder / "wrapper_ir.json").unlink()
    with pytest.raises(SourceFolderError, match=r"wrapper_ir\.json cannot be read"):
        loaded()


def test_a_processor_that_lacks_what_kernels_were_written_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("wrapper_ir.toolchain.isa.cpu_features", frozenset)
    here = torch.__version__.partition("+")[0]
    needs = {"torch": here, "device": "cpu", "kernels": ["x86-64-v3"]}
    reason = obstacle(needs)
    assert reason is not None
    assert reason.startswith("its kernels were written for 'x86-64-v3': ")


# They are written whole, and over nothing that somebody made.


def test_a_folder_is_replaced_only_as_it_was_written(tmp_path: Path) -> None:
    folder = wir.export(plus_one(), tmp_path / "model")
    (folder / "kernels/__pycache__").mkdir()
    (folder / "kernels/__pycache__/x.pyc").write_bytes(b"x")
    wir.export(plus_one(extra=1), folder, "python")
    assert not (folder / "program.cpp").exists()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ExportPathError, match=r"'notes\.txt' in it is not part of the export"):
        wir.export(plus_one(), folder)
    (folder / "notes.txt").unlink()
    edit(folder / "kernels/plus_1.cpp", "2.0f", "3.0f")
    with pytest.raises(ExportPathError, match=r"'kernels/plus_1\.cpp' in it was edited"):
        wir.export(plus_one(), folder)
    assert len(wir.check_folder(folder)) == 1
    other = tmp_path / "other"
    other.mkdir()
    wir.export(plus_one(), other)  # empty
    (other / "wrapper_ir.json").write_text("{}")
    with pytest.raises(ExportPathError, match="it was not exported by wrapper_ir"):
        wir.export(plus_one(), other)


def test_an_export_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = wir.export(plus_one(), tmp_path / "model", "python")
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("wrapper_ir.aot.source.folder.save", fail)
    with pytest.raises(ExportPathError, match="No space left on device"):
        wir.export(plus_one(extra=1), folder, "python")
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    assert [*tmp_path.iterdir()] == [folder]


def test_the_same_program_gives_the_same_folder(tmp_path: Path) -> None:
    one, two = (wir.export(captured(), tmp_path / each / "m") for each in _made(tmp_path, "a", "b"))
    files = [
        {f.relative_to(d): f.read_bytes() for f in d.rglob("*") if f.is_file()} for d in (one, two)
    ]
    assert files[0] == files[1]


def _made(folder: Path, *names: str) -> Iterator[str]:
    for name in names:
        (folder / name).mkdir()
        yield name


def test_other_emitters_and_their_options(tmp_path: Path) -> None:
    with pytest.raises(OptionValueError, match="'cpp' for a package or library"):
        wir.export(captured(), tmp_path / "m.pt2", "python")
    with pytest.raises(OptionError, match="no option 'isa'"):
        wir.export(captured(), tmp_path / "m", "python", isa="x86-64-v3")
    with pytest.raises(UnsupportedError, match="does not write files"):
        wir.export(captured(), tmp_path / "m", "fx")
    folder = wir.export(captured(), tmp_path / "m", "python", arena="kept", origins=True)
    assert wir.check_folder(folder) == []
    with pytest.raises(NotExportedError, match="not a source folder"):
        wir.check_folder(tmp_path)


# They are compared with their programs.


def test_edits_are_told_with_their_place(tmp_path: Path) -> None:
    folder = wir.export(captured(), tmp_path / "model", "cpp")
    kernel = min((folder / "kernels").iterdir())
    number = next(
        n for n, line in enumerate(kernel.read_text().splitlines(), 1) if "store(" in line
    )
    edit(kernel, "store(", "stream(")
    edit(folder / "program.cpp", "wir::addmm(", "wir::other(")
    edit(folder / "wrapper.py", "import torch\n", "# A remark.\nimport torch\n")
    edit(folder / "CMakeLists.txt", "3.18", "3.20")
    edit(folder / "README.md", "Exported", "Once exported")
    (folder / "constants.bin").unlink()
    found = {each.file: each for each in wir.check_folder(folder)}
    name = f"kernels/{kernel.name}"
    assert [*found] == ["program.cpp", name, "CMakeLists.txt", "constants.bin"]
    assert found[name].line == number
    assert found[name].where.startswith("kernel @cpp_fused_")
    assert found["program.cpp"].where.startswith("body[")
    assert "was edited, aten::addmm.out(" in found["program.cpp"].where
    assert found["program.cpp"].was != found["program.cpp"].now
    assert found["CMakeLists.txt"].where == "is not as it was written"
    assert found["constants.bin"].where == "is missing"


def test_text_that_cannot_be_read_is_compared_by_lines(tmp_path: Path) -> None:
    folder = wir.export(plus_one(), tmp_path / "model", "python")
    edit(folder / "wrapper.py", "return (buf", "return ((buf")
    (found,) = wir.check_folder(folder)
    assert found.now == (found.was[0].replace("(", "((", 1),)
    assert found.where.startswith("the text around") or found.where.startswith("body[")


def test_a_program_that_was_edited_is_told_too(tmp_path: Path) -> None:
    folder = wir.export(plus_one(), tmp_path / "model", "python")
    edit(folder / "program.wir", "x[i] + 1.0f", "x[i] + 5.0f")
    found = wir.check_folder(folder)
    assert [each.file for each in found] == ["kernels/plus_0.cpp", "program.wir"]
    assert found[0].was == ("for (int64_t i = 0; i < n; ++i) y[i] = x[i] + 5.0f;",)


@pytest.mark.parametrize(
    ("file", "old", "new", "edits"),
    [
        ("wrapper.py", "import torch\n", "\n# why\nimport torch  \n", 0),
        ("wrapper.py", "import torch\n", "import torch  # why\n", 1),
        ("wrapper.py", "import torch\n", "", 1),
        ("wrapper.py", "    return (buf", "     return (buf", 1),
        ("kernels/plus_0.cpp", "for (", "// so\n    \n    for (", 0),
        ("kernels/plus_0.cpp", "for (", "#pragma omp simd\n    for (", 1),
        ("kernels/plus_0.cpp", "1.0f", "2.0f", 1),
    ],
)
def test_lines_are_compared_that_are_neither_empty_nor_comments(
    tmp_path: Path, file: str, old: str, new: str, edits: int
) -> None:
    folder = wir.export(plus_one(), tmp_path / "model", "python")
    edit(folder / file, old, new)
    assert [each.file for each in wir.check_folder(folder)] == [file] * edits


def test_a_file_may_begin_or_end_with_an_edit(tmp_path: Path) -> None:
    folder = wir.export(plus_one(), tmp_path / "model", "python")
    file = folder / "kernels/plus_0.cpp"
    text = file.read_text()
    file.write_text(f"int first;\n{text}int last;\n")
    assert [each.line for each in wir.check_folder(folder)] == [1, text.count("\n") + 2]
    file.write_text("")
    (found,) = wir.check_folder(folder)
    assert (found.line, found.now) == (1, ())
