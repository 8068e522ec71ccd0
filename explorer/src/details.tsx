// What is known of the line or the buffer that is chosen; without one, of the program.

import { Change, duration, Field, fileName, grouped, human, Program } from "./data";
import { Coloured, Empty } from "./panes";
import { Changes, changes, choice, chooseBuffer, chooseLines, program, show, side, turn } from "./state";

function Buffer({ n }: { n: number }) {
  return <button class="link t-buffer" onClick={() => chooseBuffer(n, "details")}>{program.value.sign}{program.value.view.buffers.name[n]}</button>;
}

function LineLink({ n }: { n: number }) {
  const p = program.value;
  return n < 0 ? <span class="quiet">–</span>
    : <button class="link" title={p.textOf(n)} onClick={() => chooseLines([n], "details")}>{p.view.lines.path[n]}</button>;
}

function BufferTable({ rows }: { rows: { how: string; n: number }[] }) {
  const { buffers } = program.value.view;
  return (
    <table aria-label="Buffers">
      <thead><tr><th></th><th>buffer</th><th>layout</th><th class="n">bytes</th><th>made at</th></tr></thead>
      <tbody>{rows.map(({ how, n }) => (
        <tr><td class="quiet">{how}</td><td><Buffer n={n} /></td><td class="code">{buffers.layout[n]}</td>
          <td class="n" title={buffers.bytes[n] < 0 ? "not known" : grouped(buffers.bytes[n])}>{human(buffers.bytes[n])}</td>
          <td>{buffers.line[n] < 0 ? <span class="quiet">{buffers.role[n]}</span> : <LineLink n={buffers.line[n]} />}</td></tr>))}
      </tbody>
    </table>
  );
}

function Origin({ line }: { line: number }) {
  const { origins, frames, files, nodes, lines } = program.value.view, origin = lines.origin[line];
  if (!(origin >= 0) || origins.module[origin] === undefined) return null;
  const stack = [...origins.frames[origin]].reverse();
  return <dl>
    {origins.module[origin] && <><dt>module</dt><dd class="code">{origins.module[origin]}</dd></>}
    {stack.length > 0 && <><dt>model</dt><dd>{stack.map((row) => {
      const file = files[frames.file[row]], code = file.rows[file.numbers.indexOf(frames.line[row])] ?? "";
      return <div class={row === origins.shown[origin] ? "code strong" : "code"} title={file.name}>
        <span class="quiet">{fileName(file.name)}:{frames.line[row]}</span> <Coloured row={code.trim()} language="python" /></div>;
    })}</dd></>}
    {origins.ops[origin].length > 0 && <><dt>ops</dt><dd class="code">{origins.ops[origin].join(", ")}</dd></>}
    {origins.nodes[origin].length > 0 && <><dt>nodes</dt><dd class="code">{origins.nodes[origin].map((n) => nodes.name[n]).join(", ")}</dd></>}
  </dl>;
}

function Fields({ fields }: { fields: Field[] }) {
  return <>{fields.map((each) => (
    <div class="field"><span class="quiet">{each.name}</span> <del>{each.before}</del> <ins>{each.after}</ins></div>))}</>;
}

function Recorded({ line }: { line: number }) {
  const rows = program.value.view.recorded[line];
  if (!rows) return null;
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((key) => key !== "source");
  const shown = (value: unknown) =>
    typeof value === "number" && !Number.isInteger(value) ? value.toPrecision(5) : typeof value === "object" ? JSON.stringify(value) : String(value ?? "");
  return <><h3>Recorded</h3><table aria-label="Recorded">
    <thead><tr>{keys.map((key) => <th>{key}</th>)}</tr></thead>
    <tbody>{rows.map((row) => <tr>{keys.map((key) => <td class="code">{shown(row[key])}</td>)}</tr>)}</tbody></table></>;
}

const rate = (bytes: number, seconds: number) => (seconds > 0 ? `${(bytes / seconds / 1e9).toPrecision(3)} GB/s` : "");

function Took({ line }: { line: number }) {
  const p = program.value, time = p.view.times[line];
  if (!time) return null;
  return <p class="time">{duration(time.seconds)}, {(100 * time.seconds / Math.max(p.total, 1e-12)).toFixed(1)} % of all calls
    <span class="quiet"> (least {duration(time.least)}{time.visits > 1 && `, ${grouped(time.visits)} visits`}).
      Reads {human(time.read_bytes)}, writes {human(time.written_bytes)}: {rate(time.read_bytes + time.written_bytes, time.seconds)}</span></p>;
}

