import { spawn } from "node:child_process";
import { once } from "node:events";
import { post } from "../http/post.js";
import { ConfigError } from "../ports/errors.js";
import { environment } from "../serve/config.js";
import { headersOfApi } from "../serve/selected-adapters.js";
import type { webConsole } from "./about/console.js";
import { loadFor, refuseArguments, type Command } from "./command.js";

/** An opener that runs for so long, in ms, shows its page. */
const OPENED_MS = 3_000;

/** `gantry console`: open the console of a server that runs. */
export const run: Command<typeof webConsole.flags> = async ({ args, flags, output }) => {
  refuseArguments(args);
  const { loaded } = await loadFor(flags);
  const { config, file } = loaded;
  const origin = flags.url === undefined ? originOf(config.server) : given(flags.url);
  const path = await linkOf(origin, headersOfApi(config), file);
  const address = origin + path;
  if (await opens(address)) {
    output.tell(`opened ${origin}/console`);
    return 0;
  }
  const hint = path.includes("#") ? " It works once, and for a minute." : "";
  output.tell(`There is no browser to open here; open this address.${hint}`);
  await output.write(`${address}\n`);
  return 0;
};

function originOf({ host, port }: { host: string; port: number }): string {
  if (port === 0)
    throw new ConfigError("server.port is 0, any free port: say --url, as the server's listen line has it");
  const bare = host.replace(/^\[(.*)\]$/, "$1");
  const reached = { "0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1" }[bare] ?? bare;
  return new URL(`http://${reached.includes(":") ? `[${reached}]` : reached}:${port}`).origin;
}

function given(url: string): string {
  const read = URL.canParse(url) ? new URL(url) : undefined;
  if (read && /^https?:$/.test(read.protocol) && read.username === "" && read.password === "") return read.origin;
  throw new ConfigError("--url: expected the address of a server, such as http://127.0.0.1:8080");
}

/** The path of the console, with a code where the server asks for headers. */
async function linkOf(origin: string, headers: Record<string, string>, file: string): Promise<string> {
  const { status, text } = await post(`${origin}/console/links`, headers).catch((error: NodeJS.ErrnoException) => {
    throw new ConfigError(
      `nothing answers at ${origin} (${error.code ?? error.message}): start a server with gantry serve, in the folder that the agent shall work in, or say --url`,
      { cause: error },
    );
  });
  if (status === 401)
    throw new ConfigError(`${origin} asks for other headers than ${file} has under server.required_headers`);
  if (status === 403) throw new ConfigError(`${origin} refuses: ${wordIn(text, "error") ?? "forbidden"}`);
  const path = status === 200 ? wordIn(text, "path") : undefined;
  // What answers there may be anything; nothing but an address of a console is opened.
  if (path !== undefined && /^\/console(#code=[\w-]+)?$/.test(path)) return path;
  throw new ConfigError(`there is no console at ${origin}: server.console is false there, or it is no gantry`);
}

function wordIn(text: string, key: string): string | undefined {
  try {
    const word = (JSON.parse(text) as Record<string, unknown>)[key];
    return typeof word === "string" ? word : undefined;
  } catch {
    return undefined;
  }
}

/** Give the address to what the platform opens addresses with. False where there is nothing. */
async function opens(address: string): Promise<boolean> {
  const [command, ...args] = opener();
  if (command === undefined) return false;
  const child = spawn(command, [...args, address], { stdio: "ignore", detached: true, windowsHide: true });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => (timer = setTimeout(() => resolve(true), OPENED_MS)));
  const ended = once(child, "exit").then(
    ([code]) => code === 0,
    () => false,
  );
  const opened = await Promise.race([ended, late]);
  clearTimeout(timer);
  child.unref();
  return opened;
}

function opener(): readonly string[] {
  if (process.platform === "darwin") return ["open"];
  if (process.platform === "win32") return ["rundll32", "url.dll,FileProtocolHandler"];
  // Without a screen it would look for a browser in the terminal, or wait for one.
  return environment("DISPLAY") || environment("WAYLAND_DISPLAY") || environment("BROWSER") ? ["xdg-open"] : [];
}
