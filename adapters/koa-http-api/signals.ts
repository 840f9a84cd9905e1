/**
 * Aborts with the first of several signals, until `untie` is called. By hand: what `AbortSignal.any` makes stays with a
 * signal that lives as long as the server.
 */
export function firstOf(...signals: readonly AbortSignal[]): { signal: AbortSignal; untie: () => void } {
  const one = new AbortController();
  const ties = signals.map((signal) => {
    const abort = () => one.abort(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
    return () => signal.removeEventListener("abort", abort);
  });
  const untie = () => {
    for (const end of ties) end();
  };
  return { signal: one.signal, untie };
}
