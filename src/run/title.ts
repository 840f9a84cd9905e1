import { nearestEffort } from "../models/efforts.js";
import { deadline } from "../base/abort.js";
import { typedText } from "../conversation/messages.js";
import { callModel, type ModelCallHooks } from "../models/model-call.js";
import { hasCode } from "../ports/errors.js";
import type { RunContext } from "./context/run-context.js";

const MAX_CHARACTERS = 50;
/** Whoever says more gives no title. */
const MAX_ANSWER = 4_000;
/** So long a title may take, in ms; the silence that a local model is allowed is far longer. */
const TIME_MS = 300_000;

const INSTRUCTIONS = `You name conversations. Answer with a title for the conversation that begins with the user's message, and nothing else.
At most ${MAX_CHARACTERS} characters, in the language of the message. No quotes, no full stop, no tool names. Do not answer the message.`;

/** In the background, for a session that has no title yet; once, however many prompts come meanwhile. */
export function nameSession(run: RunContext): void {
  const { sessionId, conversation, store, bus, logger } = run;
  const { closing, naming, tasks } = run.agent;
  const { session } = conversation;
  if (session.titled || naming.has(sessionId)) return;
  const first = conversation.messages.find((message) => message.role === "user");
  const message = first ? typedText(first) : "";
  if (message.trim() === "") return;
  const work = async () => {
    try {
      // What waits for the answer goes on first.
      await new Promise((resolve) => setImmediate(resolve));
      const title = await askForTitle(run, message, closing);
      if (title === "") return;
      // A person may have given one while the model thought.
      const untitled = await store.get(sessionId);
      if (untitled?.titled !== false) return;
      await store.write(session.id, { fence: null, sync: false, set: { title, titled: true } });
      run.agent.live().touched(sessionId, store);
      bus.emit("session.updated", { sessionId, fields: ["title"], session: { ...untitled, title, titled: true } });
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (hasCode(error, "budget")) logger.debug("no title was generated", { session: sessionId, error: why });
      else if (!closing.aborted) logger.warn("no title was generated", { session: sessionId, error: why });
    } finally {
      naming.delete(sessionId);
    }
  };
  // What fails is tried again by the next run.
  naming.add(sessionId);
  void tasks.add(work());
}

/** Temperature 0.3, no tools. `""` when the model gave none. Rejects as the provider does, and with the signal's reason. */
async function askForTitle(run: RunContext, message: string, signal: AbortSignal): Promise<string> {
  const { provider, model, sessionId, logger } = run;
  const request = {
    model,
    system: INSTRUCTIONS,
    messages: [
      {
        role: "user" as const,
        parts: [{ type: "text" as const, text: message.slice(0, 2000) }],
        toolCallId: "",
        name: "",
        failed: false,
      },
    ],
    tools: [],
    temperature: 0.3,
    effort: nearestEffort(model.reasoning ? "minimal" : "", model.efforts),
    thinks: false,
    cacheKey: `${sessionId}-title`,
  };
  const enough = new AbortController();
  let said = 0;
  const hooks: ModelCallHooks = {
    onText: (type, _, text) => {
      if (type === "text") said += text.length;
      if (said > MAX_ANSWER) enough.abort(new Error("the model gave no title, but a long answer"));
    },
    onRetry: () => void (said = 0),
  };
  const time = deadline(TIME_MS, signal, enough.signal);
  try {
    const answer = await callModel(run, "title", request, time.signal, hooks);
    if ("error" in answer) throw answer.error;
    // What it took counts to no session: this line tells it.
    const names = { provider: provider.name, model: model.id };
    logger.info("a title was made", { session: sessionId, ...names, usage: answer.paid });
    return cleanTitle(answer.parts.map((part) => (part.type === "text" ? part.text : "")).join(""));
  } finally {
    time.clear();
  }
}

/** What may stand around a title and is no part of it: opening and closing, the longer first. */
const FRAMES: readonly (readonly [string, string])[] = [
  ["**", "**"],
  ["__", "__"],
  ['"', '"'],
  ["'", "'"],
  ["`", "`"],
  ["*", "*"],
  ["“", "”"],
  ["„", "“"],
  ["„", "”"],
  ["«", "»"],
  ["»", "«"],
  ["‘", "’"],
  ["「", "」"],
  ["『", "』"],
];

/** Whitespace folded, quotes around it and a final full stop stripped, cut at 50 characters on a grapheme boundary. */
export function cleanTitle(text: string): string {
  // Local models think aloud in tags; the title is what follows.
  let title = text
    .replace(/<think>[\s\S]*?(<\/think>|$)/g, " ")
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
    // A heading or a list of one.
    .replace(/^(#{1,6}|[-*]) /, "");
  for (let before = ""; before !== title;) {
    before = title;
    title = unframed(title.replace(/(?<![.])[.。]$/u, "").trim());
  }
  if (title.length <= MAX_CHARACTERS) return title;
  let cut = "";
  for (const { segment } of new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(title)) {
    if (cut.length + segment.length > MAX_CHARACTERS) break;
    cut += segment;
  }
  return cut.trimEnd();
}

/** Without the quotes or marks around the whole of it; those of a word within stay. */
function unframed(title: string): string {
  for (const [open, close] of FRAMES) {
    if (title.length < open.length + close.length || !title.startsWith(open) || !title.endsWith(close)) continue;
    const inner = title.slice(open.length, title.length - close.length);
    if (!inner.includes(open) && !inner.includes(close)) return inner.trim();
  }
  // One that was opened and never closed.
  const first = title[0] ?? "";
  const lone = first !== "" && `"'\`“„«‘「『`.includes(first) && !/["'`”“»’」』]/u.test(title.slice(1));
  return lone ? title.slice(1).trim() : title;
}
