import type { Bus } from "../base/bus.js";
import type { TaskSet } from "../base/task-set.js";
import type { BackgroundWork, ProcessState } from "../ports/background.js";
import type { BusEvents } from "../ports/bus-events.js";
import type { SessionDriver } from "../ports/session-driver.js";
import type { AgentTools } from "./tools/agent-tools.js";
import type { DeletedElsewhere } from "./deleted-elsewhere.js";

/** What an agent's tools keep going for its sessions beside their calls: told to who watches, ended with the session. */
export class SessionProcesses {
  readonly #tools: AgentTools;
  readonly #changed: (sessionId: string) => void;
  readonly #store: () => Promise<SessionDriver>;
  readonly #tasks: TaskSet;
  #elsewhere: Promise<DeletedElsewhere> | undefined;
  #works: Promise<readonly BackgroundWork[]> | undefined;
  readonly #forget: (() => void)[] = [];

  /** @param changed Called when the list of a session is another. */
  constructor(
    tools: AgentTools,
    bus: Bus<BusEvents>,
    tasks: TaskSet,
    store: () => Promise<SessionDriver>,
    changed: (sessionId: string) => void,
  ) {
    this.#tools = tools;
    this.#tasks = tasks;
    this.#store = store;
    this.#changed = (sessionId) => {
      changed(sessionId);
      void this.#heed(sessionId).catch(() => undefined);
    };
    bus.on("session.deleted", ({ ids }) => void tasks.add(this.#end(ids)));
  }

  /** Of a session, by the id of its chain's first. Empty where the tools cannot be had: a run says why. */
  async list(sessionId: string): Promise<readonly ProcessState[]> {
    const works = await this.#had();
    return (await Promise.all(works.map((work) => work.list(sessionId)))).flat();
  }

  /** A run may begin what goes on beside its calls: hear of it. Never rejects. */
  async heed(): Promise<void> {
    await this.#had();
  }

  /** Nobody is told any more. */
  close(): void {
    for (const forget of this.#forget) forget();
    this.#elsewhere?.then(
      (one) => one.close(),
      () => undefined,
    );
  }

  /** What ends with its session ends also where another process deletes that. */
  async #heed(sessionId: string): Promise<void> {
    const isNeeded = (await this.list(sessionId)).some(({ state, keep }) => state === "running" && !keep);
    if (!isNeeded && !this.#elsewhere) return;
    this.#elsewhere ??= Promise.all([import("./deleted-elsewhere.js"), this.#store()]).then(
      ([{ DeletedElsewhere }, store]) => new DeletedElsewhere(store, (id) => void this.#tasks.add(this.#end([id]))),
    );
    // A store that is away is opened anew with the next one.
    this.#elsewhere.catch(() => (this.#elsewhere = undefined));
    (await this.#elsewhere).listen(sessionId, isNeeded);
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
