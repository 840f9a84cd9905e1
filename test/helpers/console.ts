import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Browser, BrowserContext, Page } from "playwright-core";
import type { FakeModelServer, FakeModelServerOptions } from "./fake-model-server.js";
import { findBrowser } from "./browser.js";
import { startModelServer, createServerConfig } from "./server-runs.js";
import { startServer, type GantryServer } from "./server.js";
import { makeTempDir, type Hooks, type TempDir } from "./temp-dir.js";
import { WAIT_LIMIT_MS, waitFor } from "./wait.js";

const REPOSITORY_ROOT = fileURLToPath(new URL("../../", import.meta.url));
const FLAGS = [
  ...["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run"],
  ...["--disable-background-networking", "--disable-component-update", "--disable-sync"],
];

/** Reason to skip browser tests; false if a browser is installed. */
export const NO_BROWSER: string | false =
  findBrowser("chromium") === undefined && "needs Chromium: apt-get install chromium";

/**
 * A browser that the tests of a file share; each test opens its own windows. After the tests, the browser is closed and
 * its temporary files are removed.
 */
export function shareBrowser(hooks: Hooks, flags: readonly string[] = []): () => Promise<Browser> {
  let browserPromise: Promise<Browser> | undefined;
  let folder: TempDir | undefined;
  const launch = async (): Promise<Browser> => {
    const executablePath = findBrowser("chromium");
    if (executablePath === undefined) throw new Error("there is no chromium");
    const { chromium } = await import("playwright-core");
    // Chromium does not always remove its temporary files.
    folder = await makeTempDir();
    const env = { ...process.env, TMPDIR: folder.path };
    return chromium.launch({ executablePath, args: [...FLAGS, ...flags], env, timeout: WAIT_LIMIT_MS });
  };
  hooks.after(async () => {
    try {
      await (await browserPromise)?.close();
    } finally {
      await folder?.remove();
    }
  });
  return () => (browserPromise ??= launch());
}

export interface ConsoleOptions {
  models?: FakeModelServerOptions;
  /** Model entries of the config. Default: `m1`. */
  modelEntries?: readonly Record<string, unknown>[];
  config?: Record<string, unknown>;
  files?: Record<string, string | Uint8Array>;
  home?: string;
}

/** A real server with the console and a fake model server. */
export interface ConsoleServer {
  readonly server: GantryServer;
  readonly models: FakeModelServer;
  /** URL of the console, without a session. */
  readonly url: string;
}

interface OpenWindowRecord {
  contexts: BrowserContext[];
  faults: string[][];
}

/** Windows of each test, by its hooks. */
const windowsByHooks = new WeakMap<Hooks, OpenWindowRecord>();

/** Starts a server with the console. */
export async function startConsole(
  hooks: Hooks,
  { models: modelOptions, modelEntries, config, ...serverOptions }: ConsoleOptions = {},
): Promise<ConsoleServer> {
  await ensureBuild();
  // Windows close before the server stops, so that the stop causes no faults in them.
  const openWindows: OpenWindowRecord = { contexts: [], faults: [] };
  windowsByHooks.set(hooks, openWindows);
  hooks.after(async () => {
    for (const context of openWindows.contexts) await context.close();
  });
  const models = await startModelServer(hooks, modelOptions);
  const server = await startServer(hooks, {
    config: createServerConfig(models, {
      ...(modelEntries && { providers: [createProvider(models, modelEntries)] }),
      ...config,
    }),
    ...serverOptions,
  });
  // Registered after the hook that stops the server: if a hook fails, the following ones do not run.
  hooks.after(() => {
    const faults = openWindows.faults.flat();
    if (faults.length > 0) throw new Error(`the console had faults:\n${faults.join("\n")}`);
  });
  return { server, models, url: `${server.url}/console` };
}

function createProvider(models: FakeModelServer, modelEntries: readonly Record<string, unknown>[]) {
  return { name: "lab", driver: "openai", base_url: models.baseUrl, api_key: "key-of-the-lab", models: modelEntries };
}

let buildPromise: Promise<unknown> | undefined;

