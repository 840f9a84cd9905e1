import { nearestEffort } from "../models/efforts.js";
import { createDeadline } from "../base/abort.js";
import { createMessage, getDisplayText } from "../conversation/messages.js";
import { callModel, type ModelCaller, type ModelCallHooks } from "../models/model-call.js";
import { hasCode } from "../ports/errors.js";
import { createInitialTitle } from "../sessions/new-session.js";
import type { Conversation } from "../conversation/conversation.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { AgentServices } from "./context/agent-services.js";

const MAX_TITLE_CHARACTERS = 50;
/** Maximum characters of the user's message in the request. The beginning is enough for a title. */
const MAX_PROMPT_CHARACTERS = 2_000;
/** Maximum characters of the model's answer before it is normalized. A longer answer is no title. */
const MAX_ANSWER_CHARACTERS = 4_000;
/** Time limit for a title, in ms. The idle timeout of a local model is far longer. */
const TITLE_TIMEOUT_MS = 300_000;

const TITLE_INSTRUCTIONS = `You name conversations. Answer with a title for the conversation that begins with the user's message, and nothing else.
At most ${MAX_TITLE_CHARACTERS} characters, in the language of the message. No quotes, no full stop, no tool names. Do not answer the message.`;

interface TitledRun {
  readonly agent: Pick<AgentServices, "background" | "channels">;
  readonly session: { readonly conversation: Conversation; readonly store: SessionDriver };
  readonly caller: ModelCaller;
}

/**
 * Generates a title in the background for a session that has none. If that fails, the first line of the prompt becomes
 * the title until the next run has generated one. At most one generation runs per session.
 */
export function generateTitle(run: TitledRun): void {
  const { sessionId, logger } = run.caller;
  const { closeSignal } = run.agent.background;
  runTitleTask(run, async (message) => {
    try {
      // Let code that waits for the answer run first.
      await new Promise((resolve) => setImmediate(resolve));
      const title = await requestTitle(run.caller, message, closeSignal);
      if (title !== "") return await storeTitle(run, title, true);
    } catch (error) {
      if (closeSignal.aborted) return;
      const fields = { session: sessionId, error: error instanceof Error ? error.message : String(error) };
      if (hasCode(error, "budget")) logger.debug("no title was generated", fields);
      else logger.warn("no title was generated", fields);
    }
    await storeTitle(run, toPreliminaryTitle(message), false);
  });
}

/** Titles the session of a failed run with the first line of its prompt, in the background. */
export function titleFailedRun(run: TitledRun): void {
  runTitleTask(run, (message) => storeTitle(run, toPreliminaryTitle(message), false));
}

/** Runs a task with the first prompt of a session that has no final title. */
function runTitleTask(
  { agent, session: { conversation }, caller: { sessionId, logger } }: TitledRun,
  work: (message: string) => Promise<void>,
): void {
  const { sessionsBeingTitled, tasks } = agent.background;
  if (conversation.session.hasFinalTitle || sessionsBeingTitled.has(sessionId)) return;
  const firstMessage = conversation.messages.find((message) => message.role === "user");
  const message = firstMessage ? getDisplayText(firstMessage) : "";
  if (message.trim() === "") return;
  // After a failure the next run tries again.
  sessionsBeingTitled.add(sessionId);
  const task = work(message)
    .catch((error: unknown) => logger.debug("title was not stored", { session: sessionId, error }))
    .finally(() => sessionsBeingTitled.delete(sessionId));
  void tasks.add(task);
}

/** Stores a title. One that is not final replaces only the initial title. */
async function storeTitle(
  { agent, session: { conversation, store }, caller: { sessionId, bus } }: TitledRun,
  title: string,
  isFinal: boolean,
): Promise<void> {
  // A user may have set a title in the meantime.
  const storedSession = await store.get(sessionId);
  if (storedSession?.hasFinalTitle !== false) return;
  if (!isFinal && (title === "" || storedSession.title !== createInitialTitle(storedSession.createdAt))) return;
  const fields = { title, hasFinalTitle: isFinal };
  await store.write(conversation.session.id, { fence: null, sync: false, set: fields });
  agent.channels.liveSessions().notifyStateChange(sessionId, store);
  bus.emit("session.updated", { sessionId, fields: ["title"], session: { ...storedSession, ...fields } });
}

