import type { ToolContext } from "gantry";
import { isRecord, ToolError } from "gantry/plugin";
import { removeInvisible, toLine } from "./printable-text.js";

const MAX_PROMPT_CHARACTERS = 100_000;
const MAX_TITLE_CHARACTERS = 100;

/** The result of `sampling/createMessage`. */
interface SampledMessage {
  readonly role: "assistant";
  readonly content: { readonly type: "text"; readonly text: string };
  readonly model: string;
  readonly stopReason: string;
  readonly [key: string]: unknown;
}

/**
 * Answers a server's request for a message of the model, if the user permits it: by a subagent without tools, so that
 * the usage counts for the session and for its budget. Only text is sent to the model.
 *
 * Rejects with `ToolError` if the request has no text or is not permitted, and like `ToolContext.spawn`.
 */
export async function sampleMessage(
  serverName: string,
  params: Readonly<Record<string, unknown>>,
  context: Pick<ToolContext, "ask" | "spawn">,
): Promise<SampledMessage> {
  const prompt = formatPrompt(params);
  const title = `${serverName} asks the model: ${toLine(prompt)}`.slice(0, MAX_TITLE_CHARACTERS);
  const reason = "The server wants to use the model of this session (sampling).";
  if ((await context.ask({ title, input: { prompt }, locations: [], reason })) === "reject")
    throw new ToolError("the user did not permit this request");
  const subagent = await context.spawn({ message: prompt, title, tools: [], maxIterations: 1 });
  const { output } = await subagent.result;
  // The protocol requires the name of the model, which is not the server's business.
  return { role: "assistant", content: { type: "text", text: output }, model: "gantry", stopReason: "endTurn" };
}

function formatPrompt({ messages, systemPrompt }: Readonly<Record<string, unknown>>): string {
  const texts = (Array.isArray(messages) ? (messages as unknown[]) : []).filter(isRecord).map(({ role, content }) => {
    const blocks: unknown[] = Array.isArray(content) ? content : [content];
    const text = blocks.map((block) => (isRecord(block) ? block["text"] : undefined));
    return { role, text: text.filter((part) => typeof part === "string").join("\n") };
  });
  const hasDialogue = texts.length > 1;
  const parts = texts.map(({ role, text }) =>
    hasDialogue ? `[${role === "assistant" ? "you" : "user"}]\n${text}` : text,
  );
  if (typeof systemPrompt === "string") parts.unshift(systemPrompt);
  const prompt = removeInvisible(parts.join("\n\n")).trim();
  if (prompt === "" || texts.every(({ text }) => text === "")) throw new ToolError("the request has no text");
  if (prompt.length > MAX_PROMPT_CHARACTERS)
    throw new ToolError(`the request is longer than ${MAX_PROMPT_CHARACTERS} characters`);
  return prompt;
}
