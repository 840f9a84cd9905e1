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
import { loadFor, type Command, type CommandContext } from "./command.js";
import { ENDED_BY } from "./exit-reason.js";
import { budgetOf, promptOf, schemaOf } from "./run-input.js";
import { asUsage, wantedModel } from "./run-model.js";
import { errorOf, JsonPrinter, TextPrinter, type Printer } from "./run-printer.js";
import { cell, cut, dollars, grouped } from "./table.js";
import { UsageError } from "./usage-error.js";
import { Waiting } from "./wait-for-turn.js";

type Called = CommandContext<typeof about.flags>;

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
const TITLE = 60;

/** Outcome of a run. */
interface Told {
  readonly exitCode: number;
  readonly run?: Run | undefined;
  readonly result?: RunResult;
  readonly refused?: readonly { name: string; title: string }[];
  readonly error?: unknown;
}

/** `gantry run PROMPT`: runs one prompt with an agent in this process. */
export const run: Command<typeof about.flags> = async (context) => {
  const { flags, output } = context;
  const options = {
    quiet: flags.quiet === true,
    streams: flags.schema === undefined,
    coloured: (environment("NO_COLOR") ?? "") === "" && environment("TERM") !== "dumb",
  };
  const printer = flags.json ? new JsonPrinter(output, options) : new TextPrinter(output, options);
  const interrupted = context.interrupted();
  const told = await attempt(context, printer, interrupted);
  let { exitCode, error } = told;
  try {
    await printer.end(flags.json ? `${JSON.stringify(resultOf(told))}\n` : valueOf(told, flags));
  } catch (left) {
    if (isGone(left)) return ENDED_BY["SIGPIPE"];
    // The output is incomplete, for example because the disk is full.
    if (error === undefined) exitCode = EXIT.failed;
    error ??= left;
  }
  if (error !== undefined && exitCode !== ENDED_BY["SIGPIPE"])
    output.tell(`gantry: ${exitCode >= 128 ? "interrupted" : cell(await messageOf(error))}`);
  return exitCode;
};

