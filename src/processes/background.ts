import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Redactor } from "../base/redact.js";
import { ToolError } from "../ports/errors.js";
import type { BackgroundWork, ProcessState } from "../ports/background.js";
import type { BackgroundJob, JobOptions, JobProcess } from "./job.js";
import type { DetachedProgram } from "./supervisor.js";
import { getSessionFolder, removeOutputs } from "./output-folder.js";

/** Maximum concurrent commands of a session. */
const MAX_SESSION_COMMANDS = 16;
/** Maximum concurrent commands of this process. */
const MAX_TOTAL_COMMANDS = 128;
/** Number of ended commands of a session that stay listed. */
const MAX_ENDED_COMMANDS = 16;

/** Start of a command: as a child of this process, or detached so that it outlives this process. */
export type CommandStart = { start: () => Promise<JobProcess> } | { program: () => Promise<DetachedProgram> };

/** Absolute paths of folders for files of background commands. Each contains one folder per session. */
export interface BackgroundPaths {
  /** For output. Undefined: long output is shortened and the remainder is lost. */
  readonly outputs?: string | undefined;
  /** For detached commands. Undefined: commands cannot be detached. */
  readonly detached?: string | undefined;
}

/** Interval in ms at which running detached commands are checked. */
const POLL_INTERVAL_MS = 1_000;

/** The background commands of an agent's sessions. */
export class Background implements BackgroundWork {
  readonly #paths: BackgroundPaths;
  readonly #redactor: Redactor;
  readonly #clean: (output: string) => string;
  #hasRemovedOldFiles = false;
  readonly #jobsBySessionId = new Map<string, Map<string, BackgroundJob>>();
  /** Timers by session id, while a detached command of the session runs. */
  readonly #pollTimersBySessionId = new Map<string, NodeJS.Timeout>();
  readonly #listeners = new Set<(sessionId: string) => void>();
  /** Cleanup of detached commands that end while this process runs, by command id. */
  readonly #cleanUpsById = new Map<string, JobOptions["cleanUp"]>();
  /** Session ids of commands that are starting. */
  readonly #startingSessionIds: string[] = [];
  #isClosed = false;

  /** @param clean Converts output to text as shown: without colours and secrets. */
  constructor(paths: BackgroundPaths, redactor: Redactor, clean: (output: string) => string) {
    this.#paths = paths;
    this.#redactor = redactor;
    this.#clean = clean;
  }

