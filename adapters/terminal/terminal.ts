import { GantryClient } from "gantry/client";
import { COMMANDS, runCommand } from "./commands.js";
import { followAsksElsewhere } from "./other-session-asks.js";
import type { Wishes } from "./conversation.js";
import { Desk } from "./store.js";
import { Keyboard } from "./keys.js";
import { Painter } from "./painter.js";
import { Screen } from "./screen.js";
import { writtenLine } from "./text.js";
import { View } from "./view.js";

/** Where an agent is served. */
interface Server {
  url: string;
  headers: Readonly<Record<string, string>>;
  /** In place of the platform's. */
  fetch?: typeof globalThis.fetch | undefined;
}

export interface TerminalOptions {
  input: NodeJS.ReadStream;
  output: NodeJS.WriteStream;
  /** Where the agent is served, and what its requests carry. Called when the terminal is there already: it may take a while. */
  serve: () => Promise<Server>;
  /** The session to go on with, `last` for the one that was used last in this folder; without it a new one begins. */
  session?: string | undefined;
  /** Of a session that begins here. */
  wishes: Wishes;
  /** Sessions of this folder alone are listed. */
  projectDir?: string | undefined;
  /** Files that `@` proposes, of the session's folder; undefined before there is a session. */
  files?: ((folder: string | undefined, signal: AbortSignal) => Promise<readonly string[]>) | undefined;
  /** What the place is called: a folder, or a server. */
  place: string;
  colours: boolean;
  /** Ends it. */
  signal?: AbortSignal | undefined;
  /** Given what tells lines to the person, for a log that must not draw over the screen. */
  onReady?: ((tell: (line: string) => void) => void) | undefined;
}

/** Show the terminal until the person leaves. Resolves with the session that was shown last; the screen is given back. */
export async function openTerminal(options: TerminalOptions): Promise<{ session: string | undefined }> {
  const { input, output, wishes, projectDir, files, place, colours, signal } = options;
  const screen = new Screen(input, output);
  const painter = new Painter(output);
  let leave: () => void = () => undefined;
  const left = new Promise<void>((resolve) => (leave = resolve));
  let known: (server: Promise<Server>) => void = () => undefined;
  const server = new Promise<Server>((resolve) => (known = resolve));
  const client = lateClient(server);
  let failed: (error: unknown) => void = () => undefined;
  const crash = new Promise<never>((_, reject) => (failed = reject));
  crash.catch(() => undefined);
  const desk = new Desk({
    client,
    wishes,
    files,
    projectDir,
    place,
    commands: COMMANDS,
    run: runCommand,
    leave: () => leave(),
    suspend: () => screen.suspend(),
    wheel: (on) => (screen.wheel = on),
  });
  const ended = new AbortController();
  const keyboard = new Keyboard((pressed) => desk.press(pressed));
  const read = (text: string | Buffer) => keyboard.feed(String(text));
  screen.take();
  const view = new View(desk, painter, colours);
  const redraw = () => {
    painter.forget();
    screen.clear();
    view.draw();
  };
  screen.onLost = redraw;
  output.on("resize", redraw);
  // Told on a screen that is as it was, by whoever called.
  process.on("uncaughtException", failed);
  process.on("unhandledRejection", failed);
  input.on("data", read);
  input.once("end", leave);
  signal?.addEventListener("abort", leave, { once: true });
  try {
    options.onReady?.((line) => desk.notice(writtenLine(line)));
    // Behind the first picture.
    await new Promise((resolve) => setImmediate(resolve));
    known(options.serve());
    followAsksElsewhere(desk, ended.signal);
    if (options.session !== undefined) desk.attempt(() => resume(desk, options.session ?? "", wishes, projectDir));
    if (signal?.aborted) leave();
    // Who cannot be served is told why, on a screen that is as it was.
    await Promise.race([left, crash, server.then(() => left)]);
    return { session: desk.conversation.id };
  } finally {
    ended.abort();
    signal?.removeEventListener("abort", leave);
    input.off("data", read);
    input.off("end", leave);
    output.off("resize", redraw);
    keyboard.close();
    view.close();
    screen.giveBack();
    process.off("uncaughtException", failed);
    process.off("unhandledRejection", failed);
    await desk.close();
  }
}

/** Go on with a session, as it is wished to be from now on. */
async function resume(desk: Desk, session: string, wishes: Wishes, projectDir: string | undefined): Promise<void> {
  if (session !== "last") await desk.open(session);
  else await openLast(desk, projectDir);
  if (desk.conversation.id !== undefined && Object.keys(wishes).length > 0) await desk.conversation.change(wishes);
}

async function openLast(desk: Desk, projectDir: string | undefined): Promise<void> {
  const { sessions } = await desk.options.client.sessions.list({
    size: 1,
    ...(projectDir !== undefined && { projectDir }),
  });
  const [last] = sessions;
  if (last) await desk.open(last.id);
  else desk.notice("No session in this folder yet: this is a new one.");
}

/** A client of a server that is still starting: each request waits until it is known where it goes. */
function lateClient(server: Promise<Server>): GantryClient {
  return new GantryClient({
    url: "http://gantry.invalid",
    fetch: async (input, init) => {
      const { url, headers, fetch = globalThis.fetch } = await until(server, init?.signal ?? undefined);
      const asked = new URL(input instanceof Request ? input.url : input);
      return fetch(new URL(`${asked.pathname}${asked.search}`, url), {
        ...init,
        headers: { ...Object.fromEntries(new Headers(init?.headers)), ...headers },
      });
    },
  });
}

/** What is waited for, until the signal. */
function until<T>(wanted: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return wanted;
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason as Error);
    if (signal.aborted) return stop();
    signal.addEventListener("abort", stop, { once: true });
    wanted.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}
