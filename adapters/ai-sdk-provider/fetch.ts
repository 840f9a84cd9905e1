/** `fetch` as the AI SDK's packages call it. */
export type Fetch = typeof globalThis.fetch;

interface Dispatchers {
  fetch: Fetch;
  close(): Promise<void>;
}

const LOOPBACK = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;

/**
 * `fetch` on connections of its own, loaded with the first call: no limit on the wait for headers or for the next bytes
 * (the kernel's watchdog has that, and a local model may think for ten minutes), proxies by HTTPS_PROXY, HTTP_PROXY and
 * NO_PROXY, and never a proxy for this machine.
 */
export class Network {
  #loading: Promise<Dispatchers> | undefined;
  #closed = false;

  readonly fetch: Fetch = async (input, init) => {
    if (this.#closed) throw new Error("the provider is closed");
    const { fetch } = await (this.#loading ??= load());
    return await fetch(input, init);
  };

  /** Breaks what is under way. */
  async close(): Promise<void> {
    this.#closed = true;
    const loaded = await this.#loading?.catch(() => undefined);
    await loaded?.close();
  }
}

async function load(): Promise<Dispatchers> {
  // By its default export: of a CommonJS package a bundle knows no names.
  const { default: undici } = await import("undici");
  const limits = { headersTimeout: 0, bodyTimeout: 0, connect: { timeout: 30_000 } };
  const direct = new undici.Agent(limits);
  const proxied = new undici.EnvHttpProxyAgent(limits);
  const fetch: Fetch = async (input, init) => {
    const url = input instanceof Request ? input.url : String(input);
    const dispatcher = LOOPBACK.test(new URL(url).hostname) ? direct : proxied;
    // undici's own types of Request and Response are those of the platform, declared twice.
    const answer: unknown = await undici.fetch(url, { ...(init as object), dispatcher });
    return answer as Response;
  };
  return {
    fetch,
    async close() {
      await Promise.all([direct.destroy(), proxied.destroy()]);
    },
  };
}
