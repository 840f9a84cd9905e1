import { basename } from "node:path";
import { ownPath } from "./local-path.js";
import { pathToFileURL } from "node:url";
import { Client, SdkHttpError, type ElicitResult, type Transport } from "@modelcontextprotocol/client";
import type { Logger } from "gantry";
import { isRecord, startProcess, type StandardSchema, type ToolServer } from "gantry/plugin";
import { HttpTransport } from "./http-transport.js";
import { listedPrompts, listedTools, MOST, type Listing } from "./listing.js";
import { line } from "./printable-text.js";
import { StdioTransport } from "./stdio-transport.js";

/** For one page of a list, and for a sign of life, in ms. */
const LIST_MS = 20_000;
const PING_MS = 5_000;
/** Nobody waits longer in the SDK's own time; those who ask have theirs. */
const FOREVER_MS = 2_000_000_000;

/** What a server may ask of us, and how it is told. */
export interface ConnectionContext {
  readonly server: ToolServer;
  /** Absolute path of the folder that its session works on: its working directory, unless it names one, and its root. */
  readonly projectDir: string;
  /** What programs get beside their own. */
  readonly env: Readonly<Record<string, string>>;
  readonly version: string;
  readonly logger: Logger;
  /** Without the server's secrets. */
  readonly hide: (text: string) => string;
  /** Put what a server wants to know to whoever is there. */
  elicit(params: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<ElicitResult>;
  /** It offers something else from now on. */
  changed(): void;
}

export interface Asked {
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: {
    progress?: number;
    total?: number | undefined;
    message?: string | undefined;
  }) => void;
}

/** An answer: its parts are checked where they are used, since servers differ in them. */
const RESULT: StandardSchema<Readonly<Record<string, unknown>>> = {
  "~standard": {
    version: 1,
    vendor: "gantry",
    validate: (value) => (isRecord(value) ? { value } : { issues: [{ message: "its answer is none" }] }),
  },
};

type AnyTransport = Transport & { readonly why: string; readonly errors?: string };

/** A server that answers. */
export class Connection {
  readonly #client: Client;
  readonly #transport: AnyTransport;
  readonly #context: ConnectionContext;
  /** Resolves with why, when it answers no more. */
  readonly ended: Promise<string>;
  #over = false;

  private constructor(client: Client, transport: AnyTransport, context: ConnectionContext) {
    this.#client = client;
    this.#transport = transport;
    this.#context = context;
    this.ended = new Promise((resolve) => {
      client.onclose = () => {
        this.#over = true;
        this.#tellErrors();
        // Of one that ended by itself something may be left.
        void transport.close().finally(() => resolve(transport.why));
      };
    });
  }

  /** Rejects with why it cannot be spoken to; nothing of it is left then. */
  static async open(context: ConnectionContext, signal: AbortSignal): Promise<Connection> {
    const { server } = context;
    if ("command" in server) return Connection.#begin(await program(server, context), context, signal);
    const over = (type: "http" | "sse") =>
      Connection.#begin(new HttpTransport(server, type, isWanted), context, signal);
    if (server.type !== undefined) return over(server.type);
    try {
      return await over("http");
    } catch (error) {
      const { code } = error instanceof Fault ? error : { code: undefined };
      // What the older way says to a POST where it awaits a GET.
      if (signal.aborted || code === undefined || code < 400 || code >= 500 || code === 401 || code === 403)
        throw error;
      return over("sse").catch((other: unknown) => {
        throw code === 404 || code === 405 ? other : error;
      });
    }
  }

