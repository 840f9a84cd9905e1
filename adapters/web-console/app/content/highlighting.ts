import { hasScrolledWithin } from "../state/scroll-time.js";
import { showHighlighted } from "./markdown.js";

/** Maximum characters of code that is coloured. */
const MAX_COLOURED_CHARACTERS = 40_000;

/** Time without scrolling before code is coloured, in ms. */
const SCROLL_PAUSE_MS = 120;

let highlighter: Promise<typeof import("./highlight.js")> | undefined;

/** Colours the code in an element once the highlighter is loaded. Returns a function that cancels the colouring. */
export function highlightIn(element: Element): () => void {
  let isCancelled = false;
  const blocks = [...element.querySelectorAll("code[class*='language-']")].filter(
    (code) => !code.classList.contains("language-none") && code.textContent.length <= MAX_COLOURED_CHARACTERS,
  );
  if (blocks.length === 0) return () => undefined;
  // Wait while the user scrolls: colouring would delay the scrolling.
  const colourBlocks = () => {
    if (hasScrolledWithin(SCROLL_PAUSE_MS)) {
      timer = setTimeout(colourBlocks, SCROLL_PAUSE_MS);
      return;
    }
    // The highlighter is loaded at the first use, because many pages show no code.
    highlighter ??= import("./highlight.js");
    highlighter.then(
      ({ highlightCode }) => {
        if (isCancelled) return;
        for (const code of blocks) {
          const language = /language-(\S+)/.exec(code.className)?.[1] ?? "";
          const html = highlightCode(code.textContent, language);
          if (html !== undefined) showHighlighted(code, html);
        }
      },
      () => (highlighter = undefined),
    );
  };
  let timer = setTimeout(colourBlocks, SCROLL_PAUSE_MS);
  return () => {
    isCancelled = true;
    clearTimeout(timer);
  };
}
