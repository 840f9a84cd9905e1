import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Redactor } from "../base/redact.js";
import { ToolError } from "../ports/errors.js";
import type { BackgroundWork, ProcessState } from "../ports/background.js";
import type { Child } from "./child.js";
import type { BackgroundJob, JobOptions } from "./job.js";
import type { KeptProgram } from "./supervisor.js";
import { folderOf, removeOutputs } from "./outputs.js";

/** Commands that may run beside each other for one session, and for all of a process; of those that ended so many are listed. */
const MOST = 16;
const MOST_IN_ALL = 128;
const ENDED = 16;

/** How one is started: as a child of this process, or so that it outlives it. */
export type Start = { start: () => Promise<Child> } | { program: () => Promise<KeptProgram> };

/** Where what commands leave is written down: absolute paths of folders, with one folder in each for each session. */
export interface BackgroundPaths {
  /** What they print. Left out: it is cut and gone. */
  readonly outputs?: string | undefined;
  /** Those that outlive this process. Left out: none does. */
  readonly kept?: string | undefined;
}

/** Those that outlive gantry are looked at so often, in ms, while somebody is told. */
const LOOK_MS = 1_000;

/** The commands in the background of an agent's sessions. */
export class Background implements BackgroundWork {
  readonly #paths: BackgroundPaths;
  readonly #redactor: Redactor;
  readonly #clean: (said: string) => string;
  #swept = false;
  readonly #jobs = new Map<string, Map<string, BackgroundJob>>();
  /** While one that is no child of this process runs: of which sessions. */
  readonly #looks = new Map<string, NodeJS.Timeout>();
  readonly #listeners = new Set<(sessionId: string) => void>();
  /** Of those that outlive this process: what is done when they end while it is there. */
  readonly #tidies = new Map<string, JobOptions["tidy"]>();
  /** Sessions of which one is about to start. */
  readonly #starting: string[] = [];
  #closed = false;

  /** @param clean Makes text of what was printed, as it is shown: without colours and secrets. */
  constructor(paths: BackgroundPaths, redactor: Redactor, clean: (said: string) => string) {
    this.#paths = paths;
    this.#redactor = redactor;
    this.#clean = clean;
  }

