"""The page in a real browser: it opens, links, searches, marks, and no name in it is code."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest
import torch

import wrapper_ir as wir
from tests.explorer.samples import rewritten, sample
from tests.pages import ROOT
from wrapper_ir.debugging import record_run
from wrapper_ir.explorer import explore_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests. Without one they are skipped, but fail where ``CI`` is set."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        reason = "there is no Chromium; Debian's package is 'chromium'"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as engine:
        made = engine.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Return a function that opens a page; afterwards, nothing may have gone wrong in any."""
    complaints: list[str] = []
    pages: list[Page] = []

    def show(made: wir.explorer.Page, address: str = "", **options: object) -> Page:
        file = made.save(tmp_path / f"page{len(pages)}.html")
        options.setdefault("viewport", {"width": 1440, "height": 900})
        page = browser.new_page(**options)
        pages.append(page)
        page.set_default_timeout(15_000)
        page.on("console", lambda each: complaints.append(each.text))
        page.on("pageerror", lambda each: complaints.append(str(each)))
        page.on("dialog", lambda each: complaints.append(f"dialog: {each.message}"))
        page.on("request", lambda each: each.url.startswith("file:") or complaints.append(each.url))
        page.goto(f"{file.as_uri()}{address}")
        page.wait_for_selector("html[data-ready]")
        return page

    yield show
    for page in pages:
        page.close()
    assert complaints == []


def marked(page: Page, pane: str) -> list[str]:
    """Return the texts of marked rows in sight, without their numbers, when they have settled."""
    page.wait_for_selector(f"{pane} .row.marked")
    rows = page.query_selector_all(f"{pane} .row.marked")
    return [
        re.sub(r"^\s*\d*\s*[\u2022+~>\u2212]?\s*", "", row.text_content() or "") for row in rows
    ]


def row(page: Page, pane: str, text: str) -> None:
    """Click a row of a pane by a part of its text."""
    page.locator(f"{pane} .row", has_text=text).first.click(position={"x": 3, "y": 8})


def test_a_line_of_the_source_marks_what_belongs_to_it(
    opened: Callable[..., Page], tmp_path: Path
) -> None:
    page = opened(wir.explore(sample(tmp_path)))
    row(page, "#left", "h = x @ w")
    assert marked(page, "#left") == ["h = x @ w  # the product"]
    lines = marked(page, "#middle")
    assert [line.split("(")[0] for line in lines] == [
        "%h = allocate : f32[16, 16] @cpu",
        "aten::mm.out",
    ]
    assert any("aten_mm_out(" in text for text in marked(page, "#right"))
    for tab in ("C++", "FX"):
        page.get_by_role("tab", name=tab, exact=True).click()
        assert any("mm" in text for text in marked(page, "#right"))
    page.get_by_role("tab", name="ATen graph").click()
    assert [text.split()[0] for text in marked(page, "#left")] == ["%mm"]
    row(page, "#left", "%relu")
    assert [text.split("(")[0] for text in marked(page, "#middle")] == ["call @relu"]
    page.get_by_role("tab", name="Kernels").click()
    assert marked(page, "#right")[0].startswith("@relu")
    assert "net" in (page.text_content("#below") or "")


def test_a_line_has_an_address_and_back_goes_back(
    opened: Callable[..., Page], tmp_path: Path
) -> None:
    made = wir.explore(sample(tmp_path), targets=["python"])
    lines = made.document.programs[0].lines
    (relu,) = (p for p, kind in zip(lines.path, lines.kind, strict=True) if kind == "kernel")
    mm = lines.path[lines.kind.index("op")]
    page = opened(made, f"#{mm}")
    (first,) = marked(page, "#middle")
    assert first.startswith("aten::mm.out")
    row(page, "#middle", "call @relu")
    assert marked(page, "#middle")[0].startswith("call @relu")
    assert page.url.endswith(f"#{relu}")
    page.locator("#middle .t-buffer", has_text="%big").first.click()
    assert page.evaluate("location.hash") == "#buffer=big"
    assert all("%big" in text for text in marked(page, "#middle"))
    page.go_back()
    page.wait_for_function("document.querySelectorAll('#middle .row.marked').length === 1")


