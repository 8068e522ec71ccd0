// The timeline: the lines of the main body on their streams, waits, collectives, and bytes held.

import { useMemo } from "preact/hooks";
import { human, Plan, Program } from "./data";
import { drawTimes } from "./memory";
import { Drawing, hue, LEFT, Picture } from "./picture";
import { choice, chooseLines, program } from "./state";

const WORK = new Set(["kernel", "op", "collective", "wait", "control"]);

/** Where each line of the main body begins: one unit a line, or microseconds of a recorded run. */
function beginnings(p: Program): number[] {
  const found = [0], isTimed = p.timed.length > 0;
  for (const line of p.body) found.push(found.at(-1)! + (isTimed ? 1e6 * (p.view.times[line]?.seconds ?? 0) : 1));
  return found;
}

function drawingOf(p: Program, held: number[], chosen: Set<number>, now: number): Drawing {
  const { lines, streams, orders } = p.view;
  const items = p.body.flatMap((line, position) => (WORK.has(lines.kind[line]) ? [{ line, position }] : []));
  const used = new Set(items.map(({ line }) => lines.stream[line] + 1));
  const flights = orders.filter((each) => each.kind === "collective" && p.position.has(each.start));
  const names = streams.map((name, n) => ({ name, n })).filter(({ n }) => used.has(n));
  const lanes = [...names.map((each) => each.name), ...(flights.length ? ["in flight"] : []), "memory"];
  const laneOf = new Map(names.map(({ n }, lane) => [n - 1, lane]));
  const most = Math.max(1, ...held), at = beginnings(p), end = (n: number) => at[Math.min(n, at.length - 1)];
  const room = (height: number) => (height - 34) / lanes.length;
  const box = (lane: number, height: number) => ({ top: 16 + lane * room(height), high: Math.min(room(height) - 6, 44) });
  return {
    length: Math.max(1e-6, end(p.body.length)),
    draw(c, x, height, ink) {
      c.font = "11px system-ui, sans-serif";
      c.textAlign = "right";
      lanes.forEach((name, lane) => {
        const { top, high } = box(lane, height);
        c.fillStyle = ink.quiet;
        c.fillText(name, LEFT - 6, top + high / 2 + 4, LEFT - 8);
        c.strokeStyle = ink.line;
        c.strokeRect(LEFT + 0.5, top - 2.5, ink.right - LEFT, high + 5);
      });
      c.save();
      c.beginPath();
      c.rect(LEFT, 0, ink.right - LEFT, height);
      c.clip();
      const paint = (from: number, to: number, lane: number, name: string, own: boolean, faint = false) => {
        const { top, high } = box(lane, height), left = x(from), w = Math.max(x(to) - left - 0.5, 1);
        if (left > ink.right || left + w < LEFT) return;
        c.fillStyle = faint ? ink.line : `hsl(${hue(name)} ${ink.dark ? "42% 36%" : "60% 68%"})`;
        c.fillRect(left, top, w, high);
        if (own) { c.strokeStyle = ink.mark; c.lineWidth = 2; c.strokeRect(left, top, w, high); c.lineWidth = 1; }
        if (w > 7 * 4) {
          c.save(); c.beginPath(); c.rect(left, top, w, high); c.clip();
          c.fillStyle = ink.text; c.textAlign = "left"; c.fillText(name, Math.max(left, LEFT) + 3, top + high / 2 + 4);
          c.restore();
        }
      };
      for (const { line, position } of items)
        paint(at[position], at[position + 1], laneOf.get(lines.stream[line])!, lines.callee[line] || lines.mnemonic[line],
          chosen.has(line), lines.kind[line] === "wait");
      for (const each of flights)
        paint(at[p.position.get(each.start)!], at[p.position.get(each.end)! + 1], names.length,
          lines.callee[each.start], chosen.has(each.start));
      c.strokeStyle = ink.text;
      for (const each of orders) {
        const from = p.position.get(each.start), to = p.position.get(each.end);
        if (each.kind !== "event" || from === undefined || to === undefined) continue;
        const [a, b] = [each.start, each.end].map((line) => box(laneOf.get(lines.stream[line]) ?? 0, height));
        c.beginPath();
        c.moveTo(x((at[from] + at[from + 1]) / 2), a.top + a.high / 2);
        c.lineTo(x((at[to] + at[to + 1]) / 2), b.top + b.high / 2);
        c.stroke();
      }
      const { top, high } = box(lanes.length - 1, height);
      c.fillStyle = ink.dark ? "hsl(215 45% 45%)" : "hsl(215 60% 72%)";
      c.beginPath();
      c.moveTo(x(0), top + high);
      held.forEach((bytes, n) => {
        const y = top + high * (1 - bytes / most);
        c.lineTo(x(end(n)), y);
        c.lineTo(x(end(n + 1)), y);
      });
      c.lineTo(x(end(held.length)), top + high);
      c.fill();
      c.restore();
      drawTimes(c, x, height, ink, now < 0 ? [] : [{ position: (at[now] + at[now + 1]) / 2 - 0.5, name: "" }]);
    },
    hit(px, py, x, height) {
      const place = x.invert(px), position = at.findIndex((_, n) => at[n] <= place && place < at[n + 1]), line = p.body[position];
      if (px < LEFT || line === undefined) return null;
      const lane = lanes.findIndex((_, n) => py >= box(n, height).top - 3 && py <= box(n, height).top + box(n, height).high + 3);
      const flight = lanes[lane] === "in flight" &&
        flights.find((e) => p.position.get(e.start)! <= position && position <= p.position.get(e.end)!);
      const title = lanes[lane] === "memory" ? `${human(held[position] ?? 0)} held\n` : "";
      if (flight) return { title: `${lines.callee[flight.start]}\nfrom ${lines.path[flight.start]} to ${lines.path[flight.end]}`,
        choose: () => chooseLines([flight.start, flight.end], "timeline") };
      return { title: `${title}${lines.path[line]}  ${p.textOf(line).slice(0, 120)}`, choose: () => chooseLines([line], "timeline") };
    },
  };
}

export function TimelinePane({ plans, theme }: { plans: Plan[]; theme: string }) {
  const p = program.value, { value } = choice;
  const held = plans.find((each) => each.shown)?.held ?? [];
  const now = p.position.get(value.first) ?? -1;
  const drawing = useMemo(() => drawingOf(p, held, value.lines, now), [p, held, value]);
  return <div class="timeline">
    <Picture drawing={drawing} theme={theme} label={`Order of ${p.body.length} lines on streams: ${p.view.streams.join(", ")}`} />
    <p class="quiet">{p.timed.length > 0 ? "Microseconds of the recorded run, one call after another." : "One unit is one line: nothing here was timed."} Scroll to zoom, drag to move.</p>
  </div>;
}
