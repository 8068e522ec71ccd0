// A canvas with time across, which zooms by the wheel and drags; what is drawn on it is given.

import { scaleLinear, ScaleLinear } from "d3-scale";
import { select } from "d3-selection";
import { zoom, ZoomBehavior, zoomIdentity, ZoomTransform } from "d3-zoom";
import { useEffect, useRef, useState } from "preact/hooks";

export interface Hit { title: string; choose: () => void }

export interface Drawing {
  /** The end of time: the number of lines. */
  length: number;
  draw: (c: CanvasRenderingContext2D, x: ScaleLinear<number, number>, height: number, ink: Ink) => void;
  /** What is under the pointer, if anything. */
  hit: (x: number, y: number, scale: ScaleLinear<number, number>, height: number) => Hit | null;
}

/** Colours of the theme. */
export interface Ink { text: string; quiet: string; line: string; mark: string; back: string; dark: boolean; right: number }

export const LEFT = 74;
const RIGHT = 10;

function ink(element: Element, width: number): Ink {
  const style = getComputedStyle(element), of = (name: string) => style.getPropertyValue(name).trim();
  return { text: of("--text"), quiet: of("--quiet"), line: of("--line"), mark: of("--mark"), back: of("--back"),
    dark: of("--dark") === "1", right: width - RIGHT };
}

export function Picture({ label, drawing, theme }: { label: string; drawing: Drawing; theme: string }) {
  const canvas = useRef<HTMLCanvasElement>(null), holder = useRef<HTMLDivElement>(null);
  const behaviour = useRef<ZoomBehavior<HTMLCanvasElement, unknown> | undefined>(undefined);
  const [size, setSize] = useState({ width: 0, height: 0 });
  const [at, setAt] = useState<ZoomTransform>(zoomIdentity);
  const [tip, setTip] = useState<{ x: number; y: number; text: string } | null>(null);

  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => {
      const { width, height } = entry.contentRect;
      setSize({ width, height });
    });
    watch.observe(holder.current!);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (size.width < 1) return;
    const extent: [[number, number], [number, number]] = [[LEFT, 0], [size.width - RIGHT, size.height]];
    const made = zoom<HTMLCanvasElement, unknown>().extent(extent).translateExtent(extent)
      .scaleExtent([1, Math.max(1, drawing.length / 4)])
      .on("zoom", (event) => setAt(event.transform)).clickDistance(4);
    behaviour.current = made;
    select(canvas.current!).call(made).on("dblclick.zoom", null);
  }, [size, drawing.length]);

  const scale = () => at.rescaleX(scaleLinear([0, Math.max(drawing.length, 1)], [LEFT, size.width - RIGHT]));
  useEffect(() => {
    const element = canvas.current!, ratio = devicePixelRatio || 1;
    if (size.width < 1 || size.height < 1) return;
    element.width = Math.round(size.width * ratio);
    element.height = Math.round(size.height * ratio);
    const c = element.getContext("2d")!;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, size.width, size.height);
    drawing.draw(c, scale(), size.height, ink(element, size.width));
  }, [drawing, size, at, theme]);

  const under = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    return { x, y, hit: drawing.hit(x, y, scale(), size.height) };
  };
  const reset = () => behaviour.current && select(canvas.current!).call(behaviour.current.transform, zoomIdentity);
  return (
    <div class="picture" ref={holder}>
      <canvas ref={canvas} role="img" aria-label={label}
        onMouseMove={(e) => { const { x, y, hit } = under(e); setTip(hit && { x, y, text: hit.title }); }}
        onMouseLeave={() => setTip(null)} onDblClick={reset}
        onClick={(e) => under(e).hit?.choose()} />
      {at.k > 1 && <button class="reset" onClick={reset}>whole program</button>}
      {tip && <div class="tip" style={{ left: `${Math.min(tip.x + 12, size.width - 250)}px`,
        [tip.y > size.height / 2 ? "bottom" : "top"]: `${tip.y > size.height / 2 ? size.height - tip.y + 8 : tip.y + 14}px` }}>{tip.text}</div>}
    </div>
  );
}

/** A colour for a name: the same each time. */
export function hue(name: string): number {
  let found = 0;
  for (let n = 0; n < name.length; n++) found = (Math.imul(found, 31) + name.charCodeAt(n)) | 0;
  return ((found >>> 0) * 137.5) % 360;
}
