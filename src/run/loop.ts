import { openWindow, type ContextWindow } from "../compaction/context-window.js";
import { hasCode, OutputSchemaError } from "../ports/errors.js";
import type { RunResult } from "../ports/run.js";
import { now } from "../base/ids.js";
import { callsOf, textOf, toolMessage } from "../conversation/messages.js";
import { withState } from "../conversation/stored-state.js";
import { toldOf as toldPartsOf, uniqueCalls } from "../models/answer.js";
import { callModel, type BrokenOff, type ModelCallHooks } from "../models/model-call.js";
import { toldWaits } from "../models/record-retries.js";
import type { FinishReason } from "../ports/model-provider.js";
import type { Message, Part } from "../ports/message.js";
import { RepeatedCalls } from "./calls/repeated-calls.js";
import { ASKED_AGAIN, slipIn, slipOf, SLIPS, withWord, wordAbout, wordFor } from "./invalid-answer.js";
import { lastWrite, type WithEnd } from "./finalize-run.js";
import { limitReached } from "./budget/limits.js";
import type { RunContext } from "./context/run-context.js";
import { finished } from "../sessions/run-record.js";
import type { Read } from "./context/structured-output.js";
import { nameSession } from "./title.js";
import { runToolCalls } from "./calls/execute.js";

export type LoopResult = Pick<RunResult, "output" | "structured" | "iterations" | "finishReason" | "endedBy"> & {
  used: number;
};

/** How far a run has come, also where it is ended amid a turn. */
interface Progress {
  output: string;
  /** Turns that brought an answer. */
  iterations: number;
  /** Tokens of the last call. */
  used: number;
  /** How often it was asked for another answer, since one did not fit. */
  askedAgain: number;
}

/**
 * Model -> tools -> model, until the model has no more calls or a limit is reached.
 * Rejects with the provider's error, `RepeatedCallsError`, or the signal's reason; by then all that was said is stored.
 */
export async function runLoop(run: RunContext): Promise<LoopResult> {
  const progress: Progress = { output: "", iterations: 0, used: 0, askedAgain: 0 };
  try {
    return await turns(run, progress);
  } catch (error) {
    // There is not enough for another call, or its time is over. Whatever else went wrong stays a failure.
    if (!hasCode(error, "budget")) throw error;
    return atLimit(run, progress, "budget");
  }
}

async function turns(run: RunContext, progress: Progress): Promise<LoopResult> {
  const window = openWindow(run.agent.compaction, run);
  const repeated = new RepeatedCalls();
  for (;;) {
    run.signal.throwIfAborted();
    await steer(run);
    const { message, reason, isEnd, spent, read } = await turn(run, window, progress);
    if (isEnd) return { ...toldOf(progress), ...structured(read), finishReason: reason, endedBy: "model" };
    if (read && "misfit" in read) await askAgain(run, progress, read.misfit);
    const calls = callsOf(message);
    if (spent && calls.length === 0) return atLimit(run, progress, "budget");
    // Beside the calls; where there are none, at the end of the run.
    if (progress.iterations === 1) nameSession(run);
    repeated.nextAnswer();
    await runToolCalls(calls, message.id, run, async ({ call, output: done, refused, state, shown }) => {
      const failed = done.failed === true;
      const text = done.text + repeated.note(call, done.text);
      const result = withState(toolMessage(call, text, failed), state);
      result.parts.push(...(done.parts ?? []));
      const stored = { ...run.conversation.compose(result), ...(shown && { shown }) };
      await run.recorder.finish(stored);
      run.conversation.add(stored);
      run.events.push({
        type: "tool_result",
        messageId: stored.id,
        callId: call.id,
        name: call.name,
        output: text,
        failed,
        ...(refused && { refused }),
        parts: done.parts ?? [],
        diff: done.diff ?? [],
        locations: done.locations ?? [],
      });
    });
    run.signal.throwIfAborted();
    repeated.check();
    const endedBy = limitReached(run.limits, progress);
    if (endedBy) return atLimit(run, progress, endedBy);
  }
}

function atLimit(run: RunContext, progress: Progress, endedBy: Exclude<LoopResult["endedBy"], "model">): LoopResult {
  const { recorder, sessionId: session, logger } = run;
  const spent = endedBy === "budget" ? { usage: recorder.run.usage } : {};
  logger.warn("run ended at a limit", { session, iterations: progress.iterations, endedBy, ...spent });
  return { ...toldOf(progress), finishReason: "length", endedBy };
}

function toldOf({ output, iterations, used }: Progress): Pick<LoopResult, "output" | "iterations" | "used"> {
  return { output, iterations, used };
}

function structured(read: Read | undefined): Pick<LoopResult, "structured"> {
  return read && "value" in read ? { structured: read.value } : {};
}

/** Tell the model what was wrong with its answer. Rejects with `OutputSchemaError` when it was told so often enough. */
async function askAgain(run: RunContext, progress: Progress, misfit: string): Promise<void> {
  const { conversation, recorder, logger, sessionId: session } = run;
  if (progress.askedAgain >= ASKED_AGAIN) throw new OutputSchemaError(misfit);
  progress.askedAgain += 1;
  logger.warn("an answer does not fit the output schema; asking again", { session, attempt: progress.askedAgain });
  const word = conversation.compose(userMessage(wordAbout(misfit)));
  await recorder.write({ sync: true, add: [word], set: { updatedAt: now() } });
  conversation.add(word);
}

