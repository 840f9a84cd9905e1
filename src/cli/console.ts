import { post } from "../http/post.js";
import { ConfigError } from "../ports/errors.js";
import { getApiHeaders } from "../serve/selected-adapters.js";
import type { webConsole } from "./descriptions/console.js";
import { loadConfigWithFlags, type CommandHandler } from "./command.js";
import { refuseArguments } from "./refuse-arguments.js";
import { openAddress, openSecretAddress } from "./open-address.js";
import { createServerCheck, type ServerCheck } from "./server-check.js";
import { readTokenHeaders } from "./token-headers.js";

/** `gantry console`: opens the web console of a running server. */
export const run: CommandHandler<typeof webConsole.flags> = async ({ args, flags, output }) => {
  refuseArguments(args);
  const { loadedConfig } = await loadConfigWithFlags(flags);
  const { config, file } = loadedConfig;
  const origin = flags.url === undefined ? toOrigin(config.server) : parseOrigin(flags.url);
  const requiredHeaders = getApiHeaders(config);
  const headers = Object.keys(requiredHeaders).length > 0 ? requiredHeaders : readTokenHeaders(new URL(origin));
  const checkServer =
    flags.anyUser === true
      ? () => Promise.resolve()
      : createServerCheck(origin, Object.keys(requiredHeaders).length > 0);
  const path = await requestLink(origin, headers, file, checkServer);
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

function toOrigin({ host, port }: { host: string; port: number }): string {
  if (port === 0)
    throw new ConfigError("server.port is 0 (any free port): pass --url with the address that the server printed");
  const bareHost = host.replace(/^\[(.*)\]$/, "$1");
  const reachableHost = { "0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1" }[bareHost] ?? bareHost;
  return new URL(`http://${reachableHost.includes(":") ? `[${reachableHost}]` : reachableHost}:${port}`).origin;
}

function parseOrigin(url: string): string {
  const parsedUrl = URL.canParse(url) ? new URL(url) : undefined;
  if (parsedUrl && /^https?:$/.test(parsedUrl.protocol) && parsedUrl.username === "" && parsedUrl.password === "")
    return parsedUrl.origin;
  throw new ConfigError("--url: expected the address of a server, such as http://127.0.0.1:8080");
}

/** Requests the path of the console. The path contains a code if the server requires headers. */
async function requestLink(
  origin: string,
  headers: Record<string, string>,
  file: string,
  checkServer: ServerCheck,
): Promise<string> {
  const request = post(`${origin}/console/links`, headers, checkServer);
  const { status, text } = await request.catch((error: NodeJS.ErrnoException) => {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError(
      `no server at ${origin} (${error.code ?? error.message}): run gantry serve in the project folder, or pass --url`,
      { cause: error },
    );
  });
  if (status === 401) throw new ConfigError(`${origin} rejected the headers of server.required_headers in ${file}`);
  if (status === 403)
    throw new ConfigError(`${origin} rejected the request: ${readStringField(text, "error") ?? "forbidden"}`);
  const path = status === 200 ? readStringField(text, "path") : undefined;
  // The server is untrusted: open only a path of a console.
  if (path !== undefined && /^\/console(#code=[\w-]+)?$/.test(path)) return path;
  throw new ConfigError(`no console at ${origin}: server.console is false, or the server is not gantry`);
}

function readStringField(text: string, key: string): string | undefined {
  try {
    const value = (JSON.parse(text) as Record<string, unknown>)[key];
    return typeof value === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}
