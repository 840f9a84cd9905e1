// Waits with a limit. The error of a wait names the awaited event and contains the output at that time.

/**
 * Limits of a wait, and of a whole process. Only an event that never happens reaches these limits, even on a loaded
 * machine.
 */
export const WAIT_LIMIT_MS = 120_000;
const PROCESS_LIMIT_MS = 300_000;

/** Maximum characters of output in an error. */
const MAX_OUTPUT_CHARACTERS = 4_000;

/**
 * Calls `poll` until it returns a value other than undefined, and resolves with that value. Rejects with the error of
 * `poll`, or after the limit.
 */
export async function waitFor<T>(
  event: string,
  poll: () => Promise<T | undefined> | T | undefined,
  getOutput: () => string = () => "",
  intervalMs = 5,
): Promise<T> {
  const deadlineMs = performance.now() + WAIT_LIMIT_MS;
  for (;;) {
    const value = await poll();
    if (value !== undefined) return value;
    if (performance.now() > deadlineMs) throw createTimeoutError(event, WAIT_LIMIT_MS, getOutput());
    await new Promise((resolve) => setTimeout(resolve, intervalMs));
  }
}

/** Settles like `promise`, which may take as long as a process. Rejects after the limit. */
export async function withLimit<T>(event: string, promise: Promise<T>, getOutput: () => string = () => ""): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(createTimeoutError(event, PROCESS_LIMIT_MS, getOutput())), PROCESS_LIMIT_MS);
  });
  try {
    return await Promise.race([promise, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

function createTimeoutError(event: string, limitMs: number, output: string): Error {
  const shownOutput = output.length > MAX_OUTPUT_CHARACTERS ? `[...]${output.slice(-MAX_OUTPUT_CHARACTERS)}` : output;
  return new Error(`not within ${limitMs} ms: ${event}${shownOutput === "" ? "" : `\n${shownOutput}`}`);
}
