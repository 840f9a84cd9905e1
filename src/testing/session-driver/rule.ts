import type { Ask } from "../../ports/ask.js";
import type { LeaseHolder } from "../../ports/holder.js";
import type {
  AskResolution,
  Lease,
  SessionChange,
  SessionDriver,
  SessionQuery,
  StoredRun,
} from "../../ports/session-driver.js";
import type { Message } from "../../ports/message.js";
import type { Instruction, RunRecord } from "../../ports/run.js";
import type { Session, Snapshot } from "../../ports/session.js";
import { withTimeout, type CheckRules } from "../check.js";
import type { SessionDriverFixture, HeldStore } from "./fixture.js";
import { withTimeouts } from "./with-timeouts.js";

export type StoreRules = CheckRules<[store: StoreUnderTest]>;

/** The store of one check and its drivers. Calls that hang fail with the check's name. */
export class StoreUnderTest {
  /** The main driver of the check. */
  driver: SessionDriver;
  readonly #fixture: SessionDriverFixture;
  readonly #check: string;
  /** Open drivers: the wrapper with a timeout, and the fixture's own driver. */
  readonly #drivers = new Map<SessionDriver, SessionDriver>();
  #beside: SessionDriver | undefined;

  private constructor(fixture: SessionDriverFixture, check: string, driver: SessionDriver) {
    this.#fixture = fixture;
    this.#check = check;
    this.driver = this.#wrap(driver);
  }

  static async create(fixture: SessionDriverFixture, check: string): Promise<StoreUnderTest> {
    const driver = await withTimeout(fixture.create(), `${check}: the fixture's create() hangs`, timeoutOf(fixture));
    return new StoreUnderTest(fixture, check, driver);
  }

  /** Whether the fixture can hold changes. */
  get holds(): boolean {
    return this.#fixture.hold !== undefined;
  }

  /** Opens another driver on the store. */
  async second(): Promise<SessionDriver> {
    return this.#wrap(await this.#fixtureCall("second", this.#fixture.second(this.#unwrap(this.driver))));
  }

  /** Returns a second driver, which is opened once. */
  async beside(): Promise<SessionDriver> {
    return (this.#beside ??= await this.second());
  }

  /** Calls the fixture's `hold`. */
  async hold(part: number): Promise<HeldStore | undefined> {
    return this.#fixture.hold && this.#fixtureCall("hold", this.#fixture.hold(part));
  }

  /** Closes the main driver and opens a new one. */
  async reopen(): Promise<SessionDriver> {
    const closed = this.#unwrap(this.driver);
    await this.driver.close();
    this.#drivers.delete(this.driver);
    this.driver = this.#wrap(await this.#fixtureCall("reopen", this.#fixture.reopen(closed)));
    return this.driver;
  }

  /** Closes all drivers and cleans up, even after failures. Rejects with the first failure. */
  async end(): Promise<void> {
    const closed = await Promise.allSettled([...this.#drivers.keys()].map((driver) => driver.close()));
    const cleaned = await Promise.allSettled([this.#fixtureCall("clean", this.#fixture.clean())]);
    for (const result of [...closed, ...cleaned]) if (result.status === "rejected") throw result.reason;
  }

  #wrap(fixtureDriver: SessionDriver): SessionDriver {
    const driver = withTimeouts(fixtureDriver, this.#check, timeoutOf(this.#fixture));
    this.#drivers.set(driver, fixtureDriver);
    return driver;
  }

  #unwrap(driver: SessionDriver): SessionDriver {
    return this.#drivers.get(driver) ?? driver;
  }

  async #fixtureCall<T>(name: string, promise: Promise<T>): Promise<T> {
    return withTimeout(promise, `${this.#check}: the fixture's ${name}() hangs`, timeoutOf(this.#fixture));
  }
}

function timeoutOf({ timeoutMs = 30_000 }: SessionDriverFixture): number {
  return timeoutMs;
}

/** Returns a timestamp, in seconds after a fixed date. */
export function at(seconds: number): string {
  return new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();
}

/** Returns a session with all fields. An original session unless `chain` is set. */
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
export function growing(sessionId: string, seq: number): Message {
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

/** Returns the answer to an ask. */
export function answered(choice: string, answeredBy = "http"): AskResolution {
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

/** Acquires a lease. Throws if it is held. */
export async function leaseOf(driver: SessionDriver, rootId: string, holder: string, ttlMs = 60_000): Promise<Lease> {
  const lease = await driver.lease(rootId, aHolder(holder), ttlMs);
  if ("heldBy" in lease) throw new Error(`the lease of ${rootId} is held by ${lease.heldBy.holder.id}`);
  return lease;
}

/** Releases a lease. */
export async function release(driver: SessionDriver, { rootId, fence }: Pick<Lease, "rootId" | "fence">) {
  return driver.write(rootId, change({ fence, release: true }));
}

/** Answers an ask. Resolves with undefined for an unknown ask. */
export async function answer(driver: SessionDriver, sessionId: string, askId: string, resolution: AskResolution) {
  return (await driver.write(sessionId, change({ sync: true, answer: { askId, ...resolution } }))).answer;
}

export async function instruct(driver: SessionDriver, instruction: Instruction) {
  return driver.write(instruction.sessionId, change({ sync: true, instruct: instruction }));
}

/** Withdraws an instruction. Resolves with true if this call removed it. */
export async function withdraw(driver: SessionDriver, sessionId: string, id: string): Promise<boolean> {
  const { consumedInstructions } = await driver.write(sessionId, change({ sync: true, consumedInstructions: [id] }));
  return consumedInstructions.includes(id);
}

export async function newestOf(driver: SessionDriver, id: string): Promise<Session | undefined> {
  return (await driver.head(id, { messages: false }))?.newest;
}

export async function snapshotsOf(driver: SessionDriver, id: string): Promise<Snapshot[]> {
  return (await driver.head(id, { messages: false }))?.snapshots ?? [];
}

export async function runOf(driver: SessionDriver, id: string): Promise<StoredRun | undefined> {
  return onlyMatch(await driver.runs({ id, limit: 9 }));
}

export async function askOf(driver: SessionDriver, id: string): Promise<Ask | undefined> {
  return onlyMatch(await driver.asks({ id, limit: 9 }));
}

function onlyMatch<T>(matches: readonly T[]): T | undefined {
  if (matches.length > 1) throw new Error(`${matches.length} with one id`);
  return matches[0];
}

export async function listed(driver: SessionDriver, query: Partial<SessionQuery> = {}): Promise<string[]> {
  const { sessions } = await driver.list({ limit: 100, ...query });
  return sessions.map((session) => session.id);
}

export async function seqs(
  driver: SessionDriver,
  id: string,
  page?: Parameters<SessionDriver["messages"]>[1],
): Promise<number[]> {
  return (await driver.messages(id, page)).map((message) => message.seq);
}

/** Returns the seqs of all messages of a chain, including hidden ones. */
export async function allSeqs(driver: SessionDriver, id: string): Promise<number[]> {
  const { sessions = [] } = (await driver.dump(id)) ?? {};
  return sessions.flatMap(({ messages }) => messages.map(({ message }) => message.seq)).sort((a, b) => a - b);
}

/** Returns the parts of a message, joined with `|`. */
export function textOf(message: Message | undefined): string {
  return (message?.parts ?? []).map((part) => ("text" in part ? part.text : part.type)).join("|");
}
