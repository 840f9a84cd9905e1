import type { Bus } from "../base/bus.js";
import type { TaskSet } from "../base/task-set.js";
import type { BackgroundWork, ProcessState } from "../ports/background.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { AgentTools } from "./agent-tools.js";

/** What an agent's tools keep going for its sessions beside their calls: told to who watches, ended with the session. */
export class SessionProcesses {
  readonly #tools: AgentTools;
  readonly #changed: (sessionId: string) => void;
  #works: Promise<readonly BackgroundWork[]> | undefined;
  readonly #forget: (() => void)[] = [];

  /** @param changed Called when the list of a session is another. */
  constructor(tools: AgentTools, bus: Bus<BusEvents>, tasks: TaskSet, changed: (sessionId: string) => void) {
    this.#tools = tools;
    this.#changed = changed;
    bus.on("session.deleted", ({ ids }) => void tasks.add(this.#end(ids)));
  }

  /** Of a session, by the id of its chain's first. Empty where the tools cannot be had: a run says why. */
  async list(sessionId: string): Promise<readonly ProcessState[]> {
    const works = await this.#had();
    return (await Promise.all(works.map((work) => work.list(sessionId)))).flat();
  }

  /** Nobody is told any more. */
  close(): void {
    for (const forget of this.#forget) forget();
  }

  async #end(ids: readonly string[]): Promise<void> {
    for (const work of await this.#had()) await Promise.all(ids.map((id) => work.end(id)));
  }

  /** Tools that no run has needed yet are loaded: a process before this one may have kept something going. */
  #had(): Promise<readonly BackgroundWork[]> {
    return (this.#works ??= this.#tools.load().then(
      ({ tools }) => {
        const works = [...new Set(tools.flatMap(({ background }) => background ?? []))];
        this.#forget.push(...works.map((work) => work.onChange(this.#changed)));
        return works;
      },
      () => {
        this.#works = undefined;
        return [];
      },
    ));
  }
}
