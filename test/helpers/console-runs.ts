import type { Page } from "playwright-core";
import type { GantryServer } from "./server.js";
import type { Hooks } from "./temp.js";

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

/** Far beyond what anything takes; only there so that a page that hangs fails its test. */
const LIMIT_MS = 60_000;

/** Wait until `holds`. */
export async function settled(holds: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + LIMIT_MS;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`not within ${LIMIT_MS} ms: ${String(holds)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Wait until a question has the focus, and has been there long enough to be answered by a key. */
export async function untilAsked(page: Page): Promise<void> {
  await until(page, `document.activeElement.matches('.ask:not([aria-busy="true"])')`);
}

/** Wait until `condition` holds on the page. Asked by way of the debugger: the page's policy evaluates nothing. */
export async function until(page: Page, condition: string): Promise<void> {
  await settled(async () => Boolean(await page.evaluate(condition)));
}
