import { GantryClient } from "gantry/client";
import { watchOtherSessionAsks } from "./other-session-asks.js";
import type { NewSessionOptions } from "./conversation.js";
import { TerminalStore, type TerminalStoreOptions } from "./store.js";
import { Keyboard } from "./keys.js";
import { Painter } from "./painter.js";
import { Screen } from "./screen.js";
import type { StateFiles } from "./state-files.js";
import { escapeLine } from "./text.js";
import { View } from "./view.js";

/** Address of a served agent, and headers for each request. */
interface Server {
  url: string;
  headers: Readonly<Record<string, string>>;
  /** Default: the platform's `fetch`. */
  fetch?: typeof globalThis.fetch | undefined;
}

export interface TerminalOptions {
  input: NodeJS.ReadStream;
  output: NodeJS.WriteStream;
  /** Starts or finds the server. Called after the first frame, because it may take a while. */
  serve: () => Promise<Server>;
  /** Id of the session to continue, or `last` for the session last used in this folder. Undefined: a new session. */
  session?: string | undefined;
  /** Settings of new sessions, also applied to a continued session. */
  newSessionOptions: NewSessionOptions;
  /** Lists only sessions of this folder. Undefined: all sessions. */
  projectDir?: string | undefined;
  /**
   * Lists the files that `@` suggests, from the session's folder. The folder is undefined before the session exists.
   */
  listFiles?: ((folder: string | undefined, signal: AbortSignal) => Promise<readonly string[]>) | undefined;
  /** Whether the server can read the files of this machine. Default: it cannot. */
  isServerLocal?: (() => Promise<boolean>) | undefined;
  /** Location for the first line of the screen: a folder or a server. */
  location: string;
  /**
   * Returns the folder for unsent texts, history and settings. Called after the first frame. Undefined: nothing is
   * stored.
   */
  stateFolder?: (() => Promise<string>) | undefined;
  hasColours: boolean;
  /** Returns the command of the editor for prompts; undefined if the user has set none. Default: none. */
  getEditor?: (() => string | undefined) | undefined;
  /** Closes the terminal when the signal aborts. */
  signal?: AbortSignal | undefined;
  /** Receives a function that shows log lines as notices, because other output would overwrite the screen. */
  onReady?: ((showLine: (line: string) => void) => void) | undefined;
}

/**
 * Shows the terminal until the user quits. Resolves with the id of the last session. Rejects if the server cannot
 * start. Restores the screen before it settles.
 */
export async function openTerminal(options: TerminalOptions): Promise<{ session: string | undefined }> {
  const { input, output, newSessionOptions, projectDir, signal } = options;
  const screen = new Screen(input, output);
  const { promise: exitRequest, resolve: resolveExit } = createDeferred();
  const requestExit = () => resolveExit();
  const { promise: server, resolve: resolveServer } = createDeferred<Server>();
  const { promise: stateFiles, resolve: resolveStateFiles } = createDeferred<StateFiles | undefined>();
  const { promise: crash, reject: reportCrash } = createDeferred<never>();
  crash.catch(() => undefined);
  const client = createDeferredClient(server);
  const closeController = new AbortController();
  const { signal: closeSignal } = closeController;
  const { store, waitForEditor } = createStore(options, screen, { client, stateFiles, requestExit, closeSignal });
  const detachScreen = attachScreen(store, screen, options);
  // The caller reports these errors on the restored screen.
  process.on("uncaughtException", reportCrash);
  process.on("unhandledRejection", reportCrash);
  input.once("end", requestExit);
  signal?.addEventListener("abort", requestExit, { once: true });
  try {
    options.onReady?.((line) => store.showNotice(escapeLine(line)));
    // Wait until the first frame is drawn.
    await new Promise((resolve) => setImmediate(resolve));
    resolveStateFiles(openStateFiles(options).catch(() => undefined));
    resolveServer(options.serve());
    watchOtherSessionAsks(store, closeController.signal);
    if (options.session !== undefined) {
      const opening = resumeSession(store, options.session, newSessionOptions, projectDir);
      store.opening = opening.catch(() => undefined).finally(() => (store.opening = undefined));
      store.attempt(() => opening);
    }
    if (signal?.aborted) requestExit();
    // If the server cannot start, the promise rejects and the caller reports why on the restored screen.
    await Promise.race([exitRequest, crash, server.then(() => exitRequest)]);
    return { session: store.conversation.id };
  } finally {
    closeController.abort();
    await waitForEditor();
    signal?.removeEventListener("abort", requestExit);
    input.off("end", requestExit);
    detachScreen();
    process.off("uncaughtException", reportCrash);
    process.off("unhandledRejection", reportCrash);
    resolveStateFiles(Promise.resolve(undefined));
    await store.close();
  }
}

