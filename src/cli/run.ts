import { resolve } from "node:path";
import type { Agent } from "../agent/agent.js";
import { onAbort } from "../base/abort.js";
import { createLogger } from "../base/log.js";
import { readAttachments } from "../files/attachments.js";
import { hasCode } from "../ports/errors.js";
import type { Run, RunInput, RunResult } from "../ports/run.js";
import { compose, type Composition } from "../serve/compose.js";
import type { LoadedConfig } from "../serve/config.js";
import { environment } from "../serve/environment.js";
import { Selection } from "../serve/selected-adapters.js";
import type { run as about } from "./about/run.js";
import { loadFor, type CommandHandler, type CommandContext } from "./command.js";
import { SIGNAL_EXIT_CODES } from "./exit-reason.js";
import { budgetOf, readPrompt, readSchema } from "./run-input.js";
import { asUsage, resolveModel } from "./run-model.js";
import { errorOf, JsonPrinter, TextPrinter, type Printer } from "./run-printer.js";
import { cell, truncate, formatDollars, formatCount } from "./table.js";
import { UsageError } from "./usage-error.js";
import { WaitingLine } from "./wait-for-turn.js";

type RunCommandContext = CommandContext<typeof about.flags>;

const EXIT = { done: 0, failed: 1, usage: 2, limit: 3, refused: 4 } as const;
/** The flag for each input field, for error messages. */
const FLAG_OF: Readonly<Record<string, string>> = {
  "budget.usd": "--budget",
  "budget.tokens": "--budget-tokens",
  "budget.seconds": "--budget-seconds",
  message: "the prompt",
  outputSchema: "--schema",
  sessionId: "--session",
  model: "--model",
};
const MAX_TITLE_CHARACTERS = 60;

/** Outcome of a run. */
interface RunOutcome {
  readonly exitCode: number;
  readonly run?: Run | undefined;
  readonly result?: RunResult;
  readonly refused?: readonly { name: string; title: string }[];
  readonly error?: unknown;
}

/** `gantry run PROMPT`: runs one prompt with an agent in this process. */
export const run: CommandHandler<typeof about.flags> = async (context) => {
  const { flags, output } = context;
  const options = {
    quiet: flags.quiet === true,
    streams: flags.schema === undefined,
    hasColours: (environment("NO_COLOR") ?? "") === "" && environment("TERM") !== "dumb",
  };
  const printer = flags.json ? new JsonPrinter(output, options) : new TextPrinter(output, options);
  const interrupted = context.interrupted();
  const outcome = await executeRun(context, printer, interrupted);
  let { exitCode, error } = outcome;
  try {
    await printer.end(flags.json ? `${JSON.stringify(resultOf(outcome))}\n` : valueOf(outcome, flags));
  } catch (writeError) {
    if (isClosedStdout(writeError)) return SIGNAL_EXIT_CODES["SIGPIPE"];
    // The output is incomplete, for example because the disk is full.
    if (error === undefined) exitCode = EXIT.failed;
    error ??= writeError;
  }
  if (error !== undefined && exitCode !== SIGNAL_EXIT_CODES["SIGPIPE"])
    output.report(`gantry: ${exitCode >= 128 ? "interrupted" : cell(await messageOf(error))}`);
  return exitCode;
};

/** Never rejects. Errors are part of the outcome. */
async function executeRun(context: RunCommandContext, printer: Printer, interrupted: AbortSignal): Promise<RunOutcome> {
  // Aborts the run on a signal, or if stdout can no longer be written.
  const ending = new AbortController();
  onAbort(interrupted, () => ending.abort(interrupted.reason));
  let composition: Composition | undefined;
  let begun: Run | undefined;
  try {
    const input = await inputOf(context, printer, interrupted);
    const { loaded, home } = await loadConfig(context);
    composition = await compose({
      loaded,
      home,
      projectDir: resolve("."),
      logger: loggerOf(loaded, context),
      alone: true,
    });
    const { agent, providers } = composition;
    const { model } = context.flags;
    const waiting = new WaitingLine({ ...waitingOn(context), report: (line) => printer.report(line) });
    try {
      if (model !== undefined) waiting.show(`asking ${providers.join(", ")} for ${model}`);
      const requestedModel = model === undefined ? {} : await resolveModel(model, agent, providers, ending.signal);
      begun = await agent.run({
        ...input,
        ...requestedModel,
        ...(await sessionOf(context, agent)),
        ...attachmentsOf(context, loaded, home),
        overflow: "merge",
        clientName: "run",
        signal: ending.signal,
        onWaiting: (why) => waiting.show(`waiting for a model${why === "" ? "" : `: ${why}`}`),
      });
    } catch (error) {
      throw model === undefined ? error : asUsage(error, model, agent, providers);
    } finally {
      waiting.clear();
    }
    await printer.begin(begun);
    // A job without its key would use the offline guide's answer as a result.
    if (begun.provider === "offline")
      printer.report("gantry: no language model configured; the offline guide answers (see gantry models)");
    await reportMode(begun, agent, loaded, context, printer);
    return await printEvents(begun, printer, ending, context);
  } catch (error) {
    const signal = isClosedStdout(error) ? "SIGPIPE" : interrupted.aborted ? String(interrupted.reason) : undefined;
    if (signal !== undefined) return { exitCode: SIGNAL_EXIT_CODES[signal] ?? EXIT.failed, run: begun, error };
    const usage = begun ? undefined : toUsageError(error);
    return { exitCode: usage ? EXIT.usage : EXIT.failed, run: begun, error: usage ?? error };
  } finally {
    if (begun && composition) await setTitleFromPrompt(begun, composition.agent, context);
    await composition?.stop();
  }
}

