import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Hooks } from "../../helpers/temp-dir.js";

/** Records the server's responses to GET requests in this process. */
export class ServerStreams {
  readonly #responses: ServerResponse[] = [];

  constructor(hooks: Hooks) {
    const recordResponse = (message: unknown) => {
      const { request, response } = message as { request: IncomingMessage; response: ServerResponse };
      if (request.method === "GET") this.#responses.push(response);
    };
    subscribe("http.server.request.start", recordResponse);
    hooks.after(() => void unsubscribe("http.server.request.start", recordResponse));
  }

  /** Resolves when the server has detected the disconnect of the last stream's client. */
  async waitForLastClose(): Promise<void> {
    const lastResponse = this.#responses.at(-1);
    if (lastResponse && !lastResponse.closed) await once(lastResponse, "close");
  }
}
