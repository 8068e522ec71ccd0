"""Probes of exported libraries: the words of Python, without Python, switched where they run."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

import wrapper_ir as wir
from tests import warm
from tests.debug_printer import test_golden
from tests.debug_printer.test_running import SCALE, W
from wrapper_ir.errors import UnsupportedError
from wrapper_ir.runtime import NonFiniteError, debug_session

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = test_golden.FOLDER

#: One input for each element type and shape that is shown differently, each cloned by an op.
INPUTS: dict[str, tuple[str, Callable[[], torch.Tensor]]] = {
    "f64": ("f64[3]", lambda: torch.tensor([0.1, -2.0, 1e300], dtype=torch.float64)),
    "odd": ("f32[4, 2]", lambda: torch.tensor([1.5, torch.nan, -torch.inf, 3.0] * 2).view(4, 2)),
    "turned": ("f32[3, 4]{1, 3}", lambda: torch.arange(12.0).reshape(4, 3).t()),
    "gaps": ("f32[2, 2]{8, 2}", lambda: torch.arange(16.0).as_strided((2, 2), (8, 2))),
    "same": ("f32[2, 3]{0, 1}", lambda: torch.arange(3.0).expand(2, 3)),
    "large": ("f32[2, 3, 4, 5, 9]", lambda: torch.arange(1080.0).reshape(2, 3, 4, 5, 9) / 7),
    "long": ("f32[70000]", lambda: torch.arange(7e4).where(torch.arange(7e4) != 3, torch.inf)),
    "none": ("f32[0, 3]", lambda: torch.empty(0, 3)),
    "one": ("f32[]", lambda: torch.tensor(-0.0)),
    "f16": ("f16[3]", lambda: torch.tensor([0.1, 65504, -2]).half()),
    "bf16": ("bf16[3]", lambda: torch.tensor([0.1, 3e38, -2]).bfloat16()),
    "f8": ("f8e4m3fn[3]", lambda: torch.tensor([0.1, 448, -2]).to(torch.float8_e4m3fn)),
    "f8e5": ("f8e5m2[3]", lambda: torch.tensor([0.1, torch.inf, -2]).to(torch.float8_e5m2)),
    "c64": ("c64[2]", lambda: torch.tensor([1 - 2j, complex(torch.nan, torch.inf)])),
    "c128": ("c128[2]", lambda: torch.tensor([0.1 - 0.0j, 1e-7j], dtype=torch.complex128)),
    "i64": ("i64[3]", lambda: torch.tensor([2**62, -(2**63), 5])),
    "u64": ("u64[2]", lambda: torch.tensor([2**63, 5], dtype=torch.uint64)),
    "u16": ("u16[2]", lambda: torch.tensor([65535, 5], dtype=torch.uint16)),
    "i8": ("i8[2]", lambda: torch.tensor([-128, 5], dtype=torch.int8)),
    "bool": ("bool[3]", lambda: torch.tensor([True, False, True])),
}

ZOO = "\n".join(
    [
        "wir 2",
        "program @zoo inference planned",
        *(f"input %{name} : {type_} @cpu" for name, (type_, _) in INPUTS.items()),
        "extern aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
        "extern aten::mul.Scalar(Tensor self, Scalar other) -> Tensor",
        *(
            f"  %out_{name} = aten::clone(%{name}, memory_format=memory_format.contiguous_format) "
            f": {type_.partition('{')[0]} @cpu"
            for name, (type_, _) in INPUTS.items()
        ),
        "  %half = aten::mul.Scalar(%f64, 0.5) : f64[3] @cpu",
        "  %less = aten::mul.Scalar(%f64, -1e-05) : f64[3] @cpu",
        "  %imag = aten::mul.Scalar(%c64, complex(2.0, -1.5)) : c64[2] @cpu",
        f"return {', '.join(f'%out_{name}' for name in INPUTS)}, %half, %less, %imag",
        "",
    ]
)


def scale() -> wir.Program:
    return wir.parse(SCALE).replace(data={"w": W})


def golden() -> wir.Program:
    return wir.parse((GOLDEN / "program.wir").read_text()).replace(data={"w": test_golden.W})


def inputs() -> list[torch.Tensor]:
    return [make() for _, make in INPUTS.values()]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Libraries; a test takes a copy of its own, since what is said to one holds in the process."""
    folder = tmp_path_factory.mktemp("probes")
    return {
        "zoo": wir.export(wir.parse(ZOO), folder / "zoo.so", debug="print"),
        "scale": wir.export(scale(), folder / "scale.so", debug="print"),
        "names": wir.export(scale(), folder / "names.so", debug="names"),
        "golden": wir.export(golden(), folder / "golden.so", debug=wir.DebugPrinter(when="both")),
        "plain": wir.export(scale(), folder / "plain.so"),
    }


