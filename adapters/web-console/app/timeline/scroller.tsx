import type { ComponentChildren, VNode } from "preact";
import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { RowPositions } from "./row-positions.js";
import { ScrollControl } from "./scroll-control.js";

/** Estimated height of a row that was not rendered yet, in pixels. */
const ESTIMATED_ROW_PIXELS = 96;

/** Functions that a parent component can call. */
export interface ScrollerHandle {
  scrollToEnd(): void;
  /** Moves the row to the top, now or as soon as it is in `keys`. */
  scrollToRow(key: string): void;
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
  /** The row that is marked and gets the focus. */
  markedKey: string | undefined;
  label: string;
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
  markedKey,
  label,
}: ScrollerProps): VNode {
  const container = useRef<HTMLDivElement>(null);
  const rowArea = useRef<HTMLDivElement>(null);
  const renderedRows = useRef<HTMLDivElement>(null);
  const positions = useMemo(() => new RowPositions(() => ESTIMATED_ROW_PIXELS), []);
  const range = useSignal({ from: 0, to: 0 });
  const callbacks = { onNearFirst, onEndChange };
  const control = useMemo(
    () => new ScrollControl({ container, rowArea, renderedRows }, positions, range, callbacks),
    [],
  );
  control.callbacks = callbacks;
  handle.current = control;
  if (!positions.isCurrent(keys)) {
    control.detectScroll();
    positions.setKeys(keys);
  }

  // Rows are measured when they are rendered and when they grow: after layout, before painting.
  const rowObserver = useMemo(
    () =>
      new ResizeObserver((entries) => {
        let hasMoved = false;
        control.detectScroll();
        for (const { target, borderBoxSize } of entries) {
          const key = target instanceof HTMLElement ? target.dataset.key : undefined;
          const [size] = borderBoxSize;
          // Elements without a key are the container, its head and its foot. Their heights are not stored.
          if (key === undefined) hasMoved = true;
          else if (size && target.isConnected && positions.setHeight(key, size.blockSize)) hasMoved = true;
        }
        if (!hasMoved) return;
        control.positionRows();
        control.restorePosition();
        control.updateRange();
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
    control.positionRows();
    control.restorePosition();
    control.updateRange();
  }, [keys]);
  useLayoutEffect(() => control.positionRows(), [from]);

  const rows: VNode[] = [];
  for (let index = from; index < Math.min(to, keys.length); index += 1) {
    const key = keys[index] ?? "";
    rows.push(
      <MeasuredRow key={key} rowKey={key} rowObserver={rowObserver} isMarked={key === markedKey}>
        {renderRow(key)}
      </MeasuredRow>,
    );
  }
  return (
    <div
      id="timeline"
      class="scroller"
      ref={container}
      onScroll={control.onScroll}
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
  isMarked,
  children,
}: {
  rowKey: string;
  rowObserver: ResizeObserver;
  isMarked: boolean;
  children: ComponentChildren;
}) {
  const container = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = container.current;
    if (!element) return undefined;
    rowObserver.observe(element);
    return () => rowObserver.unobserve(element);
  }, []);
  useLayoutEffect(() => {
    if (isMarked) container.current?.focus({ preventScroll: true });
  }, [isMarked]);
  return (
    <div
      class={`scroller-row ${isMarked ? "marked" : ""}`}
      data-key={rowKey}
      ref={container}
      tabIndex={isMarked ? -1 : undefined}
    >
      {children}
    </div>
  );
}
