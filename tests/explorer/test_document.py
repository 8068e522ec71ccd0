"""What pages show is what the analyses say; columns fit together; files are read with care."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest
import torch
from click.testing import CliRunner

import wrapper_ir as wir
from tests.explorer.samples import MODEL, sample
from tests.pages import ROOT
from wrapper_ir.analysis.liveness import Liveness
from wrapper_ir.cli.app import main
from wrapper_ir.explorer import RecordError, memory_snapshot, perfetto
from wrapper_ir.planning import plan

if TYPE_CHECKING:
    from pathlib import Path

EVERY = sorted((ROOT / "tests" / "programs").glob("*.wir"))
NOT_CPU = sorted((ROOT / "tests" / "programs" / "not_cpu").glob("*.wir"))


def shown(program: wir.Program, **options: Any) -> Any:
    return wir.explore(program, **options).document.programs[0]


@pytest.mark.parametrize("file", [*EVERY, *NOT_CPU], ids=lambda file: file.stem)
def test_columns_of_every_program_fit_together(file: Path) -> None:
    program = wir.parse(file.read_text(encoding="utf-8"))
    view = shown(program, targets=["python"], sources=False)
    count = len(view.lines.path)
    columns = [getattr(view.lines, name) for name in view.lines.__slots__]
    assert {len(column) for column in columns} == {count}
    named = [row for column in columns[-4:] for rows in column for row in rows]
    assert all(0 <= row < len(view.buffers.name) for row in named)
    assert len(view.text.rows) == len(view.text.lines)
    assert [n for n in view.text.lines if n >= 0] == list(range(count))
    for target in view.targets:
        assert len(target.text.rows) == len(target.text.lines)
        assert all(-1 <= line < count for line in target.text.lines)
    assert all(
        len(set(map(len, (p.names, p.offsets, p.starts)))) == 1 for p in view.plans[0].panels
    )
    json.dumps(perfetto([view]))
    memory_snapshot(view)


def test_plans_are_the_planner_s(tmp_path: Path) -> None:
    program = sample(tmp_path)
    view = shown(program, targets=[])
    assert [each.strategy for each in view.plans] == ["reuse", "none", "pool", "pool, kept"]
    for each in view.plans:
        strategy, _, kept = each.strategy.partition(", ")
        report = plan(program, strategy, arena=kept or "call").report
        assert each.peak_bytes == report.peak_bytes
        assert [held.name for held in each.at_peak] == [held.name for held in report.at_peak]
        assert max(each.held) == each.peak_bytes
    assert [each.shown for each in view.plans] == [True, False, False, False]


def test_storages_are_those_of_liveness(tmp_path: Path) -> None:
    program = plan(sample(tmp_path)).program
    view, liveness = shown(program, targets=[]), Liveness(program.region, program)
    for name, storage in zip(view.buffers.name, view.buffers.storage, strict=True):
        (life,) = liveness.of(name)
        assert view.buffers.name[storage] == life.first.owner


def test_texts_say_which_line_they_come_from(tmp_path: Path) -> None:
    view = shown(sample(tmp_path), targets=["python", "cpp", "fx"])
    for target in view.targets:
        found = {
            view.lines.callee[line]
            for row, line in zip(target.text.rows, target.text.lines, strict=True)
            if line >= 0 and "sigmoid" in row and view.lines.kind[line] == "op"
        }
        assert found == {"aten::sigmoid.out"}, target.name


def test_an_emitter_that_refuses_says_why(tmp_path: Path) -> None:
    (file,) = (each for each in NOT_CPU if each.stem == "collectives")
    view = shown(wir.parse(file.read_text(encoding="utf-8")))
    assert any(target.refused or target.text.rows for target in view.targets)
    starts = [order for order in view.orders if order.kind == "collective"]
    assert starts
    assert all(view.lines.kind[order.end] == "wait" for order in starts)


def test_a_file_of_the_model_is_read_only_if_it_is_what_was_quoted(tmp_path: Path) -> None:
    program = sample(tmp_path)
    (whole,) = shown(program, targets=[]).files
    assert whole.whole
    assert whole.rows == MODEL.split("\n")
    (quoted,) = shown(program, targets=[], sources=False).files
    assert quoted.numbers == [5, 6, 7, 8]
    assert not quoted.whole
    (tmp_path / "model.py").write_text(MODEL.replace("relu", "gelu"), encoding="utf-8")
    assert shown(program, targets=[]).files == [quoted]


def test_a_program_cannot_have_other_files_shown(tmp_path: Path) -> None:
    secret = tmp_path / "id_rsa"
    secret.write_text(MODEL, encoding="utf-8")
    text = wir.print_program(sample(tmp_path), origins=True)
    program = wir.parse(text.replace("model.py", "id_rsa"))
    (file,) = shown(program, targets=[]).files
    assert not file.whole


def test_runs_and_differences_become_findings(tmp_path: Path) -> None:
    program = sample(tmp_path)
    record = tmp_path / "stats.jsonl"
    entry = {"call": "0001 relu", "when": "after", "buffer": "h", "nan": 3}
    record.write_text(json.dumps(entry) + "\n", encoding="utf-8")
    view = shown(program, targets=[], found=[record])
    (finding,) = view.findings
    assert view.lines.callee[finding.line] == "relu"
    assert view.buffers.name[finding.buffer] == "h"
    assert list(view.recorded) == [finding.line]
    assert view.recorded[finding.line] == [{"when": "after", "buffer": "h", "nan": 3}]
    others = [{**entry, "call": "7 other"}, {"difference": "", "call": 3, "buffer": ""}]
    others += [{"faults": [3], "not_shown": []}, {"format": "else"}, {**entry, "call": []}]
    others += [{"call": "0001 relu", "seconds": "1", "least": 1, "visits": 1}]
    for text in ("{}", "[1]", "no", "[" * 9999, *map(json.dumps, others)):
        record.write_text(text, encoding="utf-8")
        with pytest.raises(RecordError):
            shown(program, targets=[], found=[record])
    for what in (tmp_path / "none", 3, None):
        with pytest.raises(RecordError):
            shown(program, targets=[], found=[what])


def test_a_recorded_run_is_in_each_pane_and_export(tmp_path: Path) -> None:
    program = sample(tmp_path)
    entry = {"call": "0001 relu", "seconds": 2e-5, "least": 1e-5, "visits": 1}
    moved = {"read_bytes": 1024, "written_bytes": 1024}
    second = {"call": "0004 aten::sigmoid.out", "seconds": 5e-5, "least": 5e-5, "visits": 1}
    head = {"format": "wrapper_ir.run", "version": 1, "program": "sample", "target": "python"}
    rows = [{**head, "runs": 4, "seconds": 1e-4}, {**entry, **moved}, {**second, **moved}]
    record = tmp_path / "run.jsonl"
    record.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    view = shown(program, targets=[], found=[record])
    assert {view.lines.callee[n]: t.seconds for n, t in view.times.items()} == {
        "relu": 2e-5,
        "aten::sigmoid.out": 5e-5,
    }
    assert "4 runs" in view.facts["recorded"]
    work = {e["name"]: e for e in perfetto([view])["traceEvents"] if e["ph"] == "X"}
    assert (work["relu"]["dur"], work["aten::sigmoid.out"]["dur"]) == (20.0, 50.0)
    assert work["aten::sigmoid.out"]["ts"] >= work["relu"]["ts"] + 20
    assert work["relu"]["args"]["read_bytes"] == 1024
    assert work["aten::mm.out"]["dur"] == 0


@pytest.fixture(scope="module")
def compiled() -> tuple[wir.Program, torch.fx.GraphModule]:
    """A program with a fused kernel and a library op, and the graph that it was made from."""
    with wir.record() as programs:
        torch.compile(lambda x, y: torch.split(torch.relu(x @ y) + 1, 4)[0], backend="wrapper_ir")(
            torch.ones(8, 8), torch.ones(8, 8)
        )
    (program,), (graph,) = programs, programs.graphs
    assert graph is not None
    return program, graph


def test_a_graph_and_what_could_not_be_shown_of_it(
    compiled: tuple[wir.Program, torch.fx.GraphModule],
) -> None:
    program, graph = compiled
    found = wir.validate(program, graph)
    view = shown(program, targets=[], graph=graph, found=[found])
    assert view.nodes.name == [node.name for node in graph.graph.nodes]
    mm = next(n for n, text in enumerate(view.nodes.text) if "mm" in text)
    lines = [
        n for n, row in enumerate(view.lines.origin) if row >= 0 and mm in view.origins.nodes[row]
    ]
    assert any(view.lines.kind[line] == "op" for line in lines)
    assert len(view.findings) == len(found.faults) + len(found.not_shown)


DIFFERENCE = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x, y):
        return (x.relu() - y.exp()).sum(0)


def make():
    return Net(), (torch.ones(4, 4), torch.ones(4, 4))
"""


