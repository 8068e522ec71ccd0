// The panes of texts: source, graph, lines, what emitters wrote, kernels. Each knows which of its rows
// belong to the lines that are chosen, and which lines a row of its own stands for.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Language, languageOf, nameOf, quoted, tokens } from "./colour";
import { Change, duration, fileName, Graph, Kernel, Program, SourceFile, Target } from "./data";
import { List, longest } from "./list";
import { changes, choice, chooseBuffer, chooseLines, jump, program, removedBefore, side, programs } from "./state";

/** Waits for a part of the document that is read when it is first shown. */
export function useLater<T>(found: Promise<T>): T | null {
  const [value, set] = useState<{ of: Promise<T>; value: T } | null>(null);
  useEffect(() => {
    let here = true;
    found.then((each) => here && set({ of: found, value: each }));
    return () => { here = false; };
  }, [found]);
  return value && value.of === found ? value.value : null;
}

export function Coloured({ row, language, inside }: { row: string; language: Language; inside?: boolean }) {
  if (inside) return <span class="t-string">{row}</span>;
  return <>{tokens(row, language).map((each) =>
    each.kind ? <span class={`t-${each.kind}`}>{each.text}</span> : each.text)}</>;
}

/** The row to scroll to: the first that is marked, unless the choice was made here. */
function useGoal(pane: string, rows: () => number[], ready: unknown) {
  const { value } = choice, to = jump.value;
  return useMemo(() => {
    if (to?.pane === pane) return { row: to.row };
    if (value.from === pane || !(value.lines.size || value.frames.size)) return null;
    const [row] = rows();
    return row === undefined ? null : { row };
  }, [value, to, ready]);
}

