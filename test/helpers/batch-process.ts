import { after } from "node:test";

/** Time that a process has to end after its last test, in ms. */
const END_TIMEOUT_MS = 60_000;

/**
 * Keeps this process alive until its tests have ended, because the product's timers do not: a test that waits for a
 * timeout would otherwise end the process. To be called when all test files of the process have been loaded.
 *
 * If something that a test has left open, such as a socket, still keeps the process alive after 60 s, it is printed, and
 * the process ends with the result of its tests. Without this, the process would run until the time limit of the suite,
 * and nothing would name the cause.
 */
export function keepProcessUntilTestsEnd(): void {
  const timer = setInterval(() => undefined, END_TIMEOUT_MS);
  after(() => {
    clearInterval(timer);
    setTimeout(() => {
      process.stderr.write(`left open after the tests: ${JSON.stringify(describeOpenHandles())}\n`);
      process.exit();
    }, END_TIMEOUT_MS).unref();
  });
}

/** Kinds of what keeps the event loop alive; of sockets, servers and child processes also what they belong to. */
function describeOpenHandles(): readonly unknown[] {
  // Undocumented, but node has no other list of open sockets and processes.
  const { _getActiveHandles: getActiveHandles } = process as unknown as { _getActiveHandles(): object[] };
  const keys = ["fd", "pid", "spawnargs", "localPort", "remoteAddress", "remotePort", "_connectionKey"];
  const handles = getActiveHandles().map((handle) => [
    handle.constructor.name,
    Object.fromEntries(keys.map((key) => [key, Reflect.get(handle, key) as unknown])),
  ]);
  return [...process.getActiveResourcesInfo(), ...handles];
}
