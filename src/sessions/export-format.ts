import * as v from "valibot";
import { attempt } from "../base/attempt.js";
import { InputError } from "../ports/errors.js";
import { isRecord } from "../base/json.js";
import type { ChainData, SessionData } from "../ports/session-driver.js";
import { LINE_SHAPES, type LineKind, type LineOf } from "./export-lines.js";
import { currentLine } from "./stored-names.js";

/** Content of the first line of an export. A file may contain several exports in a row. */
const HEADER = { gantry: "sessions", version: 1 } as const;

/** Formats the first line of an export. */
export function formatHeader(): string {
  return `${JSON.stringify(HEADER)}\n`;
}

/**
 * Formats a chain as JSON lines: the chain, each session followed by its view and messages, its runs, its asks, and an
 * end line with the message count.
 */
export function* formatChainLines({ sessions, snapshots, runs, asks }: ChainData): Generator<string> {
  const root = sessions[0]?.session.id ?? "";
  const formatLine = <K extends LineKind>(type: K, fields: LineOf<K>): string =>
    `${JSON.stringify({ type, ...fields })}\n`;
  let messageCount = 0;
  yield formatLine("chain", { root, snapshots });
  for (const { session, hiddenBy, view, messages } of sessions) {
    yield formatLine("session", { hiddenBy, session });
    for (const message of view) yield formatLine("view", { message });
    for (const entry of messages) yield formatLine("message", entry);
    messageCount += messages.length;
  }
  for (const run of runs) yield formatLine("run", { run });
  for (const ask of asks) yield formatLine("ask", { ask });
  yield formatLine("end", { root, messages: messageCount });
}

/** Returns the id of the original if `line` is an end line; undefined for any other line. */
export function findEndedRoot(line: string): string | undefined {
  if (!line.startsWith('{"type":"end",')) return undefined;
  const result = v.safeParse(LINE_SHAPES.end, parseLine(line));
  return result.success ? result.output.root : undefined;
}

function parseLine(text: string): unknown {
  return attempt(() => JSON.parse(text) as unknown, undefined);
}

/** Reads chains from the lines of an export. An invalid line throws `InputError` with its number. */
export class ChainReader {
  #lineNumber = 0;
  #hasHeader = false;
  #chain: { root: string; data: ChainData; seqs: Set<number> } | undefined;
  #isSkipping = false;

  /** Number of the last line read; the first is 1. */
  get lineNumber(): number {
    return this.#lineNumber;
  }

  /** Id of the original of the current chain. */
  get root(): string | undefined {
    return this.#chain?.root;
  }

  /** Skips the current chain: its lines are neither validated nor stored, up to its end. */
  skipChain(): void {
    this.#isSkipping = this.#chain !== undefined;
  }

