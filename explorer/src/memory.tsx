// Memory: addresses over time, what lives at the peak and why, and strategies side by side.

import { useMemo, useState } from "preact/hooks";
import { grouped, human, Panel, Plan, Program } from "./data";
import { Empty } from "./panes";
import { Drawing, Hit, hue, Ink, LEFT, Picture } from "./picture";
import { choice, chooseBuffer, chooseLines, program } from "./state";

const GAP = 16, AXIS = 18;

interface Place { panel: Panel; top: number; height: number }

/** Stacks panels, each as high as it has bytes, but so that none vanishes. */
function placed(panels: Panel[], height: number): Place[] {
  const room = height - AXIS - GAP * panels.length;
  const total = Math.max(panels.reduce((n, each) => n + each.bytes, 0), 1);
  const high = panels.map((each) => Math.max((each.bytes / total) * room, 14));
  const fit = Math.min(1, room / high.reduce((a, b) => a + b, 0));
  let top = 0;
  return panels.map((panel, n) => {
    const place = { panel, top: top + GAP, height: high[n] * fit };
    top += GAP + place.height;
    return place;
  });
}

function drawPanel(c: CanvasRenderingContext2D, place: Place, x: (n: number) => number, ink: Ink, marked: Set<string>) {
  const { panel, top, height } = place, up = height / Math.max(panel.bytes, 1), floor = top + height;
  const right = ink.right;
  c.fillStyle = ink.quiet;
  c.textAlign = "left";
  c.fillText(`${panel.title}: ${human(panel.bytes)}`, LEFT, top - 4, right - LEFT);
  c.textAlign = "right";
  const steps = height > 60 ? 2 : 1;
  for (let n = 0; n <= steps; n++)
    c.fillText(human((panel.bytes * n) / steps), LEFT - 6, floor - (height * n) / steps + 4);
  c.save();
  c.beginPath();
  c.rect(LEFT, top, right - LEFT, height);
  c.clip();
  const some = panel.names.some((name) => marked.has(name));
  for (const wanted of some ? [false, true] : [false]) {
    panel.names.forEach((name, n) => {
      const own = marked.has(name);
      if (some && own !== wanted) return;
      const from = x(panel.starts[n]), to = x(panel.ends[n]);
      if (to < LEFT || from > right) return;
      const h = Math.max(panel.sizes[n] * up, 0.6), y = floor - panel.offsets[n] * up - h;
      const w = Math.max(to - from, 0.8);
      c.globalAlpha = some && !own ? 0.45 : 1;
      c.fillStyle = `hsl(${hue(name)} ${ink.dark ? "38% 40%" : "58% 76%"})`;
      c.fillRect(from, y, w, h);
      if (own) { c.strokeStyle = ink.mark; c.lineWidth = 2; c.strokeRect(from, y, w, h); }
      else if (h > 3 && w > 3) { c.strokeStyle = ink.back; c.lineWidth = 0.6; c.strokeRect(from, y, w, h); }
      const left = Math.max(from, LEFT), seen = Math.min(to, right) - left;
      if (h >= 12 && seen >= 7 * (name.length + 1)) {
        c.fillStyle = ink.text;
        c.textAlign = "center";
        c.fillText(name, left + seen / 2, y + h / 2 + 4);
      }
    });
  }
  c.restore();
  c.globalAlpha = 1;
  c.strokeStyle = ink.line;
  c.lineWidth = 1;
  c.strokeRect(LEFT + 0.5, top + 0.5, right - LEFT - 1, height - 1);
  if (panel.lower_bound && panel.lower_bound <= panel.bytes) {
    const y = floor - panel.lower_bound * up;
    c.strokeStyle = ink.mark;
    c.setLineDash([5, 4]);
    c.beginPath(); c.moveTo(LEFT, y); c.lineTo(right, y); c.stroke();
    c.setLineDash([]);
  }
}

/** Draws marks of time below, and lines through the whole at the peak and at what is chosen. */
export function drawTimes(c: CanvasRenderingContext2D, x: ReturnType<typeof import("d3-scale").scaleLinear<number, number>>,
  height: number, ink: Ink, at: { position: number; name: string }[]) {
  c.fillStyle = ink.quiet;
  c.textAlign = "center";
  for (const tick of x.ticks(8)) if (Number.isInteger(tick) && x(tick) >= LEFT) c.fillText(String(tick), x(tick), height - 4);
  for (const { position, name } of at) {
    const left = x(position + 0.5);
    if (position < 0 || left < LEFT || left > ink.right) continue;
    c.strokeStyle = ink.mark;
    c.lineWidth = 1;
    c.beginPath(); c.moveTo(left, 4); c.lineTo(left, height - AXIS); c.stroke();
    c.fillStyle = ink.mark;
    c.textAlign = left > ink.right - 60 ? "right" : "left";
    c.fillText(name, left + (left > ink.right - 60 ? -4 : 4), 11);
  }
}

const positionOf = (path: string) => Number(/^body\[(\d+)\]/.exec(path)?.[1] ?? -1);