function toPreliminaryTitle(message: string): string {
  return cleanTitle(message.split("\n").find((line) => line.trim() !== "") ?? "");
}

/**
 * Requests a title, without tools and at temperature 0.3. Returns `""` if the model gives none. Rejects like the
 * provider, or with the signal's reason.
 */
async function requestTitle(caller: ModelCaller, message: string, signal: AbortSignal): Promise<string> {
  const { provider, model, sessionId, logger } = caller;
  const request = {
    model,
    system: TITLE_INSTRUCTIONS,
    messages: [createMessage("user", message.slice(0, MAX_PROMPT_CHARACTERS))],
    tools: [],
    temperature: 0.3,
    effort: nearestEffort(model.reasoning ? "minimal" : "", model.efforts),
    needsReasoning: false,
    cacheKey: `${sessionId}-title`,
  };
  const lengthController = new AbortController();
  let textCharacters = 0;
  const hooks: ModelCallHooks = {
    onText: (type, _, text) => {
      if (type === "text") textCharacters += text.length;
      if (textCharacters > MAX_ANSWER_CHARACTERS)
        lengthController.abort(new Error("the answer is too long for a title"));
    },
    onRetry: () => void (textCharacters = 0),
  };
  const timeLimit = createDeadline(TITLE_TIMEOUT_MS, signal, lengthController.signal);
  try {
    const answer = await callModel(caller, "title", request, timeLimit.signal, hooks);
    if ("error" in answer) throw answer.error;
    // The usage of a title counts for no session; only this line reports it.
    const fields = { provider: provider.name, model: model.id };
    logger.info("title generated", { session: sessionId, ...fields, usage: answer.usageWithCost });
    return cleanTitle(answer.parts.map((part) => (part.type === "text" ? part.text : "")).join(""));
  } finally {
    timeLimit.clear();
  }
}

/** Marks that may surround a title, each as the opening mark and the closing mark. Longer ones come first. */
const TITLE_MARKS = ["****", "____", '""', "''", "``", "**", "“”", "„“", "„”", "«»", "»«", "‘’", "「」", "『』"];

/**
 * Normalizes a title: folds whitespace, strips surrounding quotes and a final full stop, and cuts at 50 characters on a
 * grapheme boundary.
 */
export function cleanTitle(text: string): string {
  // Remove the reasoning, which local models write in tags before the title.
  let title = text
    .replace(/<think>[\s\S]*?(<\/think>|$)/g, " ")
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
    // Remove the mark of a heading or of a list item.
    .replace(/^(#{1,6}|[-*]) /, "");
  for (let previousTitle = ""; previousTitle !== title;) {
    previousTitle = title;
    title = stripMarks(title.replace(/(?<![.])[.\u3002]$/u, "").trim());
  }
  if (title.length <= MAX_TITLE_CHARACTERS) return title;
  let shortTitle = "";
  for (const { segment } of new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(title)) {
    if (shortTitle.length + segment.length > MAX_TITLE_CHARACTERS) break;
    shortTitle += segment;
  }
  return shortTitle.trimEnd();
}

/** Strips marks around the complete title; marks around a word inside it stay. */
function stripMarks(title: string): string {
  for (const marks of TITLE_MARKS) {
    const [open, close] = [marks.slice(0, marks.length / 2), marks.slice(marks.length / 2)];
    if (title.length < open.length + close.length || !title.startsWith(open) || !title.endsWith(close)) continue;
    const innerText = title.slice(open.length, title.length - close.length);
    if (!innerText.includes(open) && !innerText.includes(close)) return innerText.trim();
  }
  // Remove an opening mark without a closing mark.
  const firstCharacter = title[0] ?? "";
  const hasLoneMark =
    firstCharacter !== "" &&
    `"'\`“„«‘「『`.includes(firstCharacter) &&
    !/["'`\u201d\u201c\u00bb\u2019\u300d\u300f]/u.test(title.slice(1));
  return hasLoneMark ? title.slice(1).trim() : title;
}