/** A recorded run: its calls, the slowest first. */
export function RunPane() {
  const p = program.value, { value } = choice, { lines } = p.view;
  return <div class="details">
    <p class="quiet">{p.view.facts.recorded && `${p.view.facts.recorded}; `}the calls alone {duration(p.total)}. Times are medians, with a probe before and after each call.</p>
    <table aria-label="Times"><thead><tr><th>line</th><th class="n">time</th><th class="n">share</th><th class="meter"></th><th>call</th><th class="n">read</th><th class="n">written</th><th class="n">rate</th><th>model</th></tr></thead>
      <tbody>{p.timed.slice(0, 500).map(({ line, time }) => {
        const share = 100 * time.seconds / Math.max(p.total, 1e-12);
        return <tr class={value.first === line ? "marked" : ""}>
          <td><LineLink n={line} /></td><td class="n">{duration(time.seconds)}</td><td class="n">{share.toFixed(1)} %</td>
          <td class="meter"><span style={{ width: `${share}%` }} /></td><td class="code">{lines.callee[line]}</td>
          <td class="n">{human(time.read_bytes)}</td><td class="n">{human(time.written_bytes)}</td>
          <td class="n quiet">{rate(time.read_bytes + time.written_bytes, time.seconds)}</td><td class="quiet">{p.placeOf(line)}</td></tr>;
      })}</tbody></table>
    {p.timed.length > 500 && <p class="quiet">and {grouped(p.timed.length - 500)} more</p>}</div>;
}

function LineDetails({ line }: { line: number }) {
  const p = program.value, { lines, streams, findings } = p.view;
  const change = changes.value?.byPath[side.value].get(lines.path[line]);
  const uses = [["defines", lines.defines], ["reads", lines.reads], ["writes", lines.writes], ["ends", lines.ends]] as const;
  const rows = uses.flatMap(([how, column]) => column[line].map((n) => ({ how, n })));
  return <>
    <h2><span class="path">{lines.path[line]}</span> <code><Coloured row={p.textOf(line)} language={p.view.language} /></code></h2>
    {findings.filter((each) => each.line === line).map((each) => <p class="finding">{each.text}</p>)}
    <Took line={line} />
    {change && <div class={`change ${change.kind}`}><strong>{change.kind}</strong>
      {change.text_before && change.kind !== "added" && <div class="code"><span class="quiet">{change.before}</span> <Coloured row={change.text_before} language="wir" /></div>}
      <Fields fields={change.fields} /></div>}
    <div class="columns">
      <div><Origin line={line} />
        <p class="quiet">{lines.kind[line]}{lines.stream[line] >= 0 && ` on ${streams[lines.stream[line] + 1]}`}</p></div>
      <div>{rows.length > 0 && <BufferTable rows={rows} />}<Recorded line={line} /></div>
    </div>
  </>;
}

function BufferDetails({ n }: { n: number }) {
  const p = program.value, { buffers, lines } = p.view, names = p.names(n);
  const touched = [...new Set(names.flatMap((each) => p.touches[each]))].sort((a, b) => a - b);
  const how = (line: number) => (["defines", "reads", "writes", "ends"] as const)
    .filter((column) => lines[column][line].some((each) => names.includes(each))).join(", ");
  return <>
    <h2><span class="t-buffer">{p.sign}{buffers.name[n]}</span> <code>{buffers.layout[n]}</code> <span class="quiet">{buffers.bytes[n] >= 0 && human(buffers.bytes[n])} {buffers.role[n]}</span></h2>
    <div class="columns">
      <div>
        <dl><dt>alive</dt><dd><LineLink n={touched[0] ?? -1} /> to <LineLink n={touched.at(-1) ?? -1} />, {touched.length} lines</dd></dl>
        {buffers.line[n] >= 0 && <Origin line={buffers.line[n]} />}
        {names.length > 1 && <><h3>Names of its storage, one after another or views</h3><p>{names.map((each) => <><Buffer n={each} /> </>)}</p></>}
      </div>
      <table aria-label="Lines that touch it"><tbody>{touched.slice(0, 200).map((line) => (
        <tr><td><LineLink n={line} /></td><td class="quiet">{how(line)}</td><td class="code"><Coloured row={p.textOf(line).slice(0, 160)} language={p.view.language} /></td></tr>))}
      </tbody></table>
    </div>
  </>;
}

const FIGURES: Record<string, string> = { lines: "lines", kernels: "kernels", calls: "kernel calls", ops: "op calls",
  allocations: "allocations", allocated_bytes: "bytes allocated", peak_bytes: "peak" };

function figure(name: string, value: number | null | undefined): string {
  return value === null || value === undefined ? "?" : name.endsWith("bytes") ? human(value) : grouped(value);
}