/** Parts of the terminal that its store uses. */
interface StoreParts extends Pick<TerminalStoreOptions, "client" | "requestExit"> {
  readonly stateFiles: Promise<StateFiles | undefined>;
  /** Ends the external editor. */
  readonly closeSignal: AbortSignal;
}

/** Creates the store. `waitForEditor` resolves when no external editor has the terminal. */
function createStore(
  options: TerminalOptions,
  screen: Screen,
  { client, stateFiles, requestExit, closeSignal }: StoreParts,
): { store: TerminalStore; waitForEditor: () => Promise<void> } {
  const { newSessionOptions, listFiles, projectDir, location, output } = options;
  let editorEnd = Promise.resolve();
  const store = new TerminalStore({
    ...{ client, newSessionOptions, listFiles, projectDir, location, stateFiles, requestExit },
    loadCommands: () => import("./commands.js"),
    suspend: () => screen.suspend(),
    editText: async (text) => {
      const { editExternally } = await import("./external-editor.js");
      const editing = editExternally(text, screen, options.getEditor?.(), closeSignal);
      editorEnd = editing.then(
        () => undefined,
        () => undefined,
      );
      return editing;
    },
    findImages: async (text) =>
      (await options.isServerLocal?.()) ? (await import("./image-paths.js")).findImages(text) : [],
    ringBell: () => output.write("\u0007"),
    setWheel: (isEnabled) => (screen.hasWheel = isEnabled),
  });
  return { store, waitForEditor: () => editorEnd };
}

/** A promise with the functions that settle it. `Promise.withResolvers()` does not exist in Node 20. */
function createDeferred<T = void>(): {
  promise: Promise<T>;
  resolve: (value: T | PromiseLike<T>) => void;
  reject: (error: unknown) => void;
} {
  let resolve!: (value: T | PromiseLike<T>) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<T>((onResolve, onReject) => ([resolve, reject] = [onResolve, onReject]));
  return { promise, resolve, reject };
}

/**
 * Takes over the screen, draws the store on it, and gives the store the keys that the user presses. Returns a function
 * that ends this and restores the screen.
 */
function attachScreen(
  store: TerminalStore,
  screen: Screen,
  { input, output, hasColours }: TerminalOptions,
): () => void {
  const painter = new Painter(output);
  const keyboard = new Keyboard((keyInput) => store.press(keyInput));
  const feedInput = (text: string | Buffer) => keyboard.feed(String(text));
  screen.takeOver();
  const view = new View(store, painter, hasColours);
  const redraw = () => {
    painter.invalidate();
    screen.clear();
    view.draw();
  };
  screen.onRedraw = redraw;
  screen.onLent = (isLent) => (painter.isPaused = isLent);
  output.on("resize", redraw);
  input.on("data", feedInput);
  return () => {
    input.off("data", feedInput);
    output.off("resize", redraw);
    keyboard.close();
    view.close();
    screen.release();
  };
}

/** Opens the files of the terminal. Rejects if the folder cannot be used. */
async function openStateFiles({ stateFolder, location }: TerminalOptions): Promise<StateFiles | undefined> {
  if (!stateFolder) return undefined;
  const [folder, module] = await Promise.all([stateFolder(), import("./state-files.js")]);
  const files = new module.StateFiles(folder, location);
  await files.prepare();
  return files;
}

/** Continues a session and applies the given settings. */
async function resumeSession(
  store: TerminalStore,
  session: string,
  settings: NewSessionOptions,
  projectDir: string | undefined,
): Promise<void> {
  if (session !== "last") await store.open(session);
  else await openLastSession(store, projectDir);
  if (store.conversation.id !== undefined && Object.keys(settings).length > 0)
    await store.conversation.change(settings);
}

async function openLastSession(store: TerminalStore, projectDir: string | undefined): Promise<void> {
  const { sessions } = await store.options.client.sessions.list({
    size: 1,
    ...(projectDir !== undefined && { projectDir }),
  });
  const [lastSession] = sessions;
  if (lastSession) await store.open(lastSession.id);
  else store.showNotice("No session in this folder yet; starting a new one.");
}

/** Creates a client for a server that is still starting. Each request waits for the server's address. */
function createDeferredClient(server: Promise<Server>): GantryClient {
  return new GantryClient({
    // Placeholder: `fetch` replaces the address.
    url: "http://gantry.invalid",
    fetch: async (input, init) => {
      const { url, headers, fetch = globalThis.fetch } = await waitUntilAborted(server, init?.signal ?? undefined);
      const requestUrl = new URL(input instanceof Request ? input.url : input);
      return fetch(new URL(`${requestUrl.pathname}${requestUrl.search}`, url), {
        ...init,
        headers: { ...Object.fromEntries(new Headers(init?.headers)), ...headers },
      });
    },
  });
}

/** Settles like the promise, or rejects with the signal's reason when the signal aborts. */
function waitUntilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason as Error);
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
