import type { ComponentChildren } from "preact";

/** Code point ranges that contain all right-to-left scripts. */
const RIGHT_TO_LEFT = /([\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]+)/u;

/**
 * Puts each run of right-to-left letters into an element of its own, which questions (`.ask`) isolate. Without
 * isolation they change the order of the text between them: `cp "a" "b"` is drawn as `cp "b" "a"`.
 */
export function isolateRightToLeft(text: string): ComponentChildren {
  const parts = text.split(RIGHT_TO_LEFT);
  return parts.length === 1 ? text : parts.map((part, at) => (at % 2 === 1 ? <span class="rtl">{part}</span> : part));
}
