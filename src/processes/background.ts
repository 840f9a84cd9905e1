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

/** Maximum concurrent commands per session and per process, and the number of ended commands that stay listed. */
const MOST = 16;
const MOST_IN_ALL = 128;
const ENDED = 16;

/** How a command starts: as a child of this process, or detached so that it outlives this process. */
export type Start = { start: () => Promise<Child> } | { program: () => Promise<KeptProgram> };

/** Absolute paths of folders for files of background commands. Each contains one folder per session. */
export interface BackgroundPaths {
  /** For output. Undefined: long output is shortened and the remainder is lost. */
  readonly outputs?: string | undefined;
  /** For detached commands. Undefined: commands cannot be detached. */
  readonly kept?: string | undefined;
}

/** Interval in ms at which running detached commands are checked. */
const LOOK_MS = 1_000;

/** The background commands of an agent's sessions. */
export class Background implements BackgroundWork {
  readonly #paths: BackgroundPaths;
  readonly #redactor: Redactor;
  readonly #clean: (said: string) => string;
  #swept = false;
  readonly #jobs = new Map<string, Map<string, BackgroundJob>>();
  /** Timers by session id, while a detached command of the session runs. */
  readonly #looks = new Map<string, NodeJS.Timeout>();
  readonly #listeners = new Set<(sessionId: string) => void>();
  /** Cleanup of detached commands that end while this process runs, by command id. */
  readonly #tidies = new Map<string, JobOptions["tidy"]>();
  /** Session ids of commands that are starting. */
  readonly #starting: string[] = [];
  #closed = false;

  /** @param clean Converts output to text as shown: without colours and secrets. */
  constructor(paths: BackgroundPaths, redactor: Redactor, clean: (said: string) => string) {
    this.#paths = paths;
    this.#redactor = redactor;
    this.#clean = clean;
  }

  /** Starts a command. Rejects with `ToolError` if too many are running, or with the error of `start`. */
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
    // The session was deleted meanwhile, or this object was closed.
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
    const [{ startDetached: startKept }, { sweepKept }, program] = await Promise.all([
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

  /** The session's commands, including detached commands that an earlier or another gantry process started. */
  async #known(sessionId: string): Promise<Map<string, BackgroundJob>> {
    const jobs = this.#jobs.get(sessionId) ?? new Map<string, BackgroundJob>();
    const folder = this.#paths.kept === undefined ? undefined : folderOf(this.#paths.kept, sessionId);
    if (folder === undefined || !existsSync(folder)) return jobs;
    const [{ keptIn }, { DetachedJob: KeptJob }] = await Promise.all([
      import("./supervisor.js"),
      import("./detached-job.js"),
    ]);
    for (const record of keptIn(folder))
      if (!jobs.has(record.id))
        jobs.set(record.id, new KeptJob(record, join(folder, record.id), this.#redactor, this.#clean));
    if (jobs.size > 0) this.#jobs.set(sessionId, jobs);
    return jobs;
  }

  /** Checks detached commands and notifies listeners when one ends. They are not children of this process. */
  #look(sessionId: string): void {
    const kept = [...(this.#jobs.get(sessionId)?.values() ?? [])].filter((job) => isRunning(job) && job.state.detached);
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

  /** Finds a command. Rejects with a `ToolError` that lists the session's commands. */
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
    await Promise.all(jobs.filter(({ state }) => !state.detached).map((job) => job.stop()));
    if (this.#paths.outputs !== undefined) removeOutputs(this.#paths.outputs, sessionId);
  }

  onChange(listener: (sessionId: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Ends all commands that are not detached. */
  async close(reason: unknown): Promise<void> {
    this.#closed = true;
    const jobs = [...this.#jobs.values()].flatMap((one) => [...one.values()]);
    for (const timer of this.#looks.values()) clearInterval(timer);
    await Promise.all(jobs.filter(({ state }) => !state.detached).map((job) => job.stop(reason)));
  }

  #changed(sessionId: string): void {
    for (const listener of this.#listeners) listener(sessionId);
  }
}

function isRunning({ state }: BackgroundJob): boolean {
  return state.state === "running";
}
