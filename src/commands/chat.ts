import { randomBytes } from "node:crypto";
import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import type { TerminalOptions } from "gantry/adapters/terminal";
import { createLogger } from "../base/log.js";
import { ConfigError } from "../ports/errors.js";
import { homeFolder, loadConfig, type LoadedConfig } from "../serve/config.js";
import { environment } from "../serve/environment.js";
import type { Composition } from "../serve/compose.js";
import type { FlagsOf } from "./about.js";
import type { chat } from "./about/chat.js";
import type { Command } from "./command.js";
import { refuseArguments } from "./refuse-arguments.js";

/** What `gantry chat` takes. */
type ChatFlags = FlagsOf<typeof chat.flags>;

/** Where an agent is served. */
interface Server {
  url: string;
  headers: Readonly<Record<string, string>>;
}

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;
/** Not a terminal, or none that a cursor can be moved on. */
const NO_TERMINAL = 2;

/** `gantry chat`: talk to a served agent, or to one of its own that ends with it. */
export const run: Command<typeof chat.flags> = async ({ args, flags, output, interrupted }) => {
  refuseArguments(args);
  const { stdin, stdout } = process;
  if (!stdin.isTTY || !stdout.isTTY || environment("TERM") === "dumb") {
    output.tell(
      'gantry: chat needs a terminal; in scripts use: gantry run "prompt", and from programs the HTTP API: gantry serve',
    );
    return NO_TERMINAL;
  }
  const address = flags.url === undefined ? undefined : addressOf(flags.url);
  const ended = interrupted();
  const [{ openTerminal }, loaded] = await Promise.all([import("gantry/adapters/terminal"), configOf(flags, address)]);
  const folder = realpathSync(resolve("."));
  let composition: Composition | undefined;
  let served: () => Promise<void> = async () => undefined;
  let tell = (line: string) => output.tell(line);
  const isLocal = address === undefined || LOOPBACK.test(address.hostname);
  const { config } = loaded;
  try {
    const { session } = await openTerminal({
      input: stdin,
      output: stdout,
      serve: async () => {
        if (address) {
          const server = await serverAt(
            address,
            headersFor(address, flags.header, loaded),
            flags.anyUser === true,
            tell,
          );
          served = server.close;
          const { tokenHeaders } = await import("./token-headers.js");
          return { ...server, headers: { ...tokenHeaders(address), ...server.headers } };
        }
        composition = await serveHere(loaded, folder, (line) => tell(shortOf(line)));
        const [{ address: url } = { address: "" }] = composition.listening;
        return { url, headers: config.server.requiredHeaders };
      },
      onReady: (shown) => (tell = shown),
      session: flags.continue ? "last" : flags.session,
      wishes: { ...modelOf(flags.model), ...wished(flags) },
      ...(address ? {} : { projectDir: folder }),
      ...(isLocal && {
        files: async (at, signal) => {
          const { projectFiles } = await import("./project-files.js");
          const here = at ?? (address ? undefined : folder);
          return here === undefined ? [] : projectFiles(realpathSync(here), signal);
        },
      }),
      place: address ? address.origin : folder,
      colours: (environment("NO_COLOR") ?? "") === "",
      signal: ended,
    });
    tell = (line) => output.tell(line);
    if (session !== undefined) {
      const way = address ? `--url ${address.origin} ` : "";
      output.tell(`gantry: go on with: gantry chat ${way}--session ${session}`);
    }
  } finally {
    tell = (line) => output.tell(line);
    await Promise.all([served(), composition?.stop()]);
  }
  return 0;
};

/**
 * A server that is there already. Its port may be had by others while it is down: each connection is looked at before anything
 * is sent. Rejects with `ConfigError` where the first one is not to be trusted; of later ones `tell` says so.
 */
async function serverAt(
  { origin }: URL,
  headers: Server["headers"],
  isAnybody: boolean,
  tell: (line: string) => void,
): Promise<Server & { fetch?: typeof globalThis.fetch; close: () => Promise<void> }> {
  if (isAnybody) return { url: origin, headers, close: async () => undefined };
  const { checkedFetch, refusalIn, refuserOf } = await import("./own-server.js");
  const { fetch, close } = await checkedFetch(refuserOf(origin, Object.keys(headers).length > 0));
  let told = "";
  const asked: typeof globalThis.fetch = (input, init) =>
    fetch(input, init).catch((error: unknown) => {
      const { message = "" } = refusalIn(error) ?? {};
      if (message !== "" && message !== told) tell((told = message));
      throw error;
    });
  // One that is not there yet is waited for.
  const refusal = await fetch(`${origin}/api/health`).then(
    async ({ body }) => void (await body?.cancel()),
    (error: unknown) => refusalIn(error),
  );
  if (refusal) {
    await close();
    throw refusal;
  }
  return { url: origin, headers, fetch: asked, close };
}

/** The config; of an agent of our own with a port that nobody else gets in by. */
function configOf(flags: ChatFlags, address: URL | undefined): Promise<LoadedConfig> {
  const home = homeFolder();
  const overrides: Record<string, unknown> = address
    ? {}
    : {
        "server.host": "127.0.0.1",
        "server.port": 0,
        "server.transports": ["koa-http-api"],
        "server.required_headers": { Authorization: `Bearer ${randomBytes(32).toString("base64url")}` },
        "server.insecure": false,
      };
  if (flags.sessionDriver !== undefined) overrides["session.driver"] = flags.sessionDriver;
  return loadConfig({ home, ...(flags.config !== undefined && { path: flags.config }), overrides });
}

/** The same agent that `gantry serve` would start here. */
async function serveHere(loaded: LoadedConfig, folder: string, tell: (line: string) => void): Promise<Composition> {
  const { compose } = await import("../serve/compose.js");
  const { log } = loaded.config;
  const level = log.level === "error" ? "error" : "warn";
  const logger = createLogger({ level, write: tell, secrets: () => loaded.secrets });
  return compose({ loaded, home: homeFolder(), projectDir: folder, logger });
}

function addressOf(url: string): URL {
  const address = URL.canParse(url) ? new URL(url) : undefined;
  if (!address || !/^https?:$/.test(address.protocol) || address.username !== "" || address.pathname !== "/")
    throw new ConfigError(`--url: expected an address like http://127.0.0.1:8080, got ${JSON.stringify(url)}`);
  return address;
}

/** Those that are named; else those of the config, which are for this machine and the host that it names alone. */
function headersFor(address: URL, given: readonly string[] | undefined, { config }: LoadedConfig): Server["headers"] {
  const own = LOOPBACK.test(address.hostname) || address.hostname === config.server.host;
  const headers: Record<string, string> = own ? { ...config.server.requiredHeaders } : {};
  for (const line of given ?? []) {
    const at = line.indexOf(":");
    if (at < 1) throw new ConfigError("--header: expected NAME:VALUE");
    headers[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return headers;
}

function modelOf(model: string | undefined): { provider?: string; model?: string } {
  if (model === undefined) return {};
  const at = model.indexOf("/");
  return at === -1 ? { model } : { provider: model.slice(0, at), model: model.slice(at + 1) };
}

/** What the flags say of a session; what they may be was checked by what the command says of itself. */
function wished({ mode, effort }: ChatFlags): TerminalOptions["wishes"] {
  const said = { ...(mode !== undefined && { mode }), ...(effort !== undefined && { reasoning_effort: effort }) };
  return said as TerminalOptions["wishes"];
}

/** A line of the log as a person at the terminal needs it: without its time and its fields. */
function shortOf(line: string): string {
  return line.replace(/^\S+ (warn|error) /, "").replace(/ \{".*\}$/, "");
}
