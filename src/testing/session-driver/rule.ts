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
import { soon, type Rules } from "../check.js";
import type { SessionDriverFixture, HeldStore } from "./fixture.js";
import { patient } from "./with-timeouts.js";

export type StoreRules = Rules<[store: Store]>;

/** The store of one check, and the drivers on it. Whatever hangs fails with its name. */
export class Store {
  /** The driver that the check works with. */
  driver: SessionDriver;
  readonly #fixture: SessionDriverFixture;
  readonly #check: string;
  /** Open ones: as the checks have them, and as the fixture gave them. */
  readonly #drivers = new Map<SessionDriver, SessionDriver>();
  #beside: SessionDriver | undefined;

  private constructor(fixture: SessionDriverFixture, check: string, driver: SessionDriver) {
    this.#fixture = fixture;
    this.#check = check;
    this.driver = this.#taken(driver);
  }

  static async create(fixture: SessionDriverFixture, check: string): Promise<Store> {
    const driver = await soon(fixture.create(), `${check}: the fixture's create() hangs`, patienceOf(fixture));
    return new Store(fixture, check, driver);
  }

  /** Whether changes can be held up. */
  get holds(): boolean {
    return this.#fixture.hold !== undefined;
  }

  /** Another driver beside the first. */
  async second(): Promise<SessionDriver> {
    return this.#taken(await this.#fixtures("second", this.#fixture.second(this.#given(this.driver))));
  }

  /** The same other driver whenever it is asked for. */
  async beside(): Promise<SessionDriver> {
    return (this.#beside ??= await this.second());
  }

  /** As the fixture's `hold`. */
  async hold(part: number): Promise<HeldStore | undefined> {
    return this.#fixture.hold && this.#fixtures("hold", this.#fixture.hold(part));
  }

  /** Close the driver and go on with a new one. */
  async reopen(): Promise<SessionDriver> {
    const closed = this.#given(this.driver);
    await this.driver.close();
    this.#drivers.delete(this.driver);
    this.driver = this.#taken(await this.#fixtures("reopen", this.#fixture.reopen(closed)));
    return this.driver;
  }

  /** Closes and cleans all, whatever fails or hangs; rejects with what did so first. */
  async end(): Promise<void> {
    const closed = await Promise.allSettled([...this.#drivers.keys()].map((driver) => driver.close()));
    const cleaned = await Promise.allSettled([this.#fixtures("clean", this.#fixture.clean())]);
    for (const result of [...closed, ...cleaned]) if (result.status === "rejected") throw result.reason;
  }

  #taken(given: SessionDriver): SessionDriver {
    const driver = patient(given, this.#check, patienceOf(this.#fixture));
    this.#drivers.set(driver, given);
    return driver;
  }

  #given(driver: SessionDriver): SessionDriver {
    return this.#drivers.get(driver) ?? driver;
  }

  async #fixtures<T>(name: string, promise: Promise<T>): Promise<T> {
    return soon(promise, `${this.#check}: the fixture's ${name}() hangs`, patienceOf(this.#fixture));
  }
}

function patienceOf({ timeoutMs: timeoutMs = 30_000 }: SessionDriverFixture): number {
  return timeoutMs;
}

/** A time, so many seconds after another. */
export function at(seconds: number): string {
  return new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();
}

/** A session with every field set; an original unless `chain` says otherwise. */
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

/** The id of a message is `<session>-<seq>`. */
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

/** A tool's result, and what was shown of it. */
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

/** Messages of these seqs. */
export function someMessages(sessionId: string, from: number, to: number): Message[] {
  return Array.from({ length: to - from + 1 }, (_, offset) => aMessage(sessionId, from + offset));
}

/** A message that may grow. */
export function growing(sessionId: string, seq: number): Message {
  return aMessage(sessionId, seq, { role: "assistant", parts: [], finished: false });
}

/** A change without a lease. */
export function change(fields: Partial<SessionChange>): SessionChange {
  return { fence: null, sync: false, ...fields };
}

/** A run that goes on. */
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

/** An ask that is open. */
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

/** An answer to an ask. */
export function answered(choice: string, answeredBy = "http"): AskResolution {
  return { reply: { choice, text: "" }, answeredBy, closedAt: at(1) };
}

/** Something that a run is told to do. */
export function anInstruction(id: string, sessionId: string, fields: Partial<Instruction> = {}): Instruction {
  return { id, sessionId, runId: "run", kind: "steer", text: `text of ${id}`, createdAt: at(0), ...fields };
}

/** Someone who asks for a lease. */
export function aHolder(id: string): LeaseHolder {
  return { id, host: "host", boot: "boot", pid: 1, started: "1" };
}

/** The lease, which must be had. */
export async function leaseOf(driver: SessionDriver, rootId: string, holder: string, ttlMs = 60_000): Promise<Lease> {
  const lease = await driver.lease(rootId, aHolder(holder), ttlMs);
  if ("heldBy" in lease) throw new Error(`the lease of ${rootId} is held by ${lease.heldBy.holder.id}`);
  return lease;
}

/** Gives a lease back. */
export async function release(driver: SessionDriver, { rootId, fence }: Pick<Lease, "rootId" | "fence">) {
  return driver.write(rootId, change({ fence, release: true }));
}

/** Result of an answer; undefined for an unknown ask. */
export async function answer(driver: SessionDriver, sessionId: string, askId: string, given: AskResolution) {
  return (await driver.write(sessionId, change({ sync: true, answer: { askId, ...given } }))).answer;
}

export async function instruct(driver: SessionDriver, instruction: Instruction) {
  return driver.write(instruction.sessionId, change({ sync: true, instruct: instruction }));
}

/** Whether this call took the instruction back. */
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
  return theOnly(await driver.runs({ id, limit: 9 }));
}

export async function askOf(driver: SessionDriver, id: string): Promise<Ask | undefined> {
  return theOnly(await driver.asks({ id, limit: 9 }));
}

function theOnly<T>(found: readonly T[]): T | undefined {
  if (found.length > 1) throw new Error(`${found.length} with one id`);
  return found[0];
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

/** Seqs of all that was ever said in the chain, what is hidden too. */
export async function allSeqs(driver: SessionDriver, id: string): Promise<number[]> {
  const { sessions = [] } = (await driver.dump(id)) ?? {};
  return sessions.flatMap(({ messages }) => messages.map(({ message }) => message.seq)).sort((a, b) => a - b);
}

/** Text of a message, its parts joined by `|`. */
export function textOf(message: Message | undefined): string {
  return (message?.parts ?? []).map((part) => ("text" in part ? part.text : part.type)).join("|");
}
