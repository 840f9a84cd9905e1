import { createDeadline, delay } from "../../base/abort.js";
import { cutMiddle, MAX_MODEL_TEXT_BYTES } from "../../base/cut-text.js";
import type { Redactor } from "../../base/redact.js";
import { withWorker } from "../../untrusted/workers.js";
import { ToolError, ToolInputError, WorkLimitError } from "../../ports/errors.js";
import type { ToolContext, ToolOutput } from "../../ports/tool.js";
import type { ChildEnd } from "../../processes/child.js";
import type { BackgroundJob, JobProcess } from "../../processes/job.js";
import { createOutputPath } from "../../processes/output-folder.js";
import type { BashToolOptions, PreparedCommand } from "./shell-command.js";
import type { RunningCommand } from "./running-command.js";
import { describeOutputFile } from "./shell-output.js";

/** Default of `startMs`. Most commands that cannot start fail within this time. */
const DEFAULT_START_MS = 700;
/** Minimum interval between two searches for a pattern, in ms. */
const MATCH_INTERVAL_MS = 100;
/** Time limit of one search for a pattern, in ms. */
const MATCH_TIMEOUT_MS = 2_000;
/** Time limit for a command to read its input, in ms. */
const INPUT_TIMEOUT_MS = 2_000;
/** Maximum characters of a command in the list of background commands. */
const MAX_SHOWN_COMMAND_CHARACTERS = 200;

/**
 * Starts a command that continues after the call has ended. The result names the id for the other tools.
 *
 * Watches the start for `startMs`. A cancelled call stops the command. Rejects with the signal's reason.
 */
export async function startInBackground(
  options: BashToolOptions & { redactor: Redactor },
  command: string,
  preparedCommand: PreparedCommand,
  detached: boolean,
  { sessionId, signal }: ToolContext,
): Promise<ToolOutput> {
  const { background, startMs = DEFAULT_START_MS } = options;
  const { id, job } = await background.start(
    sessionId,
    createJobOptions(options, command, preparedCommand, sessionId),
    detached ? { program: () => preparedCommand.program() } : { start: () => preparedCommand.start() },
  );
  const timeout = createDeadline(startMs, signal);
  try {
    while (!timeout.signal.aborted && job.state.state === "running") await job.waitForOutput(timeout.signal);
  } finally {
    timeout.clear();
  }
  if (signal.aborted) {
    await job.stop();
    throw signal.reason;
  }
  const hasEnded = job.state.state === "ended";
  const nextNote = hasEnded
    ? ""
    : `\n[it continues as ${id}: bash_output shows its output, bash_stop stops it${detached ? "; it continues after gantry ends" : ""}]`;
  return {
    text: `${formatOutput(id, job, { isFirst: true })}${nextNote}`,
    failed: hasEnded && job.state.exitCode !== 0,
  };
}

/** A running command that moves to the background. */
export interface MovedCommand {
  /** The command with its folder, for users. */
  readonly title: string;
  readonly preparedCommand: PreparedCommand;
  readonly runningCommand: RunningCommand;
  /** Returns the output so far. */
  readonly getChunks: () => readonly Buffer[];
}

/**
 * Continues a running command in the background. If too many commands are running there, shows that as output and
 * rejects with `ToolError`: the command continues for its call.
 */
export async function moveToBackground(
  options: BashToolOptions & { redactor: Redactor },
  { title, preparedCommand, runningCommand, getChunks }: MovedCommand,
  context: ToolContext,
): Promise<ToolOutput> {
  const process: JobProcess = {
    stdin: runningCommand.stdin,
    run: (jobOptions) => {
      for (const chunk of getChunks()) jobOptions.onOutput(chunk);
      return runningCommand.run(jobOptions);
    },
  };
  const { id, job } = await options.background
    .start(context.sessionId, createJobOptions(options, title, preparedCommand, context.sessionId), {
      start: () => Promise.resolve(process),
    })
    .catch((error: unknown) => {
      context.progress(`[not moved to the background: ${(error as Error).message}]\n`);
      throw error;
    });
  const note = `[the user moved it to the background. It continues as ${id}: bash_output shows its output, bash_stop stops it]`;
  return { text: `${formatOutput(id, job, { isFirst: true })}\n${note}` };
}

function createJobOptions(
  { redactor, outputsPath }: BashToolOptions & { redactor: Redactor },
  command: string,
  preparedCommand: PreparedCommand,
  sessionId: string,
) {
  const line = redactor.hide(command.trim().replace(/\s*\n\s*/g, " ⏎ "));
  return {
    command: line.length > MAX_SHOWN_COMMAND_CHARACTERS ? `${line.slice(0, MAX_SHOWN_COMMAND_CHARACTERS - 1)}…` : line,
    path: () => outputsPath && createOutputPath(outputsPath, sessionId),
    cleanUp: (end: Pick<ChildEnd, "code" | "signal">, output: string) => preparedCommand.tidy(end, output),
  };
}

/** The conditions that a call of `bash_output` waits for. */
export interface WaitConditions {
  /** Regular expression for a line of the output. Undefined: the call waits for no pattern. */
  readonly pattern?: string | undefined;
  /** Whether to wait for the end of the command. */
  readonly end: boolean;
  /** Maximum time to wait, in seconds. */
  readonly seconds: number;
}

