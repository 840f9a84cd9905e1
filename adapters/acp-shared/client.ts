import { isRecord } from "gantry/plugin";
import type { CallOptions, Dispatcher } from "./dispatcher.js";
import { RpcError } from "./errors.js";
import { CLIENT_METHODS, CODES, type PermissionOption, type PermissionOutcome, type ToolCallFields } from "./wire.js";

/** A person may be away from the desk; a client that is gone is noticed otherwise. */
const PERMISSION_TIMEOUT_MS = 60 * 60 * 1000;

/** What an agent can ask of the client that prompts a session. Rejects with `RpcError` when the client refuses or is gone. */
export interface AcpClient {
  /** The session, in the client's own word for it. */
  readonly sessionId: string;
  /** Whether the client said that it reads and writes files for the agent. */
  readonly capabilities: { readonly readTextFile: boolean; readonly writeTextFile: boolean };
  /** A file as the client has it, with unsaved changes. `path` absolute, `line` from 1, `limit` in lines. */
  readTextFile(file: { path: string; line?: number; limit?: number }, options?: CallOptions): Promise<string>;
  writeTextFile(file: { path: string; content: string }, options?: CallOptions): Promise<void>;
  /** Whether the client has answered a permission request with "method not found". */
  readonly lacksPermissions: boolean;
  /** Ask the person at the client. */
  requestPermission(
    toolCall: ToolCallFields,
    permissions: readonly PermissionOption[],
    options?: CallOptions,
  ): Promise<PermissionOutcome>;
}

/** Facts about the client that all sessions of one connection share. */
export interface SharedFacts {
  lacksPermissions: boolean;
}

/** The client's side of one session on one connection. */
export class ConnectionClient implements AcpClient {
  readonly #dispatcher: Dispatcher;
  readonly #shared: SharedFacts;

  constructor(
    dispatcher: Dispatcher,
    readonly sessionId: string,
    readonly capabilities: AcpClient["capabilities"],
    shared: SharedFacts,
  ) {
    this.#dispatcher = dispatcher;
    this.#shared = shared;
  }

  get lacksPermissions(): boolean {
    return this.#shared.lacksPermissions;
  }

  async readTextFile(file: { path: string; line?: number; limit?: number }, options?: CallOptions): Promise<string> {
    const result = await this.#call(CLIENT_METHODS.readTextFile, { ...file }, options);
    if (!isRecord(result) || typeof result.content !== "string") throw badAnswer(CLIENT_METHODS.readTextFile);
    return result.content;
  }

  async writeTextFile(file: { path: string; content: string }, options?: CallOptions): Promise<void> {
    await this.#call(CLIENT_METHODS.writeTextFile, { ...file }, options);
  }

  async requestPermission(
    toolCall: ToolCallFields,
    permissions: readonly PermissionOption[],
    options?: CallOptions,
  ): Promise<PermissionOutcome> {
    const result = await this.#call(
      CLIENT_METHODS.requestPermission,
      { toolCall, options: permissions },
      {
        timeoutMs: PERMISSION_TIMEOUT_MS,
        ...options,
      },
    ).catch((error: unknown) => {
      if (error instanceof RpcError && error.rpcCode === CODES.methodNotFound) this.#shared.lacksPermissions = true;
      throw error;
    });
    const outcome = isRecord(result) ? result.outcome : undefined;
    if (isRecord(outcome)) {
      if (outcome.outcome === "cancelled") return { outcome: "cancelled" };
      if (outcome.outcome === "selected" && typeof outcome.optionId === "string") {
        return { outcome: "selected", optionId: outcome.optionId };
      }
    }
    throw badAnswer(CLIENT_METHODS.requestPermission);
  }

  #call(method: string, params: Record<string, unknown>, options: CallOptions | undefined): Promise<unknown> {
    return this.#dispatcher.request(method, { sessionId: this.sessionId, ...params }, options);
  }
}

function badAnswer(method: string): RpcError {
  return new RpcError(CODES.internal, `the client's answer to ${method} has the wrong shape`);
}

type Registry = Map<string, AcpClient>;

// One for the process, whichever copy of this module a plugin got.
const holder = globalThis as unknown as Record<symbol, Registry | undefined>;
const KEY = Symbol.for("gantry.acp.clients");

function registry(): Registry {
  return (holder[KEY] ??= new Map<string, AcpClient>());
}

/** The client that prompts a session right now; `sessionId` as a tool's context has it. Undefined where the run came by another way. */
export function acpClient(sessionId: string): AcpClient | undefined {
  return registry().get(sessionId);
}

/** Say who prompts a session; the returned function ends it. */
export function announceClient(sessionId: string, client: AcpClient): () => void {
  registry().set(sessionId, client);
  return () => {
    if (registry().get(sessionId) === client) registry().delete(sessionId);
  };
}
