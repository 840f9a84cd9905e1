import type { Context } from "koa";
/**
 * Returns a signal that aborts with the first of several signals, until `untie` is called. `AbortSignal.any` is not
 * used: its result stays registered at signals that live as long as the server.
 */
export function anySignal(...signals: readonly AbortSignal[]): { signal: AbortSignal; untie: () => void } {
  const controller = new AbortController();
  const removers = signals.map((signal) => {
    const abort = () => controller.abort(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
    return () => signal.removeEventListener("abort", abort);
  });
  const untie = () => {
    for (const end of removers) end();
  };
  return { signal: controller.signal, untie };
}

/** Aborts if the client disconnects before the response is complete. */
export function goneSignal({ res }: Context): AbortSignal {
  const gone = new AbortController();
  res.once("close", () => res.writableFinished || gone.abort());
  return gone.signal;
}