def test_what_validate_prints_is_shown_at_the_lines_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(DIFFERENCE, encoding="utf-8")
    made, model, front_end = tmp_path / "net.wir", f"{tmp_path}/model.py:make", "--frontend=aten"
    run = CliRunner().invoke
    done = run(main, ["capture", model, front_end, "-o", str(made)])
    assert done.exit_code == 0, done.output
    text = made.read_text(encoding="utf-8")
    wrong = text.replace("(%relu, %exp)", "(%exp, %relu)").replace(" loc(#5)", "")
    made.write_text(wrong, encoding="utf-8")
    done = run(main, ["validate", str(made), model, front_end, "--json"])
    assert done.exit_code == 1, done.output
    found = tmp_path / "validate.json"
    found.write_text(done.stdout, encoding="utf-8")
    view = shown(wir.load(made), targets=[], found=[found])
    at = [(each.kind, view.lines.callee[each.line]) for each in view.findings if each.line >= 0]
    assert at == [
        ("fault", "aten::sub.Tensor"),
        ("fault", "aten::sub.Tensor"),
        ("not shown", "aten::sum.dim_IntList"),
    ]
    assert all("body[" not in each.text for each in view.findings)  # those would be of the file


def test_a_file_alone_has_its_graph(
    compiled: tuple[wir.Program, torch.fx.GraphModule], tmp_path: Path
) -> None:
    """The ops of all nodes that lines compute, those of fused kernels too, and what they take."""
    program, graph = compiled
    program.save(tmp_path / "p.wir")
    view = shown(wir.load(tmp_path / "p.wir"), targets=[])
    calls = dict(zip(view.nodes.name, view.nodes.text, strict=True))
    nodes = {node.name: node for node in graph.graph.nodes if node.name in calls}
    assert len(nodes) == len(calls) >= 3
    for name, node in nodes.items():
        assert calls[name].startswith(f"%{name} = {node.target}(")
        assert all(given.name in calls[name].partition("(")[2] for given in node.all_input_nodes)
    assert calls["mm"] == "%mm = aten.mm.default(arg0_1, arg1_1)"


