import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { openBrowser, type BrowserName } from "./browser.js";
import type { Hooks } from "./temp-dir.js";
import { waitFor, withLimit } from "./wait.js";

/** A page in a real browser. */
export interface BrowserPage {
  /**
   * Runs the body of an async function with the page's `window` and `document`. Resolves with its return value,
   * transferred as JSON.
   */
  evaluate<T>(body: string): Promise<T>;
  /** Evaluates an expression repeatedly until `accepts` returns true for its value. */
  waitUntil<T>(expression: string, accepts: (value: T) => boolean): Promise<T>;
}

/** The page runs unchanged in a frame; the outer page evaluates the test's scripts with the frame's window. */
const OUTER_PAGE = `<!doctype html><title>around</title><iframe></iframe><script type="module">
const frame = document.querySelector("iframe");
frame.src = "/page" + location.search + location.hash;
await new Promise((resolve) => (frame.onload = resolve));
const run = (body) => Object.getPrototypeOf(async () => {}).constructor("window", "document", body)(frame.contentWindow, frame.contentDocument);
let lastAnswer;
for (;;) {
  const body = await (await fetch("/next", { method: "POST", body: JSON.stringify(lastAnswer ?? null) })).text();
  lastAnswer = await run(body).then((value) => ({ value }), (error) => ({ error: String(error) }));
}
</script>`;

/** Opens an HTML file with a query string in a browser, which is closed after the test. */
export async function openPage(hooks: Hooks, name: BrowserName, file: string, query: string): Promise<BrowserPage> {
  const pageHtml = await readFile(file);
  const bodies: string[] = [];
  const answerCallbacks: ((answer: { value?: unknown; error?: string }) => void)[] = [];
  let waitingResponse: ServerResponse | undefined;
  const sendNextBody = () => {
    const body = waitingResponse ? bodies.shift() : undefined;
    if (body === undefined) return;
    waitingResponse?.end(body);
    waitingResponse = undefined;
  };
  const server = createServer((request, httpResponse) => {
    const { pathname } = new URL(request.url ?? "", "http://x");
    if (request.method !== "POST") {
      const html = pathname === "/" ? OUTER_PAGE : pathname === "/page" ? pageHtml : undefined;
      return void httpResponse
        .writeHead(html ? 200 : 404, { "content-type": "text/html; charset=utf-8" })
        .end(html ?? "");
    }
    let text = "";
    request.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
    request.on("end", () => {
      const answer = JSON.parse(text) as { value?: unknown; error?: string } | null;
      if (answer) answerCallbacks.shift()?.(answer);
      waitingResponse = httpResponse;
      sendNextBody();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  hooks.after(async () => {
    const closeEvent = once(server, "close");
    server.close();
    server.closeAllConnections();
    await closeEvent;
  });
  const { port } = server.address() as AddressInfo;
  const { ended } = await openBrowser(hooks, name, `http://127.0.0.1:${port}/?${query}`, {
    commandPrefix: [],
    loopbackName: "page.example",
  });
  const evaluate = async <T>(body: string): Promise<T> => {
    const answer = new Promise<{ value?: unknown; error?: string }>((resolve) => answerCallbacks.push(resolve));
    bodies.push(body);
    sendNextBody();
    const { value, error } = await withLimit(`an answer of the page to ${body}`, Promise.race([answer, ended]));
    assert.equal(error, undefined);
    return value as T;
  };
  const waitUntil = async <T>(expression: string, accepts: (value: T) => boolean): Promise<T> => {
    let value: T | undefined;
    const evaluateExpression = async () => {
      value = await evaluate<T>(`return ${expression}`);
      return accepts(value) || undefined;
    };
    await waitFor(
      `${expression} with ${String(accepts)}`,
      evaluateExpression,
      () => `the value is ${JSON.stringify(value)}`,
      50,
    );
    return value as T;
  };
  return { evaluate, waitUntil };
}