/** Prints the events of the run. Rejects if the run fails, or if the output cannot be written. */
async function printEvents(
  begun: Run,
  printer: Printer,
  ending: AbortController,
  { flags }: RunCommandContext,
): Promise<RunOutcome> {
  const titles = new Map<string, string>();
  const refused: { name: string; title: string }[] = [];
  try {
    for await (const event of begun) {
      if (event.type === "tool_call") titles.set(event.callId, event.title);
      if (event.type === "tool_result" && event.refused)
        refused.push({ name: event.name, title: titles.get(event.callId) ?? event.name });
      await printer.event(event);
    }
  } catch (error) {
    // Cancels the run and waits until its tools have ended and its messages are stored.
    ending.abort(error);
    await begun.result.catch(() => undefined);
    throw error;
  }
  const result = await begun.result;
  const { usage, iterations, endedBy, finishReason } = result;
  if (!flags.quiet) {
    const turns = `${formatCount(iterations)} turn${iterations === 1 ? "" : "s"}`;
    printer.report(`${turns}, ${formatCount(usage.totalTokens)} tokens, ${formatDollars(usage.cost)}`);
  }
  const limit = endedBy !== "model";
  if (limit)
    printer.report(`gantry: ended at ${endedBy === "budget" ? "its budget" : "the maximum number of iterations"}`);
  else if (finishReason === "length")
    printer.report("gantry: the model's last answer was truncated at its output limit");
  if (refused.length > 0)
    printer.report(`gantry: permission denied: ${refused.map(({ name, title }) => cell(title || name)).join(", ")}`);
  return {
    exitCode: limit ? EXIT.limit : refused.length > 0 ? EXIT.refused : EXIT.done,
    run: begun,
    result,
    refused,
  };
}

async function inputOf({ args, flags, input }: RunCommandContext, printer: Printer, signal: AbortSignal) {
  if (flags.session !== undefined && flags.continue)
    throw new UsageError("--session and --continue: expected one of them");
  const budget = budgetOf(flags);
  return {
    ...(flags.schema === undefined ? {} : { outputSchema: await readSchema(flags.schema) }),
    ...(flags.effort === undefined
      ? {}
      : { reasoningEffort: flags.effort as NonNullable<RunInput["reasoningEffort"]> }),
    ...(flags.mode === undefined ? {} : { mode: flags.mode as NonNullable<RunInput["mode"]> }),
    ...(budget && { budget }),
    ...(await readPrompt(args, input, (line) => printer.report(line), signal)),
  };
}

async function loadConfig({ flags }: RunCommandContext) {
  const { maxIterations } = flags;
  return loadFor(
    flags,
    maxIterations === undefined ? {} : { "agent.max_iterations": { flag: "--max-iterations", value: maxIterations } },
  );
}

function loggerOf({ config, secrets }: LoadedConfig, { flags, output }: RunCommandContext) {
  const { level } = config.log;
  return createLogger({
    // Informational messages of the server are not progress of the run.
    level: flags.quiet ? "error" : level === "info" ? "warn" : level,
    write: (line) => output.report(line),
    secrets: () => secrets,
  });
}