def test_the_same_program_gives_the_same_page(tmp_path: Path) -> None:
    program = sample(tmp_path)
    assert wir.explore(program).html == wir.explore(program).html


def test_names_are_checked_before_work_is_done(tmp_path: Path) -> None:
    with pytest.raises(wir.WrapperIRError, match="pyhton"):
        wir.explore(sample(tmp_path), targets=["pyhton"])
    with pytest.raises(wir.OptionError, match="resue"):
        wir.explore(sample(tmp_path), targets=[], plans=["resue"])


def test_two_programs_have_the_diff_of_their_planned_forms(tmp_path: Path) -> None:
    before = sample(tmp_path)
    after = wir.parse(str(before).replace("aten::sigmoid.out", "aten::tanh.out"))
    changes = wir.explore(before, after, targets=[]).document.changes
    assert changes is not None
    diff = wir.diff(*(plan(each).program for each in (before, after)))
    assert changes == json.loads(diff.to_json())


# The command, and files for other viewers.


def test_the_command_writes_what_is_asked_for_whole_or_not_at_all(tmp_path: Path) -> None:
    file, page = tmp_path / "p.wir", tmp_path / "page.html"
    sample(tmp_path).save(file)
    run = CliRunner().invoke
    outputs = ["--perfetto", f"{tmp_path}/t.json", "--memory-viz", f"{tmp_path}/m.pickle"]
    done = run(main, ["explore", str(file), "-o", str(page), "--json", *outputs])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert (document["format"], document["version"]) == ("wrapper_ir.explorer", 1)
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert page.stat().st_size < 2 << 20
    done = run(main, ["explore", str(file), "-o", str(page)])  # a page may replace a page
    assert done.exit_code == 0, done.output
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    for words in (
        ["-o", other],
        [],
        ["-o", page, "--target", "none"],
        ["-o", "-", "--json"],
        ["-o", file],
    ):
        assert run(main, ["explore", str(file), *map(str, words)]).exit_code == 2
    assert other.read_text() == "mine"


