import type { ComponentChildren, VNode } from "preact";
import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { scrolledNow } from "../state/scrolled.js";
import { Heights } from "./heights.js";

/** Height of the area above and below the visible one that is also rendered, in pixels. */
const OVERSCAN_PIXELS = 700;
/** Distance from the end that still counts as the end, in pixels. */
const END_TOLERANCE_PIXELS = 48;
/** Estimated height of a row that was not rendered yet, in pixels. */
const ESTIMATED_ROW_PIXELS = 96;
/**
 * Maximum rows whose position is remembered. The first may disappear: a result without a call moves to its call when
 * that is loaded.
 */
const MAX_ANCHOR_ROWS = 8;
/** Distance from the first row at which older rows are requested, in heights of the visible area. */
const PREFETCH_PAGES = 3;

/** Actions that a parent component can call. */
export interface ScrollerHandle {
  toEnd(): void;
}

interface ScrollerProps {
  keys: readonly string[];
  row: (key: string) => ComponentChildren;
  /** Content before the first row and after the last one. */
  head?: ComponentChildren;
  foot?: ComponentChildren;
  /** Called when the first row is near: older rows may exist. */
  onFirst: () => void;
  /** Called when the end comes into view or leaves it. */
  onEnd: (near: boolean) => void;
  handle: { current: ScrollerHandle | undefined };
  label: string;
}

interface Actions extends ScrollerHandle {
  draw(): void;
  place(): void;
  hold(): void;
  detectScroll(): void;
  onScroll(): void;
}

/**
 * Any number of rows of any height, of which only those in view are rendered. The visible row stays in place when
 * content above it changes. At the end, the scroller follows new content.
 */
export function Scroller({ keys, row, head, foot, onFirst, onEnd, handle, label }: ScrollerProps): VNode {
  const box = useRef<HTMLDivElement>(null);
  const body = useRef<HTMLDivElement>(null);
  const drawn = useRef<HTMLDivElement>(null);
  const heights = useMemo(() => new Heights(() => ESTIMATED_ROW_PIXELS), []);
  const range = useSignal({ from: 0, to: 0 });
  /**
   * Rows from the upper edge on. The first of them that still exists keeps its position. With `atEnd`, the end keeps
   * its position instead.
   */
  const anchor = useRef<{ atEnd: boolean; rows: { key: string | undefined; offset: number }[] }>({
    atEnd: true,
    rows: [],
  });
  /** Scroll position and maximum position at the last check. */
  const last = useRef({ top: 0, end: 0 });
  const callbacks = useRef({ onFirst, onEnd });
  callbacks.current = { onFirst, onEnd };

  const actions: Actions = useMemo(() => {
    /** Top of the first row, below the head. */
    const start = () => body.current?.offsetTop ?? 0;
    const draw = () => {
      const element = box.current;
      if (!element) return;
      const top = element.scrollTop - start();
      const from = heights.at(Math.max(0, top - OVERSCAN_PIXELS));
      const to = Math.min(heights.count, heights.at(Math.max(0, top + element.clientHeight + OVERSCAN_PIXELS)) + 1);
      const now = range.peek();
      if (now.from !== from || now.to !== to) range.value = { from, to };
      if (top < element.clientHeight * PREFETCH_PAGES) callbacks.current.onFirst();
    };
    const place = () => {
      if (body.current) body.current.style.height = `${heights.total}px`;
      if (drawn.current) drawn.current.style.transform = `translateY(${heights.top(range.peek().from)}px)`;
    };
    const recordPosition = ({ scrollTop, scrollHeight, clientHeight }: HTMLElement) => {
      last.current = { top: scrollTop, end: scrollHeight - clientHeight };
    };
    /** Restores the position of the anchor. */
    const hold = () => {
      const element = box.current;
      if (!element) return;
      const { atEnd, rows } = anchor.current;
      let targetTop = element.scrollTop;
      if (atEnd) targetTop = element.scrollHeight - element.clientHeight;
      else
        for (const { key, offset } of rows) {
          const index = key === undefined ? undefined : heights.indexOf(key);
          if (index === undefined) continue;
          targetTop = start() + heights.top(index) + offset;
          break;
        }
      if (Math.abs(targetTop - element.scrollTop) > 0.5) element.scrollTop = targetTop;
      recordPosition(element);
    };
    const remember = () => {
      const element = box.current;
      if (!element) return;
      const { scrollTop, scrollHeight, clientHeight } = element;
      const before = last.current;
      // Content added since the last scroll does not move the user away from the end.
      const distanceToEnd = Math.min(before.end, scrollHeight - clientHeight) - scrollTop;
      // Scrolling up leaves the end at once. Scrolling down reaches it within the tolerance.
      const atEnd = distanceToEnd < (scrollTop < before.top - 1 ? 2 : END_TOLERANCE_PIXELS);
      recordPosition(element);
      const top = scrollTop - start();
      const index = heights.at(Math.max(0, top));
      if (atEnd !== anchor.current.atEnd) callbacks.current.onEnd(atEnd);
      anchor.current = {
        atEnd,
        rows: Array.from({ length: Math.min(MAX_ANCHOR_ROWS, heights.count - index) }, (_, at) => ({
          key: heights.keyAt(index + at),
          offset: top - heights.top(index + at),
        })),
      };
    };
    return {
      draw,
      place,
      hold,
      /** Called before rows change: the user may have scrolled without a scroll event yet. */
      detectScroll() {
        // A position set by this component is not a user scroll. Its event arrives late, possibly after the page has
        // changed.
        if (!box.current || Math.abs(box.current.scrollTop - last.current.top) < 1) return;
        scrolledNow();
        remember();
      },
      onScroll() {
        actions.detectScroll();
        draw();
      },
      toEnd() {
        anchor.current = { ...anchor.current, atEnd: true };
        callbacks.current.onEnd(true);
        hold();
        draw();
      },
    };
  }, []);
  handle.current = actions;
  if (!heights.has(keys)) {
    actions.detectScroll();
    heights.setKeys(keys);
  }

  // Rows are measured when they are rendered and when they grow: after layout, before painting.
  const sizes = useMemo(
    () =>
      new ResizeObserver((entries) => {
        let moved = false;
        actions.detectScroll();
        for (const { target, borderBoxSize } of entries) {
          const key = target instanceof HTMLElement ? target.dataset.key : undefined;
          const [size] = borderBoxSize;
          // For the container, its head and its foot, only the fact of a change matters.
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
      onScroll={actions.onScroll}
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

/** A row whose height is observed while it is rendered. */
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