class Library:
    """A library as a process has it that was told where its output goes."""

    def __init__(self, file: Path) -> None:
        self.functions = ctypes.CDLL(str(file))
        self.runner = torch._C._aoti.AOTIModelContainerRunnerCpu(str(file), 2)

    def set(self, level: str | None, directory: Path | None = None) -> bool:
        where = None if directory is None else os.fsencode(directory)
        done = self.functions.WrapperIRSetProbes(level.encode() if level else None, where)
        return int(done) == 0


@pytest.fixture
def load(
    built: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Library]:
    def copy(name: str) -> Library:
        monkeypatch.setenv("WRAPPER_IR_DEBUG_OUTPUT", str(tmp_path / "log"))
        monkeypatch.setenv("WRAPPER_IR_DEBUG_DIR", str(tmp_path / "files"))
        return Library(Path(shutil.copy(built[name], tmp_path / f"{name}.so")))

    return copy


def test_a_rank_has_its_own_files_and_its_number_in_each_line(
    load: Callable[[str], Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = load("zoo")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    for level in ("print", "save"):
        assert library.set(level, tmp_path / f"ours_{level}")
        library.runner.run(inputs())
        with debug_session(tmp_path / level, output=tmp_path / "python"):
            wir.compile(wir.parse(ZOO), debug=wir.DebugPrinter(level, when="both"))(*inputs())
    ours, python = (tmp_path / f"{name}.rank1" for name in ("log", "python"))
    assert ours.read_text() == python.read_text()
    assert all(line.startswith("rank 1: ") for line in ours.read_text().splitlines())
    assert (tmp_path / "ours_save.rank1" / "index.jsonl").is_file()


def test_the_words_are_those_of_python(load: Callable[[str], Library], tmp_path: Path) -> None:
    library = load("zoo")
    for level in ("print", "stats", "save"):
        assert library.set(level, tmp_path / f"ours_{level}")
        library.runner.run(inputs())
        with debug_session(tmp_path / level, output=tmp_path / "python"):
            printer = wir.DebugPrinter(level, when="both")
            wir.compile(wir.parse(ZOO), debug=printer)(*inputs())
    assert (tmp_path / "log").read_text() == (tmp_path / "python").read_text()
    assert "nan=2 first=(0, 1) inf=2 first=(1, 0)" in (tmp_path / "log").read_text()
    for file in ("stats/stats.jsonl", "save/index.jsonl"):
        assert (tmp_path / f"ours_{file}").read_text() == (tmp_path / file).read_text() != ""
    files = sorted((tmp_path / "save").glob("*.pt"))
    assert len(files) == 2 * len(INPUTS) + 6
    for file in files:
        theirs = torch.load(file, weights_only=True)
        ours = torch.load(tmp_path / "ours_save" / file.name, weights_only=True)  # type: ignore[attr-defined]
        assert (ours.dtype, ours.shape, ours.stride()) == (
            theirs.dtype,
            theirs.shape,
            theirs.stride(),
        )
        one, other = (t.contiguous().view(-1).view(torch.uint8) for t in (ours, theirs))
        assert torch.equal(one, other)


def test_the_golden_files_hold_for_libraries(
    load: Callable[[str], Library], tmp_path: Path
) -> None:
    library = load("golden")
    library.runner.run([test_golden.X, test_golden.P])
    assert (tmp_path / "log").read_text() == (GOLDEN / "print.txt").read_text()
    assert library.set("save")
    library.runner.run([test_golden.X, test_golden.P])
    index = tmp_path / "files" / "index.jsonl"
    assert index.read_text() == (GOLDEN / "save.txt").read_text()


@pytest.mark.parametrize("ours", [False, True])
def test_values_go_where_inductors_printer_is_told_to_save_them(
    built: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, ours: bool
) -> None:
    monkeypatch.setenv("AOTI_TORCH_SAVE_DIR", str(tmp_path / "theirs"))
    monkeypatch.setenv("WRAPPER_IR_DEBUG_DIR", str(tmp_path / "ours") if ours else "")
    wanted = tmp_path / ("ours" if ours else "theirs")
    library = Library(Path(shutil.copy(built["scale"], tmp_path / "scale.so")))
    assert library.set("save")
    library.runner.run([torch.ones(4)])
    assert (wanted / "index.jsonl").is_file()
    with debug_session() as session:
        wir.compile(scale(), debug="save")(torch.ones(4))
    assert str(session.directory) == f"{wanted}.1"  # the first holds a run


def test_what_is_written_is_bounded(
    load: Callable[[str], Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRAPPER_IR_DEBUG_LIMIT", "300")
    library = load("scale")
    with debug_session(output=tmp_path / "python", limit=300):
        for _ in range(2):
            library.runner.run([torch.ones(4)])
            wir.compile(scale(), debug="print")(torch.ones(4))
    assert (tmp_path / "log").read_text() == (tmp_path / "python").read_text()
    assert "the limit is reached" in (tmp_path / "log").read_text().splitlines()[-1]


def refused(library: Library, capfd: pytest.CaptureFixture[str], values: list[float]) -> str:
    """What is said of a call that fails; PyTorch before 2.13 prints the reason."""
    capfd.readouterr()
    with pytest.raises(RuntimeError) as caught:
        library.runner.run([torch.tensor(values)])
    return str(caught.value) + "".join(capfd.readouterr())


def test_a_planted_nan_is_found_at_its_call(
    load: Callable[[str], Library], capfd: pytest.CaptureFixture[str]
) -> None:
    library = load("scale")
    assert library.set("check")
    library.runner.run([torch.ones(4)])
    bad = torch.tensor([1.0, -2.0, 0.0, 4.0])
    said = refused(library, capfd, bad.tolist())
    with pytest.raises(NonFiniteError) as expected:
        wir.compile(scale(), debug="check")(bad)
    assert expected.value.message in said
    assert "0001 aten::log.out wrote NaN to b, first at (1,), 1 in all" in said


def test_infinite_values_can_be_let_pass(
    load: Callable[[str], Library], capfd: pytest.CaptureFixture[str]
) -> None:
    library = load("scale")
    assert library.set("check_nan")
    library.runner.run([torch.tensor([1.0, 0.0, 2.0, 4.0])])  # the logarithm of 0 is -inf
    said = refused(library, capfd, [1.0, -2.0, 0.0, 4.0])
    assert "WIR1502: call 0001 aten::log.out wrote NaN to b" in said
    assert library.set("check")
    said = refused(library, capfd, [1.0, 0.0, 2.0, 4.0])
    assert "call 0001 aten::log.out wrote inf to b" in said


def test_levels_change_while_the_library_is_in_use(
    load: Callable[[str], Library], tmp_path: Path
) -> None:
    library = load("scale")
    log = tmp_path / "log"
    library.runner.run([torch.ones(4)])
    printed = log.read_text()
    assert len(printed.splitlines()) == 9
    assert library.set("off")
    library.runner.run([torch.ones(4)])
    assert log.read_text() == printed
    assert library.set("names")
    library.runner.run([torch.ones(4)])
    names = ["0000 scale before", "0001 aten::log.out before", "0002 aten::cumsum before"]
    assert log.read_text()[len(printed) :].splitlines() == names
    for _ in range(2):  # a directory that holds a run is left alone
        assert library.set("stats", tmp_path / "run")
        library.runner.run([torch.ones(4)])
        library.runner.run([torch.ones(4)])
    for name in ("run", "run.1"):
        lines = (tmp_path / name / "stats.jsonl").read_text().splitlines()
        buffers = ["x", "layer.weight", "a", "a", "b", "b", "c"]
        assert [json.loads(line)["buffer"] for line in lines] == 2 * buffers
    assert library.set(None)
    library.runner.run([torch.ones(4)])
    assert log.read_text().endswith(printed)


@pytest.mark.parametrize(
    ("name", "level", "words"),
    [
        ("plain", "print", "the library was built without probes"),
        ("names", "print", "the library was built to show names and knows no values to show"),
        ("scale", "compare", "a library cannot show its values at level 'compare'"),
    ],
)
def test_what_a_library_cannot_do_it_says(
    load: Callable[[str], Library],
    capfd: pytest.CaptureFixture[str],
    name: str,
    level: str,
    words: str,
) -> None:
    library = load(name)
    assert not library.set(level)
    assert words in capfd.readouterr().err
    library.runner.run([torch.ones(4)])


RUN = """
import os, sys, torch
for pair in sys.argv[1:]:
    level, _, library = pair.partition("=")
    os.environ["WRAPPER_IR_DEBUG"] = level
    print("now", level, flush=True)
    torch._C._aoti.AOTIModelContainerRunnerCpu(library, 1).run([torch.ones(4)])
assert "wrapper_ir" not in sys.modules
"""


def test_the_environment_of_the_run_says_the_level(built: dict[str, Path], tmp_path: Path) -> None:
    expected = {"": 9, "names": 3, "off": 0, "compare": 10}
    pairs = [f"{n}={shutil.copy(built['scale'], tmp_path / f'{n}_.so')}" for n in expected]
    done = warm.run(RUN, *pairs, ours=False, WRAPPER_IR_DEBUG_OUTPUT="stdout")
    assert done.returncode == 0, done.stderr
    shown = dict(part.split("\n", 1) for part in done.stdout.split("now ")[1:])
    assert {name: len(text.splitlines()) for name, text in shown.items()} == expected
    # Meant for somebody else: the library does what it was built for.
    assert shown["compare"].startswith("debug: WRAPPER_IR_DEBUG: a library cannot show")


CRASH = """
import os, sys, torch
lib = torch.library.Library("crashing", "DEF")
lib.define("now(Tensor x) -> Tensor")
lib.impl("now", lambda x: os.abort(), "CPU")
torch._C._aoti.AOTIModelContainerRunnerCpu(sys.argv[1], 1).run([torch.ones(4)])
"""

CRASHING = """
wir 2
program @p inference planned
input %x : f32[4] @cpu
extern aten::relu(Tensor self) -> Tensor
extern crashing::now(Tensor x) -> Tensor
  %a = aten::relu(%x) : f32[4] @cpu
  %b = crashing::now(%a) : f32[4] @cpu
  free %a
return %b
"""


def test_the_last_line_before_a_crash_names_the_call(tmp_path: Path) -> None:
    library = wir.export(wir.parse(CRASHING), tmp_path / "crash.so", debug="names")
    done = warm.run(CRASH, library)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1] == "0001 crashing::now before"


def test_lines_of_threads_stay_whole(load: Callable[[str], Library], tmp_path: Path) -> None:
    library = load("scale")

    def work() -> None:
        for _ in range(40):
            library.runner.run([torch.ones(4)])

    library.runner.run([torch.ones(4)])
    expected = set((tmp_path / "log").read_text().splitlines())
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = (tmp_path / "log").read_text().splitlines()
    assert len(found) == 9 * 161
    assert set(found) == expected


def test_levels_that_need_python_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="a probe of level 'compare'"):
        wir.export(scale(), tmp_path / "p.so", debug="compare")
    assert not list(tmp_path.iterdir())


def test_a_folder_of_sources_has_what_probes_need(tmp_path: Path) -> None:
    for name, debug in (("with", "print"), ("without", None)):
        folder = wir.export(scale(), tmp_path / name, debug=debug)
        cmake = (folder / "CMakeLists.txt").read_text()
        assert ("runtime/src/probes.cc" in cmake) == (debug is not None)
        assert (folder / "runtime/src/probe_session.cpp").exists() == (debug is not None)
