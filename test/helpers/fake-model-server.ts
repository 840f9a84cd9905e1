import { once, setMaxListeners } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { anthropic } from "./fake-model-server/anthropic.js";
import { sendFlood } from "./fake-model-server/flood.js";
import { google } from "./fake-model-server/google.js";
import { openaiChat } from "./fake-model-server/openai-chat.js";
import { openaiResponses } from "./fake-model-server/openai-responses.js";
import type { FakeFault, FakeStep } from "./fake-model-server/steps.js";
import type {
  ControlFrame,
  Dialect,
  FakeWire,
  FakeWireName,
  Frame,
  Json,
  WireRequest,
} from "./fake-model-server/wire.js";

export * from "./fake-model-server/steps.js";
export type { Dialect, FakeWireName } from "./fake-model-server/wire.js";

const WIRES: readonly FakeWire[] = [openaiChat, openaiResponses, anthropic, google];

/** A received request and its outcome. */
export interface FakeRequest extends WireRequest {
  readonly method: string;
  /** Path with the query string. */
  readonly url: string;
  readonly wire: FakeWireName | undefined;
  readonly model: string;
  readonly stream: boolean;
  /** Names of the offered tools. */
  readonly tools: readonly string[];
  /** Resolves when the answer has ended: `true` if the client disconnected before the answer's end. */
  readonly isAborted: Promise<boolean>;
}

export type ScriptedAnswer = FakeStep | ((request: FakeRequest) => FakeStep | Promise<FakeStep>);

export interface FakeModelServerOptions {
  /** Answer when the queue is empty. Default: the text `OK.` */
  fallback?: ScriptedAnswer;
  /** Answers requests without tools (titles, summaries) instead of the queue. Default: the queue answers them too. */
  toolFreeAnswer?: ScriptedAnswer;
  /** Entries of the model listing; a string is an id. Default: `m1`. */
  models?: readonly (string | Record<string, unknown>)[];
  /** A request with another key gets status 401 and a message that contains that key. Default: any key is accepted. */
  apiKey?: string;
  /** Differences from the provider's own rules. */
  dialect?: Dialect;
}

/** A scripted model provider on a real socket. It rejects everything that a real provider would reject. */
export interface FakeModelServer {
  /** Origin, without a path: `http://127.0.0.1:1234`. */
  readonly url: string;
  /** Base URL of OpenAI's wires: `<url>/v1`. */
  readonly baseUrl: string;
  /** Model requests in order of arrival, including rejected ones. */
  readonly requests: readonly FakeRequest[];
  /** The last request that offers tools. A request for a title offers none, and may arrive after the run has ended. */
  readonly lastRunRequest: FakeRequest | undefined;
  /** Requests for the model listing. */
  readonly listingRequests: readonly FakeRequest[];
  /** Every rule that a request violated; such requests got 400. */
  readonly violations: readonly string[];
  fallback: ScriptedAnswer;
  toolFreeAnswer: ScriptedAnswer | undefined;
  models: readonly (string | Record<string, unknown>)[];
  /** Replaces the listing. A step with `say` only adds its gates, stalls and resets before `models` are sent. */
  listing: FakeStep | undefined;
  dialect: Dialect;
  /** Adds answers to the queue for the next requests. */
  enqueue(...answers: ScriptedAnswer[]): void;
  /** Number of answers in the queue. */
  readonly queuedCount: number;
  /** Opens a gate: pieces `{ gate: name }` continue, now and later. */
  openGate(gate: string): void;
  /** Resolves with request number `count` (from 1) once it has arrived. */
  waitForRequest(count: number): Promise<FakeRequest>;
  close(): Promise<void>;
}

class Server implements FakeModelServer {
  readonly requests: FakeRequest[] = [];
  readonly listingRequests: FakeRequest[] = [];
  readonly violations: string[] = [];
  fallback: ScriptedAnswer;
  toolFreeAnswer: ScriptedAnswer | undefined;
  models: readonly (string | Record<string, unknown>)[];
  listing: FakeStep | undefined;
  dialect: Dialect;
  url = "";
  readonly #apiKey: string | undefined;
  readonly #queue: ScriptedAnswer[] = [];
  readonly #gates = new Map<string, { openPromise: Promise<void>; open: () => void }>();
  readonly #waiters: { count: number; resolve: (request: FakeRequest) => void }[] = [];
  readonly #closeController = new AbortController();
  readonly #http = createServer((request, response) => void this.#serve(request, response));
  #idCount = 0;

