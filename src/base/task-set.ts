import { settlesWithin } from "./abort.js";

/** Work that somebody must wait for in the end. Whether it fails is its own business. */
export class TaskSet {
  readonly #tasks = new Set<Promise<unknown>>();

  /** Owned until it settles. */
  add<T>(task: Promise<T>): Promise<T> {
    this.#tasks.add(task);
    const forget = () => void this.#tasks.delete(task);
    task.then(forget, forget);
    return task;
  }

  /** Resolves when nothing is under way, also of what was added meanwhile; after `ms` at the latest. */
  async settled(ms?: number): Promise<void> {
    const empty = async (): Promise<void> => {
      while (this.#tasks.size > 0) await Promise.allSettled(this.#tasks);
    };
    await (ms === undefined ? empty() : settlesWithin(empty(), ms));
  }
}
