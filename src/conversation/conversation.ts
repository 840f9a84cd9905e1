import { bytesOf, toolCalls, ModelMessageCache } from "./messages.js";
import { newId, now } from "../base/ids.js";
import type { Message, ModelMessage, OpaqueData } from "../ports/message.js";
import type { Session } from "../ports/session.js";

export interface ConversationSize {
  /** Bytes of text that a model reads. */
  bytes: number;
  /** Memory used by attached images and files. */
  attachedBytes: number;
  largestResultBytes: number;
}

/** The conversation of a running model: the stored messages that it sees, and the position of the next message. */
export class Conversation {
  /** Ids of all tool calls so far, including calls that a compaction removed. */
  readonly callIds = new Set<string>();
  /** Messages as the model reads them. Each message is created once, as long as the model stays the same. */
  readonly modelMessages = new ModelMessageCache();
  /** The session that receives new messages: the newest of its chain. */
  session: Session;
  #messages: Message[];
  #lastSeq: number;
  /** Size of the messages. Undefined until `size` is first read. */
  #size: ConversationSize | undefined;

  constructor(session: Session, messages: Message[]) {
    this.session = session;
    this.#messages = messages.map(removeDisplay);
    for (const message of messages) this.#addCallIds(message);
    this.#lastSeq = Math.max(session.lastSeq, messages.at(-1)?.seq ?? 0);
  }

  /** The messages in order: the view of a follow-up, then the later messages. */
  get messages(): readonly Message[] {
    return this.#messages;
  }

  get lastSeq(): number {
    return this.#lastSeq;
  }

  /**
   * Size of the messages. Computed once and then updated, so that a long conversation is not measured again at each
   * turn.
   */
  get size(): Readonly<ConversationSize> {
    if (!this.#size) {
      this.#size = { bytes: 0, attachedBytes: 0, largestResultBytes: 0 };
      for (const message of this.#messages) addToSize(this.#size, message);
    }
    return this.#size;
  }

  /** Creates a message with the next `seq`. Does not add it to the conversation. */
  compose(message: ModelMessage, finished = true): Message {
    this.#lastSeq += 1;
    return { ...message, id: newId(), sessionId: this.session.id, seq: this.#lastSeq, createdAt: now(), finished };
  }

  /** Appends a message that `compose` created, with its final content. */
  add(message: Message): void {
    this.#messages.push(removeDisplay(message));
    this.#addCallIds(message);
    if (this.#size) addToSize(this.#size, message);
  }

  /** Continues in the chain's next session, which starts with `messages`. */
  continueIn(session: Session, messages: Message[]): void {
    this.session = session;
    this.#messages = messages;
    this.#size = undefined;
  }

  #addCallIds(message: Message): void {
    for (const { id } of toolCalls(message)) this.callIds.add(id);
  }
}

/**
 * Removes the display data of a tool result. The store keeps this data and models never see it, so complete files need
 * not stay in memory.
 */
function removeDisplay(message: Message): Message {
  if (!message.shown) return message;
  const { shown: _, ...modelMessage } = message;
  return modelMessage;
}

function addToSize(size: ConversationSize, message: Message): void {
  const bytes = bytesOf(message);
  size.bytes += bytes;
  for (const part of message.parts)
    if (part.type === "image" || part.type === "file") size.attachedBytes += part.data.length;
  if (message.role === "tool") size.largestResultBytes = Math.max(size.largestResultBytes, bytes);
}

/**
 * Owner of the state stored with a tool result. The owner is no real provider or model, so the state is never sent to a
 * model.
 */
const OWNER = { provider: "gantry", model: "tool state" } as const;

/** Prefix of the keys of permanent permission grants. */
export const GRANT_PREFIX = "leave:";

/** Key of the environment that a session was last given. Stored only with a prompt. */
export const ENVIRONMENT_KEY = "surroundings";

/** Prefix of the keys of instruction files that a tool result contained. The value is the version of the file. */
export const INSTRUCTION_PREFIX = "told:";

/** Session state that a call changed, by key. Null removes the key. */
export type StateChanges = Record<string, unknown>;

/**
 * Adds state to a tool result (changed by its call) or to a prompt (the environment). Returns the message unchanged if
 * there are no changes or its first part is not text.
 */
export function withState(result: ModelMessage, changes: StateChanges): ModelMessage {
  const [firstPart, ...otherParts] = result.parts;
  if (Object.keys(changes).length === 0 || firstPart?.type !== "text") return result;
  return { ...result, parts: [{ ...firstPart, opaque: { ...OWNER, data: changes } }, ...otherParts] };
}

/** Collects the session's state from the messages of a conversation. */
export function collectState(messages: readonly Message[]): Map<string, unknown> {
  const state = new Map<string, unknown>();
  for (const { role, parts } of messages) {
    if (role !== "tool" && role !== "user") continue;
    for (const part of parts) {
      if (part.type !== "text" || !isStoredState(part.opaque)) continue;
      for (const [key, value] of Object.entries(part.opaque.data as StateChanges)) {
        if ((key === ENVIRONMENT_KEY) !== (role === "user")) continue;
        // Only a user can grant permissions; grants in stored conversations are ignored.
        if (value === null || key.startsWith(GRANT_PREFIX)) state.delete(key);
        else state.set(key, value);
      }
    }
  }
  return state;
}

/**
 * Finds the version of an instruction file in the newest message with that file, which is a tool result or a user
 * message with attached state; undefined if no message has it.
 */
export function findInstructionVersion(messages: readonly ModelMessage[], from: string): unknown {
  for (const { role, parts } of messages.toReversed()) {
    for (const part of role === "assistant" ? [] : parts) {
      if (part.type !== "text" || !isStoredState(part.opaque)) continue;
      const version = (part.opaque.data as StateChanges)[INSTRUCTION_PREFIX + from];
      if (version !== undefined) return version;
    }
  }
  return undefined;
}

function isStoredState(opaque: OpaqueData | undefined): opaque is OpaqueData {
  return opaque?.provider === OWNER.provider && opaque.model === OWNER.model && isPlainJson(opaque.data);
}

/** Maximum nesting depth of stored values. */
const MAX_DEPTH = 20;

/** Whether a value survives storage as JSON unchanged. `depth`: nesting depth of the value. */
export function isPlainJson(value: unknown, depth = 0): boolean {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || depth > MAX_DEPTH) return false;
  if (Array.isArray(value)) return value.every((item) => isPlainJson(item, depth + 1));
  const prototype: unknown = Object.getPrototypeOf(value);
  return (
    (prototype === Object.prototype || prototype === null) &&
    Object.values(value).every((field) => isPlainJson(field, depth + 1))
  );
}
