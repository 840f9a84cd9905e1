import { settlesWithin } from "./abort.js";

/** Tasks that must settle before their owner ends. Failures of the tasks are ignored here. */
export class TaskSet {
  readonly #tasks = new Set<Promise<unknown>>();

  /** Tracks the task until it settles. Returns the task itself. */
  add<T>(task: Promise<T>): Promise<T> {
    this.#tasks.add(task);
    const removeTask = () => void this.#tasks.delete(task);
    task.then(removeTask, removeTask);
    return task;
  }

  /**
   * Resolves when all tasks have settled, including tasks added meanwhile, or after `ms`. If `ms` is undefined, there
   * is no limit.
   */
  async settled(ms?: number): Promise<void> {
    const waitForTasks = async (): Promise<void> => {
      while (this.#tasks.size > 0) await Promise.allSettled(this.#tasks);
    };
    await (ms === undefined ? waitForTasks() : settlesWithin(waitForTasks(), ms));
  }
}