/**
 * Returns the output since the last call, once the pattern matches, the command has ended or the time is over. Rejects
 * with the signal's reason.
 */
export async function showOutput(
  id: string,
  job: BackgroundJob,
  wait: WaitConditions,
  signal: AbortSignal,
): Promise<ToolOutput> {
  const timeout = createDeadline(wait.seconds * 1000, signal);
  let hasMatch: boolean | undefined;
  try {
    if (wait.pattern !== undefined) hasMatch = await waitForMatch(job, wait.pattern, timeout.signal, signal);
    else
      while (wait.end && !timeout.signal.aborted && job.state.state === "running")
        await job.waitForOutput(timeout.signal);
  } finally {
    timeout.clear();
  }
  if (signal.aborted) throw signal.reason;
  // If the matching output was already shown when the command started, it is shown again.
  const matchedOutput = hasMatch === true ? job.unseenOutput : "";
  const timeoutNote =
    wait.end && job.state.state === "running" ? `\n[the command did not end within ${wait.seconds} s]` : "";
  const missingMatchNote = hasMatch === false ? `\n[${describeMissingMatch(job, wait)}]` : "";
  return {
    text: `${formatOutput(id, job, { matchedOutput })}${missingMatchNote}${timeoutNote}`,
    failed: hasMatch === false,
  };
}

/** Writes to the standard input of a command. Rejects with `ToolError` if the command has ended or does not read. */
export async function writeInput(
  id: string,
  job: BackgroundJob,
  text: string,
  close: boolean,
  signal: AbortSignal,
): Promise<string> {
  const timeout = createDeadline(INPUT_TIMEOUT_MS, signal);
  const inputState = await job.writeInput(text, close, timeout.signal).finally(() => timeout.clear());
  if (signal.aborted) throw signal.reason;
  if (inputState === "taken") return `${id} received the input${close ? " and the end of file" : ""}.`;
  if (inputState === "waits")
    return `${id} has not read all input yet; the rest is buffered${close ? ", with the end of file" : ""}.`;
  if (inputState === "full") throw new ToolError(`${id} has not read its earlier input; nothing was written.`);
  throw new ToolError(
    job.state.state === "ended"
      ? `${id} has ended. bash_output shows its exit code.`
      : `${id} does not read input, or its input was closed.`,
  );
}

/** Stops a command and returns its last output. */
export async function stopJob(id: string, job: BackgroundJob): Promise<string> {
  const wasRunning = job.state.state === "running";
  await job.stop();
  return `${formatOutput(id, job)}${wasRunning ? `\n[${id} was stopped, with all processes that it started]` : ""}`;
}

function describeMissingMatch({ state }: BackgroundJob, { seconds }: WaitConditions): string {
  return state.state === "ended"
    ? "the command ended without a match"
    : `no match within ${seconds} s; output that was shown before is not searched`;
}

function formatOutput(id: string, job: BackgroundJob, { isFirst = false, matchedOutput = "" } = {}): string {
  const { output, end, notes, file } = job.takeOutput(isFirst);
  const emptyNote = !isFirst ? "(no new output)" : end === undefined ? "(no output yet)" : "(no output)";
  const text = cutMiddle(output === "" ? matchedOutput : output, MAX_MODEL_TEXT_BYTES).replace(/\n+$/, "") || emptyNote;
  const lines = [text, ...notes];
  if (end === undefined) lines.push(`[${id} is running]`);
  else if (end.signal !== null) lines.push(`[ended by ${end.signal}]`);
  else if (end.code !== null) lines.push(`[exit code ${end.code}]`);
  if (file !== undefined) lines.push(describeOutputFile(file));
  return lines.join("\n");
}

/**
 * Whether an unseen line matches the pattern before `timeoutSignal` aborts. The pattern comes from a model, so that it is
 * matched in a worker. The worker is released between two searches.
 */
async function waitForMatch(
  job: BackgroundJob,
  pattern: string,
  timeoutSignal: AbortSignal,
  signal: AbortSignal,
): Promise<boolean> {
  const expression = await withWorker(signal, (thread) =>
    thread.runJob("expression", { pattern, ignoreCase: false }, { ms: MATCH_TIMEOUT_MS }),
  );
  if ("errorMessage" in expression) throw new ToolInputError(`wait_for: ${expression.errorMessage}.`);
  const search = { pattern, flags: expression.flags, contextLineCount: 0, maxKeptLines: 0 };
  for (;;) {
    const isLast = job.state.state === "ended" || timeoutSignal.aborted;
    const { version } = job;
    const files = [new Uint8Array(Buffer.from(job.unseenOutput))];
    try {
      const [matches] = await withWorker(signal, (thread) =>
        thread.runJob("search", { ...search, files }, { ms: MATCH_TIMEOUT_MS, transfer: files }),
      );
      if (matches !== undefined && matches.count > 0) return true;
    } catch (error) {
      if (!(error instanceof WorkLimitError)) throw error;
      const message = `wait_for: ${error.message}. Avoid nested repetition such as (a+)+.`;
      throw new ToolError(message, { cause: error });
    }
    if (isLast) return false;
    // Output that arrives quickly is searched in one step.
    await job.waitForOutput(timeoutSignal, version);
    await delay(MATCH_INTERVAL_MS, timeoutSignal).catch(() => undefined);
  }
}
