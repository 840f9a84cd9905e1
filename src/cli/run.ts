import { resolve } from "node:path";
import type { Agent } from "../agent/agent.js";
import { onAbort } from "../base/abort.js";
import { readAttachments } from "../files/attachments.js";
import type { Run, RunInput } from "../ports/run.js";
import { compose, type Composition } from "../serve/compose.js";
import type { LoadedConfig } from "../serve/config.js";
import { getEnvironmentVariable } from "../serve/environment.js";
import { Selection } from "../serve/selected-adapters.js";
import type { run as runDescription } from "./descriptions/run.js";
import { loadConfigWithFlags, type CommandHandler, type CommandContext } from "./command.js";
import { createCommandLogger } from "./log-writer.js";
import { SIGNAL_EXIT_CODES } from "./signal-exit-codes.js";
import { toBudget, readPrompt, readSchema } from "./run-input.js";
import { toModelUsageError, resolveModel } from "./run-model.js";
import {
  EXIT_CODES,
  isClosedStdout,
  isSignalExit,
  toErrorOutcome,
  toResultRecord,
  type RunOutcome,
} from "./run-outcome.js";
import { JsonPrinter, TextPrinter, type Printer } from "./run-printer.js";
import { formatCell, truncate, formatCost, formatCount } from "./table.js";
import { UsageError } from "./usage-error.js";
import { WaitingLine } from "./waiting-line.js";

type RunCommandContext = CommandContext<typeof runDescription.flags>;

const MAX_TITLE_CHARACTERS = 60;

/** `gantry run PROMPT`: runs one prompt with an agent in this process. */
export const run: CommandHandler<typeof runDescription.flags> = async (context) => {
  const { flags, output } = context;
  const options = {
    isQuiet: flags.quiet === true,
    streamsText: flags.schema === undefined,
    hasColours: (getEnvironmentVariable("NO_COLOR") ?? "") === "" && getEnvironmentVariable("TERM") !== "dumb",
  };
  const printer = flags.json ? new JsonPrinter(output, options) : new TextPrinter(output, options);
  const interruptSignal = context.handleInterrupts();
  const outcome = await executeRun(context, printer, interruptSignal);
  let { exitCode, error } = outcome;
  try {
    await printer.end(
      flags.json ? `${JSON.stringify(toResultRecord(outcome))}\n` : formatStructuredResult(outcome, flags),
    );
  } catch (writeError) {
    if (isClosedStdout(writeError)) return SIGNAL_EXIT_CODES["SIGPIPE"];
    // The output is incomplete, for example because the disk is full.
    if (error === undefined) exitCode = EXIT_CODES.failed;
    error ??= writeError;
  }
  if (error !== undefined && exitCode !== SIGNAL_EXIT_CODES["SIGPIPE"])
    output.report(`gantry: ${isSignalExit(exitCode) ? "interrupted" : formatCell(await describeError(error))}`);
  return exitCode;
};

/** Runs the prompt. Never rejects: errors are part of the outcome. */
async function executeRun(
  context: RunCommandContext,
  printer: Printer,
  interruptSignal: AbortSignal,
): Promise<RunOutcome> {
  // This controller aborts the run on a signal, or if stdout can no longer be written.
  const runController = new AbortController();
  onAbort(interruptSignal, () => runController.abort(interruptSignal.reason));
  let composition: Composition | undefined;
  let startedRun: Run | undefined;
  try {
    const input = await readInput(context, printer, interruptSignal);
    const { loadedConfig, home } = await loadRunConfig(context);
    composition = await compose({
      loadedConfig,
      home,
      projectDir: resolve("."),
      logger: await createRunLogger(loadedConfig, context),
      isProcessLocal: true,
    });
    const { agent } = composition;
    startedRun = await startRun(context, printer, composition, {
      ...input,
      ...toAttachments(context, loadedConfig, home),
      signal: runController.signal,
    });
    await printer.begin(startedRun);
    // A job without its key would use the offline guide's answer as a result.
    if (startedRun.provider === "offline")
      printer.report("gantry: no language model configured; the offline guide answers (connect one with gantry init)");
    if (context.flags.worktree && !context.flags.quiet)
      printer.report(`works in a worktree; gantry sessions apply ${startedRun.sessionId} copies its changes here`);
    await reportMode(startedRun, agent, loadedConfig, context, printer);
    return await printEvents(startedRun, printer, runController, context);
  } catch (error) {
    return toErrorOutcome(error, startedRun, interruptSignal);
  } finally {
    if (startedRun && composition) await setTitleFromPrompt(startedRun, composition.agent, context);
    await composition?.stop();
  }
}

