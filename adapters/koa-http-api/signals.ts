import type { Context } from "koa";

/**
 * Returns a signal that aborts with the first of several signals, unless `removeListeners` was called before.
 * `AbortSignal.any` is not used: its result stays registered at signals that live as long as the server.
 */
export function combineSignals(...signals: readonly AbortSignal[]): {
  signal: AbortSignal;
  removeListeners: () => void;
} {
  const controller = new AbortController();
  const listenerRemovers = signals.map((signal) => {
    const abort = () => controller.abort(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
    return () => signal.removeEventListener("abort", abort);
  });
  const removeListeners = () => {
    for (const removeListener of listenerRemovers) removeListener();
  };
  return { signal: controller.signal, removeListeners };
}

/** Returns a signal that aborts if the client disconnects before the response is complete. */
export function createDisconnectSignal({ res }: Context): AbortSignal {
  const disconnectController = new AbortController();
  res.once("close", () => res.writableFinished || disconnectController.abort());
  return disconnectController.signal;
}
