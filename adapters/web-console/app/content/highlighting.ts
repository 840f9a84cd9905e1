import { scrolledWithin } from "../state/scrolled.js";
import { showHighlighted } from "./markdown.js";

/** Longer code is shown in one colour. */
const LONGEST = 40_000;

/** Milliseconds after which somebody stays with it. */
const PASSED = 120;

let loaded: Promise<typeof import("./highlight.js")> | undefined;

/** Colour the code in an element, as soon as the highlighter is there. The function that is returned calls it off. */
export function highlightIn(element: Element): () => void {
  let off = false;
  const blocks = [...element.querySelectorAll("code[class*='language-']")].filter(
    (code) => !code.classList.contains("language-none") && code.textContent.length <= LONGEST,
  );
  if (blocks.length === 0) return () => undefined;
  // Whoever scrolls past sees no colours, and waits for none.
  const colour = () => {
    if (scrolledWithin(PASSED)) {
      soon = setTimeout(colour, PASSED);
      return;
    }
    // Nobody who reads no code loads it.
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
  let soon = setTimeout(colour, PASSED);
  return () => {
    off = true;
    clearTimeout(soon);
  };
}