/**
 * Starts the run. Shows on a terminal what it waits for. Rejects with `UsageError` if the model or the session of the
 * flags does not exist.
 */
async function startRun(
  context: RunCommandContext,
  printer: Printer,
  { agent, providerNames }: Composition,
  input: Omit<RunInput, "signal"> & { readonly signal: AbortSignal },
): Promise<Run> {
  const { model } = context.flags;
  const waitingLine = new WaitingLine({ ...toWaitingOutput(context), report: (line) => printer.report(line) });
  try {
    if (model !== undefined) waitingLine.show(`requesting models of ${providerNames.join(", ")}`);
    const requestedModel = model === undefined ? {} : await resolveModel(model, agent, providerNames, input.signal);
    return await agent.run({
      ...input,
      ...requestedModel,
      ...(await findSession(context, agent)),
      overflow: "merge",
      clientName: "run",
      onWaiting: (reason) => waitingLine.show(`waiting for a model${reason === "" ? "" : `: ${reason}`}`),
    });
  } catch (error) {
    throw model === undefined ? error : toModelUsageError(error, model, agent, providerNames);
  } finally {
    waitingLine.clear();
  }
}

/** Prints the events of the run. Rejects if the run fails, or if the output cannot be written. */
async function printEvents(
  startedRun: Run,
  printer: Printer,
  runController: AbortController,
  { flags }: RunCommandContext,
): Promise<RunOutcome> {
  const titlesByCallId = new Map<string, string>();
  const deniedCalls: { name: string; title: string }[] = [];
  try {
    for await (const event of startedRun) {
      if (event.type === "tool_call") titlesByCallId.set(event.callId, event.title);
      if (event.type === "tool_result" && event.refused)
        deniedCalls.push({ name: event.name, title: titlesByCallId.get(event.callId) ?? event.name });
      await printer.printEvent(event);
    }
  } catch (error) {
    // Cancel the run and wait until its tools have ended and its messages are stored.
    runController.abort(error);
    await startedRun.result.catch(() => undefined);
    throw error;
  }
  const result = await startedRun.result;
  const { usage, iterations, endedBy, finishReason } = result;
  if (!flags.quiet) {
    const turnsText = `${formatCount(iterations)} turn${iterations === 1 ? "" : "s"}`;
    printer.report(`${turnsText}, ${formatCount(usage.totalTokens)} tokens, ${formatCost(usage, startedRun.provider)}`);
  }
  const isLimited = endedBy !== "model";
  if (isLimited)
    printer.report(`gantry: ended at ${endedBy === "budget" ? "its budget" : "the maximum number of iterations"}`);
  else if (finishReason === "length")
    printer.report("gantry: the model's last answer was truncated at its output limit");
  if (deniedCalls.length > 0)
    printer.report(
      `gantry: permission denied: ${deniedCalls.map(({ name, title }) => formatCell(title || name)).join(", ")}`,
    );
  return {
    exitCode: isLimited ? EXIT_CODES.limit : deniedCalls.length > 0 ? EXIT_CODES.refused : EXIT_CODES.done,
    run: startedRun,
    result,
    deniedCalls,
  };
}

async function readInput({ args, flags, input }: RunCommandContext, printer: Printer, signal: AbortSignal) {
  if (flags.session !== undefined && flags.continue)
    throw new UsageError("--session and --continue: expected one of them");
  if (flags.worktree && (flags.session !== undefined || flags.continue))
    throw new UsageError("--worktree: expected a new session, not --session or --continue");
  const budget = toBudget(flags);
  return {
    ...(flags.schema === undefined ? {} : { outputSchema: await readSchema(flags.schema) }),
    ...(flags.effort === undefined
      ? {}
      : { reasoningEffort: flags.effort as NonNullable<RunInput["reasoningEffort"]> }),
    ...(flags.mode === undefined ? {} : { mode: flags.mode as NonNullable<RunInput["mode"]> }),
    ...(budget && { budget }),
    ...(flags.worktree && { worktree: true }),
    ...(await readPrompt(args, input, (line) => printer.report(line), signal)),
  };
}

