import { signal } from "@preact/signals";

/** Text of the live region, which screen readers read. */
export const announcement = signal("");

/** Announces a text to screen readers. Do not announce text that is also on the screen. */
export function announce(text: string): void {
  // The added space makes a repeated text a change: screen readers do not read an unchanged text again.
  announcement.value = announcement.peek() === text ? `${text}\u00a0` : text;
}
