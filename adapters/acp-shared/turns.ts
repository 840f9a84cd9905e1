/** Maximum time to answer a prompt after a cancel, in ms, even if the run has not ended. */
const CANCEL_ANSWER_MS = 700;

/** A promise with its resolve function. (Node 20 has no `Promise.withResolvers`.) */
class Gate {
  resolve: () => void = () => undefined;
  readonly promise = new Promise<void>((resolve) => (this.resolve = resolve));
}

/** A `session/prompt` request, from its arrival to the end of its run. */
export class Turn {
  readonly #cancel = new AbortController();
  readonly #settled = new Gate();
  readonly #abandoned = new Gate();
  #timer: NodeJS.Timeout | undefined;
  /** Whether the result was sent: no update may follow. */
  answered = false;

  /** Aborted by a cancel. */
  get signal(): AbortSignal {
    return this.#cancel.signal;
  }

  get cancelled(): boolean {
    return this.#cancel.signal.aborted;
  }

  /** Resolves when the run has ended. */
  get done(): Promise<void> {
    return this.#settled.promise;
  }

  /** Resolves when a cancelled run has not ended in time and the prompt must be answered. */
  get abandoned(): Promise<void> {
    return this.#abandoned.promise;
  }

  cancel(): void {
    if (this.cancelled) return;
    this.#cancel.abort();
    this.#timer = setTimeout(() => this.#abandoned.resolve(), CANCEL_ANSWER_MS);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#settled.resolve();
  }
}

/** Active prompts by every id of their session. */
export class Turns {
  readonly #byId = new Map<string, Turn>();
  readonly #names = new Map<Turn, Set<string>>();

  get(sessionId: string): Turn | undefined {
    return this.#byId.get(sessionId);
  }

  /** Creates a turn. It replaces a cancelled turn of the session that has not ended yet. */
  begin(sessionId: string): Turn {
    const turn = new Turn();
    this.#names.set(turn, new Set([sessionId]));
    this.#byId.set(sessionId, turn);
    return turn;
  }

  /** Registers a turn under more ids of its session; ids in use stay with their turn. */
  name(turn: Turn, ids: readonly string[]): void {
    for (const id of ids) {
      if (id === "" || this.#byId.has(id)) continue;
      this.#byId.set(id, turn);
      this.#names.get(turn)?.add(id);
    }
  }

  end(turn: Turn): void {
    for (const id of this.#names.get(turn) ?? []) if (this.#byId.get(id) === turn) this.#byId.delete(id);
    this.#names.delete(turn);
    turn.end();
  }

  /**
   * Cancels the turns of these ids that match `which`. Resolves when their runs have ended, or their prompts must be
   * answered.
   */
  async stop(sessionIds: readonly string[], which: (turn: Turn) => boolean): Promise<void> {
    const sessionTurns = sessionIds.map((id) => this.#byId.get(id)).filter((turn) => turn !== undefined);
    const turns = new Set(sessionTurns.filter(which));
    for (const turn of turns) turn.cancel();
    await Promise.all([...turns].map((turn) => Promise.race([turn.done, turn.abandoned])));
  }

  /** Resolves when every run has ended. */
  async idle(): Promise<void> {
    await Promise.all([...this.#names.keys()].map((turn) => turn.done));
  }
}