/** Finds the session of the flags. Rejects with `UsageError`. */
async function sessionOf({ flags }: RunCommandContext, agent: Agent): Promise<Pick<RunInput, "sessionId">> {
  if (flags.session !== undefined) {
    if (!(await agent.sessions.get(flags.session)))
      throw new UsageError(`--session ${flags.session}: session not found`);
    return { sessionId: flags.session };
  }
  if (!flags.continue) return {};
  const [newest] = (await agent.sessions.list({ projectDir: agent.projectDir, limit: 1 })).sessions;
  if (!newest) throw new UsageError("--continue: this folder has no session yet");
  return { sessionId: newest.id };
}

function attachmentsOf({ flags }: RunCommandContext, loaded: LoadedConfig, home: string): Pick<RunInput, "attach"> {
  const { file: files = [] } = flags;
  if (files.length === 0) return {};
  const deniedPaths = new Selection(loaded, home).denied();
  const policy = { projectDir: resolve("."), anywhere: true, allowPaths: [], deniedPaths };
  return { attach: (reserve) => readAttachments(files, { ...policy, reserve }) };
}

function waitingOn({ flags, output }: RunCommandContext) {
  return { columns: flags.quiet ? undefined : output.columns, draw: (text: string) => output.draw(text) };
}

/** Prints how permission requests are decided without a user, if the mode or the rules can cause any. */
async function reportMode(
  begun: Run,
  agent: Agent,
  { config }: LoadedConfig,
  { flags }: RunCommandContext,
  printer: Printer,
) {
  if (flags.quiet) return;
  const mode = (await agent.sessions.get(begun.sessionId))?.mode;
  const { rules, unattended, timeout } = config.permissions;
  if (mode === "plan") return printer.report("mode plan: tools that change anything do not run");
  if (mode !== "ask" && !rules.some(({ action }) => action === "ask")) return;
  const then = {
    reject: "are denied",
    allow: "are allowed (permissions.unattended)",
    wait: `wait ${timeout} s for an answer elsewhere (permissions.unattended)`,
  }[unattended];
  printer.report(`no user can answer: tool calls that need permission ${then}`);
}

/**
 * Sets the prompt as the title of a session without a final title. A generated title is rarely ready when a short run
 * ends.
 */
async function setTitleFromPrompt(begun: Run, agent: Agent, { args }: RunCommandContext): Promise<void> {
  try {
    const session = await agent.sessions.get(begun.sessionId);
    if (session?.hasFinalTitle !== false) return;
    const prompt = args.join(" ");
    const [first] = await agent.sessions.messages(session.id, { limit: 1 });
    const textPart = first?.parts.find((part) => part.type === "text");
    const title = truncate(
      (prompt || (textPart?.type === "text" ? textPart.text : "")).replace(/\s+/g, " ").trim(),
      MAX_TITLE_CHARACTERS,
    );
    if (title !== "") await agent.sessions.update(session.id, { title });
  } catch {
    // The title is optional: ignore the error.
  }
}

/** Final output for stdout if the text was not streamed. */
function valueOf({ result }: RunOutcome, { schema }: RunCommandContext["flags"]): string | undefined {
  if (schema === undefined || result === undefined || !("structured" in result)) return undefined;
  return `${JSON.stringify(result.structured)}\n`;
}

function resultOf({ exitCode, run, result, refused = [], error }: RunOutcome): object {
  return {
    type: "result",
    exitCode,
    state: error === undefined ? "finished" : exitCode >= 128 ? "cancelled" : "failed",
    ...(run && { runId: run.id, sessionId: run.sessionId, provider: run.provider, model: run.model.id }),
    ...result,
    ...(refused.length > 0 && { refused }),
    ...(error !== undefined && {
      error: error instanceof UsageError ? { code: "usage", message: error.message } : errorOf(error),
    }),
  };
}

/** Converts an error to a usage error if the command line caused it, otherwise undefined. */
function toUsageError(error: unknown): UsageError | undefined {
  if (error instanceof UsageError) return error;
  if (hasCode(error, "invalid_input")) {
    const { field, message } = error;
    return new UsageError(`${FLAG_OF[field] ?? field}${message.slice(field.length)}`);
  }
  if (hasCode(error, "attachment")) return new UsageError(`--file: ${error.message}`);
  return hasCode(error, "config") && error.message.startsWith("--") ? new UsageError(error.message) : undefined;
}

async function messageOf(error: unknown): Promise<string> {
  if (error instanceof UsageError) return error.message;
  const { failureReason } = await import("./failure.js");
  return failureReason(error, "run");
}

/** Whether stdout was closed by its reader. */
function isClosedStdout(error: unknown): boolean {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  return code === "EPIPE" || code === "ERR_STREAM_DESTROYED";
}