function Overview({ p }: { p: Program }) {
  const { view } = p, found = changes.value;
  const hints = Object.entries(view.hints);
  return <>
    <h2>{view.name} <span class="quiet">{view.role}{view.stage && `, given ${view.stage}, shown planned`}</span></h2>
    <div class="columns">
      <table aria-label="Figures"><tbody>{Object.entries(FIGURES).filter(([key]) => key in view.figures).map(([key, words]) => (
        <tr><td class="quiet">{words}</td>
          {found && <td class="n">{figure(key, found.diff.before[key])}</td>}
          <td class="n">{figure(key, found ? found.diff.after[key] : view.figures[key])}</td></tr>))}
        {hints.length > 0 && <tr><td class="quiet">at</td><td class="n" colSpan={2}>{hints.map(([k, v]) => `${k} = ${v}`).join(", ")}</td></tr>}
      </tbody></table>
      {Object.keys(view.facts).length > 0 && <table aria-label="Facts"><tbody>{Object.entries(view.facts).map(([key, words]) => (
        <tr><td class="quiet">{key}</td><td class="code">{words}</td></tr>))}</tbody></table>}
      {view.results.length > 0 && <div><h3>Results</h3><BufferTable rows={view.results.slice(0, 100).map((n, i) => ({ how: String(i), n }))} /></div>}
      {view.inputs.length > 0 && <div><h3>Inputs</h3><BufferTable rows={view.inputs.slice(0, 100).map((n, i) => ({ how: String(i), n }))} /></div>}
    </div>
  </>;
}

export function DetailsPane() {
  const { value } = choice, p = program.value;
  return <div class="details">{value.buffer >= 0 ? <BufferDetails n={value.buffer} />
    : value.first >= 0 ? <LineDetails line={value.first} /> : <Overview p={p} />}</div>;
}

export function FindingsPane() {
  const p = program.value, { value } = choice;
  if (!p.view.findings.length) return <Empty>Nothing was found out about this program, or nobody gave it: runs, differences and validations can be shown here.</Empty>;
  return <div class="details"><table aria-label="Findings"><tbody>{p.view.findings.map((each) => (
    <tr class={value.first === each.line ? "marked" : ""}>
      <td>{each.line < 0 ? <span class="quiet">program</span> : <LineLink n={each.line} />}</td>
      <td class="quiet">{each.kind}</td><td>{each.text}</td><td class="quiet">{p.placeOf(each.line)}</td></tr>))}
  </tbody></table></div>;
}

/** Shows a changed line on the side that has it. */
function goTo(change: Change) {
  turn(change.after ? 1 : 0);
  const line = program.value.numberOf.get(change.after || change.before);
  if (line !== undefined) chooseLines([line], "changes");
}

function goToKernel(change: Change) {
  turn(change.after ? 1 : 0);
  const { callee } = program.value.view.lines, name = change.after || change.before;
  show("right", "kernels");
  chooseLines(callee.flatMap((each, n) => (each === name ? [n] : [])), "changes");
}

const pair = (a: string, b: string) => (a && b && a !== b ? `${a} → ${b}` : b || a);

export function ChangesPane({ found }: { found: Changes }) {
  const { diff, all } = found;
  if (!all.length && !diff.kernels.length && !diff.items.length) return <Empty>The programs are the same.</Empty>;
  return <div class="details"><table class="changes" aria-label="Changes"><tbody>
    {diff.kernels.map((each) => (
      <tr class={each.kind}><td>{each.kind}</td><td><button class="link t-kernel" onClick={() => goToKernel(each)}>@{pair(each.before, each.after)}</button></td><td>
        <Fields fields={each.fields} />
        {(each.code ?? []).slice(0, 20).map((code) => <pre>{code.removed.slice(0, 20).map((row) => <del>{row}{"\n"}</del>)}{code.added.slice(0, 20).map((row) => <ins>{row}{"\n"}</ins>)}</pre>)}
      </td></tr>))}
    {diff.items.map((each) => <tr class={each.kind}><td>{each.kind}</td><td>{each.what}</td>
      <td class="code">{pair(each.before, each.after)}<Fields fields={each.fields} /></td></tr>)}
    {all.slice(0, 2000).map((each) => (
      <tr class={each.kind}><td>{each.kind}</td>
        <td><button class="link" onClick={() => goTo(each)}>{pair(each.before, each.after)}</button></td>
        <td class="code"><Coloured row={each.text_after || each.text_before || ""} language="wir" /><Fields fields={each.fields} /></td></tr>))}
  </tbody></table></div>;
}
