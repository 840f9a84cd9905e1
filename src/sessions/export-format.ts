import { posix, win32 } from "node:path";
import * as v from "valibot";
import { attempt } from "../base/attempt.js";
import { InputError } from "../ports/errors.js";
import { isRecord } from "../base/json.js";
import { printable } from "../base/printable.js";
import { EFFORTS } from "../models/efforts.js";
import type { ChainData, SessionData } from "../ports/session-driver.js";
import type { Part } from "../ports/message.js";
import { currentLine } from "./stored-names.js";

/** First line of an export. A file may contain several exports in a row. */
const HEADER = { gantry: "sessions", version: 1 } as const;

const PARTS: readonly unknown[] = ["text", "reasoning", "image", "file", "tool_call"] satisfies Part["type"][];
const isPart = (value: unknown): boolean =>
  isRecord(value) && PARTS.includes(value["type"]) && typeof (value["originalText"] ?? "") === "string";
const naturalNumber = v.pipe(v.number(), v.integer(), v.minValue(0));
const time = v.pipe(v.string(), v.isoTimestamp());
/**
 * Folder that a session's tools may change. A root folder is rejected: a third party's file must not open a complete
 * disk.
 */
const folder = v.custom<string>(isFolderPath, "the absolute path of a folder below the root");
const list = <S extends v.GenericSchema>(of: S) => v.pipe(v.array(of), v.readonly());
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
    list(v.object({ tool: v.string(), scope: v.string(), title: v.string(), grantedBy: v.string(), grantedAt: time })),
    [],
  ),
  rewinds: v.optional(list(naturalNumber), []),
  projectDir: folder,
  parentId: v.string(),
  spawnedBy: v.optional(v.nullable(v.object({ sessionId: v.string(), runId: v.string(), callId: v.string() })), null),
  chain: v.object({ root: v.string(), index: naturalNumber }),
  lastSeq: naturalNumber,
  createdAt: time,
  updatedAt: time,
  usage: usageShape,
});
const locationsShape = list(v.object({ path: v.string(), line: v.exactOptional(naturalNumber) }));
const diffShape = list(v.object({ path: v.string(), oldText: v.nullable(v.string()), newText: v.string() }));
const messageShape = v.object({
  id: v.string(),
  sessionId: v.string(),
  seq: v.pipe(naturalNumber, v.minValue(1)),
  role: v.picklist(["user", "assistant", "system", "tool"]),
  parts: v.array(v.custom<Part>(isPart, "a part")),
  toolCallId: v.string(),
  name: v.string(),
  failed: v.boolean(),
  createdAt: time,
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
  startedAt: time,
  endedAt: v.union([v.literal(""), time]),
  provider: v.string(),
  model: v.string(),
  usage: usageShape,
  iterations: naturalNumber,
  endedBy: v.picklist(["", "model", "max_iterations", "budget"]),
  error: v.nullable(v.object({ code: v.string(), message: v.string() })),
  queueLease: v.optional(v.nullable(v.object({ holder: holderShape, expiresAt: time })), null),
  retry: v.optional(v.nullable(v.object({ attempt: naturalNumber, nextAttemptAt: time, reason: v.string() })), null),
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
  choices: list(v.object({ id: v.string(), label: v.string() })),
  freeText: v.boolean(),
  createdAt: time,
  deadline: v.union([v.literal(""), time]),
  state: v.picklist(["open", "answered", "withdrawn"]),
  reply: v.nullable(v.object({ choice: v.string(), text: v.string() })),
  answeredBy: v.string(),
  closedAt: v.union([v.literal(""), time]),
});
const shapes = {
  chain: v.object({
    root: v.string(),
    snapshots: v.array(v.object({ id: v.pipe(v.string(), v.nonEmpty()), after: naturalNumber, createdAt: time })),
  }),
  session: v.object({ hiddenBy: v.string(), session: sessionShape }),
  view: v.object({ message: messageShape }),
  message: v.object({ hiddenBy: v.string(), message: messageShape }),
  run: v.object({ run: runShape }),
  ask: v.object({ ask: askShape }),
  end: v.object({ root: v.string(), messages: naturalNumber }),
};
type Kind = keyof typeof shapes;
type Line<K extends Kind> = v.InferOutput<(typeof shapes)[K]>;

function isFolderPath(value: unknown): boolean {
  if (typeof value !== "string" || printable(value) !== value) return false;
  // A path of any system, independent of this one. On another system the folder is not found, and nothing runs in it.
  const kind = value.startsWith("/") ? posix : win32;
  return (
    (kind === posix || /^([A-Za-z]:|\\\\[^\\]+)[\\/]/.test(value)) && kind.resolve(value) !== kind.parse(value).root
  );
}

/** First line of an export. */
export function headerLine(): string {
  return `${JSON.stringify(HEADER)}\n`;
}

/**
 * A chain as JSON lines: the chain, each session followed by its view and messages, its runs, its asks, and an end line
 * with the message count.
 */
export function* chainLines({ sessions, snapshots, runs, asks }: ChainData): Generator<string> {
  const root = sessions[0]?.session.id ?? "";
  const line = <K extends Kind>(type: K, fields: Line<K>): string => `${JSON.stringify({ type, ...fields })}\n`;
  let count = 0;
  yield line("chain", { root, snapshots });
  for (const { session, hiddenBy, view, messages } of sessions) {
    yield line("session", { hiddenBy, session });
    for (const message of view) yield line("view", { message });
    for (const entry of messages) yield line("message", entry);
    count += messages.length;
  }
  for (const run of runs) yield line("run", { run });
  for (const ask of asks) yield line("ask", { ask });
  yield line("end", { root, messages: count });
}

