// A minimal ACP client over stdio. It sends requests, counts updates and permits everything.
import type { ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";

interface Frame {
  id?: number | string;
  method?: string;
  params?: Record<string, any>; // eslint-disable-line @typescript-eslint/no-explicit-any -- frames of many agents
  result?: any; // eslint-disable-line @typescript-eslint/no-explicit-any -- as above
  error?: { message: string };
}

/** Measurements of one prompt turn. */
export interface Turn {
  ms: number;
  /** Length of the answer, in characters. */
  characters: number;
  toolCalls: number;
  stopReason: string;
}

/** A connection to one agent over its standard input and output. */
export class AcpClient {
  readonly #child: ChildProcess;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- results of many agents
  readonly #requests = new Map<number | string, { resolve: (value: any) => void; reject: (error: Error) => void }>();
  #incompleteLine = "";
  #nextId = 0;
  #characters = 0;
  #toolCalls = 0;

  constructor(child: ChildProcess) {
    this.#child = child;
    child.stdout?.setEncoding("utf8").on("data", (text: string) => this.#readText(text));
    const rejectPending = (message: string): void => {
      for (const { reject } of this.#requests.values()) reject(new Error(message));
      this.#requests.clear();
    };
    child.once("error", (error) => rejectPending(error.message));
    child.once("exit", (code, signal) => rejectPending(`the agent ended (${code ?? signal})`));
  }

  /** Initializes the agent and creates a session. Resolves with the session id. */
  async openSession(cwd: string): Promise<string> {
    await this.request("initialize", {
      protocolVersion: 1,
      clientInfo: { name: "bench", version: "1" },
      clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
    });
    const { sessionId } = (await this.request("session/new", { cwd, mcpServers: [] })) as { sessionId: string };
    return sessionId;
  }

  /** Sends one prompt and waits for its end. Rejects if the agent reports a failure. */
  async runTurn(sessionId: string, text: string): Promise<Turn> {
    this.#characters = this.#toolCalls = 0;
    const startMs = performance.now();
    const { stopReason } = await this.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
    const ms = performance.now() - startMs;
    if (stopReason !== "end_turn") throw new Error(`a turn ended with ${stopReason}`);
    return { ms, characters: this.#characters, toolCalls: this.#toolCalls, stopReason };
  }

  request(
    method: string,
    params: unknown,
  ): Promise<any> /* eslint-disable-line @typescript-eslint/no-explicit-any -- results of many agents */ {
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#requests.set(id, { resolve, reject });
      this.#send({ id, method, params });
    });
  }

  #send(frame: object): void {
    this.#child.stdin?.write(`${JSON.stringify({ jsonrpc: "2.0", ...frame })}\n`);
  }

  #readText(text: string): void {
    const lines = (this.#incompleteLine + text).split("\n");
    this.#incompleteLine = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("{")) this.#handleFrame(JSON.parse(line) as Frame);
  }

  #handleFrame({ id, method, params, result, error }: Frame): void {
    if (method === "session/update") {
      const update = params?.update;
      if (update?.sessionUpdate === "agent_message_chunk") this.#characters += update.content.text?.length ?? 0;
      else if (update?.sessionUpdate === "tool_call") this.#toolCalls++;
    } else if (method !== undefined && id !== undefined) this.#answerRequest(id, method, params);
    else if (id !== undefined) {
      const pendingRequest = this.#requests.get(id);
      this.#requests.delete(id);
      if (error) pendingRequest?.reject(new Error(error.message));
      else pendingRequest?.resolve(result);
    }
  }

  /** Grants permission to agents that request it. */
  #answerRequest(id: number | string, method: string, params: Frame["params"]): void {
    if (method === "session/request_permission") {
      const options = params?.options as { optionId: string; kind: string }[];
      const { optionId } = options.find(({ kind }) => kind.startsWith("allow")) ?? options[0] ?? { optionId: "allow" };
      this.#send({ id, result: { outcome: { outcome: "selected", optionId } } });
    } else if (method === "fs/read_text_file")
      this.#send({ id, result: { content: readFileSync(String(params?.path), "utf8") } });
    else this.#send({ id, error: { code: -32601, message: "unknown method" } });
  }
}
