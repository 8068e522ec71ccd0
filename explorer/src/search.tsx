// Search through everything that is shown: lines, buffers, source, nodes, texts, kernels.

import { useEffect, useRef, useState } from "preact/hooks";
import { fileName, Program } from "./data";
import { chooseBuffer, chooseLines, jump, program, show } from "./state";

interface Found { pane: string; text: string; where: string; go: () => void }

const MOST = 30;

async function search(p: Program, words: string): Promise<Found[]> {
  const wanted = words.toLowerCase(), found: Found[] = [];
  const scan = (pane: string, rows: string[], make: (row: number) => Omit<Found, "pane"> | null) => {
    let count = 0;
    for (let row = 0; row < rows.length && count < MOST; row++)
      if (rows[row].toLowerCase().includes(wanted)) {
        const each = make(row);
        if (each) { found.push({ pane, ...each }); count++; }
      }
  };
  const { view } = p;
  const line = p.numberOf.get(words);
  if (line !== undefined) found.push({ pane: "path", text: p.textOf(line), where: words, go: () => chooseLines([line], "search") });
  scan("buffers", view.buffers.name.map((name) => `${p.sign}${name}`), (row) =>
    ({ text: `${p.sign}${view.buffers.name[row]} : ${view.buffers.layout[row]}`, where: view.buffers.role[row], go: () => chooseBuffer(row, "search") }));
  scan("lines", view.text.rows, (row) => {
    const n = view.text.lines[row];
    return n < 0 ? { text: view.text.rows[row], where: "", go: () => { jump.value = { pane: "lines", row }; } }
      : { text: view.text.rows[row].trim(), where: view.lines.path[n], go: () => chooseLines([n], "search") };
  });
  view.files.forEach((file, number) => scan("source", file.rows, (row) => ({
    text: file.rows[row].trim(), where: `${fileName(file.name)}:${file.numbers[row]}`, go: () => {
      show("left", "source");
      const lines = p.linesAt(number, file.numbers[row]);
      if (lines.length) chooseLines(lines, "search");
      jump.value = { pane: `source-${number}`, row };
    } })));
  if (view.stage) scan("graph", view.nodes.name, (node) => ({ text: view.nodes.text[node] || view.nodes.name[node], where: "node", go: () => {
    show("left", "graph");
    const lines = p.linesOfNode(node);
    if (lines.length) chooseLines(lines, "search");
  } }));
  for (const graph of view.graphs)
    scan("graph", graph.rows, (row) => ({ text: graph.rows[row].trim(), where: graph.title, go: () => {
      show("left", graph.title);
      const frames = [graph.frames[row]].filter((each) => each >= 0);
      if (graph.lines[row].length || frames.length) chooseLines(graph.lines[row], "search", -1, !graph.lines[row].length, frames);
      jump.value = { pane: `graph-${graph.title}`, row };
    } }));
  for (const target of await p.get("targets"))
    scan(target.name, target.text.rows, (row) => ({ text: target.text.rows[row].trim(), where: `row ${row + 1}`, go: () => {
      show("right", target.name);
      if (target.text.lines[row] >= 0) chooseLines([target.text.lines[row]], "search");
      jump.value = { pane: `target-${target.name}`, row };
    } }));
  for (const kernel of await p.get("kernels"))
    scan("kernels", [`@${kernel.name}`, ...kernel.rows], (row) => ({ text: row ? kernel.rows[row - 1].trim() : `@${kernel.name}`, where: kernel.name,
      go: () => { show("right", "kernels"); chooseLines([kernel.line], "search"); } }));
  return found;
}

export function Search() {
  const [words, setWords] = useState("");
  const [found, setFound] = useState<Found[] | null>(null);
  const [active, setActive] = useState(0);
  const [open, setOpen] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    setFound(null);
    if (!words.trim()) return;
    let here = true;
    const timer = setTimeout(async () => {
      const each = await search(program.value, words.trim());
      if (here) { setFound(each); setActive(0); }
    }, 90);
    return () => { here = false; clearTimeout(timer); };
  }, [words, program.value]);
  const go = (n: number) => {
    if (!found?.[n]) return;
    jump.value = null;
    found[n].go();
    setOpen(false);
    input.current?.blur();
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === "Escape") { setOpen(false); input.current?.blur(); }
    else if (event.key === "Enter") go(active);
    else if (event.key === "ArrowDown") setActive(Math.min(active + 1, (found?.length ?? 1) - 1));
    else if (event.key === "ArrowUp") setActive(Math.max(active - 1, 0));
    else return;
    event.preventDefault();
  };
  useEffect(() => { document.getElementById(`hit-${active}`)?.scrollIntoView({ block: "nearest" }); }, [active]);
  const isOpen = open && words.trim() !== "";
  return (
    <div class="search">
      <input ref={input} id="search" type="search" list={undefined} placeholder="Search  ( / )" aria-label="Search" value={words} role="combobox"
        aria-expanded={isOpen} aria-controls="hits" aria-activedescendant={isOpen && found?.length ? `hit-${active}` : undefined}
        onInput={(e) => { setWords(e.currentTarget.value); setOpen(true); }} onFocus={() => setOpen(true)} onKeyDown={key}
        onBlur={() => setOpen(false)} spellcheck={false} autocomplete="off" />
      {isOpen && <ul id="hits" role="listbox" aria-label="Found">
        {!found?.length && <li class="quiet">{found ? "nothing found" : "searching …"}</li>}
        {found?.map((each, n) => (
          <li id={`hit-${n}`} role="option" aria-selected={n === active} class={n === active ? "active" : ""}
            onMouseDown={(e) => { e.preventDefault(); go(n); }}>
            <span class="pane">{each.pane}</span><span class="code">{each.text.slice(0, 140)}</span><span class="quiet">{each.where}</span>
          </li>))}
      </ul>}
    </div>
  );
}