/** Id of the original if `line` is an end line; undefined for any other line. */
export function endedRoot(line: string): string | undefined {
  if (!line.startsWith('{"type":"end",')) return undefined;
  const result = v.safeParse(shapes.end, parsed(line));
  return result.success ? result.output.root : undefined;
}

function parsed(text: string): unknown {
  return attempt(() => JSON.parse(text) as unknown, undefined);
}

/** Reads chains from the lines of an export. An invalid line throws `InputError` with its number. */
export class ChainReader {
  #number = 0;
  #hasHeader = false;
  #chain: { root: string; data: ChainData; seqs: Set<number> } | undefined;
  #isSkipping = false;

  /** Number of the last line read; the first is 1. */
  get line(): number {
    return this.#number;
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
  take(text: string): ChainData | undefined {
    this.#number++;
    if (text.trim() === "") return undefined;
    const value = currentLine(parsed(text));
    if (value === undefined) throw this.#error("JSON");
    if (isRecord(value) && "gantry" in value) {
      if (value["gantry"] !== HEADER.gantry || value["version"] !== HEADER.version || this.#chain)
        throw this.#error(`${JSON.stringify(HEADER)}`);
      this.#hasHeader = true;
      return undefined;
    }
    if (!this.#hasHeader) throw this.#error(`${JSON.stringify(HEADER)} first: this is no export of sessions`);
    const type = isRecord(value) ? value["type"] : undefined;
    if (this.#isSkipping && type !== "chain") {
      if (type === "end" && this.#read("end", value).root === this.root) this.#chain = undefined;
      this.#isSkipping = this.#chain !== undefined;
      return undefined;
    }
    switch (type) {
      case "chain":
        return this.#begin(this.#read("chain", value));
      case "session":
        return this.#session(this.#read("session", value));
      case "view":
        this.#last().view.push(this.#read("view", value).message);
        return undefined;
      case "message":
        return this.#message(this.#read("message", value));
      case "run":
        return this.#run(this.#read("run", value));
      case "ask":
        return this.#ask(this.#read("ask", value));
      case "end":
        return this.#end(this.#read("end", value));
      default:
        throw this.#error(`an object whose type is one of ${Object.keys(shapes).join(", ")}`);
    }
  }

  /** Call at the end of the input. Throws `InputError` if the export is incomplete. */
  close(): void {
    this.#number++;
    if (this.#chain) throw this.#error(`more of session ${this.#chain.root}: the export was cut off`);
    if (!this.#hasHeader) throw this.#error(JSON.stringify(HEADER));
  }

  #begin({ root, snapshots }: Line<"chain">): undefined {
    if (this.#chain) throw this.#error(`the end of session ${this.#chain.root} first`);
    this.#chain = { root, data: { sessions: [], snapshots, runs: [], asks: [] }, seqs: new Set() };
  }

  #session({ hiddenBy, session }: Line<"session">): undefined {
    const { data, root } = this.#open();
    const before = data.sessions.at(-1)?.session.chain.index ?? -1;
    const fits = session.chain.root === root && (data.sessions.length > 0 || session.id === root);
    if (!fits || session.chain.index <= before) throw this.#error(`a session of the chain ${root}, by index`);
    data.sessions.push({ session, hiddenBy, view: [], messages: [] });
  }

  #message({ hiddenBy, message }: Line<"message">): undefined {
    const { seqs } = this.#open();
    const { session, messages } = this.#last();
    if (message.sessionId !== session.id) throw this.#error(`a message of the session ${session.id}`);
    if (seqs.has(message.seq)) throw this.#error("a seq that no other message of the chain has");
    seqs.add(message.seq);
    messages.push({ message, hiddenBy });
  }

  #run({ run }: Line<"run">): undefined {
    const { data, root } = this.#open();
    if (run.sessionId !== root) throw this.#error(`a run of the session ${root}`);
    data.runs.push(run);
  }

  #ask({ ask }: Line<"ask">): undefined {
    const { data, root } = this.#open();
    if (ask.sessionId !== root) throw this.#error(`an ask of the session ${root}`);
    data.asks.push(ask);
  }

  #end({ root, messages }: Line<"end">): ChainData {
    const { data, seqs, root: begun } = this.#open();
    if (root !== begun || messages !== seqs.size || data.sessions.length === 0)
      throw this.#error(`${messages} messages of session ${begun} before its end, and got ${seqs.size}`);
    this.#chain = undefined;
    return data;
  }

  #open(): { root: string; data: ChainData; seqs: Set<number> } {
    if (!this.#chain) throw this.#error("a line of type chain first");
    return this.#chain;
  }

  #last(): SessionData {
    const last = this.#open().data.sessions.at(-1);
    if (!last) throw this.#error("a line of type session first");
    return last;
  }

  #read<K extends Kind>(kind: K, value: unknown): Line<K> {
    const result = v.safeParse(shapes[kind], value, { abortEarly: true });
    if (result.success) return result.output as Line<K>;
    const [issue] = result.issues;
    const path = (issue.path ?? []).map(({ key }) => String(key)).join(".");
    const expected = issue.type === "custom" ? issue.message : (issue.expected ?? "right");
    throw this.#error(`${path === "" ? kind : path} to be ${expected}, got ${issue.received}`);
  }

  #error(expected: string): InputError {
    return new InputError(`line ${this.#number}`, expected);
  }
}
