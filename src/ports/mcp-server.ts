import type { ToolSource } from "./tool-source.js";

/** An MCP server that runs as a program and uses its standard input and output. */
export interface McpServerStdio {
  readonly name: string;
  /** Resolved in PATH unless it is a path. */
  readonly command: string;
  readonly args: readonly string[];
  /** Added to the default environment of commands. */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute path of the program's working directory. Default: the session's project folder. */
  readonly cwd?: string | undefined;
}

/** An MCP server at a URL. */
export interface McpServerHttp {
  readonly name: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /**
   * `http`: streamable HTTP. `sse`: the older transport. Undefined: `http`, with `sse` as the fallback if the server
   * does not support `http`.
   */
  readonly type?: "http" | "sse" | undefined;
}

/** An MCP server, as named by the config or a client. */
export type McpServer = McpServerStdio | McpServerHttp;

/** Creates tool sources for the MCP servers that clients pass with their sessions. */
export interface McpServerFactory {
  /**
   * Returns a source without opening it; equal servers share one source. Throws `InputError`, with the reason, for a
   * server that is not allowed.
   */
  source(server: McpServer): ToolSource;
  /** The configured servers, for people. Undefined: there is no list of servers. */
  manager?(): Promise<McpServerManager>;
}

/** A configured MCP server, as people see it. */
export interface McpServerStatus {
  readonly name: string;
  readonly transport: "stdio" | "http";
  /**
   * State in this process. `idle`: no session uses the server now. `needs_login`: the server required a login, and no
   * person has logged in since then.
   */
  readonly state: "idle" | "connected" | "needs_login" | "failed";
  /** Why the last connection failed, without secrets; `""` if it has not failed. */
  readonly reason: string;
  /** Number of the offered tools. Undefined until they are listed. */
  readonly toolCount: number | undefined;
  /** `none`: a program, or a server whose configured headers authenticate gantry. `stored`: a person has logged in. */
  readonly login: "none" | "possible" | "stored";
}

/** Why a login or logout failed. */
export type McpLoginErrorCode = "mcp_server_not_found" | "login_not_possible" | "login_failed" | "login_expired";

/** Lists the configured MCP servers, and logs a person in (OAuth). Errors have a code of `McpLoginErrorCode`. */
export interface McpServerManager {
  /** In the order of the config. */
  list(): Promise<McpServerStatus[]>;
  /**
   * Begins a login. Resolves with the address at the authorization server for the person's browser; undefined if the
   * server needs no login. Ends an earlier login to the server that is not finished. `redirectUrl`: where the browser
   * returns to. Rejects with `mcp_server_not_found`, `login_not_possible` or `login_failed`.
   */
  beginLogin(name: string, redirectUrl: string): Promise<string | undefined>;
  /**
   * Finishes a login with the query of the redirect. Its `state` is valid once, for 10 minutes. Resolves with the name
   * of the server. Rejects with `login_expired` or `login_failed`.
   */
  finishLogin(parameters: URLSearchParams): Promise<string>;
  /** Deletes a stored login. Resolves with false if there is none. Rejects like `beginLogin`. */
  logOut(name: string): Promise<boolean>;
}