  /** Reads a line. Returns a chain if the line completes it. */
  readLine(text: string): ChainData | undefined {
    this.#lineNumber++;
    if (text.trim() === "") return undefined;
    const value = currentLine(parseLine(text));
    if (value === undefined) throw this.#createError("JSON");
    if (isRecord(value) && "gantry" in value) {
      if (value["gantry"] !== HEADER.gantry || value["version"] !== HEADER.version || this.#chain)
        throw this.#createError(`${JSON.stringify(HEADER)}`);
      this.#hasHeader = true;
      return undefined;
    }
    if (!this.#hasHeader) throw this.#createError(`${JSON.stringify(HEADER)} first: this is no export of sessions`);
    const type = isRecord(value) ? value["type"] : undefined;
    if (this.#isSkipping && type !== "chain") {
      if (type === "end" && this.#parse("end", value).root === this.root) this.#chain = undefined;
      this.#isSkipping = this.#chain !== undefined;
      return undefined;
    }
    switch (type) {
      case "chain":
        return this.#beginChain(this.#parse("chain", value));
      case "session":
        return this.#addSession(this.#parse("session", value));
      case "view":
        this.#requireSession().view.push(this.#parse("view", value).message);
        return undefined;
      case "message":
        return this.#addMessage(this.#parse("message", value));
      case "run":
        return this.#addRun(this.#parse("run", value));
      case "ask":
        return this.#addAsk(this.#parse("ask", value));
      case "end":
        return this.#endChain(this.#parse("end", value));
      default:
        throw this.#createError(`an object whose type is one of ${Object.keys(LINE_SHAPES).join(", ")}`);
    }
  }

  /** Call at the end of the input. Throws `InputError` if the export is incomplete. */
  close(): void {
    this.#lineNumber++;
    if (this.#chain) throw this.#createError(`more of session ${this.#chain.root}: the export was cut off`);
    if (!this.#hasHeader) throw this.#createError(JSON.stringify(HEADER));
  }

  #beginChain({ root, snapshots }: LineOf<"chain">): undefined {
    if (this.#chain) throw this.#createError(`the end of session ${this.#chain.root} first`);
    this.#chain = { root, data: { sessions: [], snapshots, runs: [], asks: [] }, seqs: new Set() };
  }

  #addSession({ hiddenBy, session }: LineOf<"session">): undefined {
    const { data, root } = this.#requireChain();
    const previousIndex = data.sessions.at(-1)?.session.chain.index ?? -1;
    const belongsToChain = session.chain.root === root && (data.sessions.length > 0 || session.id === root);
    if (!belongsToChain || session.chain.index <= previousIndex)
      throw this.#createError(`a session of the chain ${root}, by index`);
    data.sessions.push({ session, hiddenBy, view: [], messages: [] });
  }

  #addMessage({ hiddenBy, message }: LineOf<"message">): undefined {
    const { seqs } = this.#requireChain();
    const { session, messages } = this.#requireSession();
    if (message.sessionId !== session.id) throw this.#createError(`a message of the session ${session.id}`);
    if (seqs.has(message.seq)) throw this.#createError("a seq that no other message of the chain has");
    seqs.add(message.seq);
    messages.push({ message, hiddenBy });
  }

  #addRun({ run }: LineOf<"run">): undefined {
    const { data, root } = this.#requireChain();
    if (run.sessionId !== root) throw this.#createError(`a run of the session ${root}`);
    data.runs.push(run);
  }

  #addAsk({ ask }: LineOf<"ask">): undefined {
    const { data, root } = this.#requireChain();
    if (ask.sessionId !== root) throw this.#createError(`an ask of the session ${root}`);
    data.asks.push(ask);
  }

  #endChain({ root, messages }: LineOf<"end">): ChainData {
    const { data, seqs, root: chainRoot } = this.#requireChain();
    if (root !== chainRoot || messages !== seqs.size || data.sessions.length === 0)
      throw this.#createError(`${messages} messages of session ${chainRoot} before its end, and got ${seqs.size}`);
    this.#chain = undefined;
    return data;
  }

  #requireChain(): { root: string; data: ChainData; seqs: Set<number> } {
    if (!this.#chain) throw this.#createError("a line of type chain first");
    return this.#chain;
  }

  #requireSession(): SessionData {
    const lastSession = this.#requireChain().data.sessions.at(-1);
    if (!lastSession) throw this.#createError("a line of type session first");
    return lastSession;
  }

  #parse<K extends LineKind>(kind: K, value: unknown): LineOf<K> {
    const result = v.safeParse(LINE_SHAPES[kind], value, { abortEarly: true });
    if (result.success) return result.output as LineOf<K>;
    const [issue] = result.issues;
    const path = (issue.path ?? []).map(({ key }) => String(key)).join(".");
    const expected = issue.type === "custom" ? issue.message : (issue.expected ?? "right");
    throw this.#createError(`${path === "" ? kind : path} to be ${expected}, got ${issue.received}`);
  }

  #createError(expected: string): InputError {
    return new InputError(`line ${this.#lineNumber}`, expected);
  }
}
