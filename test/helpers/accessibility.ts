import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";

const AXE_FILE = fileURLToPath(new URL("../../node_modules/axe-core/axe.min.js", import.meta.url));

/** Accessibility findings of axe on a page, a line each. */
export async function findAccessibilityFaults(page: Page): Promise<string[]> {
  // Injected through the debugger, because the page's policy blocks foreign scripts.
  await page.evaluate(await readFile(AXE_FILE, "utf8"));
  const violations = await page.evaluate<Violation[]>("axe.run().then(({ violations }) => violations)");
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
}

interface Violation {
  id: string;
  nodes: { html: string }[];
}

/** Elements that extend beyond the window of a page that scrolls sideways. */
export async function findOverflowingElements(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(`(() => {
    const { clientWidth, scrollWidth } = document.documentElement;
    if (scrollWidth <= clientWidth && document.body.scrollWidth <= clientWidth) return [];
    return [...document.querySelectorAll("body *")]
      // Positions may be off by one pixel, because browsers round the width.
      .filter((element) => element.getBoundingClientRect().right > clientWidth + 1)
      .map(({ tagName, className }) => tagName + " " + className);
  })()`);
}