/** `npm test` has just built the pages; a single test file builds them itself. */
function ensureBuild(): Promise<unknown> {
  if (process.env.GANTRY_TEST_DIST === "1") return Promise.resolve();
  return (buildPromise ??= promisify(execFile)(process.execPath, [`${REPOSITORY_ROOT}.ci/console.mjs`]));
}

/** A window with the console. `faults` must be empty at the end of the test. */
export interface ConsoleWindow {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Errors of the page, policy violations, requests to other hosts, dialogs. */
  readonly faults: string[];
  /** Requested methods and paths, in order. */
  readonly requests: string[];
}

export interface WindowOptions {
  width?: number;
  height?: number;
  isDark?: boolean;
  /** Default true. False: requests of the event stream are requests of the window, which the test can intercept. */
  hasSharedWorkers?: boolean;
  /** Errors that are part of the test, for example of lost connections. */
  expectedFaults?: RegExp;
}

/** Opens a window, which is closed after the test. The test fails if the window had faults. */
export async function openWindow(
  hooks: Hooks,
  browser: Browser,
  url: string,
  { width = 1280, height = 800, isDark = false, hasSharedWorkers = true, expectedFaults }: WindowOptions = {},
): Promise<ConsoleWindow> {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: isDark ? "dark" : "light",
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
  });
  context.setDefaultTimeout(WAIT_LIMIT_MS);
  const page = await context.newPage();
  const faults: string[] = [];
  const requests: string[] = [];
  const addFault = (text: string) => {
    if (!expectedFaults?.test(text)) faults.push(text);
  };
  const { host } = new URL(url);
  page.on("pageerror", (error) => addFault(`error: ${error.stack ?? error.message}`));
  page.on("console", (message) => {
    const { url: source } = message.location();
    if (isLateSteer(message.text(), source) || isStartingServer(message.text(), source)) return;
    if (message.type() === "error" || message.type() === "warning") addFault(`console: ${message.text()} (${source})`);
  });
  page.on("dialog", (dialog) => {
    addFault(`dialogue: ${dialog.message()}`);
    void dialog.dismiss().catch(() => undefined);
  });
  context.on("page", (openedPage) => {
    if (openedPage !== page) addFault(`window: ${openedPage.url()}`);
  });
  page.on("request", (request) => {
    const target = new URL(request.url());
    if (target.protocol === "data:" || target.protocol === "blob:") return;
    if (target.host === host) requests.push(`${request.method()} ${target.pathname}${target.search}`);
    else addFault(`request: ${request.url()}`);
  });
  // A string, because it runs in the page.
  await page.addInitScript(`document.addEventListener("securitypolicyviolation", (event) => {
    console.error("policy: " + event.violatedDirective + " " + event.blockedURI + " " + event.sample);
  })`);
  if (!hasSharedWorkers) await page.addInitScript("delete globalThis.SharedWorker");
  const openWindows = windowsByHooks.get(hooks);
  if (openWindows) {
    openWindows.contexts.push(context);
    openWindows.faults.push(faults);
  } else {
    // A console that several tests share.
    hooks.after(async () => {
      await context.close();
      if (faults.length > 0) throw new Error(`the console had faults:\n${faults.join("\n")}`);
    });
  }
  await page.goto(url);
  return { page, context, faults, requests };
}

/**
 * A steer whose run ended before it arrived. The browser reports the refusal; the window sends the text as the next
 * prompt. It can happen to each test that sends a prompt right after it has seen an answer.
 */
function isLateSteer(text: string, source: string): boolean {
  return text.includes("409 (Conflict)") && /\/api\/sessions\/[^/]+\/steer$/.test(source);
}

/** A server that has just started is not ready until it knows its models. The settings ask it again. */
function isStartingServer(text: string, source: string): boolean {
  return text.includes("503 (Service Unavailable)") && source.endsWith("/api/ready");
}

/** URL of a session in the console. */
export function sessionUrl({ url }: ConsoleServer, sessionId: string): string {
  return `${url}#/s/${sessionId}`;
}

/** Polls until `condition` returns true. The page's policy forbids `waitForFunction`, which evaluates in the page. */
export async function waitForPageState(page: Page, condition: () => Promise<boolean> | boolean): Promise<void> {
  await waitFor(
    String(condition),
    async () => (await condition()) || undefined,
    () => `the page is at ${page.url()}`,
    30,
  );
}
