import type { ServerResponse } from "node:http";
import { abortable, createDeadline } from "../base/abort.js";
import { VERSION } from "../base/version.js";
import { answer } from "../http/answers.js";
import { openHttpHost } from "../http/http-host.js";
import { ConfigError } from "../ports/errors.js";
import type { Refusal } from "../ports/http-host.js";
import { getConfiguredServers, type ConfiguredServer } from "../serve/mcp-servers.js";
import { loadMcpServers } from "../serve/plugins.js";
import { loadConfigWithFlags, type CommandContext, type CommandHandler } from "./command.js";
import type { mcpLogin } from "./descriptions/mcp.js";
import { readLines } from "./lines.js";
import { createCommandLogger } from "./log-writer.js";
import { openSecretAddress } from "./open-address.js";
import { SIGNAL_EXIT_CODES } from "./signal-exit-codes.js";

/** Time limit of a login. */
const LOGIN_TIMEOUT_MS = 600_000;
const CALLBACK_PATH = "/callback";
const REFUSAL: Refusal = {
  status: 400,
  message: "this is not the redirect of the login that gantry waits for",
  code: "wrong_redirect",
};

/** `gantry mcp login NAME`: logs a person in to a server with OAuth and stores the login. */
export const run: CommandHandler<typeof mcpLogin.flags> = async (context) => {
  const { flags, output, handleInterrupts } = context;
  const { loadedConfig, home } = await loadConfigWithFlags(flags);
  const { secrets } = loadedConfig;
  const { server, loginFile } = findServer(context.args, getConfiguredServers(loadedConfig, home));
  const interruptSignal = handleInterrupts();
  const logger = await createCommandLogger(loadedConfig, output);
  const onSecret = (secret: string) => void secrets.add(secret);
  const servers = await loadMcpServers({ version: VERSION, secrets, onSecret, logger });
  const deadline = createDeadline(LOGIN_TIMEOUT_MS, interruptSignal);
  const callback = await openCallback();
  try {
    const authorize = async (url: URL): Promise<URLSearchParams> => {
      const state = url.searchParams.get("state") ?? "";
      output.report(`Log in at this address:\n${url.href}`);
      void openSecretAddress(url.href);
      return Promise.race([callback.wait(state, deadline.signal), readPastedAddress(context, state, deadline.signal)]);
    };
    const { redirectUrl } = callback;
    const login = await servers.logIn(server, loginFile, { redirectUrl, authorize }, deadline.signal);
    const tools = `${login.tools.length} ${login.tools.length === 1 ? "tool" : "tools"}`;
    output.report(
      login.hasLoggedIn ? `logged in to ${server.name}: ${tools}` : `${server.name} needs no login: ${tools}`,
    );
    return 0;
  } catch (error) {
    if (interruptSignal.aborted) return SIGNAL_EXIT_CODES[String(interruptSignal.reason)] ?? 1;
    const reason = deadline.hasExpired
      ? `no login within ${LOGIN_TIMEOUT_MS / 60_000} minutes`
      : (error as Error).message;
    throw new ConfigError(`${server.name}: ${reason}`, { cause: error });
  } finally {
    deadline.clear();
    await callback.close();
  }
};

/** Returns the server to log in to. Throws `ConfigError` if it has no address, or its headers authenticate gantry. */
function findServer([name, ...otherArgs]: readonly string[], servers: readonly ConfiguredServer[]) {
  const names = servers.flatMap(({ server, usageOptions }) =>
    usageOptions.loginFile === undefined ? [] : server.name,
  );
  const expected = `expected one of the servers ${names.join(", ") || "(none with a url is configured)"}`;
  if (name === undefined || otherArgs.length > 0) throw new ConfigError(`mcp login: ${expected}`);
  const configuredServer = servers.find(({ server }) => server.name === name);
  if (!configuredServer) throw new ConfigError(`mcp login: no server ${name} in mcp_servers; ${expected}`);
  const { server, usageOptions } = configuredServer;
  if ("command" in server) throw new ConfigError(`mcp_servers.${name}: a program needs no login`);
  if (usageOptions.loginFile === undefined)
    throw new ConfigError(`mcp_servers.${name}.headers: Authorization replaces a login; remove it to log in`);
  return { server, loginFile: usageOptions.loginFile };
}

interface Callback {
  readonly redirectUrl: string;
  /** Resolves with the parameters of the first redirect with this state. Rejects with the signal's reason. */
  wait(state: string, signal: AbortSignal): Promise<URLSearchParams>;
  close(): Promise<void>;
}

/** Opens the loopback address to which the browser is redirected (RFC 8252). */
async function openCallback(): Promise<Callback> {
  let expectedState: string | undefined;
  let onRedirect: (parameters: URLSearchParams) => void = () => undefined;
  const refuse = (response: ServerResponse) => answer(response, REFUSAL);
  const host = openHttpHost({ port: 0 });
  const origin = await host.mount({
    prefix: "/",
    fallback: false,
    authenticated: false,
    // Any page can send the browser to this address. The state, which is secret, shows that a redirect is the right one.
    hasOwnChecks: true,
    handler: ({ url = "", method }, response) => {
      const { pathname, searchParams } = new URL(url, "http://127.0.0.1");
      const isExpected = expectedState !== undefined && searchParams.get("state") === expectedState;
      if (method !== "GET" || pathname !== CALLBACK_PATH || !isExpected) return refuse(response);
      response.end("gantry has received the answer. You can close this page and return to the terminal.\n");
      onRedirect(searchParams);
    },
    refuse: (_request, response) => refuse(response),
  });
  return {
    redirectUrl: origin + CALLBACK_PATH,
    wait: (state, signal) => {
      expectedState = state;
      return abortable(new Promise((resolve) => (onRedirect = resolve)), signal);
    },
    close: () => host.close(AbortSignal.abort()),
  };
}

/** Resolves with the parameters of an address with this state that a person pastes. Without a terminal, never settles. */
async function readPastedAddress(
  { input, output }: Pick<CommandContext, "input" | "output">,
  state: string,
  signal: AbortSignal,
): Promise<URLSearchParams> {
  if (input.isTerminal) {
    output.report(
      "If the browser cannot open 127.0.0.1 of this machine, paste the address to which it was redirected.",
    );
    for await (const line of readLines(input, () => undefined, signal)) {
      const parameters = URL.canParse(line.trim()) ? new URL(line.trim()).searchParams : undefined;
      if (parameters?.get("state") === state) return parameters;
      if (line.trim() !== "") output.report("This is not the address of the redirect. Paste it as a whole.");
    }
  }
  return new Promise(() => undefined);
}
