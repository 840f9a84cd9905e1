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
}
