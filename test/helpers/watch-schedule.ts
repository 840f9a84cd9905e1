import { GantryClient, type ApiRun } from "gantry/client";
import { ClientWatcher } from "./client-watcher.js";
import type { ServerGroup } from "./server-group.js";
import { HttpWatcher, type CheckedPage } from "./http-watcher.js";
import { describePageFault } from "./page-faults.js";
import { pause, waitUntil } from "./server-runs.js";
import { createRandom } from "./random.js";
import { checkTexts, describeResumedRun, MAX_ATTEMPTS, type SentText } from "./sent-texts.js";

/** Counts of a schedule's actions and of its watchers' events. `ServerGroup.counts` has the faults of the servers. */
const COUNT_NAMES = [
  "prompts",
  "acceptedPrompts",
  "cancels",
  "steers",
  "reverts",
  "restores",
  "compactions",
  "connections",
  "drops",
  "events",
  "characters",
  "rewinds",
  "repeatedMessages",
] as const;
export type ScheduleCounts = Record<(typeof COUNT_NAMES)[number], number>;

/** Time after which a suspended process has lost its leases, in ms. */
const LONG_SUSPENSION_MS = 33_000;
/** Options of a schedule. */
export interface ScheduleOptions {
  seed: number;
  steps: number;
  /** Whether processes are also suspended for longer than a lease. */
  expiresLeases?: boolean;
}

/**
 * A random schedule on one session: runs, cancels, steering, reverts and restores through any server. Servers are
 * killed, restarted or suspended, the disk is full or loses writes, answers of the store are lost, and connections of
 * watchers drop.
 */
export class Schedule {
  readonly counts = Object.fromEntries(COUNT_NAMES.map((name) => [name, 0])) as ScheduleCounts;
  readonly #group: ServerGroup;
  readonly #options: ScheduleOptions;
  readonly #random: () => number;
  readonly #fetch: typeof fetch;
  readonly #client: GantryClient;
  readonly #losesWrites: boolean;
  readonly #texts: SentText[] = [];
  readonly #snapshotIds: string[] = [];
  readonly #pendingWork: Promise<unknown>[] = [];
  /** Faults of servers and of the disk that end later. */
  readonly #faults: Promise<unknown>[] = [];
  #watchers: (HttpWatcher | ClientWatcher)[] = [];
  #sessionId = "";
  readonly #fullDisksBefore: number;
  /** Runs before the last one. */
  #oldRunIds: ReadonlySet<string> = new Set();
  #stored = "";

  constructor(group: ServerGroup, options: ScheduleOptions) {
    this.#group = group;
    this.#fullDisksBefore = group.counts.fullDisks;
    this.#options = options;
    this.#random = createRandom(options.seed);
    this.#fetch = group.createFetch(this.#random);
    this.#client = new GantryClient({ url: "http://gantry.invalid", fetch: this.#fetch });
    this.#losesWrites = group.store.copy !== undefined && this.#random() < 0.2;
  }

