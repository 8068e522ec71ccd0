"""Logs of stock torch: what is in them is tied together, damage is told."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

import pytest
import torch
from click.testing import CliRunner

from tests.explorer.samples import log_of, rewritten
from wrapper_ir.cli.app import main
from wrapper_ir.explorer import TraceError, explore_trace, logs

if TYPE_CHECKING:
    from pathlib import Path

    from wrapper_ir.explorer.document import View


def views(folder: Path) -> list[View]:
    return explore_trace(folder).document.programs


def of(view: View, callee: str) -> dict[str, Any]:
    """Return what belongs to the one call of a kernel or an op: nodes, rows of graphs, source."""
    calls = [n for n, kind in enumerate(view.lines.kind) if kind in ("kernel", "op")]
    (line,) = (n for n in calls if callee in view.lines.callee[n])
    origin = view.lines.origin[line]
    rows = view.origins.frames[origin] if origin >= 0 else []
    return {
        "nodes": [view.nodes.name[n] for n in view.origins.nodes[origin]] if origin >= 0 else [],
        "source": [view.frames.line[row] for row in rows],
        **{
            graph.title: [
                re.split("[:=]", row)[0].strip()
                for row, lines in zip(graph.rows, graph.lines, strict=True)
                if line in lines
            ]
            for graph in view.graphs
        },
    }


def test_each_text_of_inductor_s_is_a_view(traced: Path) -> None:
    found = views(traced)
    assert [(view.name.split()[0], view.role) for view in found[:5]] == [
        ("0/0", "forward"),
        ("0/0", "backward"),
        ("0/1", "forward"),
        ("0/1", "backward"),
        ("1/0", "inference"),
    ]
    eager = found[5]  # Dynamo's graph is all that there is
    assert [graph.title for graph in eager.graphs] == ["Dynamo graph"]
    assert eager.text.rows == []
    recompiled = [finding.text for finding in found[2].findings if finding.kind == "recompiled"]
    assert any("size mismatch" in text for text in recompiled)
    assert found[0].name.endswith("model.py:5")
    for view in found:
        assert [file.name.endswith("model.py") and file.whole for file in view.files] == [True]


def test_columns_fit_together(traced: Path) -> None:
    for view in views(traced):
        count = len(view.lines.path)
        assert {len(getattr(view.lines, name)) for name in view.lines.__slots__} == {count}
        assert len(set(view.lines.path)) == count
        assert len(view.text.rows) == len(view.text.lines)
        assert set(view.text.lines) <= set(range(-1, count))
        assert len({len(getattr(view.buffers, name)) for name in view.buffers.__slots__}) == 1
        for graph in view.graphs:
            assert len(graph.rows) == len(graph.lines) == len(graph.frames)
            assert all(-1 <= row < len(view.frames.line) for row in graph.frames)
            assert all(0 <= line < count for lines in graph.lines for line in lines)


def test_with_provenance_kernels_know_their_nodes_and_source(traced: Path) -> None:
    forward, _, _, backward, *_ = views(traced)
    assert forward.lines.kind.count("kernel") == len(forward.kernels) == 1
    kernel = of(forward, "softmax")
    assert "relu" in kernel["nodes"]
    assert kernel["After passes"] == kernel["nodes"]
    assert set(kernel["nodes"]) <= set(kernel["ATen graph"])
    assert len(kernel["Dynamo graph"]) == 3
    assert kernel["source"] == [6, 7]
    assert of(forward, "extern_kernels.mm")["source"] == [6]
    assert "INDUCTOR_PROVENANCE" not in str(forward.facts)
    assert of(backward, "softmax")["nodes"]


def test_without_it_the_log_s_comments_tie_what_they_name(traced: Path) -> None:
    plain = views(traced)[4]
    assert "INDUCTOR_PROVENANCE=1" in plain.facts["kernels"]
    mm = of(plain, "extern_kernels.mm")
    assert mm["Dynamo graph"]
    assert mm["source"] == [11]
    assert of(plain, "tanh") == {"nodes": [], "source": []} | {g.title: [] for g in plain.graphs}
    places = [{plain.frames.line[row] for row in g.frames if row >= 0} for g in plain.graphs]
    assert places == [{11}] * 3


@pytest.mark.skipif(not torch.backends.cuda.is_built(), reason="this torch knows no GPU at all")
def test_graphs_for_a_gpu_have_kernels_in_triton(traced_gpu: Path) -> None:
    (view,) = views(traced_gpu)
    assert [kernel.language for kernel in view.kernels] == ["triton"]
    kernel = of(view, "softmax")
    assert {"relu", "div", "add"} <= set(kernel["nodes"])
    assert kernel["After passes"] == kernel["nodes"]
    assert {"h", "softmax", "add"} == set(kernel["Dynamo graph"])
    assert kernel["source"] == [12, 13]
    assert of(view, "extern_kernels.mm")["ATen graph"] == ["mm"]
    assert view.facts["failed"].startswith("BackendCompilerFailed")


@pytest.mark.long  # two processes that import torch and compile
def test_ranks_are_told_apart(traced_ranks: Path) -> None:
    found = views(traced_ranks)
    assert [view.name.split()[:3] for view in found] == [["rank", n, "0/0"] for n in "01"]
    for rank, view in enumerate(found):
        assert f"_rank_{rank}_" in view.facts["log"]
        assert f"({4 + rank}, 8)" in "\n".join(view.text.rows)
        assert "all_reduce" in of(view, "_c10d_functional.all_reduce_")["ATen graph"]
        assert of(view, "wait_tensor")["ATen graph"] == ["wait_tensor"]
        assert {7, 8} <= set(of(view, "relu")["source"])


def test_variables_are_followed(traced: Path) -> None:
    forward = views(traced)[0]
    names, lines = forward.buffers.name, forward.lines
    (mm,) = (n for n, callee in enumerate(lines.callee) if callee == "extern_kernels.mm")
    buf = next(n for n in lines.reads[mm] if names[n].startswith("buf"))
    made = forward.buffers.line[buf]
    assert lines.defines[made] == [buf]
    assert made < mm
    assert any(buf in rows for rows in lines.reads[mm + 1 :])


# Damage and malice.


def test_a_log_that_ends_in_the_middle_is_shown_so_far(traced: Path, tmp_path: Path) -> None:
    whole = log_of(traced).read_bytes()
    for share in (0.001, 0.3, 0.5, 0.72, 0.9, 0.999):
        (tmp_path / "cut.log").write_bytes(whole[: int(len(whole) * share)])
        if len(whole) * share < whole.index(b'"dynamo_output_graph"'):
            with pytest.raises(TraceError, match="no graph that was compiled"):
                views(tmp_path)
        else:
            assert 1 <= len(views(tmp_path)) <= 6
    (tmp_path / "cut.log").write_bytes(whole[: whole.index(b"extern_kernels.mm(")])
    view, *_ = views(tmp_path)  # the graphs were written before the code
    assert view.graphs
    assert any("ends in the middle" in finding.text for finding in view.findings)


def test_other_damage_is_an_error_that_says_where(traced: Path, tmp_path: Path) -> None:
    whole = log_of(traced).read_bytes()
    file = tmp_path / "damaged.log"
    damages = {
        "another payload": whole.replace(b"extern_kernels.mm(", b"extern_kernels.xx(", 1),
        "is not a record": whole.replace(b'{"chromium_event"', b'{chromium"', 1),
        "more than": b"x" * (17 << 20),
    }
    for words, damaged in damages.items():
        file.write_bytes(damaged)
        with pytest.raises(TraceError, match=words) as caught:
            explore_trace(tmp_path)
        assert "damaged.log" in str(caught.value)
        assert re.search(r"row \d+ ", str(caught.value))


def test_a_folder_without_logs_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="TORCH_TRACE=DIR"):
        explore_trace(tmp_path)
    (tmp_path / "empty.log").write_bytes(b"")
    with pytest.raises(TraceError, match="no graph"):
        explore_trace(tmp_path)
    with pytest.raises(TraceError):
        explore_trace(tmp_path / "none")


def test_nobody_has_to_wait_for_texts_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert logs._KEPT == 64 << 20
    monkeypatch.setattr(logs, "_KEPT", 1 << 20)
    payload = "# " + "x" * (1 << 14)
    digest = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
    place = "V0101 00:00:00.000000 1 torch/x.py:1] "
    event = (
        '{"dynamo_output_graph": {}, "frame_id": %d, "frame_compile_id": 0, "has_payload": "%s"}'
    )
    rows = (f"{place}{event % (n, digest)}\n\t{payload}\n" for n in range(70))
    (tmp_path / "large.log").write_text("".join(rows), encoding="utf-8")
    found = views(tmp_path)
    assert len(found) == 63
    assert "only the first 1 MiB" in found[0].findings[0].text


def test_a_log_cannot_have_other_files_shown(traced: Path, tmp_path: Path) -> None:
    secret = tmp_path / "id_rsa.py"
    secret.write_text("-----BEGIN KEY-----\n" * 20, encoding="utf-8")
    model = str(traced.parent / "model.py")
    found = views(rewritten(traced, tmp_path / "logs", (model, str(secret))))
    for view in found:
        for file in view.files:
            # What a cache of Inductor's holds has the paths of the process that filled it.
            assert file.whole == file.name.endswith("model.py")
            assert not any("BEGIN" in row for row in file.rows)


@pytest.mark.parametrize(
    "text",
    ["\x00", "((" * 5000, "class A:\n" + " def f(self):\n  x = 1", "é\ud7ff", "x = " + "[" * 300],
)
def test_texts_that_are_no_python_are_shown_as_they_are(
    traced: Path, tmp_path: Path, text: str
) -> None:
    folder = rewritten(traced, tmp_path / "logs", ("# AOT ID", f"{text}\n# AOT ID"))
    forward = views(folder)[0]
    assert "# AOT ID: ['0_forward']" in forward.text.rows
    assert forward.text.rows[: len(text.split("\n"))] == text.split("\n")


def test_the_command_reads_a_directory(traced: Path, tmp_path: Path) -> None:
    page, run = tmp_path / "page.html", CliRunner().invoke
    done = run(main, ["explore", str(traced), "-o", str(page)])
    assert done.exit_code == 0, done.output
    assert page.stat().st_size < 2 << 20
    done = run(main, ["explore", str(traced), "--json", "--no-sources"])
    assert '"stage":""' in done.stdout
    assert '"whole":true' not in done.stdout
    done = run(main, ["explore", str(traced), "-o", str(page), "--target", "python"])
    assert done.exit_code == 2
    done = run(main, ["explore", str(tmp_path), "-o", str(page)])
    assert "WIR1602" in done.output
