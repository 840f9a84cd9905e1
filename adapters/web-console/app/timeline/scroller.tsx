import type { ComponentChildren, VNode } from "preact";
import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { scrolledNow } from "../state/scrolled.js";
import { Heights } from "./heights.js";

/** Pixels that are drawn above and below what is seen. */
const AROUND = 700;
/** So near to the end counts as there. */
const NEAR = 48;
/** A row that was not drawn yet. */
const GUESS = 96;
/** Rows that are known by their place. The first may go: a result that stood alone goes to its call when that comes. */
const HELD = 8;
/** Looks for older rows so many heights of the page before the first one is seen. */
const AHEAD = 3;

/** What a parent may do to a scroller. */
export interface ScrollerHandle {
  toEnd(): void;
}

interface ScrollerProps {
  keys: readonly string[];
  row: (key: string) => ComponentChildren;
  /** What stands before the first row and behind the last one. */
  head?: ComponentChildren;
  foot?: ComponentChildren;
  /** The first row comes into sight: there may be older ones. */
  onFirst: () => void;
  /** Whether the end is in sight. */
  onEnd: (near: boolean) => void;
  handle: { current: ScrollerHandle | undefined };
  label: string;
}

interface Actions extends ScrollerHandle {
  draw(): void;
  place(): void;
  hold(): void;
  noticed(): void;
  scrolled(): void;
}

/**
 * Any number of rows of any height, of which those in sight are drawn. What is read stays where it is, whatever comes
 * before it or grows above; whoever is at the end stays at the end.
 */
