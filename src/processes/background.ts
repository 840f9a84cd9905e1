import { randomBytes } from "node:crypto";
import { ToolError } from "../ports/errors.js";
import type { BackgroundWork, ProcessState } from "../ports/background.js";
import type { Child } from "./child.js";
import type { Job, JobOptions } from "./job.js";
import { removeOutputs } from "./outputs.js";

/** Commands that may run beside each other for one session, and for all of a process; of those that ended so many are listed. */
const MOST = 16;
const MOST_IN_ALL = 128;
const ENDED = 16;

/** The commands in the background of an agent's sessions. */
export class Background implements BackgroundWork {
  readonly #outputs: string | undefined;
  readonly #jobs = new Map<string, Map<string, Job>>();
  readonly #listeners = new Set<(sessionId: string) => void>();
  /** Sessions of which one is about to start. */
  readonly #starting: string[] = [];
  #closed = false;

  /** @param outputs Folder for what commands print, one folder in it for each session; undefined: there is none. */
  constructor(outputs: string | undefined) {
    this.#outputs = outputs;
  }

  /** Start one. Rejects with a `ToolError` when there are too many, or with what `start` rejects with. */
  async start(
    sessionId: string,
    options: Omit<JobOptions, "id" | "onEnd">,
    start: () => Promise<Child>,
  ): Promise<{ id: string; job: Job }> {
    const jobs = this.#jobs.get(sessionId) ?? new Map<string, Job>();
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
    const [{ Job }, child] = await Promise.all([import("./job.js"), start()]).finally(() =>
      this.#starting.splice(this.#starting.indexOf(sessionId), 1),
    );
    let id: string;
    do id = `bg-${randomBytes(3).toString("hex")}`;
    while (jobs.has(id));
    const job = new Job(child, { ...options, id, onEnd: () => this.#changed(sessionId) });
    jobs.set(id, job);
    const ended = [...jobs].filter(([, one]) => !isRunning(one));
    for (const [old] of ended.slice(0, -ENDED)) jobs.delete(old);
    // The session was deleted meanwhile, or all ends.
    if (this.#closed || this.#jobs.get(sessionId) !== jobs) await job.stop();
    this.#changed(sessionId);
    return { id, job };
  }

  /** Throws a `ToolError` that tells what there is. */
  find(sessionId: string, id: string): Job {
    const jobs = this.#jobs.get(sessionId) ?? new Map<string, Job>();
    const job = jobs.get(id);
    if (job !== undefined) return job;
    const known = [...jobs.values()].map(({ state }) => `${state.id} (${state.state})`).join(", ");
    throw new ToolError(
      `no command ${id} in the background of this session; there ${known === "" ? "is none" : `are: ${known}`}. What was started before gantry itself was restarted has ended.`,
    );
  }

  list(sessionId: string): Promise<ProcessState[]> {
    return Promise.resolve([...(this.#jobs.get(sessionId)?.values() ?? [])].map(({ state }) => state));
  }

  async end(sessionId: string): Promise<void> {
    const jobs = [...(this.#jobs.get(sessionId)?.values() ?? [])];
    this.#jobs.delete(sessionId);
    await Promise.all(jobs.map((job) => job.stop()));
    if (this.#outputs !== undefined) removeOutputs(this.#outputs, sessionId);
  }

  onChange(listener: (sessionId: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** End all. */
  async close(reason: unknown): Promise<void> {
    this.#closed = true;
    const jobs = [...this.#jobs.values()].flatMap((one) => [...one.values()]);
    await Promise.all(jobs.map((job) => job.stop(reason)));
  }

  #changed(sessionId: string): void {
    for (const listener of this.#listeners) listener(sessionId);
  }
}

function isRunning({ state }: Job): boolean {
  return state.state === "running";
}
