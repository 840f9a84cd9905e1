import { basename } from "node:path";
import { removeProjectFolders } from "./local-path.js";
import { pathToFileURL } from "node:url";
import {
  Client,
  type AuthProvider,
  type CreateMessageResult,
  type ElicitResult,
  type Transport,
} from "@modelcontextprotocol/client";
import type { Logger } from "gantry";
import { createDeadline, isRecord, startProcess, type StandardSchema, type McpServer } from "gantry/plugin";
import { HttpTransport } from "./http-transport.js";
import { parsePrompts, parseTools, LISTING_LIMITS, type Listing } from "./listing.js";
import { removeInvisible } from "./printable-text.js";
import { codeOf, McpServerError, reasonOf } from "./server-error.js";
import { StdioTransport } from "./stdio-transport.js";

const LIST_TIMEOUT_MS = 20_000;
const PING_TIMEOUT_MS = 5_000;
/** Disables the SDK's own timeout: 23 days. Callers abort a signal instead. */
const NO_TIMEOUT_MS = 2_000_000_000;
const MAX_STDERR_NOTE_CHARACTERS = 300;

/** The client side of a connection: how to start the server, and how to handle its requests. */
export interface ConnectionContext {
  readonly server: McpServer;
  /**
   * Absolute path of the session's project folder, which is the server's root. Also the server's working directory,
   * unless the server's config sets another.
   */
  readonly projectDir: string;
  /** Environment variables that the server process gets in addition to the variables of its config. */
  readonly env: Readonly<Record<string, string>>;
  readonly version: string;
  readonly logger: Logger;
  /** Tokens of a login. Undefined: the server is used without a login. */
  readonly authProvider?: AuthProvider | undefined;
  /** Removes the server's secrets from a text. */
  readonly hide: (text: string) => string;
  /** Sends the server's elicitation request to the user. */
  elicit(params: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<ElicitResult>;
  /** Answers the server's sampling request by the session's model. Undefined: the server may not use the model. */
  readonly sample?:
    ((params: Readonly<Record<string, unknown>>, signal: AbortSignal) => Promise<CreateMessageResult>) | undefined;
  /** Called when the server reports a changed list of tools or prompts. */
  onListChange(): void;
}

export interface PendingCall {
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: {
    progress?: number;
    total?: number | undefined;
    message?: string | undefined;
  }) => void;
}

/**
 * Accepts any object as a result. The fields are checked where they are used, because servers deviate from the
 * protocol.
 */
const RESULT_SCHEMA: StandardSchema<Readonly<Record<string, unknown>>> = {
  "~standard": {
    version: 1,
    vendor: "gantry",
    validate: (value) => (isRecord(value) ? { value } : { issues: [{ message: "the response is not an object" }] }),
  },
};

type AnyTransport = Transport & { readonly endReason: string; readonly stderrText?: string };

/** An open connection to an MCP server. */
export class McpConnection {
  readonly #client: Client;
  readonly #transport: AnyTransport;
  readonly #context: ConnectionContext;
  /** Resolves with the reason when the connection ends. The reason is `""` if it was closed locally. */
  readonly endPromise: Promise<string>;
  #hasEnded = false;

  private constructor(client: Client, transport: AnyTransport, context: ConnectionContext) {
    this.#client = client;
    this.#transport = transport;
    this.#context = context;
    this.endPromise = new Promise((resolve) => {
      client.onclose = () => {
        this.#hasEnded = true;
        this.#logEnd();
        // A server that exited on its own can leave child processes.
        void transport.close().finally(() => resolve(transport.endReason));
      };
    });
  }

  /**
   * Connects to the server. Rejects with `McpServerError` or the signal's reason, after the server's process and
   * connections are closed.
   */
  static async open(context: ConnectionContext, signal: AbortSignal): Promise<McpConnection> {
    const { server } = context;
    if ("command" in server) return McpConnection.#connect(await startServer(server, context), context, signal);
    const connect = (type: "http" | "sse") =>
      McpConnection.#connect(new HttpTransport(server, type, shouldDeliver, context.authProvider), context, signal);
    if (server.type !== undefined) return connect(server.type);
    try {
      return await connect("http");
    } catch (error) {
      const { code } = error instanceof McpServerError ? error : { code: undefined };
      // A server with the older SSE transport answers a POST with a 4xx status, because it expects a GET.
      if (signal.aborted || code === undefined || code < 400 || code >= 500 || code === 401 || code === 403)
        throw error;
      return connect("sse").catch((sseError: unknown) => {
        throw code === 404 || code === 405 ? sseError : error;
      });
    }
  }

