import type { ComponentChildren } from "preact";

/** Where all writing is that goes from right to left. */
const WRITING = /([\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]+)/u;

/**
 * A text with each run of such letters as an element of its own. In a question (`.ask`) it keeps them to themselves: else they
 * change the order of what stands between them, and `cp "a" "b"` is drawn as `cp "b" "a"`.
 */
export function keptInOrder(text: string): ComponentChildren {
  const parts = text.split(WRITING);
  return parts.length === 1 ? text : parts.map((part, at) => (at % 2 === 1 ? <span class="rtl">{part}</span> : part));
}
