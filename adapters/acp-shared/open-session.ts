import type { Run, Session } from "gantry";
import { NO_RESOURCES, type ClientResources } from "./client-resources.js";
import type { ReportedCalls } from "./reported-calls.js";
import type { AvailableCommand, SelectOption } from "./wire.js";

/** A run that this client prompted. The prompt request sends its updates. */
export interface OwnRun {
  readonly run: Run;
  readonly reportedCalls: ReportedCalls;
  /** Whether the prompt request sends its questions to the client. */
  readonly asksClient: boolean;
}

/** Messages with `seq` above `after`, up to and including `until`. */
interface Range {
  after: number;
  until: number;
}

/** State of one session that a client has open. */
export class OpenSession {
  /** Session id as the client knows it. */
  id: string;
  /** Working folder of the tools; undefined: the session's own folder. */
  cwd: string | undefined;
  /** MCP servers and folders for prompts of this client. */
  clientResources: ClientResources = NO_RESOURCES;
  /** Id of the chain's first session. */
  readonly root: string;
  /** Title and settings that the client knows. */
  reportedState: Pick<Session, "title" | "mode" | "provider" | "model" | "reasoningEffort">;
  /** Number of changes of the session in this process. */
  changeCount = 0;
  /** Whether the client is setting an option and still waits for the answer. */
  isSetting = false;
  /** Config options as last sent to the client. */
  options: readonly SelectOption[] = [];
  /** Slash commands as last sent to the client; undefined if none were sent yet. */
  commands: readonly AvailableCommand[] | undefined;
  /** The watch for runs of other clients; undefined before it starts. */
  watch: { end(): void } | undefined;
  /** The last `seq` that need not be sent to the client; undefined until it is known. */
  reportedSeq: number | undefined;
  /** Settles when the messages of a new prompt are known; undefined if no prompt is starting. */
  starting: Promise<void> | undefined;
  /** The client's running prompt; undefined if there is none. */
  ownRun: OwnRun | undefined;
  readonly #ids = new Set<string>();
  #ranges: Range[] = [];

  constructor(session: Session, id: string) {
    this.root = session.chain.root;
    this.reportedState = session;
    this.id = id;
  }

  /** Resets the state when the client opens the session again, with or without its history. */
  reopened(session: Session, cwd: string, resources: ClientResources): void {
    this.cwd = cwd;
    this.clientResources = resources;
    this.reportedState = session;
    this.options = [];
    this.commands = undefined;
    this.reportedSeq = undefined;
    this.watch?.end();
    this.watch = undefined;
  }

  /** Marks a prompt of the client as starting. Call the returned function when it has started or failed. */
  beginStart(): () => void {
    let settle = (): void => undefined;
    const starting = new Promise<void>((resolve) => (settle = resolve));
    this.starting = starting;
    return () => {
      if (this.starting === starting) this.starting = undefined;
      settle();
    };
  }

  began(ownRun: OwnRun): void {
    this.ownRun = ownRun;
    this.#ids.add(ownRun.run.id);
    this.reportedSeq ??= ownRun.run.after;
  }

  ended({ run }: OwnRun): void {
    if (this.ownRun?.run === run) this.ownRun = undefined;
    this.#ranges.push({ after: run.after, until: run.lastSeq });
  }

  /** Whether the client prompted this run. */
  isOwn(runId: string): boolean {
    return this.#ids.has(runId);
  }

  /** Whether a prompt of this client sends the message with this `seq`. */
  hasOwn(seq: number): boolean {
    const { run } = this.ownRun ?? {};
    if (run && seq > run.after && seq <= run.lastSeq) return true;
    return this.#ranges.some(({ after, until }) => seq > after && seq <= until);
  }

  /** The end of the client's own messages that follow `seq` without a gap. Removes the ranges up to it. */
  skipOwn(seq: number): number {
    let last = seq;
    for (const { after, until } of this.#ranges) if (after <= last) last = Math.max(last, until);
    this.#ranges = this.#ranges.filter(({ until }) => until > last);
    return last;
  }
}
