import { posix, win32 } from "node:path";
import * as v from "valibot";
import { attempt } from "../base/attempt.js";
import { InputError } from "../ports/errors.js";
import { isRecord } from "../base/json.js";
import { toPrintable } from "../base/printable.js";
import { EFFORTS } from "../models/efforts.js";
import type { ChainData, SessionData } from "../ports/session-driver.js";
import type { Part } from "../ports/message.js";
import { currentLine } from "./stored-names.js";

/** Content of the first line of an export. A file may contain several exports in a row. */
const HEADER = { gantry: "sessions", version: 1 } as const;

const PART_TYPES: readonly unknown[] = ["text", "reasoning", "image", "file", "tool_call"] satisfies Part["type"][];
const isPart = (value: unknown): boolean =>
  isRecord(value) && PART_TYPES.includes(value["type"]) && typeof (value["originalText"] ?? "") === "string";
const naturalNumber = v.pipe(v.number(), v.integer(), v.minValue(0));
const timestamp = v.pipe(v.string(), v.isoTimestamp());
/**
 * Folder that a session's tools may change. A root folder is rejected: a third party's file must not open a complete
 * disk.
 */
const folder = v.custom<string>(isFolderPath, "the absolute path of a folder below the root");
const readonlyArray = <S extends v.GenericSchema>(itemShape: S) => v.pipe(v.array(itemShape), v.readonly());
const usageShape = v.object({
  promptTokens: naturalNumber,
  completionTokens: naturalNumber,
  totalTokens: naturalNumber,
  cost: v.number(),
});
const sessionShape = v.object({
  id: v.pipe(v.string(), v.nonEmpty()),
  alias: v.string(),
  title: v.string(),
  hasFinalTitle: v.boolean(),
  provider: v.string(),
  model: v.string(),
  reasoningEffort: v.picklist(EFFORTS),
  // Absent in exports of earlier versions, like some of the fields below.
  mode: v.optional(v.picklist(["auto", "ask", "plan"]), "auto"),
  permissionGrants: v.optional(
    readonlyArray(
      v.object({ tool: v.string(), scope: v.string(), title: v.string(), grantedBy: v.string(), grantedAt: timestamp }),
    ),
    [],
  ),
  rewinds: v.optional(readonlyArray(naturalNumber), []),
  projectDir: folder,
  parentId: v.string(),
  spawnedBy: v.optional(v.nullable(v.object({ sessionId: v.string(), runId: v.string(), callId: v.string() })), null),
  chain: v.object({ root: v.string(), index: naturalNumber }),
  lastSeq: naturalNumber,
  createdAt: timestamp,
  updatedAt: timestamp,
  usage: usageShape,
});
const locationsShape = readonlyArray(v.object({ path: v.string(), line: v.exactOptional(naturalNumber) }));
const diffShape = readonlyArray(v.object({ path: v.string(), oldText: v.nullable(v.string()), newText: v.string() }));
const messageShape = v.object({
  id: v.string(),
  sessionId: v.string(),
  seq: v.pipe(naturalNumber, v.minValue(1)),
  role: v.picklist(["user", "assistant", "system", "tool"]),
  parts: v.array(v.custom<Part>(isPart, "a part")),
  toolCallId: v.string(),
  name: v.string(),
  failed: v.boolean(),
  createdAt: timestamp,
  shown: v.exactOptional(v.object({ diff: diffShape, locations: locationsShape })),
  finished: v.boolean(),
});
const holderShape = v.object({
  id: v.string(),
  host: v.string(),
  boot: v.string(),
  pid: v.pipe(v.number(), v.safeInteger()),
  started: v.string(),
});
const runShape = v.object({
  id: v.pipe(v.string(), v.nonEmpty()),
  sessionId: v.string(),
  idempotencyKey: v.string(),
  fingerprint: v.optional(v.string(), ""),
  after: v.optional(naturalNumber, 0),
  state: v.picklist(["queued", "running", "waiting", "finished", "failed", "cancelled", "interrupted"]),
  startedAt: timestamp,
  endedAt: v.union([v.literal(""), timestamp]),
  provider: v.string(),
  model: v.string(),
  usage: usageShape,
  iterations: naturalNumber,
  endedBy: v.picklist(["", "model", "max_iterations", "budget"]),
  error: v.nullable(v.object({ code: v.string(), message: v.string() })),
  queueLease: v.optional(v.nullable(v.object({ holder: holderShape, expiresAt: timestamp })), null),
  retry: v.optional(
    v.nullable(v.object({ attempt: naturalNumber, nextAttemptAt: timestamp, reason: v.string() })),
    null,
  ),
  answer: v.optional(
    v.nullable(
      v.object({
        output: v.string(),
        finishReason: v.nullable(v.picklist(["stop", "length", "content_filter", "tool_calls"])),
        structured: v.optional(v.unknown()),
      }),
    ),
    null,
  ),
});
const askShape = v.object({
  id: v.pipe(v.string(), v.nonEmpty()),
  sessionId: v.string(),
  runId: v.string(),
  callId: v.string(),
  kind: v.picklist(["permission", "question"]),
  tool: v.string(),
  toolKind: v.picklist(["read", "edit", "delete", "search", "execute", "fetch", "think", "other"]),
  title: v.string(),
  input: v.unknown(),
  locations: locationsShape,
  diff: diffShape,
  reason: v.string(),
  choices: readonlyArray(v.object({ id: v.string(), label: v.string() })),
  freeText: v.boolean(),
  createdAt: timestamp,
  deadline: v.union([v.literal(""), timestamp]),
  state: v.picklist(["open", "answered", "withdrawn"]),
  reply: v.nullable(v.object({ choice: v.string(), text: v.string() })),
  answeredBy: v.string(),
  closedAt: v.union([v.literal(""), timestamp]),
});
const shapes = {
  chain: v.object({
    root: v.string(),
    snapshots: v.array(v.object({ id: v.pipe(v.string(), v.nonEmpty()), after: naturalNumber, createdAt: timestamp })),
  }),
  session: v.object({ hiddenBy: v.string(), session: sessionShape }),
  view: v.object({ message: messageShape }),
  message: v.object({ hiddenBy: v.string(), message: messageShape }),
  run: v.object({ run: runShape }),
  ask: v.object({ ask: askShape }),
  end: v.object({ root: v.string(), messages: naturalNumber }),
};
type LineKind = keyof typeof shapes;
type Line<K extends LineKind> = v.InferOutput<(typeof shapes)[K]>;