  static async #connect(
    transport: AnyTransport,
    context: ConnectionContext,
    signal: AbortSignal,
  ): Promise<McpConnection> {
    const client = createClient(context);
    const connection = new McpConnection(client, transport, context);
    try {
      signal.throwIfAborted();
      await client.connect(transport, { signal, timeout: NO_TIMEOUT_MS });
      return connection;
    } catch (error) {
      const { endReason } = transport;
      await transport.close();
      signal.throwIfAborted();
      const { stderrText = "" } = transport;
      const stderrNote =
        stderrText === "" || endReason === ""
          ? ""
          : `; stderr: ${context.hide(stderrText).split("\n").at(-1)?.slice(0, MAX_STDERR_NOTE_CHARACTERS) ?? ""}`;
      throw new McpServerError((endReason === "" ? reasonOf(error) : endReason) + stderrNote, codeOf(error));
    }
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Lists the server's tools and prompts. Rejects if the tools cannot be listed. */
  async list(signal: AbortSignal): Promise<Listing> {
    const { tools, prompts, resources } = this.#client.getServerCapabilities() ?? {};
    const rejected: string[] = [];
    const [rawTools, rawPrompts] = await Promise.all([
      tools ? this.#readPages("tools/list", "tools", signal) : [],
      // A failed list of prompts must not hide the tools.
      prompts
        ? this.#readPages("prompts/list", "prompts", signal).catch((error: unknown) => {
            signal.throwIfAborted();
            rejected.push(`prompts: ${reasonOf(error)}`);
            return [];
          })
        : [],
    ]);
    return {
      tools: parseTools(rawTools, rejected),
      prompts: parsePrompts(rawPrompts, rejected),
      hasResources: resources !== undefined,
      instructions: removeInvisible(this.#client.getInstructions() ?? "").trim(),
      rejected,
    };
  }

  /** Sends one request and returns its result. Rejects with `McpServerError`, or with the signal's reason. */
  async request(
    method: string,
    params: Readonly<Record<string, unknown>>,
    { signal, onProgress }: PendingCall,
  ): Promise<Readonly<Record<string, unknown>>> {
    try {
      const options = { signal, timeout: NO_TIMEOUT_MS, ...(onProgress && { onprogress: onProgress }) };
      return await this.#client.request({ method, params }, RESULT_SCHEMA, options);
    } catch (error) {
      signal.throwIfAborted();
      // The close event can follow the error, therefore read the reason only here.
      if (this.#hasEnded)
        throw new McpServerError(this.#transport.endReason || "the server exited", codeOf(error), true);
      throw new McpServerError(reasonOf(error), codeOf(error));
    }
  }

  /** Pings the server and closes the connection if no answer arrives in time. */
  async checkAlive(): Promise<void> {
    const signal = AbortSignal.timeout(PING_TIMEOUT_MS);
    await this.#client.ping({ signal, timeout: NO_TIMEOUT_MS }).catch(async () => {
      if (signal.aborted) await this.close();
    });
  }

  /** Resolves when the process and all connections are closed. */
  async close(): Promise<void> {
    await this.#client.close();
    await this.#transport.close();
  }

  async #readPages(method: string, key: string, signal: AbortSignal): Promise<unknown[]> {
    const entries: unknown[] = [];
    let cursor: unknown;
    for (let page = 0; page < LISTING_LIMITS.pages; page++) {
      const deadline = createDeadline(LIST_TIMEOUT_MS, signal);
      const params = cursor === undefined ? {} : { cursor };
      const result = await this.request(method, params, { signal: deadline.signal }).finally(() => deadline.clear());
      const pageEntries = result[key];
      if (!Array.isArray(pageEntries)) throw new McpServerError(`the response to ${method} has no ${key}`);
      // Push one entry at a time: a spread of 100,000 arguments would overflow the stack.
      for (const entry of pageEntries as unknown[])
        if (entries.length < LISTING_LIMITS.scannedEntries) entries.push(entry);
      if (entries.length >= LISTING_LIMITS.scannedEntries) break;
      cursor = result["nextCursor"];
      if (typeof cursor !== "string" || cursor === "") break;
    }
    return entries;
  }

  #logEnd(): void {
    const { stderrText = "", endReason } = this.#transport;
    const { logger, server, hide } = this.#context;
    const fields = { server: server.name, why: endReason, ...(stderrText !== "" && { stderr: hide(stderrText) }) };
    logger.debug("MCP server exited", fields);
  }
}

async function startServer(
  { command, args, env, cwd, name }: Extract<McpServer, { command: string }>,
  { projectDir, env: baseEnv }: ConnectionContext,
): Promise<StdioTransport> {
  try {
    const searchPath = removeProjectFolders(baseEnv["PATH"], projectDir);
    const environment = { ...baseEnv, ...(searchPath !== undefined && { PATH: searchPath }), ...env };
    const process = await startProcess({ file: command, args, cwd: cwd ?? projectDir, env: environment });
    return new StdioTransport(process, shouldDeliver);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new McpServerError(
      code === "ENOENT" ? `command ${command} or the working directory of ${name} was not found` : message,
    );
  }
}

function createClient({ version, projectDir, elicit, sample, onListChange }: ConnectionContext): Client {
  const client = new Client(
    { name: "gantry", version },
    {
      capabilities: { roots: {}, elicitation: {}, ...(sample && { sampling: {} }) },
      // Output schemas come from a third party. They must not be compiled to code.
      jsonSchemaValidator: {
        getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
      },
    },
  );
  client.setRequestHandler("roots/list", () => ({
    roots: [{ uri: pathToFileURL(projectDir).href, name: basename(projectDir) }],
  }));
  client.setRequestHandler("elicitation/create", ({ params }, { mcpReq }) => elicit(params, mcpReq.signal));
  if (sample)
    client.setRequestHandler("sampling/createMessage", ({ params }, { mcpReq }) => sample(params, mcpReq.signal));
  client.fallbackNotificationHandler = ({ method }) => {
    if (/^notifications\/(tools|prompts)\/list_changed$/.test(method)) onListChange();
    return Promise.resolve();
  };
  client.onerror = () => undefined;
  return client;
}

/** Whether the client handles a message. Other notifications are skipped, because some servers log without limit. */
function shouldDeliver(message: Readonly<Record<string, unknown>>): boolean {
  const { method, id } = message;
  if (typeof method !== "string" || id !== undefined) return true;
  return /^notifications\/(progress|cancelled|(tools|prompts)\/list_changed)$/.test(method);
}
