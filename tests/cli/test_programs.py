"""print, verify, plan, emit: programs in, text out, through files and streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import wrapper_ir as wir
from tests.cli.samples import FAULTY, MISSPELT, PROGRAM

if TYPE_CHECKING:
    from tests.cli.conftest import Invoke


def test_print_gives_text_that_is_the_same_program(room: Path, invoke: Invoke) -> None:
    result = invoke("print", "small.wir")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert wir.parse(result.stdout) == wir.parse(PROGRAM)
    assert invoke("print", "-", stdin=result.stdout).stdout == result.stdout


def test_print_brief_leaves_kernel_sources_out(room: Path, invoke: Invoke) -> None:
    brief = invoke("print", "small.wir", "--brief").stdout
    assert "for (int i" not in brief
    assert "call @relu(%x, out %y)" in brief


def test_print_in_colour_is_the_same_text(room: Path, invoke: Invoke) -> None:
    import click

    plain, coloured = invoke("print", "small.wir"), invoke("print", "small.wir", "--color")
    assert "\x1b[" not in plain.stdout
    assert "\x1b[36m%x\x1b[0m" in coloured.stdout
    unstyled = [line.rstrip() for line in click.unstyle(coloured.stdout).splitlines()]
    assert unstyled == [line.rstrip() for line in plain.stdout.splitlines()]


def test_every_line_has_its_keywords_in_colour() -> None:
    from rich.text import Text

    from wrapper_ir.cli.terminal import _lines

    def keywords(text: str) -> list[str]:
        (line,) = _lines([text])
        assert isinstance(line, Text)
        return [text[span.start : span.end] for span in line.spans if span.style == "wir.keyword"]

    assert keywords("  %a = allocate pinned zeroed kept : f32[4] @cpu") == [
        *("allocate", "zeroed", "kept")
    ]
    assert keywords("  (%c) = switch s0 with (%x) : (f32[4] @cpu)") == ["switch", "with"]
    assert keywords('kernel @free(x: in f32) cpp entry "kept" isa "avx2"') == [
        *("kernel", "in", "cpp", "entry", "isa")
    ]
    assert keywords("  %kept = aten::item(%size)") == []


def test_print_origins(room: Path, invoke: Invoke) -> None:
    program = wir.parse(PROGRAM)
    frame = wir.Frame("model.py", 7, "forward", "y = relu(x)")
    program.replace(origins=(wir.Origin(nodes=("relu",), frames=(frame,)),)).save("o.wir")
    assert "model.py" not in invoke("print", "o.wir").stdout
    assert '"model.py":7' in invoke("print", "o.wir", "--origins").stdout


def test_input_that_is_not_utf8(invoke: Invoke) -> None:
    result = invoke("print", "-", stdin=b"wir 2\n\xff")
    assert result.exit_code == 2
    assert "byte 6 is not UTF-8" in result.stderr


def test_verify_speaks_of_each_file(room: Path, invoke: Invoke) -> None:
    (room / "faulty.wir").write_text(FAULTY)
    result = invoke("verify", "small.wir", "faulty.wir", "small.wir")
    assert result.exit_code == 1
    ok = "ok  small.wir: small, logical, 6 lines, 4 buffers\n"
    assert result.stdout == 2 * ok
    assert "faulty.wir: WIR1000" in result.stderr
    assert "^ error: WIR1030" in result.stderr
    assert invoke("verify", "small.wir", "--quiet").output == ""


def test_verify_exits_with_the_worst(room: Path, invoke: Invoke) -> None:
    (room / "faulty.wir").write_text(FAULTY)
    (room / "misspelt.wir").write_text(MISSPELT)
    assert invoke("verify", "misspelt.wir", "faulty.wir").exit_code == 2
    assert invoke("verify", "faulty.wir", "missing.wir").exit_code == 2
    assert invoke("verify", "small.wir").exit_code == 0


def test_verify_reads_a_stream(invoke: Invoke) -> None:
    assert invoke("verify", "-", stdin=PROGRAM).exit_code == 0
    assert invoke("verify", "-", stdin=FAULTY).exit_code == 1


def test_verify_json(room: Path, invoke: Invoke) -> None:
    (room / "faulty.wir").write_text(FAULTY)
    result = invoke("verify", "small.wir", "faulty.wir", "missing.wir", "--json")
    assert result.exit_code == 2
    good, faulty, missing = json.loads(result.stdout)
    assert good["ok"]
    assert (good["lines"], good["buffers"]) == (6, 4)
    assert not faulty["ok"]
    assert faulty["diagnostics"][0]["code"] == "WIR1030"
    assert faulty["diagnostics"][0]["place"] == "results[0]"
    assert "WIR0230" in missing["error"]


def test_verify_tells_of_warnings_on_request(invoke: Invoke) -> None:
    sample = Path(__file__).parents[1] / "invalid" / "wir1033_unwritten_read.wir"
    text = sample.read_text(encoding="utf-8").replace(" ; warning: WIR1033", "")
    plain = invoke("verify", "-", stdin=text)
    assert (plain.exit_code, plain.stderr) == (0, "")
    warned = invoke("verify", "--warnings", "-", stdin=text)
    assert warned.exit_code == 0
    assert "ok" in warned.stdout
    assert "^ warning: WIR1033 %turned is read" in warned.stderr
    found = json.loads(invoke("verify", "--warnings", "--json", "-", stdin=text).stdout)
    assert [d["severity"] for d in found[0]["diagnostics"]] == ["warning"] * 3


def test_plan_json_is_the_planners_report(room: Path, invoke: Invoke) -> None:
    report = json.loads(invoke("plan", "small.wir", "--json").stdout)
    expected = wir.planning.plan(wir.parse(PROGRAM)).report
    assert report["peak_bytes"] == expected.peak_bytes == 4 * 8 * 4 + 4 * 2 * 4
    assert report["strategy"] == "reuse"


def test_plan_table(room: Path, invoke: Invoke) -> None:
    table = invoke("plan", "small.wir", "--strategy", "none").stdout
    assert "peak, planned" in table
    assert "160 B" in table


def test_plan_tells_what_is_held_at_the_peak(room: Path, invoke: Invoke) -> None:
    table = invoke("plan", "small.wir").stdout
    assert "at the peak, body[" in table
    assert "%y" not in table
    assert "%y" in invoke("plan", "small.wir", "--buffers").stdout
    report = json.loads(invoke("plan", "small.wir", "--json").stdout)
    assert sum(each["nbytes"] for each in report["at_peak"]) == report["peak_bytes"]


def test_plan_shows_regions_and_only_the_largest_buffers(room: Path, invoke: Invoke) -> None:
    cond = Path(__file__).parents[1] / "programs" / "cond.wir"
    assert "inside the line's regions" in invoke("plan", str(cond), "--buffers").stdout
    made = "".join(f"  %b{n} = allocate : f32[{n + 1}] @cpu\n" for n in range(25))
    names = ", ".join(f"%b{n}" for n in range(25))
    many = f"wir 2\nprogram @p inference logical\n\n{made}return {names}\n"
    table = invoke("plan", "-", "--buffers", stdin=many).stdout
    assert "and 5 more" in table
    assert "%b24 " in table
    assert "%b4 " not in table


def test_plan_for_kept_arenas(room: Path, invoke: Invoke) -> None:
    result = invoke("plan", "small.wir", "--arena", "kept")
    assert "kept between calls" in result.stdout
    assert "is a result, or may be part of one" in result.stdout
    report = json.loads(invoke("plan", "small.wir", "--arena", "kept", "--json").stdout)
    assert (report["strategy"], report["arena"]) == ("pool", "kept")
    assert [each["name"] for each in report["outside"]] == ["y", "z"]
    assert invoke("plan", "small.wir", "--arena", "kept", "-o", "kept.wir").exit_code == 0
    assert wir.load("kept.wir") == wir.plan_memory(wir.parse(PROGRAM), arena="kept")


def test_plan_writes_the_planned_program(room: Path, invoke: Invoke) -> None:
    assert invoke("plan", "small.wir", "-o", "planned.wir").exit_code == 0
    assert wir.load("planned.wir") == wir.plan_memory(wir.parse(PROGRAM))
    piped = invoke("plan", "small.wir", "-o", "-")
    assert wir.parse(piped.stdout) == wir.load("planned.wir")
    assert "peak, planned" in piped.stderr


def test_emit_gives_what_the_emitter_gives(room: Path, invoke: Invoke) -> None:
    expected = wir.emit(wir.parse(PROGRAM), "python").source
    assert invoke("emit", "small.wir").stdout == expected
    assert invoke("emit", "-", stdin=PROGRAM).stdout == expected
    result = invoke("emit", "small.wir", "--target", "python", "-o", "w.py")
    assert result.stdout == ""
    assert (room / "w.py").read_text(encoding="utf-8") == expected


def test_emit_passes_options_on(room: Path, invoke: Invoke) -> None:
    expected = wir.emit(wir.parse(PROGRAM), "python", checks="never", scratch_bytes=0).source
    words = ("-O", "checks=never", "-O", "scratch-bytes=0")
    assert invoke("emit", "small.wir", *words).stdout == expected
    assert expected != wir.emit(wir.parse(PROGRAM), "python").source
    kept = wir.emit(wir.parse(PROGRAM), "python", arena="kept", out=True).source
    assert invoke("emit", "small.wir", "-O", "arena=kept", "-O", "out").stdout == kept


def test_run_passes_options_on(room: Path, invoke: Invoke) -> None:
    plain = invoke("run", "small.wir", "--random", "3", "--json")
    assert plain.exit_code == 0
    kept = invoke("run", "small.wir", "--random", "3", "--json", "-O", "arena=kept")
    assert kept.stdout == plain.stdout


@pytest.mark.parametrize("command", ["emit", "plan"])
def test_a_failure_leaves_the_old_file(command: str, room: Path, invoke: Invoke) -> None:
    (room / "faulty.wir").write_text(FAULTY)
    (room / "out").write_text("old")
    assert invoke(command, "faulty.wir", "-o", "out").exit_code == 1
    assert (room / "out").read_text() == "old"


def test_emitters_lists_names_and_options(invoke: Invoke) -> None:
    result = invoke("emitters")
    assert result.exit_code == 0
    assert "python  " in result.stdout
    assert "-O checks=always | first_call | never (default: always)" in result.stdout
    assert "-O origins=true | false (default: false)" in result.stdout


def test_emitters_json(invoke: Invoke) -> None:
    from wrapper_ir.emitters import emitter_class, emitter_names, option_names

    listed = {about["name"]: about for about in json.loads(invoke("emitters", "--json").stdout)}
    assert tuple(listed) == emitter_names()
    for name, about in listed.items():
        assert [o["name"] for o in about["options"]] == list(option_names(emitter_class(name)))


def test_progress_is_shown_on_terminals_alone(
    invoke: Invoke, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("bisect", "small.wir", "--random", "0")
    assert invoke(*words).stderr == ""
    monkeypatch.setenv("FORCE_COLOR", "1")  # for rich: standard error is a terminal
    assert "running both ways" in invoke(*words).stderr
