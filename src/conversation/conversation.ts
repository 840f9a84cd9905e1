import { callsOf } from "./messages.js";
import { newId, now } from "../base/ids.js";
import type { Message, ModelMessage } from "../ports/message.js";
import type { Session } from "../ports/session.js";

/** What a model is working on: the stored messages that it sees, and where the next one goes. */
export class Conversation {
  /** The session that is written to: the newest of its chain. */
  session: Session;
  /** In order: a follow-up's view, then what was said. */
  messages: Message[];
  /** Ids of all tool calls so far, also of those that a compaction left out. */
  readonly callIds: Set<string>;
  #lastSeq: number;

  constructor(session: Session, messages: Message[]) {
    this.session = session;
    this.messages = messages;
    this.callIds = new Set(messages.flatMap((message) => callsOf(message).map((call) => call.id)));
    this.#lastSeq = Math.max(session.lastSeq, messages.at(-1)?.seq ?? 0);
  }

  /** Greatest `seq` given so far. */
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** A new message with the next `seq`; not yet part of the conversation. */
  compose(message: ModelMessage, finished = true): Message {
    this.#lastSeq += 1;
    return { ...message, id: newId(), sessionId: this.session.id, seq: this.#lastSeq, createdAt: now(), finished };
  }

  add(message: Message): void {
    this.messages.push(message);
    for (const { id } of callsOf(message)) this.callIds.add(id);
  }
}
