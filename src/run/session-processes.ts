import type { Bus } from "../base/bus.js";
import type { TaskSet } from "../base/task-set.js";
import type { BackgroundWork, ProcessState } from "../ports/background.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { Tool } from "../ports/tool.js";

/** What an agent's tools keep going for its sessions beside their calls: told to who watches, ended with the session. */
export class SessionProcesses {
  readonly #works: ReadonlySet<BackgroundWork>;
  readonly #forget: (() => void)[];

  /** @param changed Called when the list of a session is another. */
  constructor(tools: readonly Tool[], bus: Bus<BusEvents>, tasks: TaskSet, changed: (sessionId: string) => void) {
    this.#works = new Set(tools.flatMap(({ background }) => background ?? []));
    this.#forget = [...this.#works].map((work) => work.onChange(changed));
    bus.on("session.deleted", ({ ids }) => {
      for (const work of this.#works) for (const id of ids) void tasks.add(work.end(id));
    });
  }

  /** Of a session, by the id of its chain's first. */
  async list(sessionId: string): Promise<readonly ProcessState[]> {
    if (this.#works.size === 0) return [];
    return (await Promise.all([...this.#works].map((work) => work.list(sessionId)))).flat();
  }

  /** Nobody is told any more. */
  close(): void {
    for (const forget of this.#forget) forget();
  }
}
