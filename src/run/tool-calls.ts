import { abortable } from "../base/abort.js";
import type { Bus } from "../base/bus.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { AgentEvent } from "../ports/events.js";
import type { RunInput } from "../ports/run.js";
import { ToolInputError } from "../ports/errors.js";
import { INTERRUPTED } from "../conversation/messages.js";
import { parseJson } from "../base/json.js";
import type { Logger } from "../ports/logger.js";
import type { ToolCallPart } from "../ports/message.js";
import type { AskRequest, Diff, Location, Tool, ToolContext, ToolKind, ToolOutput } from "../ports/tool.js";
import { CallState, LEAVE, type StateChanges } from "./tool-state.js";
import { capText } from "../base/cut-text.js";

/** Calls of one answer that may run at the same time. */
const AT_ONCE = 8;
/** After a cancel a tool may take so long, in ms, to say how it ended. */
const GRACE_MS = 400;

export interface ToolRunContext {
  tools: ReadonlyMap<string, Tool>;
  sessionId: string;
  projectDir: string;
  signal: AbortSignal;
  state: Map<string, unknown>;
  ask: RunInput["ask"];
  /** Bytes kept of a tool's text. */
  outputBytes: number;
  logger: Logger;
  bus: Bus<BusEvents>;
  emit: (event: AgentEvent) => void;
  /** Told of tools that go on after a cancel, so that somebody waits for them in the end. */
  straggles: (work: Promise<unknown>) => void;
}

/** How a call ended. */
export interface ToolOutcome {
  call: ToolCallPart;
  output: ToolOutput;
  /** What it changed of the session's state. */
  state: StateChanges;
}

interface Prepared {
  call: ToolCallPart;
  tool: Tool | undefined;
  args: unknown;
  input: unknown;
  title: string;
  locations: readonly Location[];
  diff: readonly Diff[];
  /** Why it cannot run. */
  refusal: string | undefined;
}

/**
 * Run the calls of one answer: neighbours that allow it beside each other, the others alone and in order.
 * `onOutcome` is awaited for each call, exactly once, also for calls that a cancel kept from running.
 */
export async function runToolCalls(
  calls: readonly ToolCallPart[],
  messageId: string,
  context: ToolRunContext,
  onOutcome: (outcome: ToolOutcome) => Promise<void>,
): Promise<void> {
  const prepared = calls.map((call) => prepare(call, context));
  for (let i = 0; i < prepared.length;) {
    const group = [prepared[i]!];
    while (
      group.length < AT_ONCE &&
      group.every((one) => one.tool?.parallel) &&
      prepared[i + group.length]?.tool?.parallel
    ) {
      group.push(prepared[i + group.length]!);
    }
    i += group.length;
    const outcomes = await Promise.allSettled(
      group.map(async (one) => {
        announce(one, messageId, context);
        const state = new CallState(context.state);
        const output = await settle(one, { ...context, state });
        context.bus.emit("tool.finished", {
          sessionId: context.sessionId,
          callId: one.call.id,
          name: one.call.name,
          failed: output.failed === true,
        });
        await onOutcome({ call: one.call, output, state: state.changes() });
      }),
    );
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  }
}

function prepare(call: ToolCallPart, context: ToolRunContext): Prepared {
  const tool = context.tools.get(call.name);
  const base = { call, tool, args: undefined, input: undefined, title: call.name, locations: [], diff: [] };
  if (!tool) {
    const names = [...context.tools.keys()].join(", ");
    return { ...base, refusal: `There is no tool "${call.name}". Use one of: ${names || "(none)"}.` };
  }
  let input: unknown;
  try {
    input = call.arguments.trim() === "" ? {} : parseJson(call.arguments);
  } catch (error) {
    return {
      ...base,
      refusal: `The arguments of ${call.name} are not valid JSON (${text(error)}). Send the call again with valid JSON.`,
    };
  }
  try {
    const args: unknown = tool.parse(input);
    const shown = describe(tool, args, context.projectDir);
    return { ...base, args, input, ...shown, refusal: undefined };
  } catch (error) {
    if (!(error instanceof ToolInputError))
      context.logger.debug("a tool refused its input", { tool: call.name, error });
    return { ...base, input, refusal: `${call.name}: ${text(error)}` };
  }
}

/** A call as it is shown to a person; `input` undefined when its arguments are broken JSON. */
export interface DescribedCall {
  title: string;
  kind: ToolKind;
  locations: readonly Location[];
  /** What it would change, or has changed if it went well, as far as its arguments tell. */
  diff: readonly Diff[];
  input: unknown;
}

/** How a stored call is shown to a person. Never throws, whatever the model sent. */
export function describeCall(tool: Tool | undefined, name: string, args: string, projectDir: string): DescribedCall {
  const shown = { title: name, kind: tool?.kind ?? "other", locations: [], diff: [], input: undefined as unknown };
  try {
    shown.input = args.trim() === "" ? {} : parseJson(args);
    if (tool) return { ...shown, ...describe(tool, tool.parse(shown.input), projectDir) };
  } catch {
    // Shown by its name.
  }
  return shown;
}

