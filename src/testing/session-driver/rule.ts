import type { Ask } from "../../ports/ask.js";
import type { LeaseHolder } from "../../ports/holder.js";
import type { Lease, SessionDriver } from "../../ports/session-driver.js";
import type { SessionQuery, StoredRun } from "../../ports/session-queries.js";
import type { AskResolution, SessionChange } from "../../ports/session-change.js";
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
  readonly #checkName: string;
  /** Open drivers: the fixture's driver by its wrapper with timeouts. */
  readonly #drivers = new Map<SessionDriver, SessionDriver>();
  #secondDriver: SessionDriver | undefined;

  private constructor(fixture: SessionDriverFixture, checkName: string, driver: SessionDriver) {
    this.#fixture = fixture;
    this.#checkName = checkName;
    this.driver = this.#wrap(driver);
  }

  static async create(fixture: SessionDriverFixture, checkName: string): Promise<StoreUnderTest> {
    const driver = await withTimeout(
      fixture.create(),
      `${checkName}: the fixture's create() hangs`,
      getTimeoutMs(fixture),
    );
    return new StoreUnderTest(fixture, checkName, driver);
  }

  /** Whether the fixture can hold changes. */
  get canHold(): boolean {
    return this.#fixture.hold !== undefined;
  }

  /** Opens another driver on the store. */
  async openSecond(): Promise<SessionDriver> {
    return this.#wrap(await this.#awaitFixture("second", this.#fixture.second(this.#unwrap(this.driver))));
  }

  /** Returns a second driver. Every call returns the same driver. */
  async getSecond(): Promise<SessionDriver> {
    return (this.#secondDriver ??= await this.openSecond());
  }

  /** Calls the fixture's `hold`. Resolves with undefined without such a function, and after the last part. */
  async hold(part: number): Promise<HeldStore | undefined> {
    return this.#fixture.hold && this.#awaitFixture("hold", this.#fixture.hold(part));
  }

  /** Closes the main driver and opens a new one. */
  async reopen(): Promise<SessionDriver> {
    const closedDriver = this.#unwrap(this.driver);
    await this.driver.close();
    this.#drivers.delete(this.driver);
    this.driver = this.#wrap(await this.#awaitFixture("reopen", this.#fixture.reopen(closedDriver)));
    return this.driver;
  }

  /** Closes all drivers and cleans up, even after failures. Rejects with the first failure. */
  async end(): Promise<void> {
    const closeResults = await Promise.allSettled([...this.#drivers.keys()].map((driver) => driver.close()));
    const cleanResults = await Promise.allSettled([this.#awaitFixture("clean", this.#fixture.clean())]);
    for (const result of [...closeResults, ...cleanResults]) if (result.status === "rejected") throw result.reason;
  }

  #wrap(fixtureDriver: SessionDriver): SessionDriver {
    const driver = withTimeouts(fixtureDriver, this.#checkName, getTimeoutMs(this.#fixture));
    this.#drivers.set(driver, fixtureDriver);
    return driver;
  }

  #unwrap(driver: SessionDriver): SessionDriver {
    return this.#drivers.get(driver) ?? driver;
  }

  async #awaitFixture<T>(functionName: string, promise: Promise<T>): Promise<T> {
    return withTimeout(
      promise,
      `${this.#checkName}: the fixture's ${functionName}() hangs`,
      getTimeoutMs(this.#fixture),
    );
  }
}

function getTimeoutMs({ timeoutMs = 30_000 }: SessionDriverFixture): number {
  return timeoutMs;
}

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

/** Acquires a lease. Throws if another holder has the lease. */
export async function acquireLease(
  driver: SessionDriver,
  rootId: string,
  holderId: string,
  ttlMs = 60_000,
): Promise<Lease> {
  const lease = await driver.lease(rootId, aHolder(holderId), ttlMs);
  if ("heldBy" in lease) throw new Error(`the lease of ${rootId} is held by ${lease.heldBy.holder.id}`);
  return lease;
}

/** Releases a lease. */
export async function releaseLease(driver: SessionDriver, { rootId, fence }: Pick<Lease, "rootId" | "fence">) {
  return driver.write(rootId, change({ fence, release: true }));
}

/** Answers an ask. Resolves with undefined for an unknown ask. */
export async function answerAsk(driver: SessionDriver, sessionId: string, askId: string, resolution: AskResolution) {
  return (await driver.write(sessionId, change({ sync: true, answer: { askId, ...resolution } }))).answer;
}

export async function sendInstruction(driver: SessionDriver, instruction: Instruction) {
  return driver.write(instruction.sessionId, change({ sync: true, instruct: instruction }));
}

/** Withdraws an instruction. Resolves with true if this call removed the instruction. */
export async function withdrawInstruction(driver: SessionDriver, sessionId: string, id: string): Promise<boolean> {
  const { consumedInstructions } = await driver.write(sessionId, change({ sync: true, consumedInstructions: [id] }));
  return consumedInstructions.includes(id);
}

export async function findNewest(driver: SessionDriver, id: string): Promise<Session | undefined> {
  return (await driver.head(id, { messages: false }))?.newest;
}

export async function findSnapshots(driver: SessionDriver, id: string): Promise<Snapshot[]> {
  return (await driver.head(id, { messages: false }))?.snapshots ?? [];
}

export async function findRun(driver: SessionDriver, id: string): Promise<StoredRun | undefined> {
  return requireAtMostOne(await driver.runs({ id, limit: 9 }));
}

export async function findAsk(driver: SessionDriver, id: string): Promise<Ask | undefined> {
  return requireAtMostOne(await driver.asks({ id, limit: 9 }));
}

function requireAtMostOne<T>(matches: readonly T[]): T | undefined {
  if (matches.length > 1) throw new Error(`${matches.length} records have the same id`);
  return matches[0];
}

export async function listIds(driver: SessionDriver, query: Partial<SessionQuery> = {}): Promise<string[]> {
  const { sessions } = await driver.list({ limit: 100, ...query });
  return sessions.map((session) => session.id);
}

export async function readSeqs(
  driver: SessionDriver,
  id: string,
  page?: Parameters<SessionDriver["messages"]>[1],
): Promise<number[]> {
  return (await driver.messages(id, page)).map((message) => message.seq);
}

/** Returns the seqs of all messages of a chain, including hidden ones. */
export async function readAllSeqs(driver: SessionDriver, id: string): Promise<number[]> {
  const { sessions = [] } = (await driver.dump(id)) ?? {};
  return sessions.flatMap(({ messages }) => messages.map(({ message }) => message.seq)).sort((a, b) => a - b);
}

/** Returns the parts of a message, joined with `|`. */
export function joinParts(message: Message | undefined): string {
  return (message?.parts ?? []).map((part) => ("text" in part ? part.text : part.type)).join("|");
}