/** Never rejects. Errors are part of the outcome. */
async function attempt(context: Called, printer: Printer, interrupted: AbortSignal): Promise<Told> {
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
    const waiting = new Waiting({ ...waitingOn(context), tell: (line) => printer.tell(line) });
    try {
      if (model !== undefined) waiting.show(`asking ${providers.join(", ")} for ${model}`);
      const wanted = model === undefined ? {} : await wantedModel(model, agent, providers, ending.signal);
      begun = await agent.run({
        ...input,
        ...wanted,
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
      printer.tell("gantry: no language model is attached, the offline guide answers (see gantry models)");
    await tellMode(begun, agent, loaded, context, printer);
    return await follow(begun, printer, ending, context);
  } catch (error) {
    const signal = isGone(error) ? "SIGPIPE" : interrupted.aborted ? String(interrupted.reason) : undefined;
    if (signal !== undefined) return { exitCode: ENDED_BY[signal] ?? EXIT.failed, run: begun, error };
    const usage = begun ? undefined : usageOf(error);
    return { exitCode: usage ? EXIT.usage : EXIT.failed, run: begun, error: usage ?? error };
  } finally {
    if (begun && composition) await nameAfterPrompt(begun, composition.agent, context);
    await composition?.stop();
  }
}

/** Prints the events of the run. Rejects if the run fails, or if the output cannot be written. */
async function follow(begun: Run, printer: Printer, ending: AbortController, { flags }: Called): Promise<Told> {
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
    const turns = `${grouped(iterations)} turn${iterations === 1 ? "" : "s"}`;
    printer.tell(`${turns}, ${grouped(usage.totalTokens)} tokens, ${dollars(usage.cost)}`);
  }
  const limit = endedBy !== "model";
  if (limit) printer.tell(`gantry: ended at ${endedBy === "budget" ? "its budget" : "the most iterations"}`);
  else if (finishReason === "length") printer.tell("gantry: the model's last answer was cut at its own limit");
  if (refused.length > 0)
    printer.tell(`gantry: refused by permission: ${refused.map(({ name, title }) => cell(title || name)).join(", ")}`);
  return {
    exitCode: limit ? EXIT.limit : refused.length > 0 ? EXIT.refused : EXIT.done,
    run: begun,
    result,
    refused,
  };
}

async function inputOf({ args, flags, input }: Called, printer: Printer, signal: AbortSignal) {
  if (flags.session !== undefined && flags.continue)
    throw new UsageError("--session and --continue: expected one of them");
  const budget = budgetOf(flags);
  return {
    ...(flags.schema === undefined ? {} : { outputSchema: await schemaOf(flags.schema) }),
    ...(flags.effort === undefined
      ? {}
      : { reasoningEffort: flags.effort as NonNullable<RunInput["reasoningEffort"]> }),
    ...(flags.mode === undefined ? {} : { mode: flags.mode as NonNullable<RunInput["mode"]> }),
    ...(budget && { budget }),
    ...(await promptOf(args, input, (line) => printer.tell(line), signal)),
  };
}

async function loadConfig({ flags }: Called) {
  const { maxIterations: value } = flags;
  return loadFor(flags, value === undefined ? {} : { "agent.max_iterations": { flag: "--max-iterations", value } });
}

function loggerOf({ config, secrets }: LoadedConfig, { flags, output }: Called) {
  const { level } = config.log;
  return createLogger({
    // Informational messages of the server are not progress of the run.
    level: flags.quiet ? "error" : level === "info" ? "warn" : level,
    write: (line) => output.tell(line),
    secrets: () => secrets,
  });
}

/** Finds the session of the flags. Rejects with `UsageError`. */
async function sessionOf({ flags }: Called, agent: Agent): Promise<Pick<RunInput, "sessionId">> {
  if (flags.session !== undefined) {
    if (!(await agent.sessions.get(flags.session)))
      throw new UsageError(`--session ${flags.session}: session not found`);
    return { sessionId: flags.session };
  }
  if (!flags.continue) return {};
  const [newest] = (await agent.sessions.list({ projectDir: agent.projectDir, limit: 1 })).sessions;
  if (!newest) throw new UsageError("--continue: there is no session of this folder yet");
  return { sessionId: newest.id };
}

function attachmentsOf({ flags }: Called, loaded: LoadedConfig, home: string): Pick<RunInput, "attach"> {
  const { file: files = [] } = flags;
  if (files.length === 0) return {};
  const deniedPaths = new Selection(loaded, home).denied();
  const policy = { projectDir: resolve("."), anywhere: true, allowPaths: [], deniedPaths };
  return { attach: (reserve) => readAttachments(files, { ...policy, reserve }) };
}

function waitingOn({ flags, output }: Called) {
  return { columns: flags.quiet ? undefined : output.columns, draw: (text: string) => output.draw(text) };
}

/** Prints how permission requests are decided without a user, if the mode or the rules can cause any. */
async function tellMode(begun: Run, agent: Agent, { config }: LoadedConfig, { flags }: Called, printer: Printer) {
  if (flags.quiet) return;
  const mode = (await agent.sessions.get(begun.sessionId))?.mode;
  const { rules, unattended, timeout } = config.permissions;
  if (mode === "plan") return printer.tell("mode plan: nothing runs that changes anything");
  if (mode !== "ask" && !rules.some(({ action }) => action === "ask")) return;
  const then = {
    reject: "are refused",
    allow: "are allowed (permissions.unattended)",
    wait: `wait ${timeout} s for an answer elsewhere (permissions.unattended)`,
  }[unattended];
  printer.tell(`nobody is here to be asked: calls that need leave ${then}`);
}

/**
 * Sets the prompt as the session's title, for later lookup. A generated title is rarely ready when a short run ends.
 */
async function nameAfterPrompt(begun: Run, agent: Agent, { args }: Called): Promise<void> {
  try {
    const session = await agent.sessions.get(begun.sessionId);
    if (session?.hasFinalTitle !== false) return;
    const prompt = args.join(" ");
    const [first] = await agent.sessions.messages(session.id, { limit: 1 });
    const said = first?.parts.find((part) => part.type === "text");
    const title = cut((prompt || (said?.type === "text" ? said.text : "")).replace(/\s+/g, " ").trim(), TITLE);
    if (title !== "") await agent.sessions.update(session.id, { title });
  } catch {
    // The title is optional: ignore the error.
  }
}

/** Final output for stdout if the text was not streamed. */
function valueOf({ result }: Told, { schema }: Called["flags"]): string | undefined {
  if (schema === undefined || result === undefined || !("structured" in result)) return undefined;
  return `${JSON.stringify(result.structured)}\n`;
}

function resultOf({ exitCode, run: begun, result, refused = [], error }: Told): object {
  return {
    type: "result",
    exitCode,
    state: error === undefined ? "finished" : exitCode >= 128 ? "cancelled" : "failed",
    ...(begun && { runId: begun.id, sessionId: begun.sessionId, provider: begun.provider, model: begun.model.id }),
    ...result,
    ...(refused.length > 0 && { refused }),
    ...(error !== undefined && {
      error: error instanceof UsageError ? { code: "usage", message: error.message } : errorOf(error),
    }),
  };
}

/** Converts an error to a usage error if the command line caused it, otherwise undefined. */
function usageOf(error: unknown): UsageError | undefined {
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
  const { lineOf } = await import("./failure.js");
  return lineOf(error, "run");
}

/** Whether stdout was closed by its reader. */
function isGone(error: unknown): boolean {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  return code === "EPIPE" || code === "ERR_STREAM_DESTROYED";
}
