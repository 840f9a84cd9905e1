import type { ComponentChildren, VNode } from "preact";
import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { recordScroll } from "../state/scroll-time.js";
import { RowPositions } from "./row-positions.js";

/** Height of the rendered areas above and below the visible area, in pixels. */
const OVERSCAN_PIXELS = 700;
/** Distance from the end that still counts as the end, in pixels. */
const END_TOLERANCE_PIXELS = 48;
/** Estimated height of a row that was not rendered yet, in pixels. */
const ESTIMATED_ROW_PIXELS = 96;
/**
 * Maximum rows whose position is recorded. One row is not enough, because it may disappear: a tool result without its
 * call moves into the row of the call when that row is loaded.
 */
const MAX_ANCHOR_ROWS = 8;
/** Distance from the first row at which older rows are requested, in heights of the visible area. */
const PREFETCH_PAGES = 3;

/** Actions that a parent component can call. */
export interface ScrollerHandle {
  scrollToEnd(): void;
}

interface ScrollerProps {
  keys: readonly string[];
  renderRow: (key: string) => ComponentChildren;
  /** Content before the first row (`head`) and after the last row (`foot`). */
  head?: ComponentChildren;
  foot?: ComponentChildren;
  /** Called when the visible area is near the first row: older rows may exist. */
  onNearFirst: () => void;
  /** Called when the end enters the visible area or leaves it. */
  onEndChange: (isAtEnd: boolean) => void;
  /** The scroller sets this to its handle. */
  handle: { current: ScrollerHandle | undefined };
  label: string;
}

interface ScrollerActions extends ScrollerHandle {
  updateRange(): void;
  positionRows(): void;
  restorePosition(): void;
  detectScroll(): void;
  onScroll(): void;
}

/**
 * A list of any length whose rows differ in height. Only the rows near the visible area are rendered. The visible row
 * stays in place when content above it changes. At the end, the scroller follows new content.
 */
