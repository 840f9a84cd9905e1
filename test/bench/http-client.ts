// A minimal HTTP client that keeps connections alive and measures durations.
import http from "node:http";

/** A complete response. */
export interface HttpResponse {
  /** Duration from the request to the end of the body. */
  ms: number;
  status: number;
  headers: http.IncomingHttpHeaders;
  body: string;
}

/** Measurements of a stream of server-sent events, read to its end. */
export interface StreamMeasurement {
  /** Duration from the request to the end of the stream. */
  ms: number;
  /** Time to the first text; NaN without text. */
  firstTextMs: number;
  /** Characters of text received. */
  characters: number;
}

/** Sends requests to one server. Callers must `close` the client. */
export class HttpClient {
  readonly baseUrl: string;
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: Infinity });

  constructor(baseUrl: string) {
    this.baseUrl = baseUrl;
  }

  /** Sends a POST request. Rejects for any status other than 200. */
  async post(path: string, body: unknown): Promise<HttpResponse> {
    return this.#request("POST", path, typeof body === "string" ? body : JSON.stringify(body));
  }

  async get(path: string): Promise<HttpResponse> {
    return this.#request("GET", path);
  }

  /** Posts a body and reads the events of the response. `readText` returns the answer text of a payload. */
  async stream<Payload>(
    path: string,
    body: unknown,
    readText: (payload: Payload) => string | undefined,
  ): Promise<StreamMeasurement> {
    const startMs = performance.now();
    const response = await this.#sendRequest("POST", path, JSON.stringify(body));
    let incompleteLine = "";
    let firstTextMs = NaN;
    let characters = 0;
    response.setEncoding("utf8");
    for await (const piece of response as AsyncIterable<string>) {
      const lines = (incompleteLine + piece).split("\n");
      incompleteLine = lines.pop() ?? "";
      for (const line of lines) {
        if (!line.startsWith("data: {")) continue;
        const deltaText = readText(JSON.parse(line.slice("data: ".length)) as Payload);
        if (!deltaText) continue;
        if (characters === 0) firstTextMs = performance.now() - startMs;
        characters += deltaText.length;
      }
    }
    return { ms: performance.now() - startMs, firstTextMs, characters };
  }

  close(): void {
    this.#agent.destroy();
  }

  async #request(method: string, path: string, body?: string): Promise<HttpResponse> {
    const startMs = performance.now();
    const response = await this.#sendRequest(method, path, body);
    const pieces: Buffer[] = [];
    for await (const piece of response) pieces.push(piece as Buffer);
    const text = Buffer.concat(pieces).toString();
    return { ms: performance.now() - startMs, status: response.statusCode ?? 0, headers: response.headers, body: text };
  }

  #sendRequest(method: string, path: string, body?: string): Promise<http.IncomingMessage> {
    return new Promise((resolve, reject) => {
      const headers =
        body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
      const request = http.request(this.baseUrl + path, { method, agent: this.#agent, headers }, (response) => {
        if (response.statusCode === 200) return resolve(response);
        response.resume();
        reject(new Error(`${method} ${path} was answered with ${response.statusCode}`));
      });
      request.once("error", reject);
      request.end(body);
    });
  }
}

/** Returns the text of a `token` event of gantry. */
export const readRunText = (payload: { type?: string; content?: string; done?: boolean }): string | undefined =>
  payload.type === "token" ? payload.content : undefined;

/** Returns the text of a chat completions chunk. */
export const readChunkText = (payload: { choices?: { delta?: { content?: string } }[] }): string | undefined =>
  payload.choices?.[0]?.delta?.content;
