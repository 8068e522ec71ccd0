"""Measure the explorer's page in a browser: how fast it opens, and how smoothly it scrolls.

    python -m benchmarks.explorer                 # 5,000 and 100,000 lines
    python -m benchmarks.explorer 1000 --json

A synthetic program (``benchmarks/long_program.py``) is planned and shown. Opened in a headless
Chromium, the page says when it is ready, measured from the start of navigation. Then the lines are
scrolled by a thousand pixels a frame: the figures are the frames a second, the longest frame, and
the processor time that the page's thread needs for one, which does not depend on what else runs. A
jump chooses a line in the middle, and ends with the frame that shows it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession

#: Seconds in which a page of that many lines has to be ready.
BOUNDS = {5_000: 1.0, 100_000: 5.0}

#: The fewest frames a second that count as smooth; browsers draw 60.
SMOOTH = 55

SCROLL = """async () => {
  const list = document.querySelector("#middle .list"), times = [];
  await new Promise(done => {
    let last = performance.now(), left = 120;
    const step = now => {
      times.push(now - last); last = now;
      list.scrollTop += 1000;
      left-- ? requestAnimationFrame(step) : done();
    };
    requestAnimationFrame(step);
  });
  times.shift(); times.shift();
  return times;
}"""

JUMP = """async path => {
  const start = performance.now();
  location.hash = path;
  while (!document.querySelector("#middle .row.first.marked"))
    await new Promise(requestAnimationFrame);
  return performance.now() - start;
}"""


def busy(session: CDPSession) -> float:
    """Return the processor seconds that the page's thread has used."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(each["value"] for each in metrics if each["name"] == "TaskDuration")


def measure(length: int, targets: list[str]) -> dict[str, float]:
    from playwright.sync_api import sync_playwright

    import wrapper_ir as wir
    from benchmarks.long_program import long_program

    program = long_program(length)
    start = time.perf_counter()
    made = wir.explore(program, targets=targets, plans=[])
    text = made.html
    found = {
        "lines": len(made.document.programs[0].lines.path),
        "made s": time.perf_counter() - start,
    }
    found["page MB"] = len(text) / 1e6
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        sys.exit("there is no Chromium; Debian's package is 'chromium'")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as engine:
        file = made.save(Path(folder) / "page.html")
        chromium = engine.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        opened = []
        for _ in range(3):
            page = chromium.new_page(viewport={"width": 1440, "height": 900})
            page.goto(file.as_uri())
            page.wait_for_selector("html[data-ready]", timeout=120_000)
            opened.append(float(page.evaluate("document.documentElement.dataset.ready")) / 1000)
        found["ready s"] = min(opened)
        page.wait_for_selector("#right .row", timeout=60_000)
        page.wait_for_timeout(500)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = busy(session)
        frames = page.evaluate(SCROLL)
        found["frames/s"] = 1000 * len(frames) / sum(frames)
        found["longest frame ms"] = max(frames)
        found["work a frame ms"] = 1000 * (busy(session) - before) / len(frames)
        found["jump ms"] = page.evaluate(JUMP, f"#body[{length // 2}]")
        chromium.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("lengths", nargs="*", type=int, default=list(BOUNDS))
    parser.add_argument(
        "--targets", nargs="*", default=["python"], help="emitters whose texts to show"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = {length: measure(length, options.targets) for length in options.lengths}
    if options.json:
        print(json.dumps(rows, indent=2))
    failed = False
    for length, row in rows.items():
        bound = BOUNDS.get(length)
        bad = row["frames/s"] < SMOOTH or (bound is not None and row["ready s"] > bound)
        failed |= bad
        if not options.json:
            words = ", ".join(f"{key} {value:,.4g}" for key, value in row.items())
            print(f"{length:,}: {words}  {'MISSED' if bad else 'ok'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
