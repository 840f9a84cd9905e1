import type { Agent, Ask, Message, WatchEvent } from "gantry";
import type { Diff, Location, PlanEntry, ToolCallPart } from "gantry/plugin";
import { readPlan, toPlanUpdate } from "./plan.js";
import type { ClientProfile } from "./profile.js";
import { toTextBlock, toToolCallUpdate, toToolResultUpdate } from "./updates.js";
import { escapeInvisible } from "./printable-line.js";
import type { ContentBlock, SessionUpdate } from "./wire.js";

/** Agent, and data about the client and the session. */
export interface UpdateBuilderDependencies extends ClientProfile {
  agent: Agent;
  /** Working folder of the tools. */
  projectDir: string;
}

interface OpenCall {
  input: unknown;
  locations: readonly Location[];
  diff: readonly Diff[];
  /** The `tool_call` update of this call. */
  update: SessionUpdate;
  /** Whether the `tool_call` update was sent. */
  isReported: boolean;
  /** Whether an update has reported the call as running. */
  isReportedRunning: boolean;
}

/** Number of characters of an unfinished message that the client has received, by kind. */
interface SentLength {
  seq: number;
  text: number;
  reasoning: number;
}

/** Converts stored and new messages to updates for one client, each once. */
export class UpdateBuilder {
  readonly #dependencies: UpdateBuilderDependencies;
  /** Calls without a result, by id. */
  readonly #openCallsById = new Map<string, OpenCall>();
  #lastSeq = 0;
  /** Undefined if the last message is complete. */
  #sentLength: SentLength | undefined;
  #lastPlanJson = "[]";

  constructor(dependencies: UpdateBuilderDependencies) {
    this.#dependencies = dependencies;
  }

