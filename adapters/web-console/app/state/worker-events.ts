import type { SharedWatchOptions, WatchedEvent } from "gantry/client";
import type { LiveHandlers, LiveSource } from "./live-source.js";
import { fromPortableError, type WindowMessage, type WorkerMessage } from "./worker-messages.js";

/** Path of the worker's script. Set by the build. */
declare const EVENTS_WORKER_PATH: string;

interface TrustedTypesFactory {
  createPolicy(
    name: string,
    rules: { createScriptURL: (url: string) => string },
  ): {
    createScriptURL(url: string): string;
  };
}

/** A port to the worker that all windows of this browser share, or the worker of this window. */
type WindowPort = Pick<MessagePort, "postMessage"> & EventTarget;

/**
 * Connects to the worker that all windows of this browser share. A browser without shared workers gets a worker for each
 * window. Resolves with undefined if the script cannot be loaded. Never rejects.
 */
export async function openWorkerEvents(
  headers: Record<string, string>,
  handlers: LiveHandlers,
): Promise<LiveSource | undefined> {
  const port = (await openPort(openSharedWorker)) ?? (await openPort(openOwnWorker));
  return port && new WorkerEvents(port, headers, handlers);
}

/** Resolves with the port when the worker has sent its first message; undefined if the worker cannot start. */
function openPort(open: () => { worker: EventTarget; port: WindowPort }): Promise<WindowPort | undefined> {
  return new Promise((resolve) => {
    try {
      const { worker, port } = open();
      worker.addEventListener("error", () => resolve(undefined), { once: true });
      port.addEventListener("message", () => resolve(port), { once: true });
    } catch {
      resolve(undefined);
    }
  });
}

function openSharedWorker() {
  const worker = new SharedWorker(createWorkerUrl());
  worker.port.start();
  return { worker, port: worker.port };
}

function openOwnWorker() {
  const worker = new Worker(createWorkerUrl());
  return { worker, port: worker };
}

/** A page may create a policy only once. */
let workerUrl: string | undefined;

/** The page's policy accepts only a URL that this trusted type contains. */
function createWorkerUrl(): string {
  const { trustedTypes } = globalThis as { trustedTypes?: TrustedTypesFactory };
  if (!trustedTypes) return EVENTS_WORKER_PATH;
  return (workerUrl ??= trustedTypes
    .createPolicy("events-worker", { createScriptURL: () => EVENTS_WORKER_PATH })
    .createScriptURL(EVENTS_WORKER_PATH));
}

/** Events of a watch that the window has not applied yet. */
interface WindowWatch {
  queue: WatchedEvent[];
  end: { error?: Error } | undefined;
  wake: (() => void) | undefined;
  onConnection: SharedWatchOptions["onConnection"];
}

/** The connection of the worker, as one window sees it. */
class WorkerEvents implements LiveSource {
  readonly #port: WindowPort;
  readonly #handlers: LiveHandlers;
  readonly #watchesByKey = new Map<number, WindowWatch>();
  #lastKey = 0;
  #releaseLock = (): void => undefined;
  readonly #onPageHide = () => this.#post({ type: "close" });

  constructor(port: WindowPort, headers: Record<string, string>, handlers: LiveHandlers) {
    this.#port = port;
    this.#handlers = handlers;
    port.addEventListener("message", (event) => this.#receive((event as MessageEvent<WorkerMessage>).data));
    this.#post({ type: "open", headers });
    this.#holdLock();
  }

  async *watch(
    id: string,
    { after, afterSeq, signal, onConnection }: SharedWatchOptions,
  ): AsyncGenerator<WatchedEvent, void, undefined> {
    const watch: WindowWatch = { queue: [], end: undefined, wake: undefined, onConnection };
    const key = (this.#lastKey += 1);
    this.#watchesByKey.set(key, watch);
    this.#post({ type: "watch", key, id, after, afterSeq });
    const abort = () => {
      watch.queue = [];
      endWatch(watch, {});
    };
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted) abort();
    try {
      for (;;) {
        const event = watch.queue.shift();
        if (event) yield event;
        else if (watch.end?.error) throw watch.end.error;
        else if (watch.end) return;
        else await new Promise<void>((resolve) => (watch.wake = resolve));
      }
    } finally {
      signal?.removeEventListener("abort", abort);
      this.#watchesByKey.delete(key);
      this.#post({ type: "unwatch", key });
    }
  }

  close(): void {
    this.#post({ type: "close" });
    this.#releaseLock();
    removeEventListener("pagehide", this.#onPageHide);
    for (const watch of this.#watchesByKey.values()) endWatch(watch, {});
  }

  /** Lets the worker notice the end of this window: a port has no event for it. */
  #holdLock(): void {
    // Only pages of HTTPS and of loopback have locks.
    const { locks } = navigator as { locks?: LockManager };
    if (!locks) {
      addEventListener("pagehide", this.#onPageHide);
      return;
    }
    const name = `gantry-window-${Math.random()}`;
    const held = locks.request(name, () => {
      this.#post({ type: "lock", name });
      return new Promise<void>((resolve) => (this.#releaseLock = resolve));
    });
    // A page that may not use locks has no other way to report its end than this message.
    held.catch(() => addEventListener("pagehide", this.#onPageHide));
  }

  #post(message: WindowMessage): void {
    this.#port.postMessage(message);
  }

  #receive(message: WorkerMessage): void {
    const handlers = this.#handlers;
    switch (message.type) {
      case "ready":
        break;
      case "asks":
        handlers.onAsks(message.asks);
        break;
      case "session":
        handlers.onSession(message.session);
        break;
      case "session_removed":
        handlers.onSessionRemoved(message.id);
        break;
      case "connection": {
        const error = message.error && fromPortableError(message.error);
        if (message.key === undefined) handlers.onConnection(message.state, error);
        else this.#watchesByKey.get(message.key)?.onConnection?.(message.state, error);
        break;
      }
      case "event": {
        const watch = this.#watchesByKey.get(message.key);
        if (!watch || watch.end) break;
        watch.queue.push(message.event);
        watch.wake?.();
        break;
      }
      case "end": {
        const watch = this.#watchesByKey.get(message.key);
        if (watch) endWatch(watch, message.error ? { error: fromPortableError(message.error) } : {});
      }
    }
  }
}

function endWatch(watch: WindowWatch, end: { error?: Error }): void {
  watch.end ??= end;
  watch.wake?.();
}
