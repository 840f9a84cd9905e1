// A shared worker: it holds the connection to the server's events for all windows of the browser. A browser without shared
// workers starts this script as the worker of one window.

import { GantryClient, type ApiAsk, type ApiError, type ConnectionState, type WatchAll } from "gantry/client";
import { fetchPersonHeaders } from "./login.js";
import { toPortableError, type WindowMessage, type WorkerMessage } from "./state/worker-messages.js";

/** Connections by the JSON of their headers: windows may have different credentials. */
const connectionsByHeaders = new Map<string, SharedConnection>();

/** A connection, and the windows that share it. */
class SharedConnection {
  readonly #windows = new Set<WindowPort>();
  readonly #headersJson: string;
  readonly #watchAll: Promise<WatchAll>;
  #asks: readonly ApiAsk[] | undefined;
  #state: ConnectionState = "connecting";

  constructor(headersJson: string) {
    this.#headersJson = headersJson;
    const headers = JSON.parse(headersJson) as Record<string, string>;
    this.#watchAll = new GantryClient({ headers, personHeaders: fetchPersonHeaders }).watchAll({
      canAnswer: true,
      onAsks: (asks) => {
        this.#asks = asks;
        this.#postAll({ type: "asks", asks });
      },
      onSession: (session) => this.#postAll({ type: "session", session }),
      onSessionRemoved: (id) => this.#postAll({ type: "session_removed", id }),
      onConnection: (state, error) => this.#reportConnection(state, error),
    });
  }

  get watchAll(): Promise<WatchAll> {
    return this.#watchAll;
  }

  add(window: WindowPort): void {
    this.#windows.add(window);
    if (this.#state !== "connecting") window.post({ type: "connection", state: this.#state });
    if (this.#asks) window.post({ type: "asks", asks: this.#asks });
  }

  /** Removes a window. Ends the connection after the last one. */
  remove(window: WindowPort): void {
    if (!this.#windows.delete(window) || this.#windows.size > 0) return;
    this.#forget();
    void this.#watchAll.then((watchAll) => watchAll.close());
  }

  #reportConnection(state: ConnectionState, error: ApiError | undefined): void {
    this.#state = state;
    // The server refuses these headers: another window tries again.
    if (error && error.status >= 400 && error.status < 500) this.#forget();
    this.#postAll({ type: "connection", state, error: error && toPortableError(error) });
  }

  #forget(): void {
    if (connectionsByHeaders.get(this.#headersJson) === this) connectionsByHeaders.delete(this.#headersJson);
  }

  #postAll(message: WorkerMessage): void {
    for (const window of this.#windows) window.post(message);
  }
}

/** A port to a window: of a shared worker, or the scope of the window's own worker. */
type WorkerPort = Pick<MessagePort, "onmessage" | "postMessage" | "close">;

/** A window of the console. */
class WindowPort {
  readonly #port: WorkerPort;
  #connection: SharedConnection | undefined;
  readonly #controllersByKey = new Map<number, AbortController>();
  readonly #closeController = new AbortController();

  constructor(port: WorkerPort) {
    this.#port = port;
    port.onmessage = ({ data }: MessageEvent<WindowMessage>) => this.#receive(data);
    this.post({ type: "ready" });
  }

  post(message: WorkerMessage): void {
    this.#port.postMessage(message);
  }

  #receive(message: WindowMessage): void {
    switch (message.type) {
      case "open": {
        const headersJson = JSON.stringify(message.headers);
        this.#connection = connectionsByHeaders.get(headersJson) ?? new SharedConnection(headersJson);
        connectionsByHeaders.set(headersJson, this.#connection);
        this.#connection.add(this);
        break;
      }
      case "lock":
        this.#closeWithLock(message.name);
        break;
      case "watch":
        void this.#forward(message);
        break;
      case "unwatch":
        this.#controllersByKey.get(message.key)?.abort();
        break;
      case "close":
        this.#close();
    }
  }

  /** Closes when the lock is free: the window is gone. */
  #closeWithLock(name: string): void {
    const { signal } = this.#closeController;
    navigator.locks
      .request(name, { signal }, () => this.#close())
      // The window was closed before.
      .catch(() => undefined);
  }

  #close(): void {
    this.#closeController.abort();
    for (const controller of this.#controllersByKey.values()) controller.abort();
    this.#connection?.remove(this);
    this.#port.close();
  }

  /** Sends the events of a session to the window. Never rejects. */
  async #forward({ key, id, after, afterSeq }: Extract<WindowMessage, { type: "watch" }>): Promise<void> {
    const controller = new AbortController();
    this.#controllersByKey.set(key, controller);
    try {
      const watchAll = await this.#connection?.watchAll;
      const options = {
        after,
        afterSeq,
        signal: controller.signal,
        onConnection: (state: ConnectionState, error?: ApiError) =>
          this.post({ type: "connection", key, state, error: error && toPortableError(error) }),
      };
      for await (const event of watchAll?.watch(id, options) ?? []) this.post({ type: "event", key, event });
      this.post({ type: "end", key });
    } catch (error) {
      this.post({ type: "end", key, error: toPortableError(error) });
    } finally {
      this.#controllersByKey.delete(key);
    }
  }
}

if ("onconnect" in globalThis)
  addEventListener("connect", (event) => {
    for (const port of (event as MessageEvent).ports) new WindowPort(port);
  });
else new WindowPort(globalThis as unknown as WorkerPort);
