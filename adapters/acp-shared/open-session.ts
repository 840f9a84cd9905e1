import type { Run, Session } from "gantry";
import { NO_RESOURCES, type ClientResources } from "./client-resources.js";
import type { ReportedCalls } from "./reported-calls.js";
import type { AvailableCommand, SelectOption } from "./wire.js";

/** A run that this client prompted. The prompt request sends its updates. */
export interface OwnRun {
  readonly run: Run;
  readonly reportedCalls: ReportedCalls;
  /** Whether the prompt request sends the run's questions to the client. */
  readonly asksClient: boolean;
}

/** Messages with `seq` above `afterSeq`, up to and including `lastSeq`. */
interface SeqRange {
  afterSeq: number;
  lastSeq: number;
}

/** State of one session that a client has open. */
export class OpenSession {
  /** Session id as the client knows it. */
  id: string;
  /** Working folder of the tools. Undefined: the session's own folder. */
  cwd: string | undefined;
  /** MCP servers, folders and instructions for prompts of this client. */
  clientResources: ClientResources = NO_RESOURCES;
  /** Id of the chain's first session. */
  readonly root: string;
  /** Title and settings that the client knows. */
  reportedState: Pick<Session, "title" | "mode" | "provider" | "model" | "reasoningEffort">;
  /** Number of changes of the session in this process. */
  changeCount = 0;
  /** Whether the client is setting an option and still waits for the answer. */
  hasPendingSetting = false;
  /** Config options as last sent to the client. */
  reportedOptions: readonly SelectOption[] = [];
  /** Slash commands as last sent to the client; undefined if none were sent yet. */
  reportedCommands: readonly AvailableCommand[] | undefined;
  /** The watch for runs of other clients; undefined before it starts. */
  watch: { end(): void; readonly isFollowing: boolean } | undefined;
  /** Starts the watch. Undefined if the watch was started without a delay. */
  watchTimer: NodeJS.Timeout | undefined;
  /** Whether the watch could not be created. */
  hasWatchFailed = false;
  /** The last `seq` that the client has or does not need; undefined until a watch or prompt starts. */
  reportedSeq: number | undefined;
  /** Resolves when a starting prompt has its run or has failed; undefined if no prompt is starting. */
  promptStart: Promise<void> | undefined;
  /** The client's running prompt; undefined if there is none. */
  ownRun: OwnRun | undefined;
  /** Resolves when `ownRun` has ended or another run has replaced it. */
  #ownRunEnd: { promise: Promise<void>; resolve: () => void } | undefined;
  /** All runs that this client has prompted, by id, and whether their prompt sends their questions to the client. */
  readonly #asksClientByOwnRunId = new Map<string, boolean>();
  /** Messages of ended prompts that the watch has not reached yet. */
  #ownRanges: SeqRange[] = [];

  constructor(session: Session, id: string) {
    this.root = session.chain.root;
    this.reportedState = session;
    this.id = id;
  }

  /** Resets the state when the client opens the session again, with or without its history. */
  reset(session: Session, cwd: string, resources: ClientResources): void {
    this.cwd = cwd;
    this.clientResources = resources;
    this.reportedState = session;
    this.reportedOptions = [];
    this.reportedCommands = undefined;
    this.reportedSeq = undefined;
    this.watch?.end();
    this.watch = undefined;
    this.hasWatchFailed = false;
  }

  /** Marks a prompt of the client as starting. Call the returned function when the prompt has started or failed. */
  beginPromptStart(): () => void {
    let settle = (): void => undefined;
    const promptStart = new Promise<void>((resolve) => (settle = resolve));
    this.promptStart = promptStart;
    return () => {
      if (this.promptStart === promptStart) this.promptStart = undefined;
      settle();
    };
  }

  setOwnRun(ownRun: OwnRun): void {
    this.#ownRunEnd?.resolve();
    let resolve = (): void => undefined;
    this.#ownRunEnd = { promise: new Promise<void>((resolveEnd) => (resolve = resolveEnd)), resolve };
    this.ownRun = ownRun;
    this.#asksClientByOwnRunId.set(ownRun.run.id, ownRun.asksClient);
    this.reportedSeq ??= ownRun.run.after;
  }

  /**
   * Resolves when the watch has something to do again; undefined if it has now. Until a prompt has started, it is unknown
   * whether the next messages belong to it. Then the prompt sends all of its messages and questions.
   */
  get watchPause(): Promise<void> | undefined {
    return this.promptStart ?? (this.ownRun?.asksClient ? this.#ownRunEnd?.promise : undefined);
  }

  /** Records the messages of an ended prompt. */
  endOwnRun({ run }: OwnRun): void {
    this.#ownRanges.push({ afterSeq: run.after, lastSeq: run.lastSeq });
    if (this.ownRun?.run !== run) return;
    this.ownRun = undefined;
    this.#ownRunEnd?.resolve();
  }

  /** Whether the client has prompted this session. */
  get hasOwnRuns(): boolean {
    return this.#asksClientByOwnRunId.size > 0;
  }

  /** Whether the client prompted this run. */
  isOwnRun(runId: string): boolean {
    return this.#asksClientByOwnRunId.has(runId);
  }

  /** Whether the client prompted this run and the prompt sends the run's questions to the client. */
  isAskedByPrompt(runId: string): boolean {
    return this.#asksClientByOwnRunId.get(runId) === true;
  }

  /** Whether a prompt of this client sends the message with this `seq`. */
  isOwnMessage(seq: number): boolean {
    const { run } = this.ownRun ?? {};
    if (run && seq > run.after && seq <= run.lastSeq) return true;
    return this.#ownRanges.some(({ afterSeq, lastSeq }) => seq > afterSeq && seq <= lastSeq);
  }

  /**
   * Returns the `seq` of the last own message that follows `seq` without a gap. Removes the ranges up to this message.
   */
  skipOwnMessages(seq: number): number {
    let endSeq = seq;
    for (const { afterSeq, lastSeq } of this.#ownRanges) if (afterSeq <= endSeq) endSeq = Math.max(endSeq, lastSeq);
    this.#ownRanges = this.#ownRanges.filter(({ lastSeq }) => lastSeq > endSeq);
    return endSeq;
  }
}
