// The document in the page: its types, how its parts are read, and indexes over them.
// wrapper_ir/explorer/document.py says what the fields mean.

export interface Text { rows: string[]; lines: number[] }
export interface Lines {
  path: string[]; mnemonic: string[]; callee: string[]; kind: string[]; origin: number[];
  kernel: number[]; stream: number[];
  defines: number[][]; reads: number[][]; writes: number[][]; ends: number[][];
}
export interface Buffers {
  name: string[]; layout: string[]; bytes: number[]; role: string[]; storage: number[]; line: number[];
}
export interface SourceFile { name: string; whole: boolean; numbers: number[]; rows: string[] }
export interface Target { name: string; text: Text; refused: string }
export interface Graph { title: string; rows: string[]; lines: number[][]; frames: number[] }
export interface Kernel { name: string; language: string; line: number; rows: string[] }
export interface Panel {
  title: string; region: string; bytes: number; lower_bound: number; length: number;
  names: string[]; offsets: number[]; sizes: number[]; starts: number[]; ends: number[];
}
export interface Plan {
  strategy: string; shown: boolean; winner: string; allocations: number; reuses: number;
  total_bytes: number; unplanned_peak_bytes: number; peak_bytes: number; lower_bound_bytes: number;
  kept_bytes: number; peak_at: string; at_peak: { name: string; bytes: number; why: string }[];
  panels: Panel[]; held: number[];
}
export interface Order { kind: string; start: number; end: number }
export interface Time { seconds: number; least: number; visits: number; read_bytes: number; written_bytes: number }
export interface Finding { kind: string; line: number; text: string; buffer: number }
export interface Field { name: string; before: string; after: string }
export interface Change {
  kind: "added" | "removed" | "changed" | "moved"; before: string; after: string; what?: string;
  text_before?: string; text_after?: string; fields: Field[];
  regions?: { name: string; items: Change[]; lines: Change[] }[];
  code?: { start: number; removed: string[]; added: string[] }[];
}
export interface Diff {
  before: Record<string, number | null>; after: Record<string, number | null>;
  items: Change[]; kernels: Change[]; lines: Change[];
}
export interface View {
  name: string; role: string; stage: string; figures: Record<string, number | null>;
  hints: Record<string, number>; inputs: number[]; results: number[]; text: Text; lines: Lines;
  buffers: Buffers; streams: string[];
  origins: { module: string[]; ops: string[][]; nodes: number[][]; frames: number[][]; shown: number[] };
  frames: { file: number[]; line: number[]; function: string[] };
  nodes: { name: string[]; op: string[]; text: string[] };
  files: SourceFile[]; orders: Order[]; findings: Finding[]; recorded: Record<string, Record<string, unknown>[]>;
  times: Record<string, Time>; graphs: Graph[]; language: "wir" | "python"; facts: Record<string, string>;
}
export interface Main { version: number; made_by: string; programs: View[]; changes: Diff | null }
interface Later { targets: Target[]; kernels: Kernel[]; plans: Plan[] }

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const direct = (Uint8Array as unknown as { fromBase64?: (t: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  return direct ? direct.call(Uint8Array, text) : Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

/** Reads one part: JSON in gzip in base64. The element is dropped, as nobody needs it again. */
export async function part<T>(name: string): Promise<T> {
  const element = document.getElementById(`wir-${name}`)!;
  const stream = new Blob([bytesOf(element.textContent!)]).stream();
  const found = await new Response(stream.pipeThrough(new DecompressionStream("gzip"))).json();
  element.remove();
  return found as T;
}

/** For each value of a column of numbers, the rows that have it. */
export function rowsBy(column: number[], count: number): number[][] {
  const found: number[][] = Array.from({ length: count }, () => []);
  column.forEach((value, row) => value >= 0 && found[value]?.push(row));
  return found;
}

/** A program, with what is found out about it once and looked up often. */
export class Program {
  private later = new Map<string, Promise<unknown>>();
  readonly textRows: number[][];
  readonly linesOfOrigin: number[][];
  readonly numberOf: Map<string, number>;
  readonly bufferOf: Map<string, number>;
  /** The lines of the main body in order: positions in plans are positions here. */
  readonly body: number[];
  /** The position in the main body of each line of it. */
  readonly position: Map<number, number>;
  private touched?: number[][];
  private byNode?: number[][];
  private timedLines?: { line: number; time: Time }[];

  constructor(readonly view: View, readonly side: number) {
    const { lines, text, buffers, origins } = view;
    this.textRows = rowsBy(text.lines, lines.path.length);
    this.linesOfOrigin = rowsBy(lines.origin, origins.module.length);
    this.numberOf = new Map(lines.path.map((path, n) => [path, n]));
    this.bufferOf = new Map(buffers.name.map((name, n) => [name, n]));
    this.body = [];
    lines.path.forEach((path, n) => path.startsWith("body[") && !path.includes(".") && this.body.push(n));
    this.position = new Map(this.body.map((line, n) => [line, n]));
  }

  /** What stands before the name of a buffer; variables of Python have no sign. */
  get sign(): string { return this.view.language === "wir" ? "%" : ""; }

  get<K extends keyof Later>(name: K): Promise<Later[K]> {
    let found = this.later.get(name);
    if (!found) this.later.set(name, (found = part(`${name}-${this.side}`)));
    return found as Promise<Later[K]>;
  }

  /** The lines that touch each buffer, in order. */
  get touches(): number[][] {
    if (!this.touched) {
      const found: number[][] = this.view.buffers.name.map(() => []);
      const { defines, reads, writes, ends } = this.view.lines;
      this.view.lines.path.forEach((_, n) => {
        for (const column of [defines, reads, writes, ends])
          for (const buffer of column[n]) if (found[buffer].at(-1) !== n) found[buffer].push(n);
      });
      this.touched = found;
    }
    return this.touched;
  }

  /** The buffers that are names of one storage. */
  names(buffer: number): number[] {
    const { storage } = this.view.buffers;
    return storage.flatMap((owner, n) => (owner === storage[buffer] ? [n] : []));
  }

  /** The lines of a recorded run that were timed, the slowest first. */
  get timed(): { line: number; time: Time }[] {
    return this.timedLines ??= Object.entries(this.view.times).map(([line, time]) => ({ line: Number(line), time }))
      .sort((a, b) => b.time.seconds - a.time.seconds);
  }

  /** The seconds of all calls. */
  get total(): number { return this.timed.reduce((sum, { time }) => sum + time.seconds, 0); }

  /** The seconds of lines; undefined if none of them was timed. */
  secondsOf(lines: Iterable<number>): number | undefined {
    let found: number | undefined;
    for (const line of lines) {
      const time = this.view.times[line];
      if (time) found = (found ?? 0) + time.seconds;
    }
    return found;
  }

  linesOfNode(node: number): number[] {
    if (!this.byNode) {
      const found: number[][] = this.view.nodes.name.map(() => []);
      this.view.origins.nodes.forEach((nodes, origin) =>
        nodes.forEach((each) => found[each].push(...this.linesOfOrigin[origin])));
      this.byNode = found.map((lines) => [...new Set(lines)].sort((a, b) => a - b));
    }
    return this.byNode[node];
  }

  /** The lines with a frame at a place, those first that are shown with it. */
  linesAt(file: number, line: number): number[] {
    const { frames, origins } = this.view;
    const own: number[] = [], outer: number[] = [];
    origins.frames.forEach((rows, origin) => {
      const here = (row: number) => row >= 0 && frames.file[row] === file && frames.line[row] === line;
      if (here(origins.shown[origin])) own.push(...this.linesOfOrigin[origin]);
      else if (rows.some(here)) outer.push(...this.linesOfOrigin[origin]);
    });
    return (own.length ? own : outer).sort((a, b) => a - b);
  }

  /** The rows of `frames` at a place. */
  framesAt(file: number, line: number): number[] {
    const { frames } = this.view;
    return frames.file.flatMap((each, row) => (each === file && frames.line[row] === line ? [row] : []));
  }

  /** The first row of a line; where torch wrote comments above it, the first that is none. */
  textOf(line: number): string {
    const { text, language } = this.view;
    const rows = (this.textRows[line] ?? []).map((row) => text.rows[row].trim());
    return (language === "python" ? rows.find((row) => !row.startsWith("#")) : rows[0]) ?? "";
  }

  /** Where a line comes from in the model: `file.py:12`. */
  placeOf(line: number): string {
    const { frames, origins, lines } = this.view;
    const row = origins.shown[lines.origin[line]] ?? -1;
    return row < 0 ? "" : `${fileName(this.view.files[frames.file[row]].name)}:${frames.line[row]}`;
  }
}

export const fileName = (path: string) => (path ?? "?").replace(/^.*[\\/]/, "");

/** 1536 as 1.5 KiB. */
export function human(bytes: number): string {
  if (bytes < 0) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(bytes) >= 1024 && unit < 4) { bytes /= 1024; unit++; }
  return `${unit && bytes < 100 ? bytes.toFixed(bytes < 10 ? 2 : 1) : Math.round(bytes)} ${units[unit]}`;
}

/** 0.0000123 as 12.3 µs. */
export function duration(seconds: number): string {
  const [unit, scale] = seconds < 1e-3 ? ["µs", 1e6] as const : seconds < 1 ? ["ms", 1e3] as const : ["s", 1] as const;
  return `${(seconds * scale).toPrecision(3).replace(/e\+?(\d+)$/, "e$1")} ${unit}`;
}

export const grouped = (n: number) => n.toLocaleString("en-US");
