import type { Ask } from "../../ports/ask.js";
import type { LeaseHolder } from "../../ports/holder.js";
import type { Message } from "../../ports/message.js";
import type { Instruction, RunRecord } from "../../ports/run.js";
import type { AskResolution, SessionChange } from "../../ports/session-change.js";
import type { Session } from "../../ports/session.js";

/** Returns a timestamp, in seconds after a fixed date. */
export function at(seconds: number): string {
  return new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();
}

/** Returns a session with all fields: the first session of a chain, unless `chain` is set. */
export function aSession(id: string, fields: Partial<Session> = {}): Session {
  return {
    id,
    alias: "",
    title: `Title of ${id}`,
    hasFinalTitle: false,
    provider: "lab",
    model: "m1",
    reasoningEffort: "low",
    mode: "auto",
    permissionGrants: [],
    rewinds: [],
    projectDir: "/projects/one",
    parentId: "",
    spawnedBy: null,
    chain: { root: id, index: 0 },
    lastSeq: 0,
    createdAt: at(0),
    updatedAt: at(0),
    usage: { promptTokens: 0, completionTokens: 0, totalTokens: 0, cost: 0 },
    ...fields,
  };
}

/** Returns a message with the id `<session>-<seq>`. */
export function aMessage(sessionId: string, seq: number, fields: Partial<Message> = {}): Message {
  return {
    id: `${sessionId}-${seq}`,
    sessionId,
    seq,
    role: "user",
    parts: [{ type: "text", text: `text ${seq}` }],
    toolCallId: "",
    name: "",
    failed: false,
    createdAt: at(seq),
    finished: true,
    ...fields,
  };
}

/** Returns a tool result with a display. */
export function aResult(sessionId: string, seq: number, fields: Partial<Message> = {}): Message {
  const path = "/projects/one/a";
  const shown = {
    diff: [
      { path, oldText: null, newText: "a\0" },
      { path, oldText: "a", newText: "\u2028b" },
    ],
    locations: [{ path, line: 1 }, { path }],
  };
  return aMessage(sessionId, seq, { role: "tool", toolCallId: `call-${seq}`, name: "edit", shown, ...fields });
}

/** Returns the messages with the seqs `from` to `to`. */
export function someMessages(sessionId: string, from: number, to: number): Message[] {
  return Array.from({ length: to - from + 1 }, (_, offset) => aMessage(sessionId, from + offset));
}

/** Returns an unfinished message. */
export function aGrowingMessage(sessionId: string, seq: number): Message {
  return aMessage(sessionId, seq, { role: "assistant", parts: [], finished: false });
}

/** Returns a change without a lease. */
export function change(fields: Partial<SessionChange>): SessionChange {
  return { fence: null, sync: false, ...fields };
}

/** Returns an active run. */
export function aRun(id: string, sessionId: string, fields: Partial<RunRecord> = {}): RunRecord {
  return {
    id,
    sessionId,
    idempotencyKey: "",
    fingerprint: "",
    after: 0,
    state: "running",
    startedAt: at(0),
    endedAt: "",
    provider: "lab",
    model: "m1",
    usage: { promptTokens: 0, completionTokens: 0, totalTokens: 0, cost: 0 },
    iterations: 0,
    endedBy: "",
    error: null,
    queueLease: null,
    retry: null,
    answer: null,
    ...fields,
  };
}

/** Returns an open ask. */
export function anAsk(id: string, sessionId: string, fields: Partial<Ask> = {}): Ask {
  return {
    id,
    sessionId,
    runId: "run",
    callId: "call",
    kind: "permission",
    tool: "bash",
    toolKind: "execute",
    title: `Run ${id}`,
    input: { command: "true" },
    locations: [{ path: "/projects/one/a", line: 1 }],
    diff: [{ path: "/projects/one/a", oldText: null, newText: "a" }],
    reason: "",
    choices: [
      { id: "allow", label: "Allow" },
      { id: "reject", label: "Reject" },
    ],
    freeText: false,
    createdAt: at(0),
    deadline: "",
    state: "open",
    reply: null,
    answeredBy: "",
    closedAt: "",
    ...fields,
  };
}

/** Returns an answer to an ask. */
export function aResolution(choice: string, answeredBy = "http"): AskResolution {
  return { reply: { choice, text: "" }, answeredBy, closedAt: at(1) };
}

/** Returns an instruction for a run. */
export function anInstruction(id: string, sessionId: string, fields: Partial<Instruction> = {}): Instruction {
  return { id, sessionId, runId: "run", kind: "steer", text: `text of ${id}`, createdAt: at(0), ...fields };
}

/** Returns a lease holder. */
export function aHolder(id: string): LeaseHolder {
  return { id, host: "host", boot: "boot", pid: 1, started: "1" };
}

/** Returns the parts of a message, joined with `|`. */
export function joinParts(message: Message | undefined): string {
  return (message?.parts ?? []).map((part) => ("text" in part ? part.text : part.type)).join("|");
}
