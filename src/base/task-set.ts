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
    let timer: NodeJS.Timeout | undefined;
    let late = false;
    const limit = new Promise<void>((resolve) => {
      if (ms === undefined) return;
      timer = setTimeout(() => {
        late = true;
        resolve();
      }, ms);
    });
    while (this.#tasks.size > 0 && !late) await Promise.race([Promise.allSettled(this.#tasks), limit]);
    clearTimeout(timer);
  }
}
