// The page: panes in a frame that can be resized, and the keys.

import { render } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import Split from "split.js";
import { grouped, human, Main, part, Program } from "./data";
import { ChangesPane, DetailsPane, FindingsPane, RunPane } from "./details";
import { MemoryPane } from "./memory";
import { Empty, GraphPane, GraphTextPane, KernelsPane, LinesPane, SourcePane, TargetPane, useLater } from "./panes";
import { Search } from "./search";
import { changes, clear, follow, help, main, paired, program, programs, show, side, step, tabs, turn, wide } from "./state";
import { TimelinePane } from "./timeline";

interface Tab { name: string; words: string; count?: number }

function Tabs({ where, label, all, children }:
  { where: "left" | "right" | "below"; label: string; all: Tab[]; children?: preact.ComponentChildren }) {
  const now = tabs.value[where];
  const key = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    const to = all[(all.findIndex((each) => each.name === now) + by + all.length) % all.length];
    show(where, to.name);
    document.getElementById(`tab-${where}-${to.name}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={key}>
      {all.map(({ name, words, count }) => (
        <button role="tab" id={`tab-${where}-${name}`} aria-selected={name === now} aria-controls={`panel-${where}`}
          tabIndex={name === now ? 0 : -1} onClick={() => show(where, name)}>
          {words}{count !== undefined && <span class="count">{grouped(count)}</span>}
        </button>))}
      {children}
    </div>
  );
}

function Panel({ where, children }: { where: string; children: preact.ComponentChildren }) {
  return <div class="panel" id={`panel-${where}`} role="tabpanel" aria-labelledby={`tab-${where}-${tabs.value[where]}`}>{children}</div>;
}

function Left() {
  const { view } = program.value, now = tabs.value.left;
  const graphs: Tab[] = view.stage ? [{ name: "graph", words: "ATen graph", count: view.nodes.name.length }]
    : view.graphs.map(({ title }) => ({ name: title, words: title }));
  const graph = view.graphs.find(({ title }) => title === now);
  useEffect(() => { if (now !== "source" && !graphs.some(({ name }) => name === now)) show("left", "source"); });
  return (
    <section class="pane" id="left" aria-label="Model">
      <Tabs where="left" label="Model" all={[{ name: "source", words: "Source" }, ...graphs]} />
      <Panel where="left">{graph ? <GraphTextPane key={`${side.value} ${now}`} graph={graph} />
        : now === "graph" ? <GraphPane /> : <SourcePane key={side.value} files={view.files} />}</Panel>
    </section>
  );
}

const LANGUAGES: Record<string, string> = { python: "Python", cpp: "C++", fx: "FX" };

function Right() {
  const p = program.value, targets = useLater(p.get("targets")), kernels = useLater(p.get("kernels"));
  const usual = targets?.find((each) => each.name === "python") ?? targets?.[0];
  const now = tabs.value.right || usual?.name || "kernels";
  useEffect(() => { if (!tabs.value.right && targets) show("right", now); }, [targets]);
  const order = [...(targets ?? [])].sort((a, b) => Number(b.name === "python") - Number(a.name === "python"));
  const all = [...order.map(({ name }) => ({ name, words: LANGUAGES[name] ?? name })), { name: "kernels", words: "Kernels", count: kernels?.length }];
  const target = targets?.find((each) => each.name === now);
  return (
    <section class="pane" id="right" aria-label="Texts">
      <Tabs where="right" label="Texts" all={all} />
      <Panel where="right">
        {!targets || !kernels ? <Empty>Reading …</Empty> : target ? <TargetPane target={target} /> : <KernelsPane kernels={kernels} />}
      </Panel>
    </section>
  );
}

function Below({ theme }: { theme: string }) {
  const p = program.value, found = changes.value, tab = tabs.value.below;
  const all: Tab[] = [
    { name: "details", words: "Details" },
    ...(p.view.stage ? [{ name: "memory", words: "Memory" }, { name: "timeline", words: "Timeline" }] : []),
    ...(found ? [{ name: "changes", words: "Changes", count: found.all.length + found.diff.kernels.length + found.diff.items.length }] : []),
    ...(p.timed.length ? [{ name: "run", words: "Run", count: p.timed.length }] : []),
    ...(p.view.findings.length ? [{ name: "findings", words: "Findings", count: p.view.findings.length }] : []),
  ];
  return (
    <section class="pane" id="below" aria-label="Details">
      <Tabs where="below" label="Details" all={all}>
        <button class="grow" aria-pressed={wide.value} onClick={() => { wide.value = !wide.value; }} title="Use the whole page (m)">{wide.value ? "▾ smaller" : "▴ larger"}</button>
      </Tabs>
      <Panel where="below">
        {(tab === "memory" || tab === "timeline") && p.view.stage ? <Plans kind={tab} theme={theme} />
          : tab === "changes" && found ? <ChangesPane found={found} />
          : tab === "run" ? <RunPane /> : tab === "findings" ? <FindingsPane /> : <DetailsPane />}
      </Panel>
    </section>
  );
}

function Plans({ kind, theme }: { kind: string; theme: string }) {
  const plans = useLater(program.value.get("plans"));
  if (!plans) return <Empty>Reading …</Empty>;
  return kind === "memory" ? <MemoryPane key={side.value} plans={plans} theme={theme} /> : <TimelinePane plans={plans} theme={theme} />;
}

const KEYS = [
  ["/", "search"], ["j, k", "next, previous line"], ["↑ ↓ Page Home End", "move in the pane with the focus"],
  ["Backspace", "back to what was chosen before"], ["1 … 6", "details, memory, timeline, changes, run, findings"],
  ["m", "the lower pane larger or smaller"], ["s", "source or graph"], ["b", "before or after; the next graph of a log"],
  ["t", "light or dark"], ["Esc", "choose nothing"], ["?", "this list"],
];

/** The tab of the model after one: the source, its graph; of a log, each of its graphs. */
function nextOf(tab: string): string {
  const { view } = program.value;
  const all = ["source", ...(view.stage ? ["graph"] : view.graphs.map(({ title }) => title))];
  return all[(all.indexOf(tab) + 1) % all.length];
}

function Help() {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => { if (help.value) box.current!.showModal(); else box.current!.close(); }, [help.value]);
  return (
    <dialog ref={box} aria-label="Keys" onClose={() => { help.value = false; }} onClick={(e) => e.target === e.currentTarget && e.currentTarget.close()}>
      <h2>Keys</h2>
      <table><tbody>{KEYS.map(([key, words]) => <tr><td><kbd>{key}</kbd></td><td>{words}</td></tr>)}</tbody></table>
      <p>Choose a row in any pane: what belongs to it is marked in all others. A click on a <span class="t-buffer">%buffer</span> chooses
        all lines that touch its storage. In pictures, scroll to zoom and drag to move.
        The address names what is chosen: <code>#body[12]</code>, <code>#buffer=buf3</code>.</p>
      <button onClick={() => box.current!.close()}>Close</button>
    </dialog>
  );
}

function stored(name: string, value?: string): string | null {
  try { // a page in a notebook has no storage
    if (value !== undefined) localStorage.setItem(name, value);
    return localStorage.getItem(name);
  } catch { return null; }
}

function App() {
  const [theme, setTheme] = useState(stored("wrapper_ir.theme") ?? "");
  const p = program.value, { view } = p;
  useLayoutEffect(() => {
    document.documentElement.dataset.theme = theme;
    if (theme) stored("wrapper_ir.theme", theme);
  }, [theme]);
  const flip = () => setTheme((now) =>
    (now || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark" ? "light" : "dark");
  useEffect(() => {
    const bar = { gutterSize: 6, snapOffset: 0, minSize: 80 };
    Split(["#left", "#middle", "#right"], { ...bar, sizes: [27, 39, 34] });
    Split(["#above", "#below"], { ...bar, sizes: [60, 40], direction: "vertical" });
    for (const each of document.querySelectorAll(".gutter-horizontal, .gutter-vertical")) each.setAttribute("aria-hidden", "true");
  }, []);
  useEffect(() => {
    const below = ["details", "memory", "timeline", "changes", "run", "findings"];
    const keys: Record<string, () => void> = {
      "/": () => document.getElementById("search")?.focus(), "?": () => { help.value = !help.value; },
      j: () => step(1), k: () => step(-1), t: flip, Escape: clear, Backspace: () => history.back(),
      m: () => { wide.value = !wide.value; }, s: () => show("left", nextOf(tabs.value.left)),
      b: () => turn((side.value + 1) % programs.value.length),
    };
    const key = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (help.value || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
      const act = keys[event.key] ?? (below[Number(event.key) - 1] && (() => show("below", below[Number(event.key) - 1])));
      if (act) { event.preventDefault(); act(); }
    };
    addEventListener("keydown", key);
    addEventListener("popstate", follow);
    return () => { removeEventListener("keydown", key); removeEventListener("popstate", follow); };
  }, []);
  return <>
    <header>
      <h1 title={main.value!.made_by}>{view.name}</h1>
      {view.role && <span class="chip">{view.role}</span>}
      <span class="chip">{grouped(view.figures.lines ?? 0)} lines</span>
      <span class="chip">{grouped((view.figures.calls ?? 0) + (view.figures.ops ?? 0))} calls</span>
      {view.stage && <button class="chip" title="What lives at the peak" onClick={() => show("below", "memory")}>peak {human(view.figures.peak_bytes ?? 0)}</button>}
      {view.findings.length > 0 && <button class="chip warn" onClick={() => show("below", "findings")}>{view.findings.length} finding{view.findings.length > 1 && "s"}</button>}
      {programs.value.length > 1 && !paired.value && <select aria-label="Graph of the log" value={side.value} onChange={(e) => turn(Number(e.currentTarget.value))}>
        {programs.value.map((each, n) => <option value={n}>{each.view.name} {each.view.role}</option>)}</select>}
      {paired.value && <div class="sides" role="group" aria-label="Program shown">
        {["before", "after"].map((words, n) => <button aria-pressed={side.value === n} onClick={() => turn(n)}>{words}</button>)}</div>}
      <Search />
      <button onClick={flip} aria-label="Light or dark" title="Light or dark (t)">◐</button>
      <button onClick={() => { help.value = true; }} aria-label="Keys" title="Keys (?)">?</button>
    </header>
    <main class={wide.value ? "wide" : ""}>
      <div id="above">
        <Left />
        <section class="pane" id="middle" aria-label="Program">
          <div class="tabs"><h2>{view.stage ? "Lines" : "Inductor's code"}</h2></div>
          <div class="panel"><LinesPane key={side.value} /></div>
        </section>
        <Right />
      </div>
      <Below theme={theme} />
    </main>
    <Help />
  </>;
}

async function start() {
  const found = await part<Main>("main");
  main.value = found;
  programs.value = found.programs.map((view, n) => new Program(view, n));
  side.value = found.changes ? 1 : 0;
  if (found.changes) tabs.value = { ...tabs.value, below: "changes" };
  else if (found.programs[0].findings.length) tabs.value = { ...tabs.value, below: "findings" };
  else if (programs.value[0].timed.length) tabs.value = { ...tabs.value, below: "run" };
  const names = found.changes ? found.programs.map((each) => each.name).join(" → ") : found.programs[0].name;
  document.title = `${names} – wrapper_ir explorer`;
  const app = document.getElementById("app")!;
  app.textContent = "";
  render(<App />, app);
  follow();
  requestAnimationFrame(() => document.documentElement.dataset.ready = String(Math.round(performance.now())));
}

start().catch((error) => {
  document.getElementById("app")!.textContent = `This page cannot be shown: ${error}`;
  throw error;
});
