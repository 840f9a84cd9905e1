import { useEffect, useLayoutEffect, useReducer, useRef } from "preact/hooks";

/** How many times as long as the last text took is waited before the next one is shown. */
const PAUSE = 4;

/**
 * What is shown of a text that grows: all of it as soon as there is time. However long each showing takes, most of the time is
 * left for what else the page has to do.
 */
export function usePaced(text: string, grows: boolean): string {
  const shown = useRef({ text: "", until: 0 });
  const [, again] = useReducer((count: number) => count + 1, 0);
  const began = performance.now();
  const wait = grows && text !== shown.current.text ? shown.current.until - began : 0;
  const fresh = wait <= 0 && text !== shown.current.text;
  if (fresh) shown.current = { text, until: 0 };
  // Behind the effects of what is within, which show it.
  useLayoutEffect(() => {
    if (!fresh) return;
    const now = performance.now();
    shown.current.until = now + PAUSE * (now - began);
  });
  useEffect(() => {
    if (wait <= 0) return;
    const timer = setTimeout(() => again(undefined), wait);
    return () => clearTimeout(timer);
  });
  return shown.current.text;
}