function describe(tool: Tool, args: unknown, projectDir: string): Pick<DescribedCall, "title" | "locations" | "diff"> {
  try {
    const { title, locations, diff = [] } = tool.describe(args, projectDir);
    return { title, locations, diff };
  } catch {
    return { title: tool.name, locations: [], diff: [] };
  }
}

function announce(one: Prepared, messageId: string, context: ToolRunContext): void {
  context.bus.emit("tool.started", { sessionId: context.sessionId, callId: one.call.id, name: one.call.name });
  context.emit({
    type: "tool_call",
    messageId,
    callId: one.call.id,
    name: one.call.name,
    arguments: one.call.arguments,
    input: one.input,
    title: one.title,
    kind: one.tool?.kind ?? "other",
    locations: one.locations,
  });
}

/** Given to a model for a call that a cancel was faster than. */
const NOT_RUN = "[cancelled before it ran]";

/** Never rejects. */
async function settle(one: Prepared, context: ToolRunContext): Promise<ToolOutput> {
  const { signal } = context;
  if (signal.aborted) return { text: NOT_RUN, failed: true };
  if (one.refusal !== undefined || !one.tool) return { text: one.refusal ?? "", failed: true };
  const work = perform(one, one.tool, context);
  const output = await withGrace(work, signal);
  if (output === undefined) {
    context.straggles(work);
    return { text: INTERRUPTED, failed: true };
  }
  return output;
}

/** The work's outcome; undefined when the signal aborted and the work did not end soon after. */
function withGrace(work: Promise<ToolOutput>, signal: AbortSignal): Promise<ToolOutput | undefined> {
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    const onAbort = () => (timer = setTimeout(() => resolve(undefined), GRACE_MS));
    signal.addEventListener("abort", onAbort, { once: true });
    void work.then((output) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      resolve(output);
    });
  });
}

/** Never rejects. */
async function perform(one: Prepared, tool: Tool, context: ToolRunContext): Promise<ToolOutput> {
  const ask = asker(one, tool, context);
  try {
    const refused = tool.needsPermission ? await refusal(one, ask, context) : undefined;
    if (refused !== undefined) return { text: refused, failed: true };
    const returned: unknown = await tool.run(one.args, {
      sessionId: context.sessionId,
      callId: one.call.id,
      projectDir: context.projectDir,
      signal: context.signal,
      ask,
      state: context.state,
    });
    const output = outputOf(returned, tool, context);
    return { ...output, text: capText(output.text, context.outputBytes) };
  } catch (error) {
    if (context.signal.aborted) return { text: INTERRUPTED, failed: true };
    context.logger.debug("a tool failed", { tool: tool.name, error });
    return { text: capText(`${tool.name}: ${text(error)}`, context.outputBytes), failed: true };
  }
}

/** What a tool written in JavaScript may return as well: its text alone. Throws for what has none. */
function outputOf(returned: unknown, tool: Tool, { logger }: ToolRunContext): ToolOutput {
  if (typeof returned === "string") return { text: returned };
  if (typeof (returned as ToolOutput | undefined)?.text === "string") return returned as ToolOutput;
  logger.error("a tool returned no text: expected { text }", { tool: tool.name, returned: typeof returned });
  throw new Error("it did its work, but returned nothing that can be shown");
}

type Asker = ToolContext["ask"];

/** Ask for leave; why the call may not run, or undefined. Never rejects. */
async function refusal(one: Prepared, ask: Asker, context: ToolRunContext): Promise<string | undefined> {
  const { title, input, locations, diff } = one;
  try {
    const answer = await ask({ title, input, locations, ...(diff.length > 0 ? { diff } : {}) });
    return answer === "reject" ? "The user refused this call. Ask what to do instead." : undefined;
  } catch (error) {
    if (context.signal.aborted) return NOT_RUN;
    context.logger.warn("nobody could be asked for leave; the tool does not run", { tool: one.call.name, error });
    return "This call needs leave, and nobody could be asked, so it did not run. It was not refused: go on without it, or say what you need it for.";
  }
}

/** Asks the person at the client. Only an exact yes is one: whatever else comes back refuses. */
function asker(one: Prepared, tool: Tool, context: ToolRunContext): Asker {
  return async (request) => {
    const key = leaveKey(tool, request, context.projectDir);
    if (!context.ask || context.state.get(key) === true) return "allow";
    const asked = context.ask({ ...request, callId: one.call.id, tool: tool.name, kind: tool.kind }, context.signal);
    // Raced, so that a client that ignores the signal cannot hold a run.
    const answer: unknown = await abortable(Promise.resolve(asked), context.signal);
    if (answer === "allow_always") context.state.set(key, true);
    return answer === "allow" || answer === "allow_always" ? answer : "reject";
  };
}

/** What a lasting leave is for. Whoever allows one command has not allowed the next one. */
function leaveKey(tool: Tool, { input, locations }: Pick<AskRequest, "input" | "locations">, projectDir: string) {
  const what =
    tool.kind === "edit" && locations.length > 0 ? locations.map(({ path }) => path).sort() : { projectDir, input };
  return `${LEAVE}${tool.name}:${JSON.stringify(what)}`;
}

function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
