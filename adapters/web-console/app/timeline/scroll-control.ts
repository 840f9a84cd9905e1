import type { Signal } from "@preact/signals";
import { recordScroll } from "../state/scroll-time.js";
import type { RowPositions } from "./row-positions.js";

/** Height of the rendered areas above and below the visible area, in pixels. */
const OVERSCAN_PIXELS = 700;
/** Distance from the end that still counts as the end, in pixels. */
const END_TOLERANCE_PIXELS = 48;
/**
 * Maximum rows whose position is recorded. One row is not enough, because it may disappear: a tool result without its
 * call moves into the row of the call when that row is loaded.
 */
const MAX_ANCHOR_ROWS = 8;
/** Distance from the first row at which older rows are requested, in heights of the visible area. */
const PREFETCH_PAGES = 3;
/** Space above a row to which the list jumps, in pixels. */
const JUMP_MARGIN_PIXELS = 16;

/** The rendered elements; null until they are rendered. */
interface ScrollElements {
  readonly container: { readonly current: HTMLElement | null };
  readonly rowArea: { readonly current: HTMLElement | null };
  readonly renderedRows: { readonly current: HTMLElement | null };
}

interface ScrollCallbacks {
  /** Called when the visible area is near the first row: older rows may exist. */
  onNearFirst(): void;
  /** Called when the end enters the visible area or leaves it. */
  onEndChange(isAtEnd: boolean): void;
}

/** Keeps the visible row in place when content above it changes, and the end in view while the user is at the end. */
export class ScrollControl {
  /** Set at each rendering. */
  callbacks: ScrollCallbacks;
  readonly #elements: ScrollElements;
  readonly #positions: RowPositions;
  readonly #range: Signal<{ from: number; to: number }>;
  /**
   * Rows from the upper edge of the visible area on. The first row that still exists keeps its position. With `atEnd`,
   * the end keeps its position instead.
   */
  #anchor: { atEnd: boolean; rows: { key: string | undefined; offset: number }[] } = { atEnd: true, rows: [] };
  /** Scroll position and maximum scroll position at the last check, in pixels. */
  #lastScroll = { top: 0, end: 0 };

  /** `range`: the rendered rows, which the control sets. */
  constructor(
    elements: ScrollElements,
    positions: RowPositions,
    range: Signal<{ from: number; to: number }>,
    callbacks: ScrollCallbacks,
  ) {
    this.#elements = elements;
    this.#positions = positions;
    this.#range = range;
    this.callbacks = callbacks;
  }

  /** Top of the first row, below the head. */
  get #rowAreaTop(): number {
    return this.#elements.rowArea.current?.offsetTop ?? 0;
  }

  updateRange(): void {
    const element = this.#elements.container.current;
    if (!element) return;
    const positions = this.#positions;
    const top = element.scrollTop - this.#rowAreaTop;
    const from = positions.indexAt(Math.max(0, top - OVERSCAN_PIXELS));
    const to = Math.min(
      positions.count,
      positions.indexAt(Math.max(0, top + element.clientHeight + OVERSCAN_PIXELS)) + 1,
    );
    const currentRange = this.#range.peek();
    if (currentRange.from !== from || currentRange.to !== to) this.#range.value = { from, to };
    if (top < element.clientHeight * PREFETCH_PAGES) this.callbacks.onNearFirst();
  }

  positionRows(): void {
    const rowArea = this.#elements.rowArea.current;
    const renderedRows = this.#elements.renderedRows.current;
    if (rowArea) rowArea.style.height = `${this.#positions.totalHeight}px`;
    if (renderedRows) renderedRows.style.transform = `translateY(${this.#positions.topAt(this.#range.peek().from)}px)`;
  }

  /** Restores the position of the anchor. */
  restorePosition(): void {
    const element = this.#elements.container.current;
    if (!element) return;
    const { atEnd, rows } = this.#anchor;
    let targetTop = element.scrollTop;
    if (atEnd) targetTop = element.scrollHeight - element.clientHeight;
    else
      for (const { key, offset } of rows) {
        const index = key === undefined ? undefined : this.#positions.indexOf(key);
        if (index === undefined) continue;
        targetTop = this.#rowAreaTop + this.#positions.topAt(index) + offset;
        break;
      }
    // Browsers round scroll positions: a smaller difference is no change.
    if (Math.abs(targetTop - element.scrollTop) > 0.5) element.scrollTop = targetTop;
    this.#recordPosition(element);
  }

  /** Called before rows change, because the event of a user scroll may not have arrived yet. */
  detectScroll(): void {
    const element = this.#elements.container.current;
    // A position set by this control is not a user scroll. The scroll event of such a change arrives late, possibly
    // after the content has changed.
    if (!element || Math.abs(element.scrollTop - this.#lastScroll.top) < 1) return;
    recordScroll();
    this.#recordAnchor(element);
  }

  readonly onScroll = (): void => {
    this.detectScroll();
    this.updateRange();
  };

  scrollToEnd(): void {
    this.#anchor = { ...this.#anchor, atEnd: true };
    this.callbacks.onEndChange(true);
    this.restorePosition();
    this.updateRange();
  }

  /** Moves a row to the top. The row may not be listed yet. */
  scrollToRow(key: string): void {
    const element = this.#elements.container.current;
    if (!element || element.scrollHeight <= element.clientHeight) return;
    this.#anchor = { atEnd: false, rows: [{ key, offset: -JUMP_MARGIN_PIXELS }] };
    this.callbacks.onEndChange(false);
    this.restorePosition();
    this.updateRange();
  }

  #recordPosition({ scrollTop, scrollHeight, clientHeight }: HTMLElement): void {
    this.#lastScroll = { top: scrollTop, end: scrollHeight - clientHeight };
  }

  #recordAnchor(element: HTMLElement): void {
    const { scrollTop, scrollHeight, clientHeight } = element;
    const positions = this.#positions;
    const previousScroll = this.#lastScroll;
    // Content added since the last scroll does not move the user away from the end.
    const distanceToEnd = Math.min(previousScroll.end, scrollHeight - clientHeight) - scrollTop;
    // Scrolling up by more than a pixel leaves the end. Scrolling down reaches the end within the tolerance.
    const atEnd = distanceToEnd < (scrollTop < previousScroll.top - 1 ? 2 : END_TOLERANCE_PIXELS);
    this.#recordPosition(element);
    const top = scrollTop - this.#rowAreaTop;
    const index = positions.indexAt(Math.max(0, top));
    if (atEnd !== this.#anchor.atEnd) this.callbacks.onEndChange(atEnd);
    this.#anchor = {
      atEnd,
      rows: Array.from({ length: Math.min(MAX_ANCHOR_ROWS, positions.count - index) }, (_, distance) => ({
        key: positions.keyAt(index + distance),
        offset: top - positions.topAt(index + distance),
      })),
    };
  }
}
