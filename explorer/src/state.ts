// What is chosen and shown. Panes read these signals; everything that changes them is here.

import { batch, computed, signal } from "@preact/signals";
import { Change, Diff, Main, Program } from "./data";

export interface Choice {
  lines: Set<number>; buffers: Set<number>;
  /** Places in the model that were chosen although no line is known to come from them. */
  frames: Set<number>;
  /** The line to scroll to; -1 for none. */
  first: number;
  /** The buffer whose details are shown; -1 shows the line. */
  buffer: number;
  /** The pane where it was chosen, which stays where it is. */
  from: string;
}

const NOTHING: Choice = { lines: new Set(), buffers: new Set(), frames: new Set(), first: -1, buffer: -1, from: "" };

export const main = signal<Main | null>(null);
export const programs = signal<Program[]>([]);
/** The program that is shown: with two, 0 is before and 1 after. */
export const side = signal(0);
export const program = computed(() => programs.value[side.value]);
export const choice = signal<Choice>(NOTHING);
export const tabs = signal<Record<string, string>>({ left: "source", right: "", below: "details" });
/** A row to scroll to in a text that no line stands for: pane and row. */
export const jump = signal<{ pane: string; row: number } | null>(null);
export const help = signal(false);
export const wide = signal(false);
/** Whether the two programs are one before and after a change. */
export const paired = computed(() => !!main.value?.changes);

export interface Changes {
  diff: Diff;
  /** By the path of a line, for before and after. */
  byPath: [Map<string, Change>, Map<string, Change>];
  kernels: [Map<string, Change>, Map<string, Change>];
  all: Change[];
}

function inside(changes: Change[]): Change[] {
  return changes.flatMap((each) => [each, ...(each.regions ?? []).flatMap((r) => inside(r.lines))]);
}

export const changes = computed<Changes | null>(() => {
  const diff = main.value?.changes;
  if (!diff) return null;
  const all = inside(diff.lines);
  const by = (list: Change[], key: "before" | "after") =>
    new Map(list.filter((each) => each[key]).map((each) => [each[key], each]));
  return {
    diff, all,
    byPath: [by(all, "before"), by(all, "after")],
    kernels: [by(diff.kernels, "before"), by(diff.kernels, "after")],
  };
});

/** A removed line stands before the line of the second program that follows it. */
export const removedBefore = computed(() => {
  const found = new Map<number, number[]>();
  if (!changes.value || side.value !== 1) return found;
  const [a, b] = programs.value;
  const [gone, here] = changes.value.byPath;
  const apart = (change: Change | undefined) => change && (change.kind === "moved" || change.kind === "added");
  const steady = b.view.lines.path.flatMap((path, n) => (apart(here.get(path)) ? [] : [n]));
  let met = 0;
  a.view.lines.path.forEach((path, n) => {
    const kind = gone.get(path)?.kind;
    if (kind === "removed") {
      const at = steady[met] ?? -1;
      found.set(at, [...(found.get(at) ?? []), n]);
    } else if (kind !== "moved") met++;
  });
  return found;
});

function remember(hash: string) {
  // Pages in notebooks have no address of their own.
  try { if (hash !== location.hash) history.pushState(null, "", hash); } catch { /* as it was */ }
}

const WORK = new Set(["kernel", "op", "collective"]);

/** Chooses lines. Shown first is the given one, else the first that calls something. */
export function chooseLines(lines: number[], from: string, given = -1, keep = false, frames: number[] = []) {
  const { defines, reads, writes, ends, kind } = program.value.view.lines;
  const first = given >= 0 ? given : lines.find((n) => WORK.has(kind[n])) ?? lines[0] ?? -1;
  const near = [first].filter((n) => n >= 0)
    .flatMap((n) => [...defines[n], ...reads[n], ...writes[n], ...ends[n]]);
  choice.value = { lines: new Set(lines), buffers: new Set(near), frames: new Set(frames), first, buffer: -1, from };
  if (first >= 0 && !keep) remember(`#${sign()}${program.value.view.lines.path[first]}`);
}

export function chooseBuffer(buffer: number, from: string, keep = false) {
  const p = program.value, names = p.names(buffer);
  const lines = [...new Set(names.flatMap((n) => p.touches[n]))].sort((a, b) => a - b);
  const made = p.view.buffers.line[buffer];
  const first = made >= 0 ? made : lines[0] ?? -1;
  choice.value = { lines: new Set(lines), buffers: new Set(names), frames: new Set(), first, buffer, from };
  if (!keep) remember(`#${sign()}buffer=${encodeURIComponent(p.view.buffers.name[buffer])}`);
}

export function clear() {
  choice.value = NOTHING;
  jump.value = null;
}

/** Links to the first of two programs begin with `before:`, those to graphs of a log with their number. */
function sign(): string {
  if (programs.value.length < 2) return "";
  return paired.value ? ["before:", ""][side.value] : `${side.value + 1}:`;
}

export function show(where: "left" | "right" | "below", tab: string) {
  if (tabs.value[where] !== tab) tabs.value = { ...tabs.value, [where]: tab };
}

export function turn(to: number) {
  if (to === side.value) return;
  batch(() => { clear(); side.value = to; });
}

/** Follows the address: `#body[12]`, `#buffer=buf3`, either of them after `before:` or `2:`. */
export function follow() {
  let hash = location.hash.slice(1);
  try { hash = decodeURIComponent(hash); } catch { /* as it stands */ }
  const [mark, number] = /^(?:before|(\d+)):/.exec(hash) ?? [""];
  hash = hash.slice(mark.length);
  if (!hash) return clear();
  batch(() => {
    if (paired.value) turn(mark ? 0 : 1);
    else if (programs.value[Number(number) - 1]) turn(Number(number) - 1);
    const p = program.value, line = p.numberOf.get(hash);
    const buffer = hash.startsWith("buffer=") ? p.bufferOf.get(hash.slice(7)) : undefined;
    if (line !== undefined) chooseLines([line], "", line, true);
    else if (buffer !== undefined) chooseBuffer(buffer, "", true);
  });
}

/** Goes to the next or the previous line of the program. */
export function step(by: number) {
  const count = program.value.view.lines.path.length;
  if (!count) return;
  const now = choice.value.first;
  const to = now < 0 ? 0 : Math.min(Math.max(now + by, 0), count - 1);
  chooseLines([to], "keys");
}
