import { bytesOf, toolCalls, ModelMessageCache } from "./messages.js";
import { newId, now } from "../base/ids.js";
import type { Message, ModelMessage } from "../ports/message.js";
import type { Session } from "../ports/session.js";

/** Size of messages, in bytes. */
export interface ConversationSize {
  /** Bytes of text that a model reads. */
  bytes: number;
  /** Memory used by attached images and files. */
  attachedBytes: number;
  /** Size of the largest tool result. */
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

  /** Greatest `seq` assigned so far. */
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
