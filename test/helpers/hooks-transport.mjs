// A third-party transport on the shared port, as in the docs.
import { defineAdapter, HTTP_HOST } from "gantry/plugin";

class HooksTransport {
  name = "hooks";
  #host;

  constructor(host) {
    this.#host = host;
  }

  async start() {
    const origin = await this.#host.mount({
      prefix: "/hooks",
      fallback: false,
      authenticated: false,
      handler: (request, response) => response.end("hooked"),
      refuse: (request, response, refusal) => response.writeHead(refusal.status, refusal.headers).end(refusal.message),
    });
    let settle;
    const ended = new Promise((resolve) => (settle = resolve));
    return { address: `${origin}/hooks`, ended, stop: async () => settle() };
  }
}

export default defineAdapter({
  kind: "transport",
  name: "hooks",
  parse: () => ({}),
  useClass: HooksTransport,
  inject: [HTTP_HOST],
});