export function Scroller({ keys, row, head, foot, onFirst, onEnd, handle, label }: ScrollerProps): VNode {
  const box = useRef<HTMLDivElement>(null);
  const body = useRef<HTMLDivElement>(null);
  const drawn = useRef<HTMLDivElement>(null);
  const heights = useMemo(() => new Heights(() => GUESS), []);
  const range = useSignal({ from: 0, to: 0 });
  /** The rows from the upper edge on: the first of them that is still there is held where it is. `atEnd`: the end is held instead. */
  const held = useRef<{ atEnd: boolean; rows: { key: string | undefined; offset: number }[] }>({
    atEnd: true,
    rows: [],
  });
  /** Where the page stood when it was looked at last. */
  const last = useRef({ top: 0, end: 0 });
  const told = useRef({ onFirst, onEnd });
  told.current = { onFirst, onEnd };

  const actions: Actions = useMemo(() => {
    /** Where the rows begin, below what stands before them. */
    const start = () => body.current?.offsetTop ?? 0;
    const draw = () => {
      const element = box.current;
      if (!element) return;
      const top = element.scrollTop - start();
      const from = heights.at(Math.max(0, top - AROUND));
      const to = Math.min(heights.count, heights.at(Math.max(0, top + element.clientHeight + AROUND)) + 1);
      const now = range.peek();
      if (now.from !== from || now.to !== to) range.value = { from, to };
      if (top < element.clientHeight * AHEAD) told.current.onFirst();
    };
    const place = () => {
      if (body.current) body.current.style.height = `${heights.total}px`;
      if (drawn.current) drawn.current.style.transform = `translateY(${heights.top(range.peek().from)}px)`;
    };
    const looked = ({ scrollTop, scrollHeight, clientHeight }: HTMLElement) => {
      last.current = { top: scrollTop, end: scrollHeight - clientHeight };
    };
    /** Put what is held where it was. */
    const hold = () => {
      const element = box.current;
      if (!element) return;
      const { atEnd, rows } = held.current;
      let wanted = element.scrollTop;
      if (atEnd) wanted = element.scrollHeight - element.clientHeight;
      else
        for (const { key, offset } of rows) {
          const index = key === undefined ? undefined : heights.indexOf(key);
          if (index === undefined) continue;
          wanted = start() + heights.top(index) + offset;
          break;
        }
      if (Math.abs(wanted - element.scrollTop) > 0.5) element.scrollTop = wanted;
      looked(element);
    };
    const remember = () => {
      const element = box.current;
      if (!element) return;
      const { scrollTop, scrollHeight, clientHeight } = element;
      const before = last.current;
      // What has grown since somebody scrolled did not take them from the end.
      const left = Math.min(before.end, scrollHeight - clientHeight) - scrollTop;
      // Who goes up is let go of at once, who comes down is caught near the end.
      const atEnd = left < (scrollTop < before.top - 1 ? 2 : NEAR);
      looked(element);
      const top = scrollTop - start();
      const index = heights.at(Math.max(0, top));
      if (atEnd !== held.current.atEnd) told.current.onEnd(atEnd);
      held.current = {
        atEnd,
        rows: Array.from({ length: Math.min(HELD, heights.count - index) }, (_, at) => ({
          key: heights.keyAt(index + at),
          offset: top - heights.top(index + at),
        })),
      };
    };
    return {
      draw,
      place,
      hold,
      /** Before rows change: somebody may have scrolled, of which the page has not told yet. */
      noticed() {
        // What was put there here is no scrolling, and is told late, when the page may be another one already.
        if (!box.current || Math.abs(box.current.scrollTop - last.current.top) < 1) return;
        scrolledNow();
        remember();
      },
      scrolled() {
        actions.noticed();
        draw();
      },
      toEnd() {
        held.current = { ...held.current, atEnd: true };
        told.current.onEnd(true);
        hold();
        draw();
      },
    };
  }, []);
  handle.current = actions;
  if (!heights.has(keys)) {
    actions.noticed();
    heights.setKeys(keys);
  }

  // Rows are measured as they are drawn and as they grow, after the layout and before they are painted.
  const sizes = useMemo(
    () =>
      new ResizeObserver((entries) => {
        let moved = false;
        actions.noticed();
        for (const { target, borderBoxSize } of entries) {
          const key = target instanceof HTMLElement ? target.dataset.key : undefined;
          const [size] = borderBoxSize;
          // Of the box, its head and its foot only that they changed matters.
          if (key === undefined) moved = true;
          else if (size && target.isConnected && heights.measured(key, size.blockSize)) moved = true;
        }
        if (!moved) return;
        actions.place();
        actions.hold();
        actions.draw();
      }),
    [],
  );
  useLayoutEffect(() => {
    const element = box.current;
    if (element) for (const part of [element, ...element.children]) if (part !== body.current) sizes.observe(part);
    return () => sizes.disconnect();
  }, []);

  const { from, to } = range.value;
  useLayoutEffect(() => {
    actions.place();
    actions.hold();
    actions.draw();
  }, [keys]);
  useLayoutEffect(() => actions.place(), [from]);

  const rows: VNode[] = [];
  for (let index = from; index < Math.min(to, keys.length); index += 1) {
    const key = keys[index] ?? "";
    rows.push(
      <Measured key={key} name={key} sizes={sizes}>
        {row(key)}
      </Measured>,
    );
  }
  return (
    <div
      id="timeline"
      class="scroller"
      ref={box}
      onScroll={actions.scrolled}
      role="log"
      aria-label={label}
      aria-live="off"
      tabIndex={0}
    >
      <div class="scroller-head">{head}</div>
      <div class="scroller-body" ref={body}>
        <div class="scroller-drawn" ref={drawn}>
          {rows}
        </div>
      </div>
      <div class="scroller-foot">{foot}</div>
    </div>
  );
}

/** A row whose height is known as long as it is drawn. */
function Measured({ name, sizes, children }: { name: string; sizes: ResizeObserver; children: ComponentChildren }) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    sizes.observe(element);
    return () => sizes.unobserve(element);
  }, []);
  return (
    <div class="scroller-row" data-key={name} ref={place}>
      {children}
    </div>
  );
}
