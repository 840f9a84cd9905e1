/**
 * Handles Ctrl+Z (SIGTSTP): suspends the process between two steps of the event loop, where it holds no lock of a
 * SQLite store. Otherwise it could stop inside a transaction and block all other processes.
 */
export function suspendSafely(): void {
  process.once("SIGTSTP", () => {
    // Now without a listener, the signal has its usual effect.
    process.kill(process.pid, "SIGTSTP");
    suspendSafely();
  });
}