/** An answer of the model that is of use. */
interface Turn {
  message: Message;
  reason: FinishReason;
  /** The model has nothing more to do, and nobody told it more. */
  isEnd: boolean;
  /** It is no longer because there was not enough for more. */
  spent: boolean;
  /** Of a last answer, where one of a certain form was asked for. */
  read: Read | undefined;
}

/** Put before the model what others told the run meanwhile. */
async function steer({ inbox, conversation, recorder, events }: RunContext): Promise<void> {
  const told = inbox.takeSteering();
  if (told.length === 0) return;
  const add = told.map(({ text }) => conversation.compose(userMessage(text)));
  await recorder.write({ sync: true, add, followed: told.map(({ id }) => id), set: { updatedAt: now() } });
  for (const [i, message] of add.entries()) {
    conversation.add(message);
    events.push({ type: "steered", messageId: message.id, text: told[i]?.text ?? "" });
  }
}

/** One turn of the model, told and stored; with its last one the run's end. */
async function turn(run: RunContext, window: ContextWindow, progress: Progress): Promise<Turn> {
  const { conversation, recorder, provider, model, sessionId } = run;
  let growing: Message | undefined;
  /** The message that broke off, until that was told. */
  let broken = "";
  let output = "";
  const begin = () => (growing ??= conversation.compose(assistant([]), false));
  const keep = async (parts: Part[]) => {
    if (!growing) return;
    const message: Message = { ...growing, parts };
    growing = undefined;
    await recorder.breakOff(message);
    conversation.add(message);
    broken = message.id;
    if (textOf(message).trim() === "") return;
    output += textOf(message);
    progress.output = output;
  };
  const again = (attempt: number, delayMs: number, error: Error) => {
    const retry = { attempt, delayMs, error, messageId: broken };
    broken = "";
    run.bus.emit("model.retried", { runId: run.id, sessionId, provider: provider.name, model: model.id, ...retry });
    run.events.push({ type: "retry", ...retry });
  };
  const waits = toldWaits((retry) => recorder.waits(retry));
  const hooks: ModelCallHooks = {
    onText: (type, part, text) => {
      const message = begin();
      recorder.append(message, { part, type, text });
      const { agentId } = run;
      const agentName = run.agent.name;
      const messageId = message.id;
      run.events.push(
        type === "text"
          ? { type: "token", agentId, agentName, messageId, text }
          : { type: "token", agentId, agentName, messageId, reasoning: text },
      );
    },
    onBrokenOff: async (parts) => {
      await keep(parts);
      return window.request();
    },
    onRetry: (attempt, delayMs, error) => {
      again(attempt, delayMs, error);
      return waits.onRetry(attempt, delayMs, error);
    },
    onAgain: waits.onAgain,
  };
  let request = await window.request();
  for (let slips = 0; ;) {
    const answer = await callModel(run, "answer", request, run.signal, hooks);
    const failed = "error" in answer;
    const spent = !failed && answer.spent;
    const slip = failed ? slipOf(answer.error) : spent ? undefined : slipIn(answer, provider.name, output !== "");
    if (!failed && !slip) {
      const parts = uniqueCalls(answer.parts, conversation.callIds);
      const message: Message = { ...begin(), parts, finished: true };
      const isLast = callsOf(message).length === 0 && !run.inbox.isSteered && !spent;
      const whole = output + textOf(message);
      let fault: { error: unknown } | undefined;
      const read = isLast
        ? await run.structure?.read(whole, run.signal).catch((error: unknown) => void (fault = { error }))
        : undefined;
      const isEnd = isLast && !fault && !(read && "misfit" in read);
      const iterations = progress.iterations + 1;
      const answered = { output: whole, finishReason: answer.reason, ...structured(read ?? undefined) };
      const isKept = recorder.run.key !== "" || "structured" in answered;
      const end = isEnd ? finished("model", isKept ? answered : null) : {};
      const write = (more: Partial<WithEnd>) =>
        recorder.finish(message, { usage: answer.paid, run: { iterations, ...end }, ...more });
      await (isEnd ? lastWrite(run, write) : write({}));
      conversation.add(message);
      window.answered(answer.usage);
      Object.assign(progress, { output: whole, iterations, used: answer.paid.totalTokens });
      if (fault) throw fault.error;
      return { message, reason: answer.reason, isEnd, spent, read: read ?? undefined };
    }
    const error = slip ?? (answer as BrokenOff).error;
    try {
      if (!failed) await recorder.write({ sync: false, usage: answer.paid });
      await keep(failed ? answer.parts : toldPartsOf(answer.parts));
    } catch (unstored) {
      // A store that fails too must not hide why it broke off.
      run.logger.warn("the end of a broken-off answer was not stored", { session: sessionId, error: unstored });
      throw error;
    }
    if (slip && slips < SLIPS) {
      slips += 1;
      run.logger.warn("an answer was of no use; asking again", {
        provider: provider.name,
        session: sessionId,
        attempt: slips,
        error: slip.message,
      });
      again(slips, 0, slip);
      request = withWord(await window.request(), wordFor(slip));
    } else if (isTooLong(error) && (await window.tooLong())) request = await window.request();
    else throw error;
  }
}

function isTooLong(error: unknown): boolean {
  return hasCode(error, "provider") && error.kind === "context_length";
}

function userMessage(text: string) {
  return { role: "user" as const, parts: [{ type: "text" as const, text }], toolCallId: "", name: "", failed: false };
}

function assistant(parts: Part[]) {
  return { role: "assistant" as const, parts, toolCallId: "", name: "", failed: false };
}