def test_from_a_wrong_number_to_the_source_in_few_clicks(
    opened: Callable[..., Page], tmp_path: Path
) -> None:
    difference = tmp_path / "bisect.json"
    found = {"call": "0004 aten::sigmoid.out", "buffer": "gate", "difference": "3 of 256 elements"}
    difference.write_text(json.dumps(found), encoding="utf-8")
    page = opened(
        wir.explore(sample(tmp_path), targets=["python"], found=[difference])
    )  # a first difference is on the first screen
    page.locator("#below button.link").first.click()
    assert marked(page, "#left") == ["return big.sum(0) + torch.sigmoid(h)"]
    assert [text.split("(")[0] for text in marked(page, "#middle")] == ["aten::sigmoid.out"]

    page = opened(wir.explore(sample(tmp_path), targets=["python"]))  # from a wrong result
    page.get_by_role("table", name="Buffers").first.get_by_role(
        "button", name="body["
    ).first.click()
    assert marked(page, "#left") == ["return big.sum(0) + torch.sigmoid(h)"]


def test_a_recorded_run_from_the_slowest_call_to_its_source(
    opened: Callable[..., Page], tmp_path: Path
) -> None:
    program = wir.plan_memory(sample(tmp_path)).replace(data={"w": torch.randn(64, 16)})
    run = record_run(program, [torch.randn(16, 64)], runs=3)
    slowest = max(run.calls, key=lambda call: call.seconds).call.partition(" ")[2]
    page = opened(wir.explore(program, targets=["python"], found=[run]))
    times = page.get_by_role("table", name="Times")
    assert len(times.get_by_role("row").all()) == 1 + 6  # six calls
    assert "3 runs" in (page.text_content("#below") or "")
    times.get_by_role("button").first.click()
    assert slowest in marked(page, "#middle")[0]
    (source,) = marked(page, "#left")
    assert re.match(r"[\d.]+ (\u00b5s|ms)", source), source
    page.get_by_role("tab", name="Details").click()
    assert "of all calls" in (page.text_content("#below") or "")
    assert page.get_by_role("table", name="Recorded").count() == 1
    page.get_by_role("tab", name="Kernels").click()
    row(page, "#right", "@relu")
    assert re.search(r"C\+\+, 1 call, [\d.]+ ", marked(page, "#right")[0])
    page.get_by_role("tab", name="Timeline").click()
    page.wait_for_selector("#below >> text=Microseconds of the recorded run")


def test_from_the_peak_to_the_buffers_that_make_it_in_two_clicks(
    opened: Callable[..., Page], tmp_path: Path
) -> None:
    page = opened(wir.explore(sample(tmp_path), targets=["python"]))
    page.get_by_role("button", name="peak").click()
    held = page.get_by_role("table", name="Held at the peak")
    assert [text.split("6")[0] for text in held.inner_text().split()[:1]] == ["%big"]
    assert len(held.get_by_role("row").all()) >= 2
    held.get_by_role("button", name="%big").click()
    assert all("%big" in text for text in marked(page, "#middle"))
    assert marked(page, "#left")[0].startswith("big = h.expand")
    plans = page.get_by_role("table", name="Plans")
    assert [cell.inner_text()[:4] for cell in plans.get_by_role("button").all()] == [
        "reus",
        "none",
        "pool",
        "pool",
    ]
    page.get_by_role("button", name="side by side").click()
    assert page.locator("#below canvas").count() == 4
    canvas = page.locator("#below canvas").first
    drawn = canvas.evaluate(
        "c => new Set(c.getContext('2d').getImageData(0, 0, c.width, c.height).data).size"
    )
    assert drawn > 20


def test_search_finds_everywhere(opened: Callable[..., Page], tmp_path: Path) -> None:
    page = opened(wir.explore(sample(tmp_path), targets=["python"]))
    page.keyboard.press("/")
    page.keyboard.type("sigmoid")
    page.wait_for_selector("#hits .pane")
    panes = {each.inner_text() for each in page.locator("#hits .pane").all()}
    assert {"lines", "source", "graph", "python"} <= panes
    page.locator("#hits li", has_text="aten::sigmoid.out(%h").first.click()
    assert [text.split("(")[0] for text in marked(page, "#middle")] == ["aten::sigmoid.out"]
    page.fill("#search", "no such thing")
    page.wait_for_selector("#hits >> text=nothing found")


def test_keys_and_help(opened: Callable[..., Page], tmp_path: Path) -> None:
    page = opened(wir.explore(sample(tmp_path), targets=["python"]), color_scheme="dark")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.wait_for_function("location.hash === '#body[1]'")
    page.keyboard.press("3")
    page.wait_for_selector("#below canvas")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    listed = page.locator("dialog[open] kbd").all_inner_texts()
    assert {"/", "j, k", "?"} <= set(listed)
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog:not([open])", state="attached")
    # The page is told that the dialog is closed in a later task, and takes no key until then.
    page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    page.keyboard.press("t")
    page.wait_for_function(f"dark => {colour} !== dark", arg=dark)
    page.focus("#middle .list")
    page.keyboard.press("End")
    page.wait_for_selector("#middle .row >> text=return %y")


