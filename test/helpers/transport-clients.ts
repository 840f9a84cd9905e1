import type { Readable, Writable } from "node:stream";
import { tmpdir } from "node:os";
import type { Listening } from "gantry/plugin";
import type { TransportClient } from "gantry/testing";
import { WebSocket } from "ws";

/** A client of the HTTP API that streams and reads server-sent events. */
export function createHttpClient({ address }: Listening): Promise<TransportClient> {
  const closeController = new AbortController();
  const client: TransportClient = {
    async prompt(message, { sessionId, onText } = {}) {
      const response = await fetch(new URL("/api/run", address), {
        method: "POST",
        body: JSON.stringify({ message, stream: true, ...(sessionId === undefined ? {} : { session_id: sessionId }) }),
        signal: closeController.signal,
      });
      if (!response.ok || !response.body) throw new Error(await response.text());
      let text = "";
      let incompleteBlock = "";
      for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
        const blocks = (incompleteBlock + chunk).split("\n\n");
        incompleteBlock = blocks.pop() ?? "";
        for (const block of blocks) {
          const [, event, data] = /^event: (.*)\ndata: (.*)$/s.exec(block) ?? [];
          if (event === undefined || data === undefined) continue;
          const payload = JSON.parse(data) as { type?: string; content?: string; error?: string };
          if (event === "error") throw new Error(payload.error);
          if (payload.type !== "token") continue;
          text += payload.content ?? "";
          onText?.(payload.content ?? "");
        }
      }
      return { text, sessionId: response.headers.get("x-session-id") ?? "" };
    },
    close() {
      closeController.abort();
      return Promise.resolve();
    },
  };
  return Promise.resolve(client);
}

interface AcpMessage {
  id?: number;
  method?: string;
  params?: { sessionId: string; update: { sessionUpdate: string; content?: { text?: string } } };
  result?: Record<string, unknown>;
  error?: { message: string };
}

/** An ACP client over any connection that carries texts. */
class AcpConnection {
  readonly #send: (text: string) => void;
  readonly #pendingCalls = new Map<
    number,
    { resolve: (message: AcpMessage) => void; reject: (error: Error) => void }
  >();
  readonly #listeners = new Map<string, (text: string) => void>();
  #closeError: Error | undefined;
  #lastId = 0;

  constructor(send: (text: string) => void) {
    this.#send = send;
  }

  receiveMessage(text: string): void {
    const message = JSON.parse(text) as AcpMessage;
    const update = message.params?.update;
    if (message.method === "session/update" && update?.sessionUpdate === "agent_message_chunk")
      this.#listeners.get(message.params?.sessionId ?? "")?.(update.content?.text ?? "");
    else if (message.id !== undefined && message.method === undefined) {
      this.#pendingCalls.get(message.id)?.resolve(message);
      this.#pendingCalls.delete(message.id);
    }
  }

  /** Rejects all pending and later calls, because the connection is closed. */
  rejectCalls(): void {
    this.#closeError = new Error("the connection is closed");
    for (const { reject } of this.#pendingCalls.values()) reject(this.#closeError);
    this.#pendingCalls.clear();
  }

  async callMethod(method: string, params: object): Promise<Record<string, unknown>> {
    if (this.#closeError) throw this.#closeError;
    const id = ++this.#lastId;
    const responsePromise = new Promise<AcpMessage>((resolve, reject) =>
      this.#pendingCalls.set(id, { resolve, reject }),
    );
    this.#send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    const { result, error } = await responsePromise;
    if (error) throw new Error(error.message);
    return result ?? {};
  }

  createClient(close: (sessions: readonly string[]) => Promise<void>): TransportClient {
    const sessions: string[] = [];
    return {
      prompt: async (message, { sessionId, onText } = {}) => {
        const id =
          sessionId ?? ((await this.callMethod("session/new", { cwd: tmpdir(), mcpServers: [] })).sessionId as string);
        sessions.push(id);
        let text = "";
        this.#listeners.set(id, (piece) => {
          text += piece;
          onText?.(piece);
        });
        const prompt = [{ type: "text", text: message }];
        const { stopReason } = await this.callMethod("session/prompt", { sessionId: id, prompt });
        if (stopReason !== "end_turn") throw new Error(String(stopReason));
        return { text, sessionId: id };
      },
      close: () => close(sessions),
    };
  }
}

/** An ACP client over a WebSocket. */
export async function connectWebSocketClient({ address }: Listening): Promise<TransportClient> {
  const socket = new WebSocket(address.replace(/^http/, "ws"));
  const connection = new AcpConnection((text) => socket.send(text));
  const closeEvent = new Promise<void>((resolve) => socket.once("close", () => (connection.rejectCalls(), resolve())));
  socket.on("message", (data: Buffer) => connection.receiveMessage(data.toString("utf8")));
  await new Promise<void>((resolve, reject) => {
    socket.once("open", resolve);
    socket.on("error", reject);
  });
  await connection.callMethod("initialize", { protocolVersion: 1 });
  return connection.createClient(() => {
    socket.close();
    return closeEvent;
  });
}

/** ACP clients over a pair of streams. All clients share the connection, and each has its own sessions. */
export function createStreamClients(
  input: Writable,
  output: Readable,
): (listening: Listening) => Promise<TransportClient> {
  const connection = new AcpConnection((text) => input.write(`${text}\n`));
  let incompleteLine = "";
  output.setEncoding("utf8").on("data", (chunk: string) => {
    const lines = (incompleteLine + chunk).split("\n");
    incompleteLine = lines.pop() ?? "";
    for (const line of lines) connection.receiveMessage(line);
  });
  let initialization: Promise<unknown> | undefined;
  return async (listening) => {
    if (!initialization) void listening.ended.then(() => connection.rejectCalls());
    initialization ??= connection.callMethod("initialize", { protocolVersion: 1 });
    await initialization;
    return connection.createClient(async (sessions) => {
      for (const sessionId of sessions)
        await connection.callMethod("session/close", { sessionId }).catch(() => undefined);
    });
  };
}
