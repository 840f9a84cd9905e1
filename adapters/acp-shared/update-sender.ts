import type { Agent, Ask, Message, WatchEvent } from "gantry";
import type { Diff, Location, PlanEntry, ToolCallPart } from "gantry/plugin";
import { planOf, planUpdate } from "./plan.js";
import { textBlock, toolCall, toolResult } from "./updates.js";
import { visible } from "./printable-line.js";
import type { ContentBlock, Profile, SessionUpdate } from "./wire.js";

/** What a teller needs to know of its client and its session. */
export interface TellerParts {
  agent: Agent;
  /** Where the tools run. */
  projectDir: string;
  profile: Profile;
  /** Whether the client is told what editors show besides. */
  editor: boolean;
}

interface OpenCall {
  input: unknown;
  locations: readonly Location[];
  diff: readonly Diff[];
  /** The call as the client is told of it. */
  update: SessionUpdate;
  isTold: boolean;
  /** Whether the client was told that it runs. */
  hasBegun: boolean;
}

/** Of a message that grew when it was told last: what the client has of it. */
interface Growing {
  seq: number;
  text: number;
  reasoning: number;
}

/** Stored messages as updates of one client, each told once: what was said before, and what comes. */
export class Teller {
  readonly #parts: TellerParts;
  /** Calls that no result was seen of. */
  readonly #open = new Map<string, OpenCall>();
  #seq = 0;
  #growing: Growing | undefined;
  #plan = "[]";

  constructor(parts: TellerParts) {
    this.#parts = parts;
  }

  /** Greatest `seq` that the client has, or was spared. */
  get seq(): number {
    return this.#seq;
  }

