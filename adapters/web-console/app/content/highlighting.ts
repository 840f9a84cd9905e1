import { scrolledWithin } from "../state/scrolled.js";
import { showHighlighted } from "./markdown.js";

/** Maximum characters of code that is coloured. */
const MAX_COLOURED_CHARACTERS = 40_000;

/** Time without scrolling before code is coloured, in ms. */
const SCROLL_PAUSE_MS = 120;

let loaded: Promise<typeof import("./highlight.js")> | undefined;

/** Colours the code in an element once the highlighter is loaded. Returns a function that cancels it. */
export function highlightIn(element: Element): () => void {
  let off = false;
  const blocks = [...element.querySelectorAll("code[class*='language-']")].filter(
    (code) => !code.classList.contains("language-none") && code.textContent.length <= MAX_COLOURED_CHARACTERS,
  );
  if (blocks.length === 0) return () => undefined;
  // No colouring while the user scrolls, so that scrolling does not wait for it.
  const colour = () => {
    if (scrolledWithin(SCROLL_PAUSE_MS)) {
      soon = setTimeout(colour, SCROLL_PAUSE_MS);
      return;
    }
    // Loaded at the first use, because many pages show no code.
    loaded ??= import("./highlight.js");
    loaded.then(
      ({ highlighted }) => {
        if (off) return;
        for (const code of blocks) {
          const language = /language-(\S+)/.exec(code.className)?.[1] ?? "";
          const html = highlighted(code.textContent, language);
          if (html !== undefined) showHighlighted(code, html);
        }
      },
      () => (loaded = undefined),
    );
  };
  let soon = setTimeout(colour, SCROLL_PAUSE_MS);
  return () => {
    off = true;
    clearTimeout(soon);
  };
}