def test_names_are_never_code(opened: Callable[..., Page], tmp_path: Path) -> None:
    evil = "</script><img src=x onerror=alert(1)>\u2028\u202e'\"&<!--<script>\ud800"
    program = sample(tmp_path)
    frame = wir.Frame(evil, 1, evil, evil)
    origin = wir.Origin((evil,), (evil,), (frame,), evil)
    body = (*(wir.lines.Comment(evil, origin=0) for _ in range(2)), *program.body)
    constants = {name: wir.Constant(evil) for name in program.constants}
    hostile = program.replace(
        body=body, origins=(origin, *program.origins), constants=wir.FrozenMap(constants)
    )
    made = wir.explore(hostile)
    view = made.document.programs[0]
    view.name = view.buffers.name[0] = view.kernels[0].name = evil
    view.findings.append(wir.explorer.document.Finding("values", 0, evil))
    page = opened(made)
    data, _, _ = made.html.rpartition("<script>")
    assert evil[:20] not in made.html
    assert data.count("</script>") == data.count("<script type=")
    page.locator("#below button.link").first.click()
    assert page.title().startswith("</script>")
    for tab in (
        "ATen graph",
        "Source",
        "C++",
        "Kernels",
        "Details",
        "Memory",
        "Timeline",
        "Findings",
    ):
        page.get_by_role("tab", name=tab).click()
    page.fill("#search", "onerror")
    page.wait_for_selector("#hits li .code")
    assert page.locator("img").count() == 0


def test_two_programs_and_how_they_differ(opened: Callable[..., Page], tmp_path: Path) -> None:
    before = sample(tmp_path)
    text = wir.print_program(before, origins=True)
    text = text.replace("%w, out=out %h)", "%w, out=out %h)\n  // new")
    after = wir.parse(
        text.replace("64, 16, 16]", "32, 16, 16]").replace("aten::sigmoid", "aten::tanh")
    )
    made = wir.explore(before, after, targets=["python"])
    page = opened(made)
    assert page.get_by_role("tab", name="Changes").get_attribute("aria-selected") == "true"
    kinds = set(page.locator("#below .changes td:first-child").all_inner_texts())
    assert {"added", "changed"} <= kinds
    assert page.locator("#middle .row.added").count() > 0
    page.locator("#below tr.changed button.link").first.click()
    assert marked(page, "#middle")
    page.get_by_role("button", name="before", exact=True).click()
    page.wait_for_selector("#middle .row >> text=f32[64, 16, 16]")
    page.keyboard.press("b")
    page.wait_for_selector("#middle .row >> text=f32[32, 16, 16]")
    page = opened(made, "#before:body[8]")
    assert page.locator(".sides button[aria-pressed=true]").inner_text() == "before"


@pytest.mark.parametrize("name", ["empty", "while_in_cond", "not_cpu/streams", "not_cpu/triton"])
def test_programs_of_all_kinds_open(opened: Callable[..., Page], name: str) -> None:
    text = (ROOT / "tests" / "programs" / f"{name}.wir").read_text(encoding="utf-8")
    page = opened(wir.explore(wir.parse(text)))
    page.wait_for_selector("#right .tabs button")
    for _ in range(5):
        page.keyboard.press("j")
    for tab in page.get_by_role("tab").all():
        tab.click()
    page.keyboard.press("2")
    for held in page.locator("table.held button").all()[:1]:
        held.click()


def test_notebooks_show_it_apart_from_themselves(browser: Browser, tmp_path: Path) -> None:
    text = wir.explore(sample(tmp_path), targets=["python"])._repr_html_()
    page = browser.new_page()
    complaints: list[str] = []
    page.on("console", lambda each: complaints.append(each.text))
    page.set_content(f"<p>a cell</p>{text}")
    frame = page.frame_locator("iframe")
    frame.locator("#middle .row", has_text="call @relu").click()
    assert frame.locator("#middle .row.marked").count() == 1
    page.close()
    assert complaints == []


def test_every_row_is_in_reach_of_a_screen_reader(
    opened: Callable[..., Page], tmp_path: Path
) -> None:
    page = opened(
        wir.explore(sample(tmp_path), targets=["python"]), viewport={"width": 1100, "height": 700}
    )
    names = page.get_by_role("listbox").evaluate_all(
        "all => all.map(e => e.getAttribute('aria-label'))"
    )
    assert names == ["Source model.py", "Lines of the program", "Text for python"]
    option = page.locator("[role=option]").first
    assert int(option.get_attribute("aria-setsize") or 0) > 5
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    unnamed = page.locator("button, select, input").evaluate_all(
        "all => all.filter(e => !(e.textContent.trim() || e.ariaLabel)).length"
    )
    assert unnamed == 0
    row(page, "#middle", "call @relu")
    active = page.locator("#middle .list").get_attribute("aria-activedescendant")
    assert page.locator(f'[id="{active}"]').get_attribute("aria-selected") == "true"


