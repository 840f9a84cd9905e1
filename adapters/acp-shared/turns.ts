/** After a cancel a prompt is answered within so long, in ms, whatever the model or a tool does. */
const ANSWER_MS = 700;

/** A promise and its end. (Node 20 has no `Promise.withResolvers`.) */
class Gate {
  resolve: () => void = () => undefined;
  readonly promise = new Promise<void>((resolve) => (this.resolve = resolve));
}

/** One `session/prompt`, from its arrival until its run has ended. */
export class Turn {
  readonly #cancel = new AbortController();
  readonly #settled = new Gate();
  readonly #abandoned = new Gate();
  #timer: NodeJS.Timeout | undefined;
  /** Whether its result was sent: nothing may follow. */
  answered = false;

  /** Aborted by a cancel. */
  get signal(): AbortSignal {
    return this.#cancel.signal;
  }

  get cancelled(): boolean {
    return this.#cancel.signal.aborted;
  }

  /** Resolves when its run has ended. */
  get done(): Promise<void> {
    return this.#settled.promise;
  }

  /** Resolves when the client has waited long enough for a cancelled run to end. */
  get abandoned(): Promise<void> {
    return this.#abandoned.promise;
  }

  cancel(): void {
    if (this.cancelled) return;
    this.#cancel.abort();
    this.#timer = setTimeout(() => this.#abandoned.resolve(), ANSWER_MS);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#settled.resolve();
  }
}

/** The prompts under way, by every id that their session goes by. */
export class Turns {
  readonly #byId = new Map<string, Turn>();
  readonly #names = new Map<Turn, Set<string>>();

  get(sessionId: string): Turn | undefined {
    return this.#byId.get(sessionId);
  }

  /** A new turn; a cancelled one that is still winding down gives its place to it. */
  begin(sessionId: string): Turn {
    const turn = new Turn();
    this.#names.set(turn, new Set([sessionId]));
    this.#byId.set(sessionId, turn);
    return turn;
  }

  /** The same session by its other names; whoever has them keeps them. */
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

  /** Cancel the prompt of a session, if there is one and `which` says so, and wait until its run has ended or time is up. */
  async stop(sessionIds: readonly string[], which: (turn: Turn) => boolean): Promise<void> {
    const found = sessionIds.map((id) => this.#byId.get(id)).filter((turn) => turn !== undefined);
    const turns = new Set(found.filter(which));
    for (const turn of turns) turn.cancel();
    await Promise.all([...turns].map((turn) => Promise.race([turn.done, turn.abandoned])));
  }

  /** Resolves when every run has ended. */
  async idle(): Promise<void> {
    await Promise.all([...this.#names.keys()].map((turn) => turn.done));
  }
}
