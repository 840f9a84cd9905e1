import { after } from "node:test";
import type { Profile } from "../../adapters/acp-shared/index.js";
import { assertValidMessage } from "./acp-schema.js";
import { WAIT_LIMIT_MS } from "./wait.js";

/** JSON in tests; the schema asserts its shape. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Json = any;

export interface AcpResponse {
  id: unknown;
  result?: Json;
  error?: { code: number; message: string; data?: Json };
}

interface Waiter {
  test: (message: Json) => boolean;
  resolve: (message: Json) => void;
  reject: (error: Error) => void;
}

/** Timers of pending waits. They keep the process alive only while tests run. */
const waitTimers = new Set<NodeJS.Timeout>();
after(() => waitTimers.forEach((timer) => timer.unref()));

/** An ACP client that a test controls. It validates each received message against the official schema. */
export class AcpPeer {
  /** All received messages, in order. */
  readonly receivedMessages: Json[] = [];
  /** Validation errors of received messages. */
  readonly validationErrors: Error[] = [];
  /** Returns the result for a request of the agent; undefined sends no response. Default: error -32601. */
  onRequest: ((method: string, params: Json) => unknown) | undefined;
  /** Selects gantry's specification or the official schema, where both differ. */
  profile: Profile;
  readonly #writeText: (text: string) => void;
  readonly #methodsById = new Map<string, string>();
  readonly #waiters = new Set<Waiter>();
  #lastId = 0;

  constructor(write: (text: string) => void, profile: Profile = "spec") {
    this.#writeText = write;
    this.profile = profile;
  }

  /** Validates a received message, answers a request, and resolves matching waits. */
  receiveMessage(message: Json): void {
    this.receivedMessages.push(message);
    const key = JSON.stringify(message?.id ?? null);
    const method = "method" in message ? undefined : this.#methodsById.get(key);
    try {
      assertValidMessage(message, method, this.profile);
    } catch (error) {
      this.validationErrors.push(error as Error);
    }
    if ("method" in message && "id" in message) this.#answerRequest(message);
    for (const waiter of [...this.#waiters]) {
      if (!waiter.test(message)) continue;
      this.#waiters.delete(waiter);
      waiter.resolve(message);
    }
  }

  /** Sends a text unchanged. */
  sendText(text: string): void {
    this.#writeText(text);
  }

  send(message: Json): void {
    if (message?.method !== undefined && message.id !== undefined) {
      this.#methodsById.set(JSON.stringify(message.id), message.method);
    }
    this.#writeText(JSON.stringify(message));
  }

  notify(method: string, params?: Json): void {
    this.send({ jsonrpc: "2.0", method, params });
  }

  /** Sends a request. Resolves with the complete response. */
  async call(method: string, params?: Json, id: unknown = (this.#lastId += 1)): Promise<AcpResponse> {
    const response = this.waitForNext((message) => !("method" in message) && message.id === id);
    this.send({ jsonrpc: "2.0", id, method, params });
    return response;
  }

  /** Sends a request. Resolves with its result, rejects with its error. */
  async request(method: string, params?: Json, id?: unknown): Promise<Json> {
    const response = await (id === undefined ? this.call(method, params) : this.call(method, params, id));
    if (response.error) throw new Error(`${method}: ${response.error.code} ${response.error.message}`);
    return response.result;
  }

  /** Waits for the next message that matches. */
  waitForNext(test: (message: Json) => boolean): Promise<Json> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiters.delete(waiter);
        const receivedText = JSON.stringify(this.receivedMessages).slice(-2000);
        reject(new Error(`not within ${WAIT_LIMIT_MS} ms: a message with ${String(test)}; received: ${receivedText}`));
      }, WAIT_LIMIT_MS);
      waitTimers.add(timer);
      const settle = (message: Json): void => {
        clearTimeout(timer);
        waitTimers.delete(timer);
        resolve(message);
      };
      const waiter: Waiter = { test, resolve: settle, reject };
      this.#waiters.add(waiter);
    });
  }

  /** A matching message that was already received, or the next one. */
  waitForMessage(test: (message: Json) => boolean): Promise<Json> {
    const match: Json = this.receivedMessages.find(test);
    return match === undefined ? this.waitForNext(test) : Promise.resolve(match);
  }

  /** All received session updates; with `sessionId`, only those of that session. */
  getUpdates(sessionId?: string): Json[] {
    return this.receivedMessages
      .filter((message) => message.method === "session/update")
      .filter((message) => sessionId === undefined || message.params.sessionId === sessionId)
      .map((message) => message.params.update);
  }

  /** Concatenated text of all chunks of a kind. */
  getText(sessionId?: string, kind = "agent_message_chunk"): string {
    return this.getUpdates(sessionId)
      .filter((update) => update.sessionUpdate === kind)
      .map((update) => update.content.text)
      .join("");
  }

  async initialize(params: Json = {}): Promise<Json> {
    return this.request("initialize", { protocolVersion: 1, ...params });
  }

  async newSession(cwd: string): Promise<string> {
    const { sessionId } = await this.request("session/new", { cwd, mcpServers: [] });
    return sessionId as string;
  }

  /** Sends a prompt with one text. Resolves with the result. */
  prompt(sessionId: string, text: string): Promise<Json> {
    return this.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
  }

  /** Asserts that all received messages were valid. */
  assertNoValidationErrors(): void {
    const [firstError] = this.validationErrors;
    if (firstError) throw firstError;
  }

  #answerRequest({ id, method, params }: Json): void {
    const respond = async () => {
      if (!this.onRequest) {
        this.send({ jsonrpc: "2.0", id, error: { code: -32601, message: "method not found" } });
        return;
      }
      const result = await this.onRequest(String(method), params);
      if (result !== undefined) this.send({ jsonrpc: "2.0", id, result });
    };
    respond().catch((error: unknown) => this.validationErrors.push(error as Error));
  }
}
