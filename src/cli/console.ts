import { post } from "../http/post.js";
import { ConfigError } from "../ports/errors.js";
import { headersOfApi } from "../serve/selected-adapters.js";
import type { webConsole } from "./about/console.js";
import { loadFor, type CommandHandler } from "./command.js";
import { refuseArguments } from "./refuse-arguments.js";
import { openAddress, openSecretAddress } from "./open-address.js";
import { createServerCheck, type CheckServer } from "./own-server.js";
import { tokenHeaders } from "./token-headers.js";

/** `gantry console`: opens the web console of a running server. */
export const run: CommandHandler<typeof webConsole.flags> = async ({ args, flags, output }) => {
  refuseArguments(args);
  const { loaded } = await loadFor(flags);
  const { config, file } = loaded;
  const origin = flags.url === undefined ? originOf(config.server) : parseOrigin(flags.url);
  const required = headersOfApi(config);
  const headers = Object.keys(required).length > 0 ? required : tokenHeaders(new URL(origin));
  const check =
    flags.anyUser === true ? () => Promise.resolve() : createServerCheck(origin, Object.keys(required).length > 0);
  const path = await requestLink(origin, headers, file, check);
  const address = origin + path;
  const isSecret = path.includes("#");
  if (await (isSecret ? openSecretAddress(address) : openAddress(address))) {
    output.report(`opened ${origin}/console`);
    return 0;
  }
  const hint = isSecret ? " It works once, for one minute." : "";
  output.report(`No browser found; open this address.${hint}`);
  await output.write(`${address}\n`);
  return 0;
};

function originOf({ host, port }: { host: string; port: number }): string {
  if (port === 0)
    throw new ConfigError("server.port is 0 (any free port): pass --url with the address that the server printed");
  const bare = host.replace(/^\[(.*)\]$/, "$1");
  const reached = { "0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1" }[bare] ?? bare;
  return new URL(`http://${reached.includes(":") ? `[${reached}]` : reached}:${port}`).origin;
}

function parseOrigin(url: string): string {
  const read = URL.canParse(url) ? new URL(url) : undefined;
  if (read && /^https?:$/.test(read.protocol) && read.username === "" && read.password === "") return read.origin;
  throw new ConfigError("--url: expected the address of a server, such as http://127.0.0.1:8080");
}

/** Requests the path of the console. It contains a code if the server requires headers. */
async function requestLink(
  origin: string,
  headers: Record<string, string>,
  file: string,
  check: CheckServer,
): Promise<string> {
  const request = post(`${origin}/console/links`, headers, check);
  const { status, text } = await request.catch((error: NodeJS.ErrnoException) => {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError(
      `no server at ${origin} (${error.code ?? error.message}): run gantry serve in the project folder, or pass --url`,
      { cause: error },
    );
  });
  if (status === 401) throw new ConfigError(`${origin} rejected the headers of server.required_headers in ${file}`);
  if (status === 403)
    throw new ConfigError(`${origin} rejected the request: ${stringField(text, "error") ?? "forbidden"}`);
  const path = status === 200 ? stringField(text, "path") : undefined;
  // The server is untrusted: open only a path of a console.
  if (path !== undefined && /^\/console(#code=[\w-]+)?$/.test(path)) return path;
  throw new ConfigError(`no console at ${origin}: server.console is false, or the server is not gantry`);
}

function stringField(text: string, key: string): string | undefined {
  try {
    const word = (JSON.parse(text) as Record<string, unknown>)[key];
    return typeof word === "string" ? word : undefined;
  } catch {
    return undefined;
  }
}