export function Scroller({
  keys,
  renderRow,
  head,
  foot,
  onNearFirst,
  onEndChange,
  handle,
  label,
}: ScrollerProps): VNode {
  const container = useRef<HTMLDivElement>(null);
  const rowArea = useRef<HTMLDivElement>(null);
  const renderedRows = useRef<HTMLDivElement>(null);
  const positions = useMemo(() => new RowPositions(() => ESTIMATED_ROW_PIXELS), []);
  const range = useSignal({ from: 0, to: 0 });
  /**
   * Rows from the upper edge of the visible area on. The first row that still exists keeps its position. With `atEnd`,
   * the end keeps its position instead.
   */
  const anchor = useRef<{ atEnd: boolean; rows: { key: string | undefined; offset: number }[] }>({
    atEnd: true,
    rows: [],
  });
  /** Scroll position and maximum scroll position at the last check, in pixels. */
  const lastScroll = useRef({ top: 0, end: 0 });
  const callbacks = useRef({ onNearFirst, onEndChange });
  callbacks.current = { onNearFirst, onEndChange };

  const actions: ScrollerActions = useMemo(() => {
    /** Top of the first row, below the head. */
    const getRowAreaTop = () => rowArea.current?.offsetTop ?? 0;
    const updateRange = () => {
      const element = container.current;
      if (!element) return;
      const top = element.scrollTop - getRowAreaTop();
      const from = positions.indexAt(Math.max(0, top - OVERSCAN_PIXELS));
      const to = Math.min(
        positions.count,
        positions.indexAt(Math.max(0, top + element.clientHeight + OVERSCAN_PIXELS)) + 1,
      );
      const currentRange = range.peek();
      if (currentRange.from !== from || currentRange.to !== to) range.value = { from, to };
      if (top < element.clientHeight * PREFETCH_PAGES) callbacks.current.onNearFirst();
    };
    const positionRows = () => {
      if (rowArea.current) rowArea.current.style.height = `${positions.totalHeight}px`;
      if (renderedRows.current)
        renderedRows.current.style.transform = `translateY(${positions.topAt(range.peek().from)}px)`;
    };
    const recordPosition = ({ scrollTop, scrollHeight, clientHeight }: HTMLElement) => {
      lastScroll.current = { top: scrollTop, end: scrollHeight - clientHeight };
    };
    /** Restores the position of the anchor. */
    const restorePosition = () => {
      const element = container.current;
      if (!element) return;
      const { atEnd, rows } = anchor.current;
      let targetTop = element.scrollTop;
      if (atEnd) targetTop = element.scrollHeight - element.clientHeight;
      else
        for (const { key, offset } of rows) {
          const index = key === undefined ? undefined : positions.indexOf(key);
          if (index === undefined) continue;
          targetTop = getRowAreaTop() + positions.topAt(index) + offset;
          break;
        }
      // Browsers round scroll positions: a smaller difference is no change.
      if (Math.abs(targetTop - element.scrollTop) > 0.5) element.scrollTop = targetTop;
      recordPosition(element);
    };
    const recordAnchor = () => {
      const element = container.current;
      if (!element) return;
      const { scrollTop, scrollHeight, clientHeight } = element;
      const previousScroll = lastScroll.current;
      // Content added since the last scroll does not move the user away from the end.
      const distanceToEnd = Math.min(previousScroll.end, scrollHeight - clientHeight) - scrollTop;
      // Scrolling up by more than a pixel leaves the end. Scrolling down reaches the end within the tolerance.
      const atEnd = distanceToEnd < (scrollTop < previousScroll.top - 1 ? 2 : END_TOLERANCE_PIXELS);
      recordPosition(element);
      const top = scrollTop - getRowAreaTop();
      const index = positions.indexAt(Math.max(0, top));
      if (atEnd !== anchor.current.atEnd) callbacks.current.onEndChange(atEnd);
      anchor.current = {
        atEnd,
        rows: Array.from({ length: Math.min(MAX_ANCHOR_ROWS, positions.count - index) }, (_, distance) => ({
          key: positions.keyAt(index + distance),
          offset: top - positions.topAt(index + distance),
        })),
      };
    };
    return {
      updateRange,
      positionRows,
      restorePosition,
      /** Called before rows change, because the event of a user scroll may not have arrived yet. */
      detectScroll() {
        // A position set by this component is not a user scroll. The scroll event of such a change arrives late,
        // possibly
        // after the content has changed.
        if (!container.current || Math.abs(container.current.scrollTop - lastScroll.current.top) < 1) return;
        recordScroll();
        recordAnchor();
      },
      onScroll() {
        actions.detectScroll();
        updateRange();
      },
      scrollToEnd() {
        anchor.current = { ...anchor.current, atEnd: true };
        callbacks.current.onEndChange(true);
        restorePosition();
        updateRange();
      },
    };
  }, []);
  handle.current = actions;
  if (!positions.isCurrent(keys)) {
    actions.detectScroll();
    positions.setKeys(keys);
  }

  // Rows are measured when they are rendered and when they grow: after layout, before painting.
  const rowObserver = useMemo(
    () =>
      new ResizeObserver((entries) => {
        let hasMoved = false;
        actions.detectScroll();
        for (const { target, borderBoxSize } of entries) {
          const key = target instanceof HTMLElement ? target.dataset.key : undefined;
          const [size] = borderBoxSize;
          // Elements without a key are the container, its head and its foot. Their heights are not stored.
          if (key === undefined) hasMoved = true;
          else if (size && target.isConnected && positions.setHeight(key, size.blockSize)) hasMoved = true;
        }
        if (!hasMoved) return;
        actions.positionRows();
        actions.restorePosition();
        actions.updateRange();
      }),
    [],
  );
  useLayoutEffect(() => {
    const element = container.current;
    if (element)
      for (const child of [element, ...element.children]) if (child !== rowArea.current) rowObserver.observe(child);
    return () => rowObserver.disconnect();
  }, []);

  const { from, to } = range.value;
  useLayoutEffect(() => {
    actions.positionRows();
    actions.restorePosition();
    actions.updateRange();
  }, [keys]);
  useLayoutEffect(() => actions.positionRows(), [from]);

  const rows: VNode[] = [];
  for (let index = from; index < Math.min(to, keys.length); index += 1) {
    const key = keys[index] ?? "";
    rows.push(
      <MeasuredRow key={key} rowKey={key} rowObserver={rowObserver}>
        {renderRow(key)}
      </MeasuredRow>,
    );
  }
  return (
    <div
      id="timeline"
      class="scroller"
      ref={container}
      onScroll={actions.onScroll}
      role="log"
      aria-label={label}
      aria-live="off"
      tabIndex={0}
    >
      <div class="scroller-head">{head}</div>
      <div class="scroller-body" ref={rowArea}>
        <div class="scroller-drawn" ref={renderedRows}>
          {rows}
        </div>
      </div>
      <div class="scroller-foot">{foot}</div>
    </div>
  );
}

/** A row whose height is observed while it is rendered. */
function MeasuredRow({
  rowKey,
  rowObserver,
  children,
}: {
  rowKey: string;
  rowObserver: ResizeObserver;
  children: ComponentChildren;
}) {
  const container = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = container.current;
    if (!element) return undefined;
    rowObserver.observe(element);
    return () => rowObserver.unobserve(element);
  }, []);
  return (
    <div class="scroller-row" data-key={rowKey} ref={container}>
      {children}
    </div>
  );
}