  /** Greatest `seq` that was sent or skipped. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** Ids of sent calls without a result. */
  get openCallIds(): string[] {
    return [...this.#openCallsById].flatMap(([id, { isReported }]) => (isReported ? [id] : []));
  }

  /** Whether the client has received this call but not its result. */
  hasOpenCall(callId: string): boolean {
    return this.#openCallsById.get(callId)?.isReported === true;
  }

  /** Whether the client has received the message as it is now. */
  hasReported(message: Message): boolean {
    if (this.#lastSeq !== message.seq || !this.#sentLength) return this.#lastSeq >= message.seq;
    return (
      this.#sentLength.text + this.#sentLength.reasoning >=
      countCharacters(message, "text") + countCharacters(message, "reasoning")
    );
  }

  /** Skips the messages up to `seq`. */
  skip(seq: number): void {
    if (seq < this.#lastSeq) return;
    this.#lastSeq = seq;
    this.#sentLength = undefined;
  }

  /** Skips the last messages of a conversation; their open calls are sent later, with their result. */
  skipMessages(messages: readonly Message[]): void {
    for (const message of messages) {
      if (message.role === "tool") this.#openCallsById.delete(message.toolCallId);
      for (const part of message.parts) if (part.type === "tool_call") this.#addCall(part, false);
      this.#lastSeq = message.seq;
      this.#sentLength = message.finished ? undefined : toSentLength(message);
    }
  }

  /** The updates for an event; empty for parts that were sent. `isReplay`: whether to mark unfinished messages. */
  toUpdates(
    event: Extract<WatchEvent, { type: "message" | "delta" | "message_end" }>,
    isReplay = false,
  ): SessionUpdate[] {
    if (event.type === "delta") return this.#toDeltaUpdates(event);
    const { message } = event;
    if (message.seq < this.#lastSeq) return [];
    if (message.seq === this.#lastSeq) return this.#toMissingUpdates(message);
    this.#lastSeq = message.seq;
    this.#sentLength = message.finished ? undefined : toSentLength(message);
    return this.#toMessageUpdates(message, isReplay);
  }

  /** Drops the state after this `seq`. Returns whether the client has received messages with a greater `seq`. */
  rewind(afterSeq: number): boolean {
    if (this.#sentLength && this.#sentLength.seq > afterSeq) this.#sentLength = undefined;
    return this.#lastSeq > afterSeq;
  }

  /**
   * The `tool_call` update for the call of a question; empty if it was sent. An unknown call is built from the
   * question.
   */
  toAskedCallUpdates({ callId, toolKind: kind, title, input, locations, diff }: Ask): SessionUpdate[] {
    const openCall = this.#openCallsById.get(callId);
    if (openCall) return this.#reportCall(openCall);
    const description = { callId, title, kind, input, arguments: "", locations };
    const update = toToolCallUpdate(description, this.#dependencies.profile);
    this.#openCallsById.set(callId, { input, locations, diff, update, isReported: true, isReportedRunning: false });
    return [update];
  }

  /** Updates that report calls as running, each once. Default: all calls without a result. */
  toStartedUpdates(callIds: readonly string[] = this.openCallIds): SessionUpdate[] {
    if (!this.#dependencies.isEditor) return [];
    return callIds.flatMap((toolCallId) => {
      const call = this.#openCallsById.get(toolCallId);
      if (!call || call.isReportedRunning) return [];
      call.isReportedRunning = true;
      return [
        ...this.#reportCall(call),
        { sessionUpdate: "tool_call_update" as const, toolCallId, status: "in_progress" },
      ];
    });
  }

  /** Removes all calls without a result and reports them as failed, because their run has ended. */
  failOpenCalls(): SessionUpdate[] {
    const callIds = this.openCallIds;
    this.#openCallsById.clear();
    return callIds.map((toolCallId) => ({ sessionUpdate: "tool_call_update", toolCallId, status: "failed" }));
  }

  /** The update for a todo list; empty if the list is the same as the last list sent. */
  toPlanUpdates(entries: readonly PlanEntry[]): SessionUpdate[] {
    return this.#toPlanUpdates(toPlanUpdate(entries));
  }

  #toPlanUpdates(update: Extract<SessionUpdate, { sessionUpdate: "plan" }>): SessionUpdate[] {
    const planJson = JSON.stringify(update.entries);
    if (!this.#dependencies.isEditor || planJson === this.#lastPlanJson) return [];
    this.#lastPlanJson = planJson;
    return [update];
  }

  #reportCall(call: OpenCall): SessionUpdate[] {
    if (call.isReported) return [];
    call.isReported = true;
    return [call.update];
  }

  #toDeltaUpdates({ seq, messageId, kind, text }: Extract<WatchEvent, { type: "delta" }>): SessionUpdate[] {
    if (this.#sentLength?.seq !== seq) return [];
    this.#sentLength[kind] += text.length;
    return [toChunk(kind, messageId, text)];
  }

  /** The updates for the part of an unfinished message that the client lacks. */
  #toMissingUpdates(message: Message): SessionUpdate[] {
    const sentLength = this.#sentLength;
    if (!sentLength) return [];
    const updates = (["reasoning", "text"] as const).flatMap((kind) => {
      const missingText = joinText(message, kind).slice(sentLength[kind]);
      return missingText === "" ? [] : [toChunk(kind, message.id, missingText)];
    });
    this.#sentLength = message.finished ? undefined : toSentLength(message);
    const calls = message.parts.flatMap((part) => (part.type === "tool_call" ? [this.#addCall(part, true)] : []));
    return [...updates, ...calls];
  }

  #toMessageUpdates(message: Message, isReplay: boolean): SessionUpdate[] {
    const { id: messageId } = message;
    if (message.role === "tool") return this.#toResultUpdates(message);
    if (message.role === "system") return [];
    const updates = message.parts.flatMap((part): SessionUpdate[] => {
      if (part.type === "tool_call") return [this.#addCall(part, true)];
      if (part.type === "reasoning") return part.text === "" ? [] : [toChunk("reasoning", messageId, part.text)];
      if (part.type === "text" && part.text === "") return [];
      const sessionUpdate = message.role === "user" ? "user_message_chunk" : "agent_message_chunk";
      return [{ sessionUpdate, messageId, content: toContentBlock(part) }];
    });
    const lastUpdate = updates.at(-1);
    // Clients must recognize an unfinished answer.
    if (isReplay && !message.finished && lastUpdate && "content" in lastUpdate && "messageId" in lastUpdate)
      lastUpdate._meta = { finished: false };
    return updates;
  }

  #addCall(part: ToolCallPart, isReported: boolean): SessionUpdate {
    const { agent, projectDir, profile } = this.#dependencies;
    const description = agent.describeCall(part.name, part.arguments, projectDir);
    const update = toToolCallUpdate({ callId: part.id, arguments: part.arguments, ...description }, profile);
    this.#openCallsById.set(part.id, { ...description, update, isReported, isReportedRunning: false });
    return update;
  }

  /** Stored results have a diff and locations. For an older result without them, the call gives both. */
  #toResultUpdates(message: Message): SessionUpdate[] {
    const { toolCallId: callId, failed, shown } = message;
    const call = this.#openCallsById.get(callId);
    this.#openCallsById.delete(callId);
    const parts = message.parts.filter((part) => part.type === "image" || part.type === "file");
    const output = joinText(message, "text");
    const diff = shown?.diff ?? (failed ? [] : (call?.diff ?? []));
    const locations = shown?.locations ?? call?.locations ?? [];
    const result = toToolResultUpdate({ callId, output, failed, parts, diff, locations });
    const plan = call && !failed ? readPlan(message.name, call.input) : undefined;
    return [...(call ? this.#reportCall(call) : []), result, ...(plan ? this.#toPlanUpdates(plan) : [])];
  }
}

function toChunk(kind: "text" | "reasoning", messageId: string, text: string): SessionUpdate {
  const sessionUpdate = kind === "text" ? "agent_message_chunk" : "agent_thought_chunk";
  return { sessionUpdate, messageId, content: toTextBlock(text) };
}

function joinText({ parts }: Message, kind: "text" | "reasoning"): string {
  return parts.flatMap((part) => (part.type === kind ? [part.text] : [])).join("");
}

function countCharacters(message: Message, kind: "text" | "reasoning"): number {
  return joinText(message, kind).length;
}

function toSentLength(message: Message): SentLength {
  return { seq: message.seq, text: countCharacters(message, "text"), reasoning: countCharacters(message, "reasoning") };
}

function toContentBlock(part: Exclude<Message["parts"][number], ToolCallPart>): ContentBlock {
  if (part.type === "image") return { type: "image", data: part.data, mimeType: part.mediaType };
  if (part.type === "file") {
    const uri = `attachment:${encodeURIComponent(part.filename.replace(/\p{Cs}/gu, "\ufffd"))}`;
    return { type: "resource_link", uri, name: escapeInvisible(part.filename), mimeType: part.mediaType };
  }
  return toTextBlock(part.type === "text" ? (part.originalText ?? part.text) : part.text);
}
