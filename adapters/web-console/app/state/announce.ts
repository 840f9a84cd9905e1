import { signal } from "@preact/signals";

/** Text of the live region, which screen readers read. */
export const announcement = signal("");

/** Announces a text to screen readers. Do not use it for text that is also on the screen. */
export function announce(text: string): void {
  // Repeating the same text would be no change, and would not be read.
  announcement.value = announcement.peek() === text ? `${text}\u00a0` : text;
}
