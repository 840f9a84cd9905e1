import type { Compaction } from "../compaction/context-window.js";
import type { Conversation } from "../conversation/conversation.js";
import { GantryError, RunCancelledError, ShuttingDownError } from "../ports/errors.js";
import type { Bus } from "../base/bus.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { RunInput, RunResult } from "../ports/run.js";
import { textOf } from "../conversation/messages.js";
import { newId } from "../base/ids.js";
import { runLoop } from "./loop.js";
import type { ChosenModel } from "../models/models.js";
import type { Logger } from "../ports/logger.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { Usage } from "../ports/usage.js";
import type { Tool } from "../ports/tool.js";
import { systemPrompt, type PromptOptions } from "./system-prompt.js";
import { Recorder } from "../conversation/recorder.js";
import type { EventBuffer } from "./event-buffer.js";
import type { StartedRun } from "./start.js";
import { found } from "../sessions/sessions.js";
import { generateTitle } from "./title.js";

/** What a run that has begun needs of its agent. */
export interface ExecutionParts {
  store: SessionDriver;
  bus: Bus<BusEvents>;
  logger: Logger;
  compaction: Compaction;
  tools: ReadonlyMap<string, Tool>;
  agentName: string;
  prompt: PromptOptions;
  maxIterations: number;
  toolOutputBytes: number;
  /** What the session's tools remember. */
  state: (conversation: Conversation) => Promise<Map<string, unknown>>;
  /** Sessions that a title is being made for. */
  naming: Set<string>;
  /** Aborted when the agent closes. */
  closing: AbortSignal;
  /** Work that the agent waits for before it closes its store. */
  inBackground: (work: Promise<unknown>) => void;
  /** Tools that go on after a cancel. */
  straggles: (work: Promise<unknown>) => void;
}

/** How a run goes: what ends it, and where its events go. */
export interface RunControl {
  signal: AbortSignal;
  /** Ends the run from within: a batch could not be stored. */
  cancel: AbortController;
  buffer: EventBuffer;
  ask: RunInput["ask"];
}

/** The whole of a run, from its first model call until its lease is given back. Rejects as `Run.result` says. */
export async function executeRun(run: StartedRun, parts: ExecutionParts, control: RunControl): Promise<RunResult> {
  const { conversation, chosen, lease } = run;
  const { bus, logger, store } = parts;
  const sessionId = conversation.session.chain.root;
  const names = { sessionId, provider: chosen.provider.name, model: chosen.model.id };
  const signal = AbortSignal.any([control.signal, lease.lost]);
  const recorder = new Recorder(store, conversation.session.id, lease.fence, (error) => control.cancel.abort(error));
  bus.emit("run.started", names);
  try {
    let outcome;
    try {
      outcome = await loop(run, parts, { ...control, signal }, recorder);
    } finally {
      await recorder.close();
    }
    const session = await found(store, sessionId);
    await lease.giveBack();
    const { used, ...rest } = outcome;
    const context = { used, size: chosen.model.contextWindow };
    const result: RunResult = { ...rest, sessionId, context, sessionUsage: session.usage };
    bus.emit("run.finished", { sessionId, result });
    control.buffer.push({ type: "done", usage: result.usage });
    return result;
  } catch (caught) {
    await lease.giveBack();
    const error = ending(caught, signal);
    const meant = error instanceof RunCancelledError || error instanceof ShuttingDownError;
    logger[meant ? "info" : "warn"](meant ? "run cancelled" : "run failed", { ...names, error: error.message });
    bus.emit("run.failed", { sessionId, error });
    control.buffer.push({ type: "error", error });
    throw error;
  } finally {
    control.buffer.end();
  }
}

async function loop(run: StartedRun, parts: ExecutionParts, control: RunControl, recorder: Recorder) {
  const { conversation, chosen, projectDir, lease } = run;
  const { store, bus, logger, tools } = parts;
  const { signal, buffer } = control;
  const shared = {
    ...chosen,
    conversation,
    recorder,
    bus,
    signal,
    emit: buffer.push.bind(buffer),
  };
  const window = parts.compaction.open({
    ...shared,
    effort: conversation.session.reasoningEffort,
    system: await systemPrompt(projectDir, parts.prompt),
    tools: [...tools.values()],
    store,
    fence: lease.fence,
  });
  return runLoop({
    ...shared,
    window,
    tools,
    logger,
    projectDir,
    sessionId: conversation.session.chain.root,
    maxIterations: parts.maxIterations,
    agentId: newId(),
    agentName: parts.agentName,
    onFirstAnswer: () => nameSession(conversation, chosen, parts),
    state: await parts.state(conversation),
    ask: control.ask,
    outputBytes: parts.toolOutputBytes,
    straggles: parts.straggles,
  });
}

/** In the background, for a session that has no title yet; once, however many prompts come meanwhile. */
function nameSession(conversation: Conversation, { provider, model }: ChosenModel, parts: ExecutionParts): void {
  const { session } = conversation;
  const sessionId = session.chain.root;
  const { store, bus, logger, closing, naming } = parts;
  if (session.titled || naming.has(sessionId)) return;
  const first = conversation.messages.find((message) => message.role === "user");
  const message = first ? textOf(first) : "";
  if (message.trim() === "") return;
  const onUsage = (usage: Usage) => {
    const called = { provider: provider.name, model: model.id, usage };
    logger.info("a title was made", { session: sessionId, ...called });
    bus.emit("model.called", { sessionId, ...called, purpose: "title" });
  };
  const work = async () => {
    try {
      const title = await generateTitle({ provider, model, message, sessionId, logger, onUsage }, closing);
      // A person may have given one while the model thought.
      if (title === "" || (await store.get(sessionId))?.titled !== false) return;
      await store.write(session.id, { fence: null, sync: false, set: { title, titled: true } });
      const updated = await store.get(sessionId);
      if (updated) bus.emit("session.updated", { sessionId, fields: ["title"], session: updated });
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (!closing.aborted) logger.warn("no title was generated", { session: sessionId, error: why });
    } finally {
      naming.delete(sessionId);
    }
  };
  // What fails is tried again by the next run.
  naming.add(sessionId);
  parts.inBackground(work());
}

/** Why a run ended, in the words of this package: a caller's own abort reason becomes `RunCancelledError`. */
export function ending(error: unknown, signal: AbortSignal): Error {
  const reason: unknown = signal.aborted ? signal.reason : error;
  if (reason instanceof GantryError) return reason;
  if (signal.aborted) return new RunCancelledError({ cause: reason });
  return reason instanceof Error ? reason : new Error(String(reason));
}