  /**
   * Runs the schedule. Throws if a watcher does not get the stored messages, or gets a message twice or a wrong state,
   * or if the store has lost a prompt or has it twice.
   */
  async run(): Promise<ScheduleCounts> {
    const { steps } = this.#options;
    this.#sessionId = (await this.#client.start({ message: "the start" })).session_id;
    this.#watchers = this.#createWatchers();
    try {
      for (let step = 0; step < steps; step += 1) {
        this.#pendingWork.push(this.#sendPrompt(step));
        if (this.#losesWrites && step === Math.floor(steps / 3)) {
          await Promise.all(this.#faults);
          await this.#group.saveDisk();
        }
        for (let n = this.#pick(3); n > 0; n -= 1) {
          // Pauses of the schedule, which the seed determines.
          await pause(this.#random() * 150);
          await this.#act();
        }
        if (this.#losesWrites && step === Math.floor((steps * 2) / 3)) {
          // Time for writes that the disk will lose.
          await pause(100);
          await Promise.all(this.#faults);
          await this.#group.rollBackDisk();
        }
      }
      await Promise.all([...this.#faults, ...this.#pendingWork.splice(0)]);
      await this.#check();
      await this.#client.sessions.delete(this.#sessionId);
      await waitUntil(() => this.#watchers.every(({ page }) => page.isDeleted));
    } finally {
      for (const watcher of this.#watchers) await watcher.end();
      await Promise.all([...this.#faults, ...this.#pendingWork]);
    }
    for (const watcher of this.#watchers) {
      const { connections, drops } = watcher;
      const { events, characters, rewinds, repeatedMessages } = watcher.page;
      const added = { connections, drops, events, characters, rewinds, repeatedMessages };
      for (const [name, count] of Object.entries(added)) this.counts[name as keyof ScheduleCounts] += count;
    }
    return this.counts;
  }

  /** Whether texts may be missing: watchers may miss messages that a revert hides, and the disk may lose texts. */
  get #hidesTexts(): boolean {
    return this.counts.reverts > 0 || this.#losesWrites;
  }

  #pick(count: number): number {
    return Math.floor(this.#random() * count);
  }

  /** Each watcher has its own random numbers, so that the number of drops does not change the actions. */
  #createWatchers(): (HttpWatcher | ClientWatcher)[] {
    const { seed } = this.#options;
    const [http, single, shared] = [1, 2, 3].map((n) => createRandom(seed * 10 + n)) as [
      () => number,
      () => number,
      () => number,
    ];
    const path = `/api/sessions/${this.#sessionId}/events`;
    const group = this.#group;
    return [
      new HttpWatcher(
        path,
        () => group.pickServer(http)?.url,
        http,
        () => group.headers,
      ),
      new ClientWatcher(this.#sessionId, group.createFetch(single), single),
      new ClientWatcher(this.#sessionId, group.createFetch(shared), shared, true),
    ];
  }

  /** Sends a prompt in a random way. Resolves when a server has answered or the request has failed. Never rejects. */
  async #sendPrompt(step: number): Promise<void> {
    this.counts.prompts += 1;
    const key = this.#random() < 0.3 ? `${this.#sessionId}-${step}` : undefined;
    const message = `prompt ${step} ${this.#random() < 0.3 ? "filler ".repeat(600) : ""}`;
    const kind = this.#random();
    const queue = this.#random() < 0.5;
    const body = { message, session_id: this.#sessionId, queue, background: kind < 0.4, stream: kind > 0.7 };
    const canAbort = kind >= 0.4 && this.#random() < 0.3;
    const signal = canAbort ? AbortSignal.timeout(20 + this.#pick(400)) : new AbortController().signal;
    const sent: SentText = { text: message, hasKey: key !== undefined, canBeDropped: queue, runIds: new Set() };
    this.#texts.push(sent);
    const init = {
      method: "POST",
      body: JSON.stringify(body),
      signal,
      ...(key !== undefined && { headers: { "idempotency-key": key } }),
    };
    for (let attempt = 0; attempt < (key === undefined ? 1 : MAX_ATTEMPTS); attempt += 1) {
      try {
        const response = await this.#fetch("/api/run", init);
        const text = response.ok && body.background ? await response.text() : "";
        const runId = response.headers.get("x-run-id") ?? (/"run_id":"([^"]*)"/.exec(text)?.[1] || undefined);
        if (response.ok && runId !== undefined) sent.runIds.add(runId);
        if (text === "") await response.text();
        if (response.status !== 503) break;
      } catch {
        if (signal.aborted) break;
      }
      // The server may be down or its store unavailable.
      await pause(50);
    }
    if (sent.runIds.size > 0) this.counts.acceptedPrompts += 1;
  }

  /** Ignores errors that concurrent actions and faults can cause. */
  async #attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
    return work().catch(() => undefined);
  }

  /** Performs a random action. */
  async #act(): Promise<void> {
    const { sessions } = this.#client;
    const id = this.#sessionId;
    const group = this.#group;
    const random = this.#random;
    const actions: readonly (readonly [share: number, act: () => unknown])[] = [
      [4, () => Promise.all(this.#pendingWork.splice(0))],
      [2, () => this.#cancel()],
      [2, () => this.#steer()],
      [3, () => this.#revert()],
      [2, () => this.#restore()],
      [1, () => this.#attempt(() => sessions.update(id, { title: `title ${random()}` }))],
      [1.5, () => group.restart(random, "SIGKILL")],
      [0.7, () => group.restart(random, "SIGTERM")],
      [1, () => this.#faults.push(group.suspend(random, this.#pickSuspensionMs()))],
      [1, () => this.#faults.push(group.fillDisk(random() * 1_500))],
      [1, () => group.cutAnswers(random)],
    ];
    let remainingShare = random() * actions.reduce((sum, [share]) => sum + share, 0);
    await actions.find(([share]) => (remainingShare -= share) < 0)?.[1]();
  }

  #pickSuspensionMs(): number {
    const isLong = this.#random() < 0.05 && this.#options.expiresLeases === true;
    return this.#random() * 1_500 + (isLong ? LONG_SUSPENSION_MS : 0);
  }

  async #cancel(): Promise<void> {
    this.counts.cancels += 1;
    const { sessions, runs } = this.#client;
    await this.#attempt(async () => {
      if (this.#random() < 0.5) return sessions.cancel(this.#sessionId);
      const [run] = await runs.list({ sessionId: this.#sessionId, size: 1 });
      return run && runs.cancel(run.id);
    });
  }

  async #steer(): Promise<void> {
    this.counts.steers += 1;
    const text = `steer ${this.#random()}`;
    const sent: SentText = { text, hasKey: false, canBeDropped: true, runIds: new Set() };
    this.#texts.push(sent);
    const accepted = await this.#attempt(() => this.#client.sessions.steer(this.#sessionId, text));
    if (accepted) sent.runIds.add(accepted.run_id);
  }

  async #revert(): Promise<void> {
    await Promise.all(this.#pendingWork.splice(0));
    await this.#attempt(async () => {
      const messages = await this.#client.sessions.messages(this.#sessionId);
      const messageId = messages[this.#pick(messages.length)]?.id;
      if (messageId === undefined) return;
      // The answer of a revert that succeeds may be lost.
      this.counts.reverts += 1;
      this.#snapshotIds.push((await this.#client.sessions.rewind(this.#sessionId, { messageId })).snapshot_id);
    });
  }

  async #restore(): Promise<void> {
    const snapshotId = this.#snapshotIds.pop() ?? "";
    if (snapshotId === "") return;
    this.counts.restores += 1;
    await this.#attempt(async () => {
      this.#snapshotIds.push(await this.#client.sessions.restore(this.#sessionId, snapshotId));
    });
  }

  /** Whether no run is open and all watchers have the stored messages and the current state. */
  async #isSettled(): Promise<boolean> {
    // Time: the interval of the checks, because watchers may wait for seconds before they connect again.
    await pause(100);
    const runs = await this.#client.runs.list({ sessionId: this.#sessionId });
    if (runs.some(({ state }) => OPEN_STATES.has(state))) return false;
    // Reads again for each check, because a late instruction may start another run.
    this.#stored = await (await this.#fetch(`/api/sessions/${this.#sessionId}/messages`)).text();
    const descriptions = this.#watchers.map(({ page }) => this.#describeFault(page, runs));
    // A fault stays; a difference may be late.
    return descriptions.every((text) => text === "" || text.startsWith("received"));
  }

  #describeFault(page: CheckedPage, runs: readonly ApiRun[]): string {
    const oldRunIds = this.#oldRunIds;
    return describePageFault(page, { storedText: this.#stored, runs, oldRunIds, losesWrites: this.#losesWrites });
  }

  async #check(): Promise<void> {
    const settle = () => waitUntil(() => this.#isSettled()).catch(() => undefined);
    await settle();
    this.#oldRunIds = new Set(
      (await this.#client.runs.list({ sessionId: this.#sessionId, size: 100 })).map(({ id }) => id),
    );
    // A late or repeated event arrives before the events of another run.
    await this.#client.run({ message: "the end", session_id: this.#sessionId, queue: true });
    await settle();
    const runs = await this.#client.runs.list({ sessionId: this.#sessionId, size: 100 });
    const openRuns = runs.filter(({ state }) => OPEN_STATES.has(state));
    if (openRuns.length > 0) throw new Error(`open runs: ${JSON.stringify(openRuns)}`);
    // While the disk is full, the process of a run that has ended reports it as interrupted, and the others as running.
    const hadFullDisk = this.#group.counts.fullDisks > this.#fullDisksBefore;
    const resumesRuns = this.#losesWrites || hadFullDisk || this.#options.expiresLeases === true;
    for (const [n, { page }] of this.#watchers.entries()) {
      const fault =
        this.#describeFault(page, runs) || (resumesRuns ? "" : describeResumedRun(page.resumedRunIds, this.#texts));
      if (fault !== "") throw new Error(`watcher ${n} ${fault}\n${page.trace.slice(-100).join("\n")}`);
    }
    const messages = await this.#client.sessions.messages(this.#sessionId);
    // A text that the disk has lost can be stored again.
    const receivedTexts = this.#losesWrites
      ? [new Map(messages.filter(({ role }) => role === "user").map(({ id, content }) => [id, content]))]
      : this.#watchers.map(({ page }) => page.prompts);
    checkTexts(this.#texts, receivedTexts, runs, !this.#hidesTexts);
    this.counts.compactions = new Set(messages.map(({ session_id }) => session_id)).size - 1;
  }
}

const OPEN_STATES: ReadonlySet<string> = new Set(["queued", "running", "waiting"]);
