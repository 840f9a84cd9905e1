import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Hooks } from "../../helpers/temp.js";

/** The responses to GET requests in this process, on the server side. */
export class ServerStreams {
  readonly #responses: ServerResponse[] = [];

  constructor(hooks: Hooks) {
    const note = (message: unknown) => {
      const { request, response } = message as { request: IncomingMessage; response: ServerResponse };
      if (request.method === "GET") this.#responses.push(response);
    };
    subscribe("http.server.request.start", note);
    hooks.after(() => void unsubscribe("http.server.request.start", note));
  }

  /** Resolves when the server has seen the client of the last stream disconnect. */
  async lastClosed(): Promise<void> {
    const last = this.#responses.at(-1);
    if (last && !last.closed) await once(last, "close");
  }
}
