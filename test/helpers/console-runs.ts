import type { Page } from "playwright-core";
import type { GantryServer } from "./server.js";
import type { Hooks } from "./temp.js";
import { waitFor } from "./wait.js";

/** The answer of a path of the API, which must be there. */
export async function fetchJson<T>(server: Pick<GantryServer, "fetch">, path: string, init?: RequestInit): Promise<T> {
  const response = await server.fetch(path, init);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

/**
 * What a window prints when it tells something to a run that has just ended: it is refused, and goes out as the next prompt, as
 * it should.
 */
export const LATE = /409 \(Conflict\)/;

/** What a window prints when its server ends before it, or the test refuses a request. */
export const GONE =
  /ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|ERR_FAILED/;

/** Hooks of a whole file that may be used while its tests run; what was made last ends first. */
export function fileHooks(after: (run: () => Promise<void>) => void): Hooks {
  const ends: (() => Promise<void> | void)[] = [];
  after(async () => {
    for (const end of ends.reverse()) await end();
  });
  return { after: (run) => void ends.push(run) };
}

/** Wait until `holds`. */
export async function settled(holds: () => Promise<boolean>): Promise<void> {
  await waitFor(String(holds), async () => (await holds()) || undefined, undefined, 20);
}

/** Wait until a question has the focus, and has been there long enough to be answered by a key. */
export async function untilAsked(page: Page): Promise<void> {
  await until(page, `document.activeElement.matches('.ask:not([aria-busy="true"])')`);
}

/** Wait until `condition` holds on the page. Asked by way of the debugger: the page's policy evaluates nothing. */
export async function until(page: Page, condition: string): Promise<void> {
  const look = async () => Boolean(await page.evaluate(condition)) || undefined;
  await waitFor(`${condition} on the page`, look, undefined, 20);
}
