/** Maximum time to answer a prompt after a cancel, in ms, even if the run has not ended. */
const CANCEL_TIMEOUT_MS = 700;

/** A promise with its resolve function. (Node 20 has no `Promise.withResolvers`.) */
class Deferred {
  resolve: () => void = () => undefined;
  readonly promise = new Promise<void>((resolve) => (this.resolve = resolve));
}

/** A `session/prompt` request, from its arrival to the end of its run. */
export class Turn {
  readonly #controller = new AbortController();
  readonly #runEnd = new Deferred();
  readonly #cancelTimeout = new Deferred();
  #timer: NodeJS.Timeout | undefined;
  /** Whether the prompt was answered: no update may follow. */
  isAnswered = false;

  /** Aborts when the prompt is cancelled. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get isCancelled(): boolean {
    return this.#controller.signal.aborted;
  }

  /** Resolves when the run has ended. */
  get runEnd(): Promise<void> {
    return this.#runEnd.promise;
  }

  /** Resolves `CANCEL_TIMEOUT_MS` after a cancel, unless the run has ended: the prompt must then be answered. */
  get cancelTimeout(): Promise<void> {
    return this.#cancelTimeout.promise;
  }

  cancel(): void {
    if (this.isCancelled) return;
    this.#controller.abort();
    this.#timer = setTimeout(() => this.#cancelTimeout.resolve(), CANCEL_TIMEOUT_MS);
  }

  /** Marks the run as ended. */
  end(): void {
    clearTimeout(this.#timer);
    this.#runEnd.resolve();
  }
}

/** Active prompts by every id of their session. */
export class Turns {
  readonly #turnsById = new Map<string, Turn>();
  readonly #idsByTurn = new Map<Turn, Set<string>>();

  get(sessionId: string): Turn | undefined {
    return this.#turnsById.get(sessionId);
  }

  /** Creates a turn. It replaces a cancelled turn of the session that has not ended yet. */
  begin(sessionId: string): Turn {
    const turn = new Turn();
    this.#idsByTurn.set(turn, new Set([sessionId]));
    this.#turnsById.set(sessionId, turn);
    return turn;
  }

  /** Registers a turn under more ids of its session. An id that another turn has stays with that turn. */
  addIds(turn: Turn, ids: readonly string[]): void {
    for (const id of ids) {
      if (id === "" || this.#turnsById.has(id)) continue;
      this.#turnsById.set(id, turn);
      this.#idsByTurn.get(turn)?.add(id);
    }
  }

  /** Removes a turn whose run has ended. */
  end(turn: Turn): void {
    for (const id of this.#idsByTurn.get(turn) ?? []) if (this.#turnsById.get(id) === turn) this.#turnsById.delete(id);
    this.#idsByTurn.delete(turn);
    turn.end();
  }

  /**
   * Cancels the turns of these ids that `matches` selects. Resolves when each run has ended, or its cancel timeout has
   * elapsed.
   */
  async stop(sessionIds: readonly string[], matches: (turn: Turn) => boolean): Promise<void> {
    const sessionTurns = sessionIds.map((id) => this.#turnsById.get(id)).filter((turn) => turn !== undefined);
    const turns = new Set(sessionTurns.filter(matches));
    for (const turn of turns) turn.cancel();
    await Promise.all([...turns].map((turn) => Promise.race([turn.runEnd, turn.cancelTimeout])));
  }

  /** Resolves when every run has ended. */
  async waitForIdle(): Promise<void> {
    await Promise.all([...this.#idsByTurn.keys()].map((turn) => turn.runEnd));
  }
}