def test_torch_reads_the_snapshot_of_memory(tmp_path: Path) -> None:
    from torch.cuda import _memory_viz as viz

    view = shown(sample(tmp_path), targets=[])
    snapshot = pickle.loads(pickle.dumps(memory_snapshot(view)))
    (trace,) = snapshot["device_traces"]
    alive = peak = 0
    for event in trace:
        alive += {"alloc": 1, "free_completed": -1}.get(event["action"], 0) * event["size"]
        peak = max(peak, alive)
    assert peak == next(each.peak_bytes for each in view.plans if each.shown)
    big = next(e for e in trace if e["frames"] and e["frames"][0]["name"].startswith("%big"))
    assert big["frames"][1]["filename"].endswith("model.py")
    assert big["frames"][1]["line"] == 7
    assert "cudaMalloc" in viz.trace(snapshot)
    assert viz.segsum(snapshot)
    assert "memory" in viz.trace_plot(snapshot).lower()


def test_a_trace_has_threads_waits_and_memory() -> None:
    (file,) = (each for each in NOT_CPU if each.stem == "streams")
    view = shown(wir.parse(file.read_text(encoding="utf-8")), targets=[])
    events = perfetto([view])["traceEvents"]
    threads = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
    assert {"host", "caller"} < threads.keys()
    work = [e for e in events if e["ph"] == "X"]
    assert len({e["tid"] for e in work}) > 1
    assert {e["tid"] for e in work} <= set(threads.values())
    starts, ends = ([e for e in events if e["ph"] == sign] for sign in "sf")
    assert len(starts) == len(ends) > 0
    assert any(e["ph"] == "C" and e["args"]["bytes"] > 0 for e in events)


def test_the_page_is_built_from_its_sources() -> None:
    """As explorer/build.mjs does it; `make explorer` builds it anew."""
    import hashlib

    room = ROOT / "explorer"
    names = ["build.mjs", "package-lock.json", "package.json"]
    names += [f"src/{file.name}" for file in (room / "src").iterdir()]
    found = hashlib.sha256()
    for name in sorted(names):
        found.update(f"{name}\0".encode() + (room / name).read_bytes() + b"\0")
    page = (ROOT / "wrapper_ir" / "explorer" / "page.html").read_text(encoding="utf-8")
    assert f"Sources: {found.hexdigest()} " in page[:400]
    assert len(page) < 2 << 20
