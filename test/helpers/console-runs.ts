import type { Page } from "playwright-core";
import type { GantryServer } from "./server.js";
import type { Hooks } from "./temp.js";
import { waitFor } from "./wait.js";

/** JSON of an API response. Throws if the request fails. */
export async function fetchJson<T>(server: Pick<GantryServer, "fetch">, path: string, init?: RequestInit): Promise<T> {
  const response = await server.fetch(path, init);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

/**
 * Console message of a window that sends an instruction to a run that has just ended. The server refuses it, and the
 * window sends it as the next prompt.
 */
export const LATE = /409 \(Conflict\)/;

/** Console message of a window whose server stops before it, or whose request the test blocks. */
export const SERVER_GONE =
  /ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|ERR_FAILED/;

/** Hooks of a whole file that tests may also use. They run in reverse order. */
export function fileHooks(after: (run: () => Promise<void>) => void): Hooks {
  const ends: (() => Promise<void> | void)[] = [];
  after(async () => {
    for (const end of ends.reverse()) await end();
  });
  return { after: (run) => void ends.push(run) };
}

/** Waits until `holds` resolves with true. */
export async function settled(holds: () => Promise<boolean>): Promise<void> {
  await waitFor(String(holds), async () => (await holds()) || undefined, undefined, 20);
}

/** Waits until a question has the focus and accepts a key as its answer. */
export async function untilAsked(page: Page): Promise<void> {
  await until(page, `document.activeElement.matches('.ask:not([aria-busy="true"])')`);
}

/**
 * Waits until `condition` is true on the page. Evaluated through the debugger, because the page's policy forbids
 * evaluation.
 */
export async function until(page: Page, condition: string): Promise<void> {
  const look = async () => Boolean(await page.evaluate(condition)) || undefined;
  await waitFor(`${condition} on the page`, look, undefined, 20);
}
