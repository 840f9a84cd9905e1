import { render } from "ink";
import { GantryClient } from "gantry/client";
import { App, type Size } from "./app.js";
import type { Wishes } from "./conversation.js";
import { Desk } from "./desk.js";
import { Keyboard } from "./keys.js";
import { Screen } from "./screen.js";
import { cleanLine } from "./text.js";

/** What a terminal is opened with. */
export interface TerminalOptions {
  input: NodeJS.ReadStream;
  output: NodeJS.WriteStream;
  /** Where the agent is served, and what its requests carry; may take a while, the terminal is there before. */
  server: Promise<{ url: string; headers: Readonly<Record<string, string>> }>;
  /** The session to go on with, `last` for the one that was used last in this folder; without it a new one begins. */
  session?: string | undefined;
  /** Of a session that begins here. */
  wishes: Wishes;
  /** Sessions of this folder alone are listed. */
  projectDir?: string | undefined;
  /** Files that `@` proposes. */
  files?: ((signal: AbortSignal) => Promise<readonly string[]>) | undefined;
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
  const { input, output, server, wishes, projectDir, files, place, colours, signal } = options;
  const screen = new Screen(input, output);
  const left = Promise.withResolvers<void>();
  const where = { url: "http://127.0.0.1:1", headers: {} as Readonly<Record<string, string>> };
  // What asks before the server is there waits for it.
  const client = lateClient(server, where);
  const desk = new Desk({
    client,
    wishes,
    files,
    projectDir,
    place,
    leave: () => left.resolve(),
    suspend: () => screen.suspend(),
    wheel: (on) => (screen.wheel = on),
  });
  const keyboard = new Keyboard((pressed) => desk.press(pressed));
  const read = (text: string | Buffer) => keyboard.feed(String(text));
  const leave = () => left.resolve();
  screen.take();
  const sizeNow = (): Size => ({ columns: Math.max(1, output.columns || 80), rows: Math.max(2, output.rows || 24) });
  const app = () => <App desk={desk} size={sizeNow()} colours={colours} />;
  const shown = render(app(), {
    stdin: input,
    stdout: output,
    exitOnCtrlC: false,
    patchConsole: false,
    incrementalRendering: true,
    isScreenReaderEnabled: false,
  });
  const redraw = () => {
    // What it knows of the screen is true no more.
    shown.clear();
    screen.clear();
    shown.rerender(app());
    desk.changed();
  };
  screen.onLost = redraw;
  output.prependListener("resize", redraw);
  input.on("data", read);
  input.once("end", leave);
  signal?.addEventListener("abort", leave, { once: true });
  try {
    options.onReady?.((line) => desk.notice(cleanLine(line)));
    server.catch((error: unknown) => left.reject(error instanceof Error ? error : new Error(String(error))));
    if (options.session !== undefined) desk.attempt(() => resume(desk, options.session ?? "", projectDir));
    if (signal?.aborted) leave();
    await left.promise;
    return { session: desk.conversation.id };
  } finally {
    signal?.removeEventListener("abort", leave);
    input.off("data", read);
    input.off("end", leave);
    output.off("resize", redraw);
    keyboard.close();
    shown.unmount();
    screen.giveBack();
    await desk.close();
  }
}

async function resume(desk: Desk, session: string, projectDir: string | undefined): Promise<void> {
  if (session !== "last") return desk.open(session);
  const { sessions } = await desk.options.client.sessions.list({ size: 1, ...(projectDir !== undefined && { projectDir }) });
  const [last] = sessions;
  if (last) await desk.open(last.id);
  else desk.notice("No session in this folder yet: this is a new one.");
}

/** A client of a server that is still starting: each request waits until it is known where it goes. */
function lateClient(
  server: TerminalOptions["server"],
  where: { url: string; headers: Readonly<Record<string, string>> },
): GantryClient {
  return new GantryClient({
    url: where.url,
    fetch: async (input, init) => {
      const { url, headers } = await server;
      const asked = new URL(input instanceof Request ? input.url : input);
      return fetch(new URL(`${asked.pathname}${asked.search}`, url), {
        ...init,
        headers: { ...Object.fromEntries(new Headers(init?.headers)), ...headers },
      });
    },
  });
}
