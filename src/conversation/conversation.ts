import { bytesOf, callsOf, ToldMessages } from "./messages.js";
import { newId, now } from "../base/ids.js";
import type { Message, ModelMessage } from "../ports/message.js";
import type { Session } from "../ports/session.js";

/** What messages take, in bytes. */
export interface ConversationSize {
  /** Of a model's window. */
  bytes: number;
  /** Of memory, by attached files. */
  attached: number;
  /** Of the largest result of a tool. */
  largestResult: number;
}

/** What a model is working on: the stored messages that it sees, and where the next one goes. */
export class Conversation {
  /** Ids of all tool calls so far, also of those that a compaction left out. */
  readonly callIds = new Set<string>();
  /** What the model is told of each message; made once, as long as it is the same model. */
  readonly told = new ToldMessages();
  /** The session that is written to: the newest of its chain. */
  session: Session;
  #messages: Message[];
  #lastSeq: number;
  /** Of the messages, once somebody asked. */
  #size: ConversationSize | undefined;

  constructor(session: Session, messages: Message[]) {
    this.session = session;
    this.#messages = messages.map(forModel);
    for (const message of messages) this.#noteCalls(message);
    this.#lastSeq = Math.max(session.lastSeq, messages.at(-1)?.seq ?? 0);
  }

  /** In order: a follow-up's view, then what was said. */
  get messages(): readonly Message[] {
    return this.#messages;
  }

  /** Greatest `seq` given so far. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** Counted once, then added to: a long conversation is not measured again at each turn. */
  get size(): Readonly<ConversationSize> {
    if (!this.#size) {
      this.#size = { bytes: 0, attached: 0, largestResult: 0 };
      for (const message of this.#messages) grow(this.#size, message);
    }
    return this.#size;
  }

  /** A new message with the next `seq`; not yet part of the conversation. */
  compose(message: ModelMessage, finished = true): Message {
    this.#lastSeq += 1;
    return { ...message, id: newId(), sessionId: this.session.id, seq: this.#lastSeq, createdAt: now(), finished };
  }

  add(message: Message): void {
    this.#messages.push(forModel(message));
    this.#noteCalls(message);
    if (this.#size) grow(this.#size, message);
  }

  /** Go on in the chain's next session, with what that begins with. */
  goOnIn(session: Session, messages: Message[]): void {
    this.session = session;
    this.#messages = messages;
    this.#size = undefined;
  }

  #noteCalls(message: Message): void {
    for (const { id } of callsOf(message)) this.callIds.add(id);
  }
}

/** What people are shown beside a message is in the store: whole files need not be kept for a model that never sees them. */
function forModel(message: Message): Message {
  if (!message.shown) return message;
  const { shown: _, ...rest } = message;
  return rest;
}

function grow(size: ConversationSize, message: Message): void {
  const bytes = bytesOf(message);
  size.bytes += bytes;
  for (const part of message.parts)
    if (part.type === "image" || part.type === "file") size.attached += part.data.length;
  if (message.role === "tool") size.largestResult = Math.max(size.largestResult, bytes);
}
