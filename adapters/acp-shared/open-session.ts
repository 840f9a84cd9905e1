import type { Run, Session } from "gantry";
import { NOTHING, type Brought } from "./client-resources.js";
import type { Shown } from "./reported-calls.js";
import type { AvailableCommand, SelectOption } from "./wire.js";

/** A run that the client prompted itself: its prompt tells it. */
export interface OwnRun {
  readonly run: Run;
  readonly shown: Shown;
  /** Whether its questions come by the prompt. */
  readonly asks: boolean;
}

/** Messages behind `after`, up to `until`. */
interface Range {
  after: number;
  until: number;
}

/** One session as one client has it open. */
export class OpenSession {
  /** The client's own word for it. */
  id: string;
  /** Where its tools run; undefined: the session's own folder. */
  cwd: string | undefined;
  /** Servers of tools and folders, for the client's own prompts. */
  brought: Brought = NOTHING;
  /** The chain's first session. */
  readonly root: string;
  /** As the client knows it. */
  told: Pick<Session, "title" | "mode" | "provider" | "model" | "reasoningEffort">;
  /** Counts what became another in this process. */
  changes = 0;
  /** Whether the client is setting something of it, and has the answer to come. */
  isSetting = false;
  /** As the client was told of them last. */
  options: readonly SelectOption[] = [];
  /** As the client was told of them last; undefined: it was not. */
  commands: readonly AvailableCommand[] | undefined;
  /** Sees what others say in it. */
  watching: { end(): void } | undefined;
  /** The last `seq` that the client needs no telling of; undefined: not known yet. */
  since: number | undefined;
  /** Settles when it is known which messages are those of a prompt that has come. */
  starting: Promise<void> | undefined;
  /** Undefined unless a prompt of the client runs. */
  own: OwnRun | undefined;
  readonly #ids = new Set<string>();
  #ranges: Range[] = [];

  constructor(session: Session, id: string) {
    this.root = session.chain.root;
    this.told = session;
    this.id = id;
  }

  /** It is opened anew, with its history or without: what was known is void. */
  reopened(session: Session, cwd: string, brought: Brought): void {
    this.cwd = cwd;
    this.brought = brought;
    this.told = session;
    this.options = [];
    this.commands = undefined;
    this.since = undefined;
    this.watching?.end();
    this.watching = undefined;
  }

  /** A prompt of the client is about to begin; what is returned says that it has, or never will. */
  starts(): () => void {
    let settle = (): void => undefined;
    const starting = new Promise<void>((resolve) => (settle = resolve));
    this.starting = starting;
    return () => {
      if (this.starting === starting) this.starting = undefined;
      settle();
    };
  }

  began(own: OwnRun): void {
    this.own = own;
    this.#ids.add(own.run.id);
    this.since ??= own.run.after;
  }

  ended({ run }: OwnRun): void {
    if (this.own?.run === run) this.own = undefined;
    this.#ranges.push({ after: run.after, until: run.lastSeq });
  }

  /** Whether the client prompted this run. */
  isOwn(runId: string): boolean {
    return this.#ids.has(runId);
  }

  /** Whether a message is one that a prompt of the client tells. */
  hasOwn(seq: number): boolean {
    const { run } = this.own ?? {};
    if (run && seq > run.after && seq <= run.lastSeq) return true;
    return this.#ranges.some(({ after, until }) => seq > after && seq <= until);
  }

  /** The last of its own messages that follow on `seq` without a gap; those up to there are forgotten. */
  pastOwn(seq: number): number {
    let last = seq;
    for (const { after, until } of this.#ranges) if (after <= last) last = Math.max(last, until);
    this.#ranges = this.#ranges.filter(({ until }) => until > last);
    return last;
  }
}