async function loadRunConfig({ flags }: RunCommandContext) {
  const { maxIterations } = flags;
  return loadConfigWithFlags(
    flags,
    maxIterations === undefined ? {} : { "agent.max_iterations": { flag: "--max-iterations", value: maxIterations } },
  );
}

function createRunLogger(loadedConfig: LoadedConfig, { flags, output }: RunCommandContext) {
  const { level } = loadedConfig.config.log;
  // Informational messages of the agent are not progress of the run.
  const runLevel = flags.quiet ? "error" : level === "info" ? "warn" : level;
  return createCommandLogger(loadedConfig, {
    level: runLevel,
    columns: output.columns,
    report: (line) => output.report(line),
  });
}

/** Finds the session of the flags. Rejects with `UsageError`. */
async function findSession({ flags }: RunCommandContext, agent: Agent): Promise<Pick<RunInput, "sessionId">> {
  if (flags.session !== undefined) {
    if (!(await agent.sessions.get(flags.session)))
      throw new UsageError(`--session ${flags.session}: session not found`);
    return { sessionId: flags.session };
  }
  if (!flags.continue) return {};
  const [newestSession] = (await agent.sessions.list({ projectDir: agent.projectDir, limit: 1 })).sessions;
  if (!newestSession) throw new UsageError("--continue: this folder has no session yet");
  return { sessionId: newestSession.id };
}

function toAttachments(
  { flags }: RunCommandContext,
  loadedConfig: LoadedConfig,
  home: string,
): Pick<RunInput, "attach"> {
  const { file: files = [] } = flags;
  if (files.length === 0) return {};
  const deniedPaths = new Selection(loadedConfig, home).deniedPaths();
  const policy = { projectDir: resolve("."), anywhere: true, allowPaths: [], deniedPaths };
  return { attach: (reserve) => readAttachments(files, { ...policy, reserve }) };
}

function toWaitingOutput({ flags, output }: RunCommandContext) {
  return { columns: flags.quiet ? undefined : output.columns, draw: (text: string) => output.draw(text) };
}

/** Prints how permission requests are decided without a user, if the mode or the rules can cause requests. */
async function reportMode(
  startedRun: Run,
  agent: Agent,
  { config }: LoadedConfig,
  { flags }: RunCommandContext,
  printer: Printer,
) {
  if (flags.quiet) return;
  const mode = (await agent.sessions.get(startedRun.sessionId))?.mode;
  const { rules, unattended, timeout } = config.permissions;
  if (mode === "plan") return printer.report("mode plan: tools that change anything do not run");
  if (mode !== "ask" && !rules.some(({ action }) => action === "ask")) return;
  const policyText = {
    reject: "are denied",
    allow: "are allowed (permissions.unattended)",
    wait: `wait ${timeout} s for an answer elsewhere (permissions.unattended)`,
  }[unattended];
  printer.report(`no user can answer: tool calls that need permission ${policyText}`);
}

/**
 * Sets the prompt as the title of a session without a final title. A generated title is rarely ready when a short run
 * ends.
 */
async function setTitleFromPrompt(startedRun: Run, agent: Agent, { args }: RunCommandContext): Promise<void> {
  try {
    const session = await agent.sessions.get(startedRun.sessionId);
    if (session?.hasFinalTitle !== false) return;
    const prompt = args.join(" ");
    const [firstMessage] = await agent.sessions.messages(session.id, { limit: 1 });
    const textPart = firstMessage?.parts.find((part) => part.type === "text");
    const title = truncate(
      (prompt || (textPart?.type === "text" ? textPart.text : "")).replace(/\s+/g, " ").trim(),
      MAX_TITLE_CHARACTERS,
    );
    if (title !== "") await agent.sessions.update(session.id, { title });
  } catch {
    // The title is optional: ignore the error.
  }
}

/** Returns the JSON value of `--schema` for stdout; undefined if the text was streamed instead. */
function formatStructuredResult({ result }: RunOutcome, { schema }: RunCommandContext["flags"]): string | undefined {
  if (schema === undefined || result === undefined || !("structured" in result)) return undefined;
  return `${JSON.stringify(result.structured)}\n`;
}

async function describeError(error: unknown): Promise<string> {
  if (error instanceof UsageError) return error.message;
  const { describeFailure } = await import("./failure-message.js");
  return describeFailure(error, "run");
}
