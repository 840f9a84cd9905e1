import type { Page } from "playwright-core";
import type { GantryServer } from "./server.js";
import type { Hooks } from "./temp-dir.js";
import { waitFor } from "./wait.js";

/** JSON of an API response. Throws if the request fails. */
export async function fetchJson<T>(server: Pick<GantryServer, "fetch">, path: string, init?: RequestInit): Promise<T> {
  const response = await server.fetch(path, init);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

/** Console message of a window whose server stops first, or whose request the test blocks. */
export const STOPPED_SERVER_ERROR =
  /ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|ERR_FAILED/;

/** Hooks of a whole file that tests may also use. The hooks run in reverse order of registration. */
export function createFileHooks(after: (run: () => Promise<void>) => void): Hooks {
  const cleanups: (() => Promise<void> | void)[] = [];
  after(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  });
  return { after: (run) => void cleanups.push(run) };
}

/** Waits until `condition` resolves with true. */
export async function waitForCondition(condition: () => Promise<boolean>): Promise<void> {
  await waitFor(String(condition), async () => (await condition()) || undefined, undefined, 20);
}

/** Waits until a question has the focus and accepts a key as its answer. */
export async function waitForQuestion(page: Page): Promise<void> {
  await waitForPage(page, `document.activeElement.matches('.ask:not([aria-busy="true"])')`);
}

/**
 * Waits until `condition` is true on the page. Evaluated through the debugger, because the page's policy forbids
 * evaluation.
 */
export async function waitForPage(page: Page, condition: string): Promise<void> {
  const evaluateCondition = async () => Boolean(await page.evaluate(condition)) || undefined;
  await waitFor(`${condition} on the page`, evaluateCondition, undefined, 20);
}
