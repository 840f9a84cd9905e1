import type { ComponentChildren } from "preact";

/** Matches letters in the code point ranges of all right-to-left scripts. */
const RIGHT_TO_LEFT_PATTERN = /([\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]+)/u;

/**
 * Puts each sequence of right-to-left letters into a separate element, which the style `.ask .rtl` of questions
 * isolates. Without isolation, the letters change the order of the text between them: `cp "a" "b"` is drawn as `cp "b"
 * "a"`.
 */
export function isolateRightToLeft(text: string): ComponentChildren {
  const parts = text.split(RIGHT_TO_LEFT_PATTERN);
  return parts.length === 1
    ? text
    : parts.map((part, index) => (index % 2 === 1 ? <span class="rtl">{part}</span> : part));
}