export function Empty({ children }: { children: preact.ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

function changedAt(path: string | undefined): Change | undefined {
  return path === undefined ? undefined : changes.value?.byPath[side.value].get(path);
}

const BADGES = { added: "+", removed: "−", changed: "~", moved: ">" };

/** A row of the pane of lines: of this program, or a removed one of the first of two. */
interface Shown { row: number; line: number; gone: boolean }

function shownRows(p: Program): Shown[] {
  const { lines } = p.view.text, gone = removedBefore.value;
  if (!gone.size) return lines.map((line, row) => ({ row, line, gone: false }));
  const other = programs.value[0];
  const ghosts = (at: number) => (gone.get(at) ?? [])
    .map((line) => ({ row: other.textRows[line][0], line, gone: true }));
  const found: Shown[] = [];
  lines.forEach((line, row) => {
    if (line >= 0 && p.textRows[line][0] === row) found.push(...ghosts(line));
    found.push({ row, line, gone: false });
  });
  return [...found, ...ghosts(-1)];
}

export function LinesPane() {
  const p = program.value, { value } = choice;
  const shown = useMemo(() => shownRows(p), [p, removedBefore.value]);
  const rowsOf = useMemo(() => {
    const found: number[] = [];
    shown.forEach((each, n) => { if (!each.gone && each.line >= 0) found[each.line] ??= n; });
    return found;
  }, [shown]);
  const { language } = p.view;
  const width = useMemo(() => longest(p.view.text.rows), [p]);
  const inside = useMemo(() => quoted(p.view.text.rows, language), [p]);
  // What Inductor wrote begins with the code of kernels; what calls them is of more interest.
  const usual = useMemo(() => ({ row: p.view.stage ? -1 : rowsOf[p.view.lines.kind.findIndex((kind) => kind !== "declares")] ?? -1 }), [rowsOf]);
  const chosen = useGoal("lines", () => [rowsOf[value.first]], p);
  const goal = chosen ?? (value.lines.size || value.frames.size ? null : usual);
  const text = (each: Shown) => (each.gone ? programs.value[0] : p).view.text.rows[each.row];
  const choose = (row: number, target: EventTarget | null) => {
    const each = shown[row], token = target instanceof Element ? target.closest(".t-buffer") : null;
    const buffer = token ? p.bufferOf.get(nameOf(token.textContent!)) : undefined;
    if (each.gone) return;
    if (buffer !== undefined) chooseBuffer(buffer, "lines");
    else if (each.line >= 0) chooseLines([each.line], "lines");
  };
  if (!shown.length) return <Empty>Nothing was written for this graph.</Empty>;
  return (
    <List label="Lines of the program" count={shown.length} width={width + 10} goal={goal}
      active={rowsOf[value.first] ?? -1} choose={choose}
      classOf={(n) => {
        const { line, gone } = shown[n];
        const change = gone ? "removed" : changedAt(p.view.lines.path[line])?.kind ?? "";
        const mark = !gone && value.lines.has(line) ? (line === value.first ? "first marked" : "marked") : "";
        return `${mark} ${change} k-${gone ? "gone" : p.view.lines.kind[line] ?? "none"}`;
      }}
      render={(n) => {
        const each = shown[n];
        const kind = each.gone ? "removed" : changedAt(p.view.lines.path[each.line])?.kind;
        const path = (each.gone ? programs.value[0] : p).view.lines.path[each.line] ?? "";
        const found = !each.gone && p.view.recorded[each.line] !== undefined;
        return <>
          <span class="gutter" title={path}>{language === "wir" ? path.replace(/^body\[(\d+)\]$/, "$1").replace(/^.*\./, "…") : each.row + 1}</span>
          <span class="badge" aria-label={kind}>{kind ? BADGES[kind] : found ? "•" : ""}</span>
          {p.timed.length > 0 && <Took seconds={each.gone || p.textRows[each.line]?.[0] !== each.row ? undefined : p.view.times[each.line]?.seconds} />}
          <Coloured row={text(each)} language={language} inside={inside[each.row]} />
        </>;
      }} />
  );
}

/** What lines took in a recorded run, with a bar for their share of all calls. */
function Took({ seconds }: { seconds: number | undefined }) {
  const share = seconds === undefined ? 0 : seconds / Math.max(program.value.total, 1e-12);
  return <span class="took" title={seconds === undefined ? undefined : `${(100 * share).toFixed(1)} % of all calls`}>
    {seconds !== undefined && <><span class="share" style={{ width: `${Math.round(100 * share)}%` }} />{duration(seconds)}</>}</span>;
}

/** A text with the line of each of its rows. */
function MappedText({ name, language, rows, lines }:
  { name: string; language: Language; rows: string[]; lines: number[] }) {
  const { value } = choice, p = program.value;
  const pane = `target-${name}`;
  const goal = useGoal(pane, () => {
    const own = lines.indexOf(value.first);
    return own >= 0 ? [own] : [lines.findIndex((line) => value.lines.has(line))].filter((n) => n >= 0);
  }, rows);
  const [active, setActive] = useState(-1);
  const width = useMemo(() => longest(rows), [rows]);
  const inside = useMemo(() => quoted(rows, language), [rows]);
  return (
    <List label={`Text for ${name}`} count={rows.length} width={width + 8} goal={goal} active={active}
      choose={(row) => { setActive(row); if (lines[row] >= 0) chooseLines([lines[row]], pane); }}
      classOf={(row) => {
        const line = lines[row], kind = changedAt(p.view.lines.path[line])?.kind ?? "";
        const own = value.lines.has(line) ? (line === value.first ? "first marked" : "marked") : "";
        return `${own} ${kind} ${line >= 0 ? "linked" : ""} ${jump.value?.pane === pane && jump.value.row === row ? "found" : ""}`;
      }}
      render={(row) => <>
        <span class="gutter">{row + 1}</span>
        <Coloured row={rows[row]} language={language} inside={inside[row]} />
      </>} />
  );
}

export function TargetPane({ target }: { target: Target }) {
  if (target.refused) return <Empty><pre class="refusal">{target.refused}</pre></Empty>;
  return <MappedText key={target.name} name={target.name} language={languageOf(target.name)}
    rows={target.text.rows} lines={target.text.lines} />;
}

export function KernelsPane({ kernels }: { kernels: Kernel[] }) {
  const p = program.value, { value } = choice;
  const made = useMemo(() => {
    const rows: { kernel: number; text: string | null }[] = [], heads: number[] = [];
    kernels.forEach((each, kernel) => {
      heads.push(rows.length);
      rows.push({ kernel, text: null }, ...each.rows.map((text) => ({ kernel, text })), { kernel, text: "" });
    });
    const calls: number[][] = kernels.map(() => []);
    p.view.lines.kernel.forEach((kernel, line) => kernel >= 0 && calls[kernel].push(line));
    return { rows, heads, calls, width: longest(kernels.flatMap((each) => each.rows)) };
  }, [kernels]);
  const marked = new Set([...value.lines].map((line) => p.view.lines.kernel[line]).filter((k) => k >= 0));
  const own = p.view.lines.kernel[value.first] ?? -1;
  const goal = useGoal("kernels", () => [made.heads[own >= 0 ? own : [...marked][0]]], kernels);
  if (!kernels.length) return <Empty>The program has no kernels of its own: it calls library ops.</Empty>;
  return (
    <List label="Kernels" count={made.rows.length} width={made.width} goal={goal}
      active={own >= 0 ? made.heads[own] : -1}
      choose={(row) => chooseLines(made.calls[made.rows[row].kernel], "kernels")}
      classOf={(row) => {
        const { kernel, text } = made.rows[row];
        const kind = changes.value?.kernels[side.value].get(kernels[kernel].name)?.kind ?? "";
        return `${marked.has(kernel) ? "marked" : ""} ${text === null ? `head ${kind}` : ""}`;
      }}
      render={(row) => {
        const { kernel, text } = made.rows[row], { name, language } = kernels[kernel];
        const calls = made.calls[kernel].length - 1, took = p.secondsOf(made.calls[kernel]);
        return text === null
          ? <><span class="t-kernel">@{name}</span> <span class="quiet">{language}, {calls} call{calls === 1 ? "" : "s"}{took === undefined ? "" : `, ${duration(took)}`}</span></>
          : <Coloured row={text} language={languageOf(language)} />;
      }} />
  );
}

export function SourcePane({ files }: { files: SourceFile[] }) {
  const p = program.value, { value } = choice, { frames, origins, lines } = p.view;
  const own = origins.shown[lines.origin[value.first]] ?? -1;
  const used = useMemo(() => frames.file.reduce((n, f) => n.set(f, (n.get(f) ?? 0) + 1), new Map<number, number>()), [p]);
  const usual = useMemo(() => {
    const counts = new Map<number, number>();
    origins.shown.forEach((row) => row >= 0 && counts.set(frames.file[row], (counts.get(frames.file[row]) ?? 0) + 1));
    return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? 0;
  }, [p]);
  const [picked, pick] = useState(-1);
  useEffect(() => {
    const shown = own >= 0 ? own : [...value.frames][0] ?? -1;
    if (shown >= 0) pick(frames.file[shown]);
  }, [value]);
  useEffect(() => { if (jump.value?.pane.startsWith("source-")) pick(Number(jump.value.pane.slice(7))); }, [jump.value]);
  const number = picked >= 0 && picked < files.length ? picked : usual;
  const file = files[number];
  const marks = useMemo(() => {
    const strong = new Set<number>(), weak = new Set<number>(), linked = new Set<number>();
    frames.file.forEach((each, row) => each === number && linked.add(frames.line[row]));
    for (const row of value.frames) if (frames.file[row] === number) strong.add(frames.line[row]);
    for (const line of value.lines) {
      const origin = lines.origin[line];
      for (const row of origins.frames[origin] ?? [])
        if (frames.file[row] === number) (row === origins.shown[origin] ? strong : weak).add(frames.line[row]);
    }
    return { strong, weak, linked };
  }, [value, number, p]);
  const took = useMemo(() => {
    const found = new Map<number, number>();
    for (const { line, time } of p.timed) {
      const row = origins.shown[lines.origin[line]] ?? -1;
      if (row >= 0 && frames.file[row] === number) found.set(frames.line[row], (found.get(frames.line[row]) ?? 0) + time.seconds);
    }
    return found;
  }, [number, p]);
  const rowAt = (at: number) => file.whole ? at - 1 : file.numbers.indexOf(at);
  const goal = useGoal("source", () => {
    const at = own >= 0 && frames.file[own] === number ? frames.line[own] : [...marks.strong, ...marks.weak][0];
    return at === undefined ? [] : [rowAt(at)];
  }, number);
  const to = jump.value?.pane === `source-${number}` ? { row: jump.value.row } : goal;
  const width = useMemo(() => longest(file?.rows ?? []), [file]);
  const inside = useMemo(() => quoted(file?.whole ? file.rows : [], "python"), [file]);
  if (!file) return <Empty>The program does not say where in a model its lines come from.</Empty>;
  const first = own >= 0 && frames.file[own] === number ? frames.line[own] : -1;
  return <>
    <div class="bar">
      <select aria-label="Source file" value={number} onChange={(e) => pick(Number(e.currentTarget.value))}>
        {files.map((each, n) => used.has(n) && <option value={n} title={each.name}>{fileName(each.name)}</option>)}
      </select>
      {!file.whole && <span class="quiet" title="The file is not here, or was changed since">quoted lines only</span>}
    </div>
    <List key={number} label={`Source ${fileName(file.name)}`} count={file.rows.length} width={width + 8} goal={to}
      active={first >= 0 ? rowAt(first) : -1}
      choose={(row) => {
        const found = p.linesAt(number, file.numbers[row]), here = p.framesAt(number, file.numbers[row]);
        if (found.length || here.length) chooseLines(found, "source", -1, !found.length, here);
      }}
      classOf={(row) => {
        const at = file.numbers[row];
        const mark = marks.strong.has(at) ? (at === first ? "first marked" : "marked") : marks.weak.has(at) ? "weak" : "";
        return `${mark} ${marks.linked.has(at) ? "linked" : ""}`;
      }}
      render={(row) => <>
        <span class="gutter">{file.numbers[row]}</span>
        {p.timed.length > 0 && <Took seconds={took.get(file.numbers[row])} />}
        <Coloured row={file.rows[row]} language="python" inside={inside[row]} />
      </>} />
  </>;
}

/** A graph that torch's log has as text: its rows know the lines that compute them, and places in the model. */
export function GraphTextPane({ graph }: { graph: Graph }) {
  const { value } = choice, pane = `graph-${graph.title}`;
  const mark = (row: number) => {
    if (graph.lines[row].some((line) => value.lines.has(line))) return "marked";
    return !graph.lines[row].length && value.frames.has(graph.frames[row]) ? "marked" : "";
  };
  const goal = useGoal(pane, () => [graph.rows.findIndex((_, row) => mark(row))].filter((row) => row >= 0), graph);
  const [active, setActive] = useState(-1);
  const width = useMemo(() => longest(graph.rows), [graph]);
  return (
    <List label={graph.title} count={graph.rows.length} width={width + 8} goal={goal} active={active}
      choose={(row) => {
        setActive(row);
        const frames = [graph.frames[row]].filter((each) => each >= 0), lines = graph.lines[row];
        if (lines.length || frames.length) chooseLines(lines, pane, -1, !lines.length, frames);
      }}
      classOf={(row) => `${mark(row)} ${graph.lines[row].length || graph.frames[row] >= 0 ? "linked" : ""}`}
      render={(row) => <>
        <span class="gutter">{row + 1}</span>
        <Coloured row={graph.rows[row]} language="python" />
      </>} />
  );
}

export function GraphPane() {
  const p = program.value, { value } = choice, { nodes, origins, lines } = p.view;
  const marked = useMemo(() => {
    const found = new Set<number>();
    for (const line of value.lines) for (const node of origins.nodes[lines.origin[line]] ?? []) found.add(node);
    return found;
  }, [value, p]);
  const goal = useGoal("graph", () => {
    const own = origins.nodes[lines.origin[value.first]] ?? [];
    return [Math.min(...(own.length ? own : marked))].filter(Number.isFinite);
  }, p);
  const width = useMemo(() => longest(nodes.text), [p]);
  if (!nodes.name.length) return <Empty>The program does not name the nodes of a graph.</Empty>;
  return (
    <List label="Nodes of the ATen graph" count={nodes.name.length} width={Math.max(width, 40)} goal={goal}
      active={marked.size ? Math.min(...marked) : -1}
      choose={(node) => { const found = p.linesOfNode(node); if (found.length) chooseLines(found, "graph"); }}
      classOf={(node) => `${marked.has(node) ? "marked" : ""} ${p.linesOfNode(node).length ? "linked" : "quiet"}`}
      render={(node) => {
        const count = p.linesOfNode(node).length;
        return <>
          <span class="gutter">{count || ""}</span>
          {nodes.text[node] ? <Coloured row={nodes.text[node]} language="wir" />
            : <><span class="t-buffer">%{nodes.name[node]}</span> <span class="t-op">{nodes.op[node]}</span></>}
        </>;
      }} />
  );
}
