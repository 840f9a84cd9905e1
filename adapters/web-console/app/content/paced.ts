import { useEffect, useLayoutEffect, useReducer, useRef } from "preact/hooks";

/** Pause before the next text is shown, as a multiple of the last rendering time. */
const PAUSE_PER_RENDER = 4;

/**
 * Limits how often a growing text is rendered. It returns the newest text whenever a pause is over. Most of the time
 * stays free for the rest of the page, however long a rendering takes.
 */
export function usePaced(text: string, grows: boolean): string {
  const shown = useRef({ text: "", until: 0 });
  const [, again] = useReducer((count: number) => count + 1, 0);
  const began = performance.now();
  const wait = grows && text !== shown.current.text ? shown.current.until - began : 0;
  const fresh = wait <= 0 && text !== shown.current.text;
  if (fresh) shown.current = { text, until: 0 };
  // Runs after the layout effects of child components, which render the text.
  useLayoutEffect(() => {
    if (!fresh) return;
    const now = performance.now();
    shown.current.until = now + PAUSE_PER_RENDER * (now - began);
  });
  useEffect(() => {
    if (wait <= 0) return;
    const timer = setTimeout(() => again(undefined), wait);
    return () => clearTimeout(timer);
  });
  return shown.current.text;
}