  /** Calls that the client was told of, without a result. */
  get openCalls(): string[] {
    return [...this.#open].flatMap(([id, { isTold }]) => (isTold ? [id] : []));
  }

  /** Whether the client was told of a call that has no result yet. */
  knows(callId: string): boolean {
    return this.#open.get(callId)?.isTold === true;
  }

  /** Whether the client has all of a message. */
  has(message: Message): boolean {
    if (this.#seq !== message.seq || !this.#growing) return this.#seq >= message.seq;
    return this.#growing.text + this.#growing.reasoning >= lengthOf(message, "text") + lengthOf(message, "reasoning");
  }

  /** The client has all messages up to this one another way, or is spared them. */
  skip(seq: number): void {
    if (seq < this.#seq) return;
    this.#seq = seq;
    this.#growing = undefined;
  }

  /** The client has, or is spared, the end of a conversation; calls in it that still run are told with their result. */
  prime(messages: readonly Message[]): void {
    for (const message of messages) {
      if (message.role === "tool") this.#open.delete(message.toolCallId);
      for (const part of message.parts) if (part.type === "tool_call") this.#callOf(part, false);
      this.#seq = message.seq;
      this.#growing = message.finished ? undefined : grownOf(message);
    }
  }

  /** `isReplay`: what is not whole says so. */
  updatesOf(
    event: Extract<WatchEvent, { type: "message" | "delta" | "message_end" }>,
    isReplay = false,
  ): SessionUpdate[] {
    if (event.type === "delta") return this.#delta(event);
    const { message } = event;
    if (message.seq < this.#seq) return [];
    if (message.seq === this.#seq) return this.#grown(message);
    this.#seq = message.seq;
    this.#growing = message.finished ? undefined : grownOf(message);
    return this.#whole(message, isReplay);
  }

  /** All behind this `seq` is void. Says whether the client has some of it. */
  cut(after: number): boolean {
    if (this.#growing && this.#growing.seq > after) this.#growing = undefined;
    return this.#seq > after;
  }

  /** The call of a question, from the question itself. */
  callOfAsk({ callId, toolKind: kind, title, input, locations, diff }: Ask): SessionUpdate[] {
    const known = this.#open.get(callId);
    if (known) return this.#told(known);
    const shown = { callId, title, kind, input, arguments: "", locations };
    const update = toolCall(shown, this.#parts.profile);
    this.#open.set(callId, { input, locations, diff, update, isTold: true, hasBegun: false });
    return [update];
  }

  /** That calls run, each said once. Without `callIds` all that have no result. */
  begun(callIds: readonly string[] = this.openCalls): SessionUpdate[] {
    if (!this.#parts.editor) return [];
    return callIds.flatMap((toolCallId) => {
      const call = this.#open.get(toolCallId);
      if (!call || call.hasBegun) return [];
      call.hasBegun = true;
      return [...this.#told(call), { sessionUpdate: "tool_call_update" as const, toolCallId, status: "in_progress" }];
    });
  }

  /** Their run ended, and these have no result. */
  failed(): SessionUpdate[] {
    const calls = this.openCalls;
    this.#open.clear();
    return calls.map((toolCallId) => ({ sessionUpdate: "tool_call_update", toolCallId, status: "failed" }));
  }

  /** The todo list, where it is another than the one that was told last. */
  plan(entries: readonly PlanEntry[]): SessionUpdate[] {
    return this.#planned(planUpdate(entries));
  }

  #planned(update: Extract<SessionUpdate, { sessionUpdate: "plan" }>): SessionUpdate[] {
    const text = JSON.stringify(update.entries);
    if (!this.#parts.editor || text === this.#plan) return [];
    this.#plan = text;
    return [update];
  }

  #told(call: OpenCall): SessionUpdate[] {
    if (call.isTold) return [];
    call.isTold = true;
    return [call.update];
  }

  #delta({ seq, messageId, kind, text }: Extract<WatchEvent, { type: "delta" }>): SessionUpdate[] {
    if (this.#growing?.seq !== seq) return [];
    this.#growing[kind] += text.length;
    return [chunk(kind, messageId, text)];
  }

  /** What the client lacks of a message that grew. */
  #grown(message: Message): SessionUpdate[] {
    const growing = this.#growing;
    if (!growing) return [];
    const updates = (["reasoning", "text"] as const).flatMap((kind) => {
      const more = textOf(message, kind).slice(growing[kind]);
      return more === "" ? [] : [chunk(kind, message.id, more)];
    });
    this.#growing = message.finished ? undefined : grownOf(message);
    const calls = message.parts.flatMap((part) => (part.type === "tool_call" ? [this.#callOf(part, true)] : []));
    return [...updates, ...calls];
  }

  #whole(message: Message, isReplay: boolean): SessionUpdate[] {
    const { id: messageId } = message;
    if (message.role === "tool") return this.#resultOf(message);
    if (message.role === "system") return [];
    const updates = message.parts.flatMap((part): SessionUpdate[] => {
      if (part.type === "tool_call") return [this.#callOf(part, true)];
      if (part.type === "reasoning") return part.text === "" ? [] : [chunk("reasoning", messageId, part.text)];
      if (part.type === "text" && part.text === "") return [];
      const sessionUpdate = message.role === "user" ? "user_message_chunk" : "agent_message_chunk";
      return [{ sessionUpdate, messageId, content: blockOf(part) }];
    });
    const last = updates.at(-1);
    // Half an answer must not look like a whole one.
    if (isReplay && !message.finished && last && "content" in last && "messageId" in last)
      last._meta = { finished: false };
    return updates;
  }

  #callOf(part: ToolCallPart, isTold: boolean): SessionUpdate {
    const { agent, projectDir, profile } = this.#parts;
    const shown = agent.describeCall(part.name, part.arguments, projectDir);
    const update = toolCall({ callId: part.id, arguments: part.arguments, ...shown }, profile);
    this.#open.set(part.id, { ...shown, update, isTold, hasBegun: false });
    return update;
  }

  /** What was shown of a result is stored with it; of older ones the arguments tell the pieces that an edit put in place of others. */
  #resultOf(message: Message): SessionUpdate[] {
    const { toolCallId: callId, failed, shown } = message;
    const call = this.#open.get(callId);
    this.#open.delete(callId);
    const parts = message.parts.filter((part) => part.type === "image" || part.type === "file");
    const output = textOf(message, "text");
    const diff = shown?.diff ?? (failed ? [] : (call?.diff ?? []));
    const locations = shown?.locations ?? call?.locations ?? [];
    const result = toolResult({ callId, output, failed, parts, diff, locations });
    const plan = call && !failed ? planOf(message.name, call.input) : undefined;
    return [...(call ? this.#told(call) : []), result, ...(plan ? this.#planned(plan) : [])];
  }
}

function chunk(kind: "text" | "reasoning", messageId: string, text: string): SessionUpdate {
  const sessionUpdate = kind === "text" ? "agent_message_chunk" : "agent_thought_chunk";
  return { sessionUpdate, messageId, content: textBlock(text) };
}

function textOf({ parts }: Message, kind: "text" | "reasoning"): string {
  return parts.flatMap((part) => (part.type === kind ? [part.text] : [])).join("");
}

function lengthOf(message: Message, kind: "text" | "reasoning"): number {
  return textOf(message, kind).length;
}

function grownOf(message: Message): Growing {
  return { seq: message.seq, text: lengthOf(message, "text"), reasoning: lengthOf(message, "reasoning") };
}

function blockOf(part: Exclude<Message["parts"][number], ToolCallPart>): ContentBlock {
  if (part.type === "image") return { type: "image", data: part.data, mimeType: part.mediaType };
  if (part.type === "file") {
    const uri = `attachment:${encodeURIComponent(part.filename.replace(/\p{Cs}/gu, "\ufffd"))}`;
    return { type: "resource_link", uri, name: visible(part.filename), mimeType: part.mediaType };
  }
  return textBlock(part.type === "text" ? (part.typed ?? part.text) : part.text);
}
