import { abortable } from "../base/abort.js";
import { GantryError } from "../ports/errors.js";
import type { McpLoginErrorCode, McpServerHttp, McpServerManager, McpServerStatus } from "../ports/mcp-server.js";
import type { ConfiguredServer } from "./mcp-servers.js";
import type { loadMcpServers } from "./plugins.js";

/** Time limit of a login. */
const LOGIN_TIMEOUT_MS = 600_000;

class McpLoginError extends GantryError {
  readonly code: McpLoginErrorCode;

  constructor(code: McpLoginErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** A login whose person is at the authorization server. */
interface PendingLogin {
  readonly name: string;
  readonly onRedirect: (parameters: URLSearchParams) => void;
  readonly result: Promise<unknown>;
}

/** The configured servers of a process. */
export class ConfiguredMcpServers implements McpServerManager {
  readonly #servers: readonly ConfiguredServer[];
  readonly #loadServers: () => ReturnType<typeof loadMcpServers>;
  /** Logins by their state, which only the person's browser and the authorization server know. */
  readonly #loginsByState = new Map<string, PendingLogin>();
  /** Aborts the unfinished login to a server, by name. */
  readonly #controllersByName = new Map<string, AbortController>();

  constructor(servers: readonly ConfiguredServer[], loadServers: () => ReturnType<typeof loadMcpServers>) {
    this.#servers = servers;
    this.#loadServers = loadServers;
  }

  async list(): Promise<McpServerStatus[]> {
    const servers = await this.#loadServers();
    return Promise.all(
      this.#servers.map(async ({ server, usageOptions }) => {
        const { hasLogin, ...state } = await servers.state(server, usageOptions);
        const canLogIn = usageOptions.loginFile !== undefined;
        return {
          name: server.name,
          transport: "command" in server ? "stdio" : "http",
          ...state,
          login: hasLogin ? "stored" : canLogIn ? "possible" : "none",
        } as const;
      }),
    );
  }

  async beginLogin(name: string, redirectUrl: string): Promise<string | undefined> {
    const { server, loginFile } = this.#find(name);
    this.#controllersByName.get(name)?.abort(new Error("a newer login has begun"));
    const controller = new AbortController();
    this.#controllersByName.set(name, controller);
    const { signal } = controller;
    const timeoutError = new Error(`no login within ${LOGIN_TIMEOUT_MS / 60_000} minutes`);
    const timer = setTimeout(() => controller.abort(timeoutError), LOGIN_TIMEOUT_MS).unref();
    let pendingState = "";
    const authorizationUrl = new Promise<string | undefined>((resolve, reject) => {
      const authorize = async (url: URL): Promise<URLSearchParams> => {
        pendingState = url.searchParams.get("state") ?? "";
        const redirect = new Promise<URLSearchParams>((onRedirect) =>
          this.#loginsByState.set(pendingState, { name, onRedirect, result }),
        );
        resolve(url.href);
        return abortable(redirect, signal);
      };
      const result = this.#loadServers()
        .then((servers) => servers.logIn(server, loginFile, { redirectUrl, authorize }, signal))
        .finally(() => {
          clearTimeout(timer);
          this.#loginsByState.delete(pendingState);
          if (this.#controllersByName.get(name) === controller) this.#controllersByName.delete(name);
        });
      // Without a login, or after it failed before the redirect.
      result.then(() => resolve(undefined), reject);
    });
    return authorizationUrl.catch((error: unknown) => {
      throw toLoginError(name, error);
    });
  }

  async finishLogin(parameters: URLSearchParams): Promise<string> {
    const state = parameters.get("state") ?? "";
    const login = this.#loginsByState.get(state);
    if (!login)
      throw new McpLoginError(
        "login_expired",
        "this login is finished, has expired or did not begin here; log in again",
      );
    this.#loginsByState.delete(state);
    login.onRedirect(parameters);
    await login.result.catch((error: unknown) => {
      throw toLoginError(login.name, error);
    });
    return login.name;
  }

  async logOut(name: string): Promise<boolean> {
    const { server, loginFile } = this.#find(name);
    this.#controllersByName.get(name)?.abort(new Error("a person has logged out"));
    return (await this.#loadServers()).logOut(server, loginFile);
  }

  #find(name: string): { server: McpServerHttp; loginFile: string } {
    const configuredServer = this.#servers.find(({ server }) => server.name === name);
    if (!configuredServer) throw new McpLoginError("mcp_server_not_found", "no MCP server of the config has this name");
    const { server, usageOptions } = configuredServer;
    if (!("command" in server) && usageOptions.loginFile !== undefined)
      return { server, loginFile: usageOptions.loginFile };
    const reason = "command" in server ? "a program needs no login" : "its header Authorization replaces a login";
    throw new McpLoginError("login_not_possible", `${name}: ${reason}`);
  }
}

function toLoginError(name: string, error: unknown): McpLoginError {
  return new McpLoginError("login_failed", `${name}: ${(error as Error).message}`, { cause: error });
}