  static async #begin(transport: AnyTransport, context: ConnectionContext, signal: AbortSignal): Promise<Connection> {
    const client = clientFor(context);
    const connection = new Connection(client, transport, context);
    try {
      signal.throwIfAborted();
      await client.connect(transport, { signal, timeout: FOREVER_MS });
      return connection;
    } catch (error) {
      const { why } = transport;
      await transport.close();
      signal.throwIfAborted();
      const { errors = "" } = transport;
      const said =
        errors === "" || why === "" ? "" : `; it said: ${context.hide(errors).split("\n").at(-1)?.slice(0, 300) ?? ""}`;
      throw new Fault((why === "" ? reasonOf(error) : why) + said, codeOf(error));
    }
  }

  get isOver(): boolean {
    return this.#over;
  }

  /** What it offers. Rejects where it does not tell. */
  async list(signal: AbortSignal): Promise<Listing> {
    const { tools, prompts, resources } = this.#client.getServerCapabilities() ?? {};
    const left: string[] = [];
    const [someTools, somePrompts] = await Promise.all([
      tools ? this.#pages("tools/list", "tools", signal) : [],
      // Who has prompts and does not tell them has tools all the same.
      prompts
        ? this.#pages("prompts/list", "prompts", signal).catch((error: unknown) => {
            signal.throwIfAborted();
            left.push(`its prompts: ${reasonOf(error)}`);
            return [];
          })
        : [],
    ]);
    return {
      tools: listedTools(someTools, left),
      prompts: listedPrompts(somePrompts, left),
      hasResources: resources !== undefined,
      left,
    };
  }

  /** Rejects with `Fault`, or with the signal's reason. */
  async ask(
    method: string,
    params: Readonly<Record<string, unknown>>,
    { signal, onProgress }: Asked,
  ): Promise<Readonly<Record<string, unknown>>> {
    try {
      const options = { signal, timeout: FOREVER_MS, ...(onProgress && { onprogress: onProgress }) };
      return await this.#client.request({ method, params }, RESULT, options);
    } catch (error) {
      signal.throwIfAborted();
      // Why it is over is known a moment later.
      if (this.#over) throw new Fault(this.#transport.why || "it has ended", codeOf(error), true);
      throw new Fault(reasonOf(error), codeOf(error));
    }
  }

  /** Whether it still answers; one that does not is closed. */
  async checkAlive(): Promise<void> {
    const signal = AbortSignal.timeout(PING_MS);
    await this.#client.ping({ signal, timeout: FOREVER_MS }).catch(async () => {
      if (signal.aborted) await this.close();
    });
  }

  /** Resolves when nothing of it is left. */
  async close(): Promise<void> {
    await this.#client.close();
    await this.#transport.close();
  }

  async #pages(method: string, key: string, signal: AbortSignal): Promise<unknown[]> {
    const all: unknown[] = [];
    let cursor: unknown;
    for (let page = 0; page < MOST.pages; page++) {
      const time = AbortSignal.any([signal, AbortSignal.timeout(LIST_MS)]);
      const result = await this.ask(method, cursor === undefined ? {} : { cursor }, { signal: time });
      const some = result[key];
      if (!Array.isArray(some)) throw new Fault(`its answer to ${method} has no ${key}`);
      // One by one: of a hundred thousand there are no arguments of a call.
      for (const one of some as unknown[]) if (all.length < MOST.looked) all.push(one);
      if (all.length >= MOST.looked) break;
      cursor = result["nextCursor"];
      if (typeof cursor !== "string" || cursor === "") break;
    }
    return all;
  }

  #tellErrors(): void {
    const { errors = "", why } = this.#transport;
    const { logger, server, hide } = this.#context;
    const fields = { server: server.name, why, ...(errors !== "" && { stderr: hide(errors) }) };
    logger.debug("a server of tools has ended", fields);
  }
}

/** What a server did not do, and why. */
export class Fault extends Error {
  /** Of HTTP, or of JSON-RPC. */
  readonly code: number | undefined;
  /** Whether it ended meanwhile. */
  readonly ended: boolean;

  constructor(message: string, code?: number, ended = false) {
    super(message);
    this.code = code;
    this.ended = ended;
  }
}

async function program(
  { command, args, env, cwd, name }: Extract<ToolServer, { command: string }>,
  { projectDir, env: plain }: ConnectionContext,
): Promise<StdioTransport> {
  try {
    const path = ownPath(plain["PATH"], projectDir);
    const given = { ...plain, ...(path !== undefined && { PATH: path }), ...env };
    const process = await startProcess({ file: command, args, cwd: cwd ?? projectDir, env: given });
    return new StdioTransport(process, isWanted);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new Fault(code === "ENOENT" ? `there is no ${command}, or no folder that ${name} could run in` : message);
  }
}

function clientFor({ version, projectDir, elicit, changed }: ConnectionContext): Client {
  const client = new Client(
    { name: "gantry", version },
    {
      capabilities: { roots: {}, elicitation: {} },
      // Schemas of what tools answer are of strangers: none is made a program of.
      jsonSchemaValidator: {
        getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
      },
    },
  );
  client.setRequestHandler("roots/list", () => ({
    roots: [{ uri: pathToFileURL(projectDir).href, name: basename(projectDir) }],
  }));
  client.setRequestHandler("elicitation/create", ({ params }, { mcpReq }) => elicit(params, mcpReq.signal));
  client.fallbackNotificationHandler = ({ method }) => {
    if (/^notifications\/(tools|prompts)\/list_changed$/.test(method)) changed();
    return Promise.resolve();
  };
  client.onerror = () => undefined;
  return client;
}

/** What nobody hears is not looked at: some log without end. */
function isWanted(message: Readonly<Record<string, unknown>>): boolean {
  const { method, id } = message;
  if (typeof method !== "string" || id !== undefined) return true;
  return /^notifications\/(progress|cancelled|(tools|prompts)\/list_changed)$/.test(method);
}

/** In a line, without what it says of itself. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error as { cause?: { code?: unknown; message?: unknown } };
  if (error instanceof TypeError && cause) {
    const code = cause.code ?? cause.message;
    return `it could not be reached (${typeof code === "string" ? code : "no answer"})`;
  }
  if (error instanceof SdkHttpError && (error.status === 401 || error.status === 403))
    return `it answered with ${error.status}: the headers of its config should say who asks`;
  const plain = error.message
    .replace(/^MCP error -?\d+: /, "")
    .replace(/^(Streamable HTTP|SSE) error: /, "")
    .replace(/^Error POSTing to endpoint( \(HTTP \d+\))?: /, `it answered with ${codeOf(error) ?? "an error"}: `);
  return line(plain).slice(0, 1_000);
}

/** The status of HTTP, or the code of JSON-RPC. */
function codeOf(error: unknown): number | undefined {
  if (error instanceof SdkHttpError) return error.status;
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "number" ? code : undefined;
}