def test_on_paper_panes_stand_below_one_another(
    opened: Callable[..., Page], tmp_path: Path
) -> None:
    page = opened(wir.explore(sample(tmp_path), targets=["python"]))
    row(page, "#middle", "call @relu")
    page.emulate_media(media="print")
    below = 0.0
    for pane in ("#left", "#middle", "#right", "#below"):
        box = page.locator(pane).bounding_box()
        assert box is not None
        assert box["y"] >= below
        assert box["height"] > 100
        below = box["y"] + box["height"]
    assert marked(page, "#middle")
    assert not page.locator("#search").is_visible()


def test_the_page_shows_what_json_says(opened: Callable[..., Page], tmp_path: Path) -> None:
    made = wir.explore(sample(tmp_path), targets=["python"])
    (view,) = json.loads(made.to_json())["programs"]
    page = opened(made)
    page.focus("#middle .list")
    shown = "\n".join(page.locator("#middle .row").all_text_contents())
    for text in view["text"]["rows"][:10]:
        assert text in shown


def test_what_stock_torch_compiled_is_tied_together(
    opened: Callable[..., Page], traced: Path
) -> None:
    page = opened(explore_trace(traced))
    assert page.get_by_role("tab").all_inner_texts()[:4] == [
        "Source",
        "Dynamo graph",
        "ATen graph",
        "After passes",
    ]
    assert page.get_by_role("tab", name="Memory").count() == 0
    row(page, "#left", "h.softmax(-1)")
    kernels = [text for text in marked(page, "#middle") if text.startswith("cpp_fused")]
    assert len(kernels) == 1
    assert marked(page, "#right")[0].startswith("@cpp_fused")
    page.get_by_role("tab", name="After passes").click()
    assert any(text.startswith("relu") for text in marked(page, "#left"))
    row(page, "#left", "torch.ops.aten.mm.default")
    assert any(text.startswith("extern_kernels.mm") for text in marked(page, "#middle"))
    page.get_by_label("Graph of the log").select_option(label="0/0 model.py:5 backward")
    page.wait_for_selector("#middle .row >> text=tangents_1")
    page.get_by_label("Graph of the log").select_option(index=4)  # without provenance
    page.get_by_role("tab", name="ATen graph").click()
    row(page, "#left", "torch.ops.aten.tanh.default")
    page.get_by_role("tab", name="Source").click()
    assert marked(page, "#left") == ["return torch.tanh(x @ w) + 1"]
    page.fill("#search", "aten.tanh")
    page.locator("#hits li", has_text="After passes").first.click()
    assert page.get_by_role("tab", name="After passes").get_attribute("aria-selected") == "true"
    for _ in range(3):
        page.keyboard.press("b")
        page.keyboard.press("s")
        page.keyboard.press("j")


def test_a_line_of_a_log_has_an_address(opened: Callable[..., Page], traced: Path) -> None:
    made = explore_trace(traced)
    lines = made.document.programs[1].lines
    path = lines.path[lines.kind.index("kernel")]
    page = opened(made, f"#2:{path}")
    assert page.get_by_label("Graph of the log").input_value() == "1"
    assert any("cpp_fused" in text for text in marked(page, "#middle"))
    row(page, "#middle", "extern_kernels.mm")
    assert page.evaluate("location.hash").startswith("#2:call[")


def test_names_in_logs_are_never_code(
    opened: Callable[..., Page], traced: Path, tmp_path: Path
) -> None:
    evil = "</script><img src=x onerror=alert(1)>'\"&<!--"
    folder = rewritten(
        traced,
        tmp_path / "evil",
        ("cpp_fused", "cpp_<img src=x onerror=alert(1)>_fused"),
        ("class GraphModule", f"# {evil}\nclass GraphModule"),
        ("code: ", f"code: {evil}"),
        ("size mismatch", evil),
    )
    made = explore_trace(folder)
    assert evil[:20] not in made.html
    page = opened(made)
    for number in range(len(made.document.programs)):
        page.get_by_label("Graph of the log").select_option(index=number)
        for tab in page.get_by_role("tab").all():
            tab.click()
    page.fill("#search", "onerror")
    page.wait_for_selector("#hits li .code")
    assert page.locator("img").count() == 0