  /** Starts a command. Rejects with `ToolError` if too many are running, or with the error of `start`. */
  async start(
    sessionId: string,
    jobOptions: Omit<JobOptions, "id" | "onEnd" | "redactor" | "clean">,
    start: CommandStart,
  ): Promise<{ id: string; job: BackgroundJob }> {
    const loadedJobs = await this.#loadJobs(sessionId);
    // Another command may have started meanwhile.
    const jobs = this.#jobsBySessionId.get(sessionId) ?? loadedJobs;
    this.#jobsBySessionId.set(sessionId, jobs);
    const startingCount = this.#startingSessionIds.filter((startingId) => startingId === sessionId).length;
    const runningCount = [...jobs.values()].filter(isRunning).length + startingCount;
    const totalCount = [...this.#jobsBySessionId.values()]
      .flatMap((sessionJobs) => [...sessionJobs.values()])
      .filter(isRunning).length;
    if (runningCount >= MAX_SESSION_COMMANDS)
      throw new ToolError(
        `${MAX_SESSION_COMMANDS} background commands of this session are already running. Stop one with bash_stop.`,
      );
    if (totalCount + this.#startingSessionIds.length >= MAX_TOTAL_COMMANDS)
      throw new ToolError("too many background commands of other sessions are running.");
    if (this.#isClosed) throw new ToolError("gantry is shutting down.");
    this.#startingSessionIds.push(sessionId);
    let id: string;
    do id = `bg-${randomBytes(3).toString("hex")}`;
    while (jobs.has(id));
    const commonOptions = { id, redactor: this.#redactor, clean: this.#clean, onEnd: () => this.#notify(sessionId) };
    const job = await this.#startJob(sessionId, { ...jobOptions, ...commonOptions }, start).finally(() =>
      this.#startingSessionIds.splice(this.#startingSessionIds.indexOf(sessionId), 1),
    );
    jobs.set(id, job);
    const endedJobs = [...jobs].filter(([, endedJob]) => !isRunning(endedJob));
    for (const [endedId, endedJob] of endedJobs.slice(0, -MAX_ENDED_COMMANDS)) {
      jobs.delete(endedId);
      endedJob.removeFiles?.();
    }
    // The session was deleted meanwhile, or this object was closed.
    if (this.#isClosed || this.#jobsBySessionId.get(sessionId) !== jobs) await job.stop();
    this.#pollDetached(sessionId);
    this.#notify(sessionId);
    return { id, job };
  }

  async #startJob(sessionId: string, options: JobOptions, start: CommandStart): Promise<BackgroundJob> {
    if ("start" in start) {
      const [{ Job }, process] = await Promise.all([import("./job.js"), start.start()]);
      return new Job(process, options);
    }
    const { detached: detachedRoot } = this.#paths;
    if (detachedRoot === undefined || process.platform !== "linux")
      throw new ToolError("commands cannot outlive gantry here. Set background without detached.");
    const [{ startDetached }, { removeOldDetached }, program] = await Promise.all([
      import("./supervisor.js"),
      import("./detached-job.js"),
      start.program(),
    ]);
    const { id, command } = options;
    if (!this.#hasRemovedOldFiles) removeOldDetached(detachedRoot);
    this.#hasRemovedOldFiles = true;
    await startDetached(getSessionFolder(detachedRoot, sessionId), { id, command, program }).catch((error: unknown) => {
      throw new ToolError(`the command could not be started: ${(error as Error).message}.`, { cause: error });
    });
    this.#cleanUpsById.set(id, options.cleanUp);
    const job = (await this.#loadJobs(sessionId)).get(id);
    if (job === undefined) throw new ToolError("the command could not be recorded.");
    return job;
  }

  /** Returns the session's commands, including detached commands that an earlier or another gantry process started. */
  async #loadJobs(sessionId: string): Promise<Map<string, BackgroundJob>> {
    const getJobs = () => this.#jobsBySessionId.get(sessionId) ?? new Map<string, BackgroundJob>();
    const folder = this.#paths.detached === undefined ? undefined : getSessionFolder(this.#paths.detached, sessionId);
    if (folder === undefined || !existsSync(folder)) return getJobs();
    const [{ readDetachedRecords }, { DetachedJob }] = await Promise.all([
      import("./supervisor.js"),
      import("./detached-job.js"),
    ]);
    const jobs = getJobs();
    for (const record of readDetachedRecords(folder))
      if (!jobs.has(record.id))
        jobs.set(record.id, new DetachedJob(record, join(folder, record.id), this.#redactor, this.#clean));
    if (jobs.size > 0) this.#jobsBySessionId.set(sessionId, jobs);
    return jobs;
  }

  /** Checks detached commands, which are not children of this process, and notifies listeners when a command ends. */
  #pollDetached(sessionId: string): void {
    const detachedJobs = [...(this.#jobsBySessionId.get(sessionId)?.values() ?? [])].filter(
      (job) => isRunning(job) && job.state.detached,
    );
    if (detachedJobs.length === 0 || this.#pollTimersBySessionId.has(sessionId) || this.#isClosed) return;
    const timer = setInterval(() => {
      const endedJobs = detachedJobs.filter((job) => !isRunning(job));
      if (endedJobs.length === 0) return;
      for (const { state } of endedJobs) {
        this.#cleanUpsById
          .get(state.id)?.({ code: state.exitCode, signal: null }, "")
          .catch(() => undefined);
        this.#cleanUpsById.delete(state.id);
      }
      clearInterval(timer);
      this.#pollTimersBySessionId.delete(sessionId);
      this.#notify(sessionId);
      this.#pollDetached(sessionId);
    }, POLL_INTERVAL_MS);
    this.#pollTimersBySessionId.set(sessionId, timer.unref());
  }

  /** Finds a command. Rejects with a `ToolError` that lists the session's commands. */
  async find(sessionId: string, id: string): Promise<BackgroundJob> {
    const jobs = await this.#loadJobs(sessionId);
    const job = jobs.get(id);
    if (job !== undefined) return job;
    const commandList = [...jobs.values()].map(({ state }) => `${state.id} (${state.state})`).join(", ");
    throw new ToolError(
      `background command ${id} not found in this session; existing commands: ${commandList || "none"}. Commands that gantry started before a restart have ended; commands of other gantry processes on the same store are not visible here.`,
    );
  }

  async list(sessionId: string): Promise<ProcessState[]> {
    const jobs = await this.#loadJobs(sessionId).catch(() => undefined);
    this.#pollDetached(sessionId);
    return [...(jobs?.values() ?? [])]
      .map(({ state }) => state)
      .sort((left, right) => (left.startedAt < right.startedAt ? -1 : 1));
  }

  async end(sessionId: string): Promise<void> {
    const jobs = [...(this.#jobsBySessionId.get(sessionId)?.values() ?? [])];
    this.#jobsBySessionId.delete(sessionId);
    clearInterval(this.#pollTimersBySessionId.get(sessionId));
    this.#pollTimersBySessionId.delete(sessionId);
    await Promise.all(jobs.filter(({ state }) => !state.detached).map((job) => job.stop()));
    if (this.#paths.outputs !== undefined) removeOutputs(this.#paths.outputs, sessionId);
  }

  onChange(listener: (sessionId: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Ends all commands that are not detached. */
  async close(reason: unknown): Promise<void> {
    this.#isClosed = true;
    const jobs = [...this.#jobsBySessionId.values()].flatMap((sessionJobs) => [...sessionJobs.values()]);
    for (const timer of this.#pollTimersBySessionId.values()) clearInterval(timer);
    await Promise.all(jobs.filter(({ state }) => !state.detached).map((job) => job.stop(reason)));
  }

  #notify(sessionId: string): void {
    for (const listener of this.#listeners) listener(sessionId);
  }
}

function isRunning({ state }: BackgroundJob): boolean {
  return state.state === "running";
}
