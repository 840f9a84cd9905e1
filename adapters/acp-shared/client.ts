import { isRecord } from "gantry/plugin";
import type { ClientRequestOptions, Dispatcher } from "./dispatcher.js";
import { RpcError } from "./errors.js";
import {
  CLIENT_METHODS,
  ERROR_CODES,
  type PermissionOption,
  type PermissionOutcome,
  type ToolCallFields,
} from "./wire.js";

/** Time for the user to answer, in ms. A disconnected client is detected by its connection. */
const ANSWER_TIMEOUT_MS = 60 * 60 * 1000;

/**
 * Requests from the agent to the client that prompts a session. They reject with `RpcError` if the client refuses or
 * disconnects.
 */
export interface AcpClient {
  /** Id of the session as the client knows it. */
  readonly sessionId: string;
  /** Whether the client reads and writes files for the agent. */
  readonly capabilities: { readonly readTextFile: boolean; readonly writeTextFile: boolean };
  /** Whether the client shows forms, so that `elicit` can be called. */
  readonly showsForms: boolean;
  /**
   * Reads a file from the client, including unsaved changes. `path` is absolute; `line` starts at 1; `limit` counts
   * lines.
   */
  readTextFile(file: { path: string; line?: number; limit?: number }, options?: ClientRequestOptions): Promise<string>;
  /** Writes a file over the client. `path` is absolute. */
  writeTextFile(file: { path: string; content: string }, options?: ClientRequestOptions): Promise<void>;
  /**
   * Shows a form to the client's user. `requestedSchema`: JSON Schema of an object with plain values. Resolves with the
   * result as the client sent it, without a check. Default timeout: one hour.
   */
  elicit(
    form: { message: string; requestedSchema: Readonly<Record<string, unknown>>; toolCallId?: string },
    options?: ClientRequestOptions,
  ): Promise<unknown>;
  /** Whether the client has no permission requests: it has answered one with "method not found". */
  readonly lacksPermissions: boolean;
  /** Asks the client's user for permission. Default timeout: one hour. */
  requestPermission(
    toolCall: ToolCallFields,
    permissions: readonly PermissionOption[],
    options?: ClientRequestOptions,
  ): Promise<PermissionOutcome>;
}

/** Facts about the client that all sessions of one connection share. */
export interface SharedFacts {
  lacksPermissions: boolean;
}

/** A client's connection, limited to one session. */
export class ConnectionClient implements AcpClient {
  readonly #dispatcher: Dispatcher;
  readonly #sharedFacts: SharedFacts;

  constructor(
    dispatcher: Dispatcher,
    readonly sessionId: string,
    readonly capabilities: AcpClient["capabilities"],
    sharedFacts: SharedFacts,
    readonly showsForms: boolean,
  ) {
    this.#dispatcher = dispatcher;
    this.#sharedFacts = sharedFacts;
  }

  get lacksPermissions(): boolean {
    return this.#sharedFacts.lacksPermissions;
  }

  async readTextFile(
    file: { path: string; line?: number; limit?: number },
    options?: ClientRequestOptions,
  ): Promise<string> {
    const result = await this.#call(CLIENT_METHODS.readTextFile, { ...file }, options);
    if (!isRecord(result) || typeof result.content !== "string")
      throw createInvalidAnswerError(CLIENT_METHODS.readTextFile);
    return result.content;
  }

  async writeTextFile(file: { path: string; content: string }, options?: ClientRequestOptions): Promise<void> {
    await this.#call(CLIENT_METHODS.writeTextFile, { ...file }, options);
  }

  async requestPermission(
    toolCall: ToolCallFields,
    permissions: readonly PermissionOption[],
    options?: ClientRequestOptions,
  ): Promise<PermissionOutcome> {
    const result = await this.#call(
      CLIENT_METHODS.requestPermission,
      { toolCall, options: permissions },
      {
        timeoutMs: ANSWER_TIMEOUT_MS,
        ...options,
      },
    ).catch((error: unknown) => {
      if (error instanceof RpcError && error.rpcCode === ERROR_CODES.methodNotFound)
        this.#sharedFacts.lacksPermissions = true;
      throw error;
    });
    const outcome = isRecord(result) ? result.outcome : undefined;
    if (isRecord(outcome)) {
      if (outcome.outcome === "cancelled") return { outcome: "cancelled" };
      if (outcome.outcome === "selected" && typeof outcome.optionId === "string") {
        return { outcome: "selected", optionId: outcome.optionId };
      }
    }
    throw createInvalidAnswerError(CLIENT_METHODS.requestPermission);
  }

  elicit(form: Parameters<AcpClient["elicit"]>[0], options?: ClientRequestOptions): Promise<unknown> {
    const timeoutMs = ANSWER_TIMEOUT_MS;
    return this.#call(CLIENT_METHODS.createElicitation, { mode: "form", ...form }, { timeoutMs, ...options });
  }

  #call(method: string, params: Record<string, unknown>, options: ClientRequestOptions | undefined): Promise<unknown> {
    return this.#dispatcher.request(method, { sessionId: this.sessionId, ...params }, options);
  }
}

function createInvalidAnswerError(method: string): RpcError {
  return new RpcError(ERROR_CODES.internal, `the client's answer to ${method} is invalid`);
}

/** Clients by session id. */
type ClientRegistry = Map<string, AcpClient>;

// The registry of the process, shared by all copies of this module in plugins.
const globalRegistries = globalThis as unknown as Record<symbol, ClientRegistry | undefined>;
const REGISTRY_KEY = Symbol.for("gantry.acp.clients");

function getRegistry(): ClientRegistry {
  return (globalRegistries[REGISTRY_KEY] ??= new Map<string, AcpClient>());
}

/**
 * The client that currently prompts a session. `sessionId`: the id in a tool's context. Undefined if no ACP client in
 * this process prompts the session.
 */
export function acpClient(sessionId: string): AcpClient | undefined {
  return getRegistry().get(sessionId);
}

/** Registers the client that prompts a session. The returned function removes the registration. */
export function registerClient(sessionId: string, client: AcpClient): () => void {
  getRegistry().set(sessionId, client);
  return () => {
    if (getRegistry().get(sessionId) === client) getRegistry().delete(sessionId);
  };
}
