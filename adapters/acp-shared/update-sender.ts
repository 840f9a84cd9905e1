import type { Agent, Ask, Message, WatchEvent } from "gantry";
import type { Diff, Location, PlanEntry, ToolCallPart } from "gantry/plugin";
import { planOf, planUpdate } from "./plan.js";
import { textBlock, toolCall, toolResult } from "./updates.js";
import { escapeInvisible } from "./printable-line.js";
import type { ContentBlock, Profile, SessionUpdate } from "./wire.js";

/** Data about the client and the session. */
export interface UpdateSenderParts {
  agent: Agent;
  /** Working folder of the tools. */
  projectDir: string;
  profile: Profile;
  /** Whether to send the updates that editors show. */
  editor: boolean;
}

interface OpenCall {
  input: unknown;
  locations: readonly Location[];
  diff: readonly Diff[];
  /** The `tool_call` update of this call. */
  update: SessionUpdate;
  isReported: boolean;
  /** Whether the client was sent that the call runs. */
  hasBegun: boolean;
}

/** Lengths of a growing message that the client has, in characters. */
interface SentLength {
  seq: number;
  text: number;
  reasoning: number;
}

/** Converts stored and new messages to updates for one client, each once. */
export class UpdateSender {
  readonly #parts: UpdateSenderParts;
  /** Calls without a result, by id. */
  readonly #open = new Map<string, OpenCall>();
  #seq = 0;
  #growing: SentLength | undefined;
  #plan = "[]";

  constructor(parts: UpdateSenderParts) {
    this.#parts = parts;
  }

  /** Greatest `seq` that was sent or skipped. */
  get seq(): number {
    return this.#seq;
  }

