import { signal } from "@preact/signals";

/** What a screen reader is told next. */
export const announced = signal("");

/** Have a screen reader say something. What is on the screen anyway is not for this. */
export function announce(text: string): void {
  // The same words again would be no change.
  announced.value = announced.peek() === text ? `${text}\u00a0` : text;
}