  constructor(options: FakeModelServerOptions) {
    this.fallback = options.fallback ?? { say: [{ text: "OK." }] };
    this.toolFreeAnswer = options.toolFreeAnswer;
    this.models = options.models ?? ["m1"];
    this.dialect = options.dialect ?? {};
    this.#apiKey = options.apiKey;
    this.#http.keepAliveTimeout = 60_000;
    // Each waiting answer adds a listener.
    setMaxListeners(0, this.#closeController.signal);
  }

  get baseUrl(): string {
    return `${this.url}/v1`;
  }

  get queuedCount(): number {
    return this.#queue.length;
  }

  async listen(port: number): Promise<void> {
    this.#http.listen(port, "127.0.0.1");
    await once(this.#http, "listening");
    this.url = `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
  }

  get lastRunRequest(): FakeRequest | undefined {
    return this.requests.filter(({ tools }) => tools.length > 0).at(-1);
  }

  enqueue(...answers: ScriptedAnswer[]): void {
    this.#queue.push(...answers);
  }

  openGate(gate: string): void {
    this.#getGate(gate).open();
  }

  waitForRequest(count: number): Promise<FakeRequest> {
    const existingRequest = this.requests[count - 1];
    if (existingRequest !== undefined) return Promise.resolve(existingRequest);
    return new Promise((resolve) => this.#waiters.push({ count, resolve }));
  }

  async close(): Promise<void> {
    this.#closeController.abort();
    const closeEvent = once(this.#http, "close");
    this.#http.close();
    this.#http.closeAllConnections();
    await closeEvent;
  }

  #getGate(name: string): { openPromise: Promise<void>; open: () => void } {
    let gate = this.#gates.get(name);
    if (gate === undefined) {
      let open = (): void => {};
      const openPromise = new Promise<void>((resolve) => (open = resolve));
      gate = { openPromise, open };
      this.#gates.set(name, gate);
    }
    return gate;
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await this.#handle(incoming, response);
    } catch (error) {
      // The client has disconnected, or the script is wrong: the connection cannot be used further.
      if (!response.headersSent && !response.destroyed) response.writeHead(500).end(String(error));
      else response.destroy();
    }
  }

  async #handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const url = incoming.url ?? "/";
    const path = url.split("?")[0]!;
    if (path.startsWith("/__open/")) {
      this.openGate(decodeURIComponent(path.slice("/__open/".length)));
      response.writeHead(204).end();
      return;
    }
    const wire = incoming.method === "POST" ? WIRES.find((candidate) => candidate.matches(path)) : undefined;
    const bodyText = Buffer.concat(chunks).toString("utf8");
    let body: Json;
    try {
      body = bodyText === "" ? undefined : JSON.parse(bodyText);
    } catch {
      body = bodyText;
    }
    let resolveAborted = (_isAborted: boolean): void => {};
    const isAborted = new Promise<boolean>((resolve) => (resolveAborted = resolve));
    response.once("close", () => resolveAborted(!response.writableFinished));
    const requestFields = {
      method: incoming.method ?? "",
      url,
      path,
      headers: incoming.headers,
      body,
      wire: wire?.name,
      isAborted,
    };
    const request: FakeRequest = {
      ...requestFields,
      ...(wire?.readFacts(requestFields) ?? { model: "", stream: false, tools: [] }),
    };

    if (wire === undefined) {
      if (incoming.method === "GET" && /\/models$/.test(path)) await this.#sendListing(request, response);
      else
        sendJson(response, 404, {
          error: { message: `Not found: ${incoming.method} ${path}`, type: "invalid_request_error" },
        });
      return;
    }
    this.requests.push(request);
    for (const waiter of this.#waiters.filter(({ count }) => count === this.requests.length)) waiter.resolve(request);

    const key = wire.readApiKey(request);
    if (this.#apiKey !== undefined && key !== this.#apiKey) {
      sendJson(
        response,
        401,
        wire.createError(401, { message: `Incorrect API key provided: ${key ?? ""}.`, code: "invalid_api_key" }),
      );
      return;
    }
    const violation = wire.findViolation(request, this.dialect);
    if (violation !== undefined) {
      this.violations.push(violation);
      sendJson(response, 400, wire.createError(400, { message: violation }));
      return;
    }
    const answer =
      request.tools.length === 0 && this.toolFreeAnswer !== undefined
        ? this.toolFreeAnswer
        : (this.#queue.shift() ?? this.fallback);
    await this.#playStep(typeof answer === "function" ? await answer(request) : answer, wire, request, response);
  }

  async #sendListing(request: FakeRequest, response: ServerResponse): Promise<void> {
    this.listingRequests.push(request);
    const { listing } = this;
    if (listing !== undefined && listing.say === undefined) {
      await this.#playStep(listing, openaiChat, request, response);
      return;
    }
    for (const piece of listing?.say ?? []) {
      const isControl = "gate" in piece || "stall" in piece || "reset" in piece;
      if (isControl && (await this.#runControl(piece, response))) return;
    }
    const entries = this.models.map((model) => (typeof model === "string" ? { id: model } : model));
    if (request.path.includes("/v1beta/")) sendJson(response, 200, { models: entries });
    else
      sendJson(response, 200, {
        object: "list",
        has_more: false,
        data: entries.map((entry) => ({ object: "model", owned_by: "fake", ...entry })),
      });
  }

  async #playStep(step: FakeStep, wire: FakeWire, request: FakeRequest, response: ServerResponse): Promise<void> {
    // `delay`, `pace` and `wait` simulate a slow model in tests that need one.
    if (step.delay !== undefined) await this.#pause(step.delay);
    if (step.flood !== undefined) {
      await sendFlood(step.flood, step.status ?? 200, step.headers ?? {}, response);
      return;
    }
    if (step.status !== undefined || step.error !== undefined || step.body !== undefined) {
      this.#sendError(step, wire, response);
      return;
    }
    const createId = (): string => String(++this.#idCount).padStart(6, "0");
    if (!request.stream) {
      // Faults that are also possible in an answer without streaming.
      for (const piece of step.say ?? []) {
        if ("wait" in piece || "gate" in piece || "reset" in piece || "stall" in piece) {
          if (await this.#runControl(piece, response)) return;
        }
      }
      sendJson(response, 200, wire.createCompleteAnswer(step, request, createId), step.headers);
      return;
    }
    const frames = breakFrames(wire.createFrames(step, request, createId, this.dialect), step.breaks);
    let isStarted = false;
    const startResponse = (): void => {
      if (isStarted) return;
      isStarted = true;
      response.writeHead(200, {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache",
        ...step.headers,
      });
      response.flushHeaders();
    };
    for (const frame of frames) {
      if (response.destroyed) return;
      if (typeof frame !== "string") {
        if ("cut" in frame) startResponse();
        if (await this.#runControl(frame, response)) return;
        continue;
      }
      startResponse();
      await sendFrame(frame, response);
      if (step.pace !== undefined) await this.#pause(step.pace);
    }
    startResponse();
    response.end();
  }

  #sendError(step: FakeStep, wire: FakeWire, response: ServerResponse): void {
    const status = step.status ?? (step.error === undefined ? 200 : 500);
    if (typeof step.body === "string") {
      const type = /^\s*</.test(step.body) ? "text/html" : "text/plain";
      response.writeHead(status, { "content-type": type, ...step.headers }).end(step.body);
      return;
    }
    const fault: FakeFault =
      typeof step.error === "string" ? { message: step.error } : (step.error ?? { message: `status ${status}` });
    sendJson(response, status, step.body ?? wire.createError(status, fault), step.headers);
  }

  /** Executes a control piece. Returns true if the answer is over. */
  async #runControl(control: ControlFrame, response: ServerResponse): Promise<boolean> {
    if ("wait" in control) await this.#pause(control.wait);
    else if ("gate" in control)
      await Promise.race([this.#getGate(control.gate).openPromise, this.#waitForDisconnect(response)]);
    else if ("reset" in control) {
      // The written bytes must reach the client before the reset. The sender cannot observe that and waits 20 ms.
      await new Promise((resolve) => setTimeout(resolve, 20));
      response.socket?.resetAndDestroy();
      return true;
    } else if ("cut" in control) {
      response.end();
      return true;
    } else {
      await this.#waitForDisconnect(response);
      return true;
    }
    return response.destroyed;
  }

  #waitForDisconnect(response: ServerResponse): Promise<void> {
    return new Promise((resolve) => {
      if (response.destroyed || this.#closeController.signal.aborted) return resolve();
      response.once("close", resolve);
      this.#closeController.signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  async #pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#closeController.signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    });
  }
}

/** Fields of each wire that report why the model stopped. */
const FINISH_REASON_PATTERN = /"(finish_reason|finishReason|stop_reason)":"|"type":"response\.(completed|incomplete)"/;

/** Drops the frames after the share `breaks.at` and ends with a reset or a cut. Without `breaks`: all frames. */
function breakFrames(frames: Iterable<Frame>, breaks: FakeStep["breaks"]): Iterable<Frame> {
  if (breaks === undefined) return frames;
  const allFrames = [...frames];
  // An answer whose finish reason was sent is complete, even if the connection then breaks.
  const finishIndex = allFrames.findIndex((frame) => typeof frame === "string" && FINISH_REASON_PATTERN.test(frame));
  const maxFrames = finishIndex === -1 ? allFrames.length - 1 : finishIndex;
  const sentFrames = Math.max(1, Math.min(maxFrames, Math.floor(allFrames.length * breaks.at)));
  return [...allFrames.slice(0, sentFrames), breaks.by === "reset" ? { reset: true } : { cut: true }];
}

async function sendFrame(frame: string, response: ServerResponse): Promise<void> {
  if (response.write(frame)) return;
  await new Promise<void>((resolve) => {
    const settle = (): void => {
      response.off("drain", settle);
      response.off("close", settle);
      resolve();
    };
    response.on("drain", settle);
    response.on("close", settle);
  });
}

function sendJson(response: ServerResponse, status: number, body: Json, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

/** Starts a fake model server on the loopback address, by default on a free port. */
export async function startFakeModelServer(
  options: FakeModelServerOptions & { port?: number } = {},
): Promise<FakeModelServer> {
  const server = new Server(options);
  await server.listen(options.port ?? 0);
  return server;
}
