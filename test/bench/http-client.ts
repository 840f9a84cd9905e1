// A minimal HTTP client: it keeps connections alive and counts bodies.
import http from "node:http";

/** A complete response. */
export interface Answer {
  ms: number;
  status: number;
  headers: http.IncomingHttpHeaders;
  body: string;
}

/** Measurements of a stream of server-sent events, read to its end. */
export interface Stream {
  ms: number;
  /** Time to the first text, in ms. */
  firstMs: number;
  /** Characters of text received. */
  characters: number;
}

/** Sends requests to one server. Callers must `close` it. */
export class HttpClient {
  readonly base: string;
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: Infinity });

  constructor(base: string) {
    this.base = base;
  }

  /** Rejects for any status other than 200. */
  async post(path: string, body: unknown): Promise<Answer> {
    return this.#ask("POST", path, typeof body === "string" ? body : JSON.stringify(body));
  }

  async get(path: string): Promise<Answer> {
    return this.#ask("GET", path);
  }

  /** Posts a body and reads the events of the response. `text` returns the answer text of a payload. */
  async stream<Payload>(path: string, body: unknown, text: (payload: Payload) => string | undefined): Promise<Stream> {
    const since = performance.now();
    const response = await this.#open("POST", path, JSON.stringify(body));
    let incompleteLine = "";
    let firstMs = NaN;
    let characters = 0;
    response.setEncoding("utf8");
    for await (const piece of response as AsyncIterable<string>) {
      const lines = (incompleteLine + piece).split("\n");
      incompleteLine = lines.pop() ?? "";
      for (const line of lines) {
        if (!line.startsWith("data: {")) continue;
        const deltaText = text(JSON.parse(line.slice(6)) as Payload);
        if (!deltaText) continue;
        if (characters === 0) firstMs = performance.now() - since;
        characters += deltaText.length;
      }
    }
    return { ms: performance.now() - since, firstMs, characters };
  }

  close(): void {
    this.#agent.destroy();
  }

  async #ask(method: string, path: string, body?: string): Promise<Answer> {
    const since = performance.now();
    const response = await this.#open(method, path, body);
    const pieces: Buffer[] = [];
    for await (const piece of response) pieces.push(piece as Buffer);
    const text = Buffer.concat(pieces).toString();
    return { ms: performance.now() - since, status: response.statusCode ?? 0, headers: response.headers, body: text };
  }

  #open(method: string, path: string, body?: string): Promise<http.IncomingMessage> {
    return new Promise((resolve, reject) => {
      const headers =
        body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
      const request = http.request(this.base + path, { method, agent: this.#agent, headers }, (response) => {
        if (response.statusCode === 200) return resolve(response);
        response.resume();
        reject(new Error(`${method} ${path} was answered with ${response.statusCode}`));
      });
      request.once("error", reject);
      request.end(body);
    });
  }
}

/** Text of a `token` event of gantry. */
export const textOfRun = (payload: { type?: string; content?: string; done?: boolean }): string | undefined =>
  payload.type === "token" ? payload.content : undefined;

/** Text of a chat completions chunk. */
export const textOfChunk = (payload: { choices?: { delta?: { content?: string } }[] }): string | undefined =>
  payload.choices?.[0]?.delta?.content;
