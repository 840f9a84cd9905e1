import { useEffect, useLayoutEffect, useReducer, useRef } from "preact/hooks";

/** Minimum pause between two renderings, as a multiple of the last rendering time. */
const PAUSE_PER_RENDER = 4;

/**
 * Limits how often a streamed text is rendered: returns the newest text only after a pause. The pause is a multiple of
 * the last rendering time, so that most of the time is free for the other content of the page.
 */
export function usePacedText(text: string, isStreaming: boolean): string {
  const lastRender = useRef({ text: "", pauseEndMs: 0 });
  const [, rerender] = useReducer((count: number) => count + 1, 0);
  const startMs = performance.now();
  const waitMs = isStreaming && text !== lastRender.current.text ? lastRender.current.pauseEndMs - startMs : 0;
  const isNewText = waitMs <= 0 && text !== lastRender.current.text;
  if (isNewText) lastRender.current = { text, pauseEndMs: 0 };
  // Runs after the layout effects of child components, which render the text.
  useLayoutEffect(() => {
    if (!isNewText) return;
    const endMs = performance.now();
    lastRender.current.pauseEndMs = endMs + PAUSE_PER_RENDER * (endMs - startMs);
  });
  useEffect(() => {
    if (waitMs <= 0) return;
    const timer = setTimeout(() => rerender(undefined), waitMs);
    return () => clearTimeout(timer);
  });
  return lastRender.current.text;
}
