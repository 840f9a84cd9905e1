import type { ToolSource } from "./tool-source.js";

/** A server of tools that is a program, spoken to by its standard input and output. */
export interface ToolProgram {
  readonly name: string;
  /** Looked for in the PATH, unless it is a path. */
  readonly command: string;
  readonly args: readonly string[];
  /** Beside the plain environment of commands. */
  readonly env: Readonly<Record<string, string>>;
  /** Absolute path of its working directory; left out: the session's project folder. */
  readonly cwd?: string | undefined;
}

/** A server of tools at an address. */
export interface ToolAddress {
  readonly name: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** `http`: streamable HTTP. `sse`: the older way. Left out: the first, and the second where the first is not spoken. */
  readonly type?: "http" | "sse" | undefined;
}

/** A server of tools, as a config or a client names it. */
export type ToolServer = ToolProgram | ToolAddress;

/** Makes sources of the servers that clients bring along with their sessions. */
export interface ToolServers {
  /** Nothing is opened yet. Equal servers are one source. Throws `InputError` for one that may not be had, which says why. */
  source(server: ToolServer): ToolSource;
}