function drawingOf(plan: Plan, region: string, p: Program, marked: Set<string>, now: number): Drawing {
  const panels = plan.panels.filter((each) => each.region === region);
  const peak = region ? -1 : positionOf(plan.peak_at);
  return {
    length: Math.max(1, ...panels.map((each) => each.length)),
    draw(c, x, height, ink) {
      c.font = "11px system-ui, sans-serif";
      for (const place of placed(panels, height)) drawPanel(c, place, x, ink, marked);
      const times = [{ position: peak, name: "peak" }];
      drawTimes(c, x, height, ink, now >= 0 && now !== peak ? [...times, { position: now, name: "" }] : times);
    },
    hit(px, py, x, height): Hit | null {
      if (px < LEFT) return null;
      const at = x.invert(px);
      for (const { panel, top, height: high } of placed(panels, height)) {
        if (py < top || py > top + high) continue;
        const address = ((top + high - py) / high) * panel.bytes, slack = panel.bytes / Math.max(high, 1);
        let best = -1;
        panel.names.forEach((_, n) => {
          if (panel.starts[n] <= at && at < panel.ends[n] && panel.offsets[n] <= address + slack &&
            address < panel.offsets[n] + panel.sizes[n] + slack && (best < 0 || panel.sizes[n] < panel.sizes[best])) best = n;
        });
        if (best < 0) return null;
        const name = panel.names[best], buffer = p.bufferOf.get(name);
        const title = `%${name}\n${human(panel.sizes[best])} (${grouped(panel.sizes[best])} bytes) at ` +
          `${grouped(panel.offsets[best])}\nlines ${panel.starts[best]} to ${panel.ends[best]}`;
        return { title, choose: () => buffer !== undefined && chooseBuffer(buffer, "memory") };
      }
      return null;
    },
  };
}

export function MemoryPane({ plans, theme }: { plans: Plan[]; theme: string }) {
  const p = program.value, { value } = choice;
  const usual = Math.max(0, plans.findIndex((each) => each.shown));
  const [picked, pick] = useState(-1);
  const [region, setRegion] = useState("");
  const [beside, setBeside] = useState(false);
  const number = picked >= 0 && picked < plans.length ? picked : usual;
  const plan = plans[number];
  const marked = useMemo(() => {
    const { storage, name } = p.view.buffers, owners = new Set([...value.buffers].map((n) => storage[n]));
    return new Set(name.filter((_, n) => owners.has(storage[n])));
  }, [value, p]);
  const now = plan.shown ? p.position.get(value.first) ?? -1 : -1;
  const drawings = useMemo(() => (beside ? plans : [plan]).map((each) =>
    ({ plan: each, drawing: drawingOf(each, beside ? "" : region, p, marked, each.shown ? now : -1) })),
    [plan, plans, beside, region, p, marked, now]);
  const regions = [...new Set(plan.panels.map((each) => each.region))];
  if (!plans.some((each) => each.panels.length)) return <Empty>The program allocates nothing.</Empty>;
  const most = Math.max(1, ...plans.map((each) => each.unplanned_peak_bytes), ...plans.map((each) => each.peak_bytes));
  return (
    <div class="memory">
      <div class="plans">
        <table aria-label="Plans">
          <thead><tr><th>plan</th><th class="n">peak</th><th></th><th class="n" title="Peak over the lower bound for this order of lines">ratio</th><th class="n">allocations</th><th class="n">kept</th></tr></thead>
          <tbody>{plans.map((each, n) => (
            <tr class={n === number ? "picked" : ""} onClick={() => { pick(n); setBeside(false); }}>
              <td><button aria-pressed={n === number}>{each.strategy}{each.shown ? " ◂" : ""}</button></td>
              <td class="n" title={`${grouped(each.peak_bytes)} bytes`}>{human(each.peak_bytes)}</td>
              <td class="meter"><span style={{ width: `${(100 * each.peak_bytes) / most}%` }} /></td>
              <td class="n">{each.lower_bound_bytes ? (each.peak_bytes / each.lower_bound_bytes).toFixed(2) : "–"}</td>
              <td class="n">{grouped(each.allocations)}</td>
              <td class="n">{each.kept_bytes ? human(each.kept_bytes) : "–"}</td>
            </tr>))}
          </tbody>
        </table>
        <p class="quiet">Lower bound {human(plan.lower_bound_bytes)}. ◂ is the plan of the lines shown.
          {" "}{plans.length > 1 && <button onClick={() => setBeside(!beside)} aria-pressed={beside}>side by side</button>}
          {regions.length > 1 && <select aria-label="Region" value={region} onChange={(e) => setRegion(e.currentTarget.value)}>
            {regions.map((each) => <option value={each}>{each || "main body"}</option>)}</select>}
        </p>
        <h3>At the peak{plan.peak_at && <>, <button class="link" disabled={!plan.shown} onClick={() => {
          const line = p.numberOf.get(plan.peak_at);
          if (line !== undefined) chooseLines([line], "memory");
        }}>{plan.peak_at}</button></>}: {human(plan.peak_bytes)}</h3>
        <table class="held" aria-label="Held at the peak">
          <tbody>{plan.at_peak.slice(0, 200).map((each) => {
            const buffer = p.bufferOf.get(each.name);
            return (
              <tr class={buffer !== undefined && value.buffers.has(buffer) ? "marked" : ""}>
                <td>{buffer === undefined ? each.name
                  : <button class="link t-buffer" onClick={() => chooseBuffer(buffer, "peak")}>%{each.name}</button>}</td>
                <td class="n">{human(each.bytes)}</td>
                <td class="n quiet">{((100 * each.bytes) / Math.max(plan.peak_bytes, 1)).toFixed(0)} %</td>
                <td class="quiet">{each.why}</td>
              </tr>);
          })}</tbody>
        </table>
        {plan.at_peak.length > 200 && <p class="quiet">and {grouped(plan.at_peak.length - 200)} more</p>}
      </div>
      <div class={`pictures ${beside ? "beside" : ""}`}>
        {drawings.map(({ plan: each, drawing }) => (
          <figure key={each.strategy}>
            {beside && <figcaption>{each.strategy}: {human(each.peak_bytes)}</figcaption>}
            <Picture drawing={drawing} theme={theme}
              label={`Memory of the plan ${each.strategy} over ${drawing.length} lines, peak ${human(each.peak_bytes)} at ${each.peak_at}; the table beside lists what is held there`} />
          </figure>))}
      </div>
    </div>
  );
}
