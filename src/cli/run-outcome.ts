import { hasCode } from "../ports/errors.js";
import type { Run, RunResult } from "../ports/run.js";
import { toErrorFields } from "./run-printer.js";
import { SIGNAL_EXIT_CODES } from "./signal-exit-codes.js";
import { UsageError } from "./usage-error.js";

/** Exit codes from here on mean that a signal ended the run. */
const MIN_SIGNAL_EXIT_CODE = 128;
/** Exit codes of `gantry run`, except those of signals. */
export const EXIT_CODES = { done: 0, failed: 1, usage: 2, limit: 3, refused: 4 } as const;
/** Flags by input field of a run, for error messages. */
const FLAGS_BY_FIELD: Readonly<Record<string, string>> = {
  "budget.usd": "--budget",
  "budget.tokens": "--budget-tokens",
  "budget.seconds": "--budget-seconds",
  message: "the prompt",
  outputSchema: "--schema",
  sessionId: "--session",
  model: "--model",
};

/** Outcome of a run. */
export interface RunOutcome {
  readonly exitCode: number;
  readonly run?: Run | undefined;
  readonly result?: RunResult;
  readonly deniedCalls?: readonly { name: string; title: string }[];
  readonly error?: unknown;
}

/** Returns the outcome of a failed run. A signal, also a closed stdout, has precedence over the error that it caused. */
export function toErrorOutcome(error: unknown, run: Run | undefined, interruptSignal: AbortSignal): RunOutcome {
  const signal = isClosedStdout(error)
    ? "SIGPIPE"
    : interruptSignal.aborted
      ? String(interruptSignal.reason)
      : undefined;
  if (signal !== undefined) return { exitCode: SIGNAL_EXIT_CODES[signal] ?? EXIT_CODES.failed, run, error };
  const usageError = run ? undefined : toUsageError(error);
  return { exitCode: usageError ? EXIT_CODES.usage : EXIT_CODES.failed, run, error: usageError ?? error };
}

/** Returns the last record of `--json`. */
export function toResultRecord({ exitCode, run, result, deniedCalls = [], error }: RunOutcome): object {
  return {
    type: "result",
    exitCode,
    state: error === undefined ? "finished" : isSignalExit(exitCode) ? "cancelled" : "failed",
    ...(run && { runId: run.id, sessionId: run.sessionId, provider: run.provider, model: run.model.id }),
    ...result,
    ...(deniedCalls.length > 0 && { refused: deniedCalls }),
    ...(error !== undefined && {
      error: error instanceof UsageError ? { code: "usage", message: error.message } : toErrorFields(error),
    }),
  };
}

/** Whether the exit code means that a signal ended the run. */
export function isSignalExit(exitCode: number): boolean {
  return exitCode >= MIN_SIGNAL_EXIT_CODE;
}

/** Whether the error means that the reader closed stdout. */
export function isClosedStdout(error: unknown): boolean {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  return code === "EPIPE" || code === "ERR_STREAM_DESTROYED";
}

/** Converts an error to a usage error if the command line caused it, otherwise returns undefined. */
function toUsageError(error: unknown): UsageError | undefined {
  if (error instanceof UsageError) return error;
  if (hasCode(error, "invalid_input")) {
    const { field, message } = error;
    return new UsageError(`${FLAGS_BY_FIELD[field] ?? field}${message.slice(field.length)}`);
  }
  if (hasCode(error, "attachment")) return new UsageError(`--file: ${error.message}`);
  return hasCode(error, "config") && error.message.startsWith("--") ? new UsageError(error.message) : undefined;
}