function isFolderPath(value: unknown): boolean {
  if (typeof value !== "string" || toPrintable(value) !== value) return false;
  // A path of any system, independent of this one. On another system the folder is not found, and nothing runs in it.
  const pathModule = value.startsWith("/") ? posix : win32;
  return (
    (pathModule === posix || /^([A-Za-z]:|\\\\[^\\]+)[\\/]/.test(value)) &&
    pathModule.resolve(value) !== pathModule.parse(value).root
  );
}

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
  const formatLine = <K extends LineKind>(type: K, fields: Line<K>): string =>
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
  const result = v.safeParse(shapes.end, parseLine(line));
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
        throw this.#createError(`an object whose type is one of ${Object.keys(shapes).join(", ")}`);
    }
  }

  /** Call at the end of the input. Throws `InputError` if the export is incomplete. */
  close(): void {
    this.#lineNumber++;
    if (this.#chain) throw this.#createError(`more of session ${this.#chain.root}: the export was cut off`);
    if (!this.#hasHeader) throw this.#createError(JSON.stringify(HEADER));
  }

  #beginChain({ root, snapshots }: Line<"chain">): undefined {
    if (this.#chain) throw this.#createError(`the end of session ${this.#chain.root} first`);
    this.#chain = { root, data: { sessions: [], snapshots, runs: [], asks: [] }, seqs: new Set() };
  }

  #addSession({ hiddenBy, session }: Line<"session">): undefined {
    const { data, root } = this.#requireChain();
    const previousIndex = data.sessions.at(-1)?.session.chain.index ?? -1;
    const belongsToChain = session.chain.root === root && (data.sessions.length > 0 || session.id === root);
    if (!belongsToChain || session.chain.index <= previousIndex)
      throw this.#createError(`a session of the chain ${root}, by index`);
    data.sessions.push({ session, hiddenBy, view: [], messages: [] });
  }

  #addMessage({ hiddenBy, message }: Line<"message">): undefined {
    const { seqs } = this.#requireChain();
    const { session, messages } = this.#requireSession();
    if (message.sessionId !== session.id) throw this.#createError(`a message of the session ${session.id}`);
    if (seqs.has(message.seq)) throw this.#createError("a seq that no other message of the chain has");
    seqs.add(message.seq);
    messages.push({ message, hiddenBy });
  }

  #addRun({ run }: Line<"run">): undefined {
    const { data, root } = this.#requireChain();
    if (run.sessionId !== root) throw this.#createError(`a run of the session ${root}`);
    data.runs.push(run);
  }

  #addAsk({ ask }: Line<"ask">): undefined {
    const { data, root } = this.#requireChain();
    if (ask.sessionId !== root) throw this.#createError(`an ask of the session ${root}`);
    data.asks.push(ask);
  }

  #endChain({ root, messages }: Line<"end">): ChainData {
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

  #parse<K extends LineKind>(kind: K, value: unknown): Line<K> {
    const result = v.safeParse(shapes[kind], value, { abortEarly: true });
    if (result.success) return result.output as Line<K>;
    const [issue] = result.issues;
    const path = (issue.path ?? []).map(({ key }) => String(key)).join(".");
    const expected = issue.type === "custom" ? issue.message : (issue.expected ?? "right");
    throw this.#createError(`${path === "" ? kind : path} to be ${expected}, got ${issue.received}`);
  }

  #createError(expected: string): InputError {
    return new InputError(`line ${this.#lineNumber}`, expected);
  }
}
