import type { ApiMcpServer } from "../shapes.js";
import { createResourcePath, type CallOptions, type ServerConnection } from "./connection.js";

/** `client.mcpServers`: the MCP servers of the server's config, by name. */
export class McpServersApi {
  readonly #connection: ServerConnection;

  constructor(connection: ServerConnection) {
    this.#connection = connection;
  }

  /** All servers with their state in the process that answers, in the order of the config. */
  async list({ signal }: CallOptions = {}): Promise<ApiMcpServer[]> {
    return this.#connection.requestList<ApiMcpServer>("servers", "mcp-servers", { signal });
  }

  /**
   * Begins a login. Returns the address to open in a person's browser within 10 minutes; null if the server needs no
   * login. The browser returns to `serverUrl`; default: the URL of this client. `list` shows the result.
   */
  async logIn(name: string, { serverUrl, signal }: CallOptions & { serverUrl?: string } = {}): Promise<string | null> {
    const body = { server_url: serverUrl ?? this.#connection.serverUrl };
    const path = `${createResourcePath("mcp-server", name)}/login`;
    const hasUrl = ({ authorization_url: url }: { authorization_url?: unknown }) =>
      url === null || typeof url === "string";
    const request = { method: "POST", body, signal };
    return (await this.#connection.requestJson<{ authorization_url: string | null }>(path, request, hasUrl)).body
      .authorization_url;
  }

  /** Deletes the login to a server. Returns false if there is none. */
  async logOut(name: string, { signal }: CallOptions = {}): Promise<boolean> {
    const path = `${createResourcePath("mcp-server", name)}/logout`;
    const request = { method: "POST", body: {}, signal };
    return (await this.#connection.requestJson<{ status: string }>(path, request)).body.status === "logged_out";
  }
}