  /** Start one. Rejects with a `ToolError` when there are too many, or with what `start` rejects with. */
  async start(
    sessionId: string,
    given: Omit<JobOptions, "id" | "onEnd" | "redactor" | "clean">,
    start: Start,
  ): Promise<{ id: string; job: BackgroundJob }> {
    const jobs = await this.#known(sessionId);
    this.#jobs.set(sessionId, jobs);
    const starting = this.#starting.filter((one) => one === sessionId).length;
    const running = [...jobs.values()].filter(isRunning).length + starting;
    const all = [...this.#jobs.values()].flatMap((one) => [...one.values()]).filter(isRunning).length;
    if (running >= MOST)
      throw new ToolError(`${MOST} commands of this session run in the background already. Stop one with bash_stop.`);
    if (all + this.#starting.length >= MOST_IN_ALL)
      throw new ToolError("too many commands run in the background of other sessions.");
    if (this.#closed) throw new ToolError("gantry is about to stop.");
    this.#starting.push(sessionId);
    let id: string;
    do id = `bg-${randomBytes(3).toString("hex")}`;
    while (jobs.has(id));
    const own = { id, redactor: this.#redactor, clean: this.#clean, onEnd: () => this.#changed(sessionId) };
    const job = await this.#begin(sessionId, { ...given, ...own }, start).finally(() =>
      this.#starting.splice(this.#starting.indexOf(sessionId), 1),
    );
    jobs.set(id, job);
    const ended = [...jobs].filter(([, one]) => !isRunning(one));
    for (const [old, one] of ended.slice(0, -ENDED)) {
      jobs.delete(old);
      one.forget?.();
    }
    // The session was deleted meanwhile, or all ends.
    if (this.#closed || this.#jobs.get(sessionId) !== jobs) await job.stop();
    this.#look(sessionId);
    this.#changed(sessionId);
    return { id, job };
  }

  async #begin(sessionId: string, options: JobOptions, start: Start): Promise<BackgroundJob> {
    if ("start" in start) {
      const [{ Job }, child] = await Promise.all([import("./job.js"), start.start()]);
      return new Job(child, options);
    }
    const { kept } = this.#paths;
    if (kept === undefined || process.platform !== "linux")
      throw new ToolError("no command can outlive gantry here. Start it with background alone.");
    const [{ startKept }, { sweepKept }, program] = await Promise.all([
      import("./supervisor.js"),
      import("./detached-job.js"),
      start.program(),
    ]);
    const { id, command } = options;
    if (!this.#swept) sweepKept(kept);
    this.#swept = true;
    await startKept(folderOf(kept, sessionId), { id, command, program }).catch((error: unknown) => {
      throw new ToolError(`the command could not be started: ${(error as Error).message}.`, { cause: error });
    });
    this.#tidies.set(id, options.tidy);
    const job = (await this.#known(sessionId)).get(id);
    if (job === undefined) throw new ToolError("the command could not be written down.");
    return job;
  }

  /** With those that an earlier gantry, or another one, started so that they outlive it. */
  async #known(sessionId: string): Promise<Map<string, BackgroundJob>> {
    const jobs = this.#jobs.get(sessionId) ?? new Map<string, BackgroundJob>();
    const folder = this.#paths.kept === undefined ? undefined : folderOf(this.#paths.kept, sessionId);
    if (folder === undefined || !existsSync(folder)) return jobs;
    const [{ keptIn }, { KeptJob }] = await Promise.all([import("./supervisor.js"), import("./detached-job.js")]);
    for (const record of keptIn(folder))
      if (!jobs.has(record.id))
        jobs.set(record.id, new KeptJob(record, join(folder, record.id), this.#redactor, this.#clean));
    if (jobs.size > 0) this.#jobs.set(sessionId, jobs);
    return jobs;
  }

  /** Who watches is told when one ends that is no child of this process. */
  #look(sessionId: string): void {
    const kept = [...(this.#jobs.get(sessionId)?.values() ?? [])].filter((job) => isRunning(job) && job.state.keep);
    if (kept.length === 0 || this.#looks.has(sessionId) || this.#closed) return;
    const timer = setInterval(() => {
      const ended = kept.filter((job) => !isRunning(job));
      if (ended.length === 0) return;
      for (const { state } of ended) {
        this.#tidies
          .get(state.id)?.()
          .catch(() => undefined);
        this.#tidies.delete(state.id);
      }
      clearInterval(timer);
      this.#looks.delete(sessionId);
      this.#changed(sessionId);
      this.#look(sessionId);
    }, LOOK_MS);
    this.#looks.set(sessionId, timer.unref());
  }

  /** Rejects with a `ToolError` that tells what there is. */
  async find(sessionId: string, id: string): Promise<BackgroundJob> {
    const jobs = await this.#known(sessionId);
    const job = jobs.get(id);
    if (job !== undefined) return job;
    const known = [...jobs.values()].map(({ state }) => `${state.id} (${state.state})`).join(", ");
    throw new ToolError(
      `no command ${id} in the background of this session; there ${known === "" ? "is none" : `are: ${known}`}. What gantry started before it was restarted has ended; what another gantry on the same store started is known to that one alone.`,
    );
  }

  async list(sessionId: string): Promise<ProcessState[]> {
    const jobs = await this.#known(sessionId).catch(() => undefined);
    this.#look(sessionId);
    return [...(jobs?.values() ?? [])].map(({ state }) => state).sort((a, b) => (a.since < b.since ? -1 : 1));
  }

  async end(sessionId: string): Promise<void> {
    const jobs = [...(this.#jobs.get(sessionId)?.values() ?? [])];
    this.#jobs.delete(sessionId);
    clearInterval(this.#looks.get(sessionId));
    this.#looks.delete(sessionId);
    await Promise.all(jobs.filter(({ state }) => !state.keep).map((job) => job.stop()));
    if (this.#paths.outputs !== undefined) removeOutputs(this.#paths.outputs, sessionId);
  }

  onChange(listener: (sessionId: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** End all that are not kept. */
  async close(reason: unknown): Promise<void> {
    this.#closed = true;
    const jobs = [...this.#jobs.values()].flatMap((one) => [...one.values()]);
    for (const timer of this.#looks.values()) clearInterval(timer);
    await Promise.all(jobs.filter(({ state }) => !state.keep).map((job) => job.stop(reason)));
  }

  #changed(sessionId: string): void {
    for (const listener of this.#listeners) listener(sessionId);
  }
}

function isRunning({ state }: BackgroundJob): boolean {
  return state.state === "running";
}
