import type { ApiMcpServer } from "../shapes.js";
import { ServerConnection, type CallOptions, type ClientOptions } from "./connection.js";
import { createInvalidIdError } from "./errors.js";

/**
 * A client for the MCP servers of a gantry server's config. Separate from `GantryClient`, because most programs do not
 * need it. Methods reject like those of `GantryClient`.
 */
export class McpServersClient {
  readonly #connection: ServerConnection;
  readonly #url: string | undefined;

  constructor(options: ClientOptions = {}) {
    this.#connection = new ServerConnection(options);
    this.#url = options.url;
  }

  /** All servers with their state in the process that answers, in the order of the config. */
  async list({ signal }: CallOptions = {}): Promise<ApiMcpServer[]> {
    return this.#connection.requestList<ApiMcpServer>("servers", "mcp-servers", { signal });
  }

  /**
   * Begins a login. Returns the address to open in a person's browser within 10 minutes; null if the server needs no
   * login. `list` shows the result. `serverUrl`: the URL of this server in that browser; default: the URL of this client.
   */
  async logIn(name: string, { serverUrl, signal }: CallOptions & { serverUrl?: string } = {}): Promise<string | null> {
    const { authorization_url: url } = await this.#post(name, "login", { server_url: serverUrl ?? this.#url }, signal);
    return typeof url === "string" ? url : null;
  }

  /** Deletes the login to a server. Returns false if there is none. */
  async logOut(name: string, { signal }: CallOptions = {}): Promise<boolean> {
    return (await this.#post(name, "logout", {}, signal)).status === "logged_out";
  }

  async #post(name: string, action: string, body: object, signal: AbortSignal | undefined) {
    if (!/^[\w-]+$/.test(name)) throw createInvalidIdError("mcp_server", name);
    const request = { method: "POST", body, signal };
    type Answer = { authorization_url?: unknown; status?: unknown };
    return (await this.#connection.requestJson<Answer>(`mcp-servers/${name}/${action}`, request)).body;
  }
}