  /** Ids of sent calls without a result. */
  get openCalls(): string[] {
    return [...this.#open].flatMap(([id, { isReported }]) => (isReported ? [id] : []));
  }

  /** Whether the client has this call, and no result of it yet. */
  hasOpenCall(callId: string): boolean {
    return this.#open.get(callId)?.isReported === true;
  }

  /** Whether the client has the complete message so far. */
  has(message: Message): boolean {
    if (this.#seq !== message.seq || !this.#growing) return this.#seq >= message.seq;
    return this.#growing.text + this.#growing.reasoning >= lengthOf(message, "text") + lengthOf(message, "reasoning");
  }

  /** Skips the messages up to `seq`. */
  skip(seq: number): void {
    if (seq < this.#seq) return;
    this.#seq = seq;
    this.#growing = undefined;
  }

  /** Skips the end of a conversation; calls that still run are sent later, with their result. */
  prime(messages: readonly Message[]): void {
    for (const message of messages) {
      if (message.role === "tool") this.#open.delete(message.toolCallId);
      for (const part of message.parts) if (part.type === "tool_call") this.#callOf(part, false);
      this.#seq = message.seq;
      this.#growing = message.finished ? undefined : toGrowing(message);
    }
  }

  /** The updates of an event. `isReplay`: mark unfinished messages. */
  updatesOf(
    event: Extract<WatchEvent, { type: "message" | "delta" | "message_end" }>,
    isReplay = false,
  ): SessionUpdate[] {
    if (event.type === "delta") return this.#delta(event);
    const { message } = event;
    if (message.seq < this.#seq) return [];
    if (message.seq === this.#seq) return this.#missingUpdates(message);
    this.#seq = message.seq;
    this.#growing = message.finished ? undefined : toGrowing(message);
    return this.#messageUpdates(message, isReplay);
  }

  /** Drops the state after this `seq`. Returns whether the client has messages after it. */
  rewind(after: number): boolean {
    if (this.#growing && this.#growing.seq > after) this.#growing = undefined;
    return this.#seq > after;
  }

  /** The call of a question, built from the question if the call is unknown. */
  callOfAsk({ callId, toolKind: kind, title, input, locations, diff }: Ask): SessionUpdate[] {
    const openCall = this.#open.get(callId);
    if (openCall) return this.#reportCall(openCall);
    const shown = { callId, title, kind, input, arguments: "", locations };
    const update = toolCall(shown, this.#parts.profile);
    this.#open.set(callId, { input, locations, diff, update, isReported: true, hasBegun: false });
    return [update];
  }

  /** Updates that report calls as running, each once. Default: all calls without a result. */
  startedUpdates(callIds: readonly string[] = this.openCalls): SessionUpdate[] {
    if (!this.#parts.editor) return [];
    return callIds.flatMap((toolCallId) => {
      const call = this.#open.get(toolCallId);
      if (!call || call.hasBegun) return [];
      call.hasBegun = true;
      return [
        ...this.#reportCall(call),
        { sessionUpdate: "tool_call_update" as const, toolCallId, status: "in_progress" },
      ];
    });
  }

  /** Updates that report all calls without a result as failed, because their run has ended. */
  failedUpdates(): SessionUpdate[] {
    const calls = this.openCalls;
    this.#open.clear();
    return calls.map((toolCallId) => ({ sessionUpdate: "tool_call_update", toolCallId, status: "failed" }));
  }

  /** The todo list, if it differs from the last one sent. */
  plan(entries: readonly PlanEntry[]): SessionUpdate[] {
    return this.#planUpdates(planUpdate(entries));
  }

  #planUpdates(update: Extract<SessionUpdate, { sessionUpdate: "plan" }>): SessionUpdate[] {
    const text = JSON.stringify(update.entries);
    if (!this.#parts.editor || text === this.#plan) return [];
    this.#plan = text;
    return [update];
  }

  #reportCall(call: OpenCall): SessionUpdate[] {
    if (call.isReported) return [];
    call.isReported = true;
    return [call.update];
  }

  #delta({ seq, messageId, kind, text }: Extract<WatchEvent, { type: "delta" }>): SessionUpdate[] {
    if (this.#growing?.seq !== seq) return [];
    this.#growing[kind] += text.length;
    return [chunk(kind, messageId, text)];
  }

  /** The updates for the part of a growing message that the client lacks. */
  #missingUpdates(message: Message): SessionUpdate[] {
    const growing = this.#growing;
    if (!growing) return [];
    const updates = (["reasoning", "text"] as const).flatMap((kind) => {
      const missingText = textOf(message, kind).slice(growing[kind]);
      return missingText === "" ? [] : [chunk(kind, message.id, missingText)];
    });
    this.#growing = message.finished ? undefined : toGrowing(message);
    const calls = message.parts.flatMap((part) => (part.type === "tool_call" ? [this.#callOf(part, true)] : []));
    return [...updates, ...calls];
  }

  #messageUpdates(message: Message, isReplay: boolean): SessionUpdate[] {
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
    // An unfinished answer must be recognizable.
    if (isReplay && !message.finished && last && "content" in last && "messageId" in last)
      last._meta = { finished: false };
    return updates;
  }

  #callOf(part: ToolCallPart, isTold: boolean): SessionUpdate {
    const { agent, projectDir, profile } = this.#parts;
    const shown = agent.describeCall(part.name, part.arguments, projectDir);
    const update = toolCall({ callId: part.id, arguments: part.arguments, ...shown }, profile);
    this.#open.set(part.id, { ...shown, update, isReported: isTold, hasBegun: false });
    return update;
  }

  /** Results store their diff and locations. For older results without them, the call's arguments give the edit. */
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
    return [...(call ? this.#reportCall(call) : []), result, ...(plan ? this.#planUpdates(plan) : [])];
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

function toGrowing(message: Message): SentLength {
  return { seq: message.seq, text: lengthOf(message, "text"), reasoning: lengthOf(message, "reasoning") };
}

function blockOf(part: Exclude<Message["parts"][number], ToolCallPart>): ContentBlock {
  if (part.type === "image") return { type: "image", data: part.data, mimeType: part.mediaType };
  if (part.type === "file") {
    const uri = `attachment:${encodeURIComponent(part.filename.replace(/\p{Cs}/gu, "\ufffd"))}`;
    return { type: "resource_link", uri, name: escapeInvisible(part.filename), mimeType: part.mediaType };
  }
  return textBlock(part.type === "text" ? (part.originalText ?? part.text) : part.text);
}
