import { textOf } from "../conversation/messages.js";
import type { CompactionInput, CompactionStrategy } from "../ports/compaction-strategy.js";
import type { Message, ModelMessage } from "../ports/message.js";
import { fit } from "./fit.js";
import { currentPrompt, unitsOf } from "./units.js";

/** Characters kept of the first user message once it has slid out of the newest ones. */
const FIRST_CHARACTERS = 2_000;
/** Tells the model that it does not see everything. */
export const LEFT_OUT = "[Earlier messages of this conversation were left out to save room in the context window.]";

/** What stays of a conversation when only its newest messages do. */
export interface Slid {
  /** The first user message, and the prompt that is worked on where it is older than the newest messages. */
  prompts: Message[];
  /** What goes, oldest first. */
  dropped: Message[];
  newest: Message[];
}

/** Keeps the first user message and the newest messages, then clears old tool outputs. Asks nobody. */
export class SlidingWindow implements CompactionStrategy {
  readonly name = "sliding-window";

  compact(input: CompactionInput, _signal: AbortSignal): Promise<ModelMessage[]> {
    const { prompts, newest } = slide(input.messages, input.keepMessages);
    const kept = fit([...prompts, ...newest], input.budget);
    const first = kept.find((message) => message.role === "user");
    if (kept.length === input.messages.length) return Promise.resolve(kept);
    return Promise.resolve(kept.map((message) => (message === first ? noted(message) : message)));
  }
}

/** Split a conversation at its newest `keep` messages, never between a tool call and its result. */
export function slide(messages: readonly Message[], keep: number): Slid {
  const units = unitsOf(messages);
  let from = units.length - 1;
  let count = units[from]?.length ?? 0;
  for (; from > 0; from -= 1) {
    count += units[from - 1]?.length ?? 0;
    if (count > keep) break;
  }
  const newest = units.slice(from).flat();
  const older = units.slice(0, from).flat();
  const first = older.find((message) => message.role === "user");
  const current = currentPrompt(messages);
  const prompts: Message[] = [];
  // The prompt that is worked on stays whole, also when it is the first: it is what the model was asked to do.
  if (first) prompts.push(first === current ? first : shortFirst(first));
  if (current && current !== first && older.includes(current)) prompts.push(current);
  return { prompts, newest, dropped: older.filter((message) => message !== first && message !== current) };
}

/** A first message without its note, at most 2,000 characters, attachments named. */
function shortFirst(message: Message): Message {
  const said = { ...message, parts: message.parts.filter((part) => part.type !== "text" || part.text !== LEFT_OUT) };
  const names = said.parts.flatMap((part) =>
    part.type === "file" ? [part.filename.slice(0, 80)] : part.type === "image" ? ["an image"] : [],
  );
  const text = textOf(said);
  if (text.length <= FIRST_CHARACTERS && names.length === 0 && said.parts.length === message.parts.length) {
    return message;
  }
  const note = names.length === 0 ? "" : `\n[attached, now left out: ${names.slice(0, 10).join(", ")}]`;
  return { ...message, parts: [{ type: "text", text: headOf(text, FIRST_CHARACTERS - note.length) + note }] };
}

function headOf(text: string, characters: number): string {
  if (text.length <= characters) return text;
  const head = text.slice(0, characters - 4);
  // Never half of a surrogate pair.
  return `${/[\uD800-\uDBFF]$/.test(head) ? head.slice(0, -1) : head} […]`;
}

function noted(message: Message): Message {
  if (message.parts.some((part) => part.type === "text" && part.text === LEFT_OUT)) return message;
  return { ...message, parts: [...message.parts, { type: "text", text: LEFT_OUT }] };
}
