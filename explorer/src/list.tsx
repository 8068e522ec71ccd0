// A list of rows of one height, of which only those in sight exist. TanStack's virtualizer decides
// which; this shows them, and lets keys and screen readers go through them.

import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef } from "preact/hooks";

export const ROW = 19;

export interface ListProps {
  label: string;
  count: number;
  /** The longest row in characters, so that the list scrolls sideways. */
  width: number;
  /** The row to scroll to; a new object scrolls again. */
  goal: { row: number } | null;
  active: number;
  classOf: (row: number) => string;
  render: (row: number) => ComponentChildren;
  choose: (row: number, target: EventTarget | null) => void;
}

export function List(props: ListProps) {
  const holder = useRef<HTMLDivElement>(null);
  const [, again] = useReducer((n: number) => n + 1, 0);
  const options = {
    count: props.count, overscan: 12, estimateSize: () => ROW,
    getScrollElement: () => holder.current, scrollToFn: elementScroll,
    observeElementRect, observeElementOffset,
    onChange: () => again(undefined as never),
  };
  const list = useMemo(() => new Virtualizer<HTMLDivElement, HTMLDivElement>(options), []);
  list.setOptions(options);
  useLayoutEffect(() => list._didMount(), []);
  useLayoutEffect(() => list._willUpdate());
  useEffect(() => {
    const row = props.goal?.row ?? -1;
    const shown = holder.current;
    if (row < 0 || !shown) return;
    const top = row * ROW, room = shown.clientHeight;
    if (top < shown.scrollTop + ROW || top > shown.scrollTop + room - 2 * ROW)
      shown.scrollTop = Math.max(0, top - room * 0.4);
  }, [props.goal]);

  const key = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor((holder.current?.clientHeight ?? 0) / ROW) - 2);
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
      Home: -props.count, End: props.count };
    const by = steps[event.key];
    if (by === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const to = Math.min(Math.max((props.active < 0 ? -1 : props.active) + by, 0), props.count - 1);
    props.choose(to, null);
    const shown = holder.current!;
    const top = to * ROW;
    if (top < shown.scrollTop) shown.scrollTop = top;
    else if (top > shown.scrollTop + shown.clientHeight - 2 * ROW)
      shown.scrollTop = top - shown.clientHeight + 2 * ROW;
  };
  const click = (event: MouseEvent) => {
    if (getSelection()?.toString()) return; // text is being selected, not a row
    const row = (event.target as Element).closest<HTMLElement>("[data-row]");
    if (row) props.choose(Number(row.dataset.row), event.target);
  };
  const id = `list-${props.label.replace(/\W+/g, "-")}`;
  return (
    <div class="list" ref={holder} role="listbox" tabIndex={0} aria-label={props.label} onKeyDown={key}
      onClick={click} aria-activedescendant={props.active >= 0 ? `${id}-${props.active}` : undefined}>
      <div style={{ height: `${list.getTotalSize()}px`, minWidth: `${props.width + 12}ch` }} role="presentation">
        {list.getVirtualItems().map(({ index, start }) => (
          <div key={index} id={`${id}-${index}`} class={`row ${props.classOf(index)}`} data-row={index}
            style={{ transform: `translateY(${start}px)` }} role="option"
            aria-selected={index === props.active} aria-setsize={props.count} aria-posinset={index + 1}>
            {props.render(index)}
          </div>
        ))}
      </div>
    </div>
  );
}

export function longest(rows: string[]): number {
  let most = 0;
  for (const row of rows) if (row.length > most) most = row.length;
  return Math.min(most, 5000);
}
