import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { hasCode, type Agent, type Logger, type Session } from "gantry";
import { configOptions } from "./config-options.js";
import type { RequestContext } from "./dispatcher.js";
import type { OpenSession } from "./open-session.js";
import { escapeInvisible } from "./printable-line.js";
import type { SelectOption, SessionUpdate } from "./wire.js";

/** Delay after a session is opened before models are listed, in ms. */
const OPTIONS_DELAY_MS = 100;

const MODEL_FIELDS = ["provider", "model", "reasoningEffort"] as const;
const FIELDS = ["title", "mode", ...MODEL_FIELDS] as const;

export interface SessionUpdatesParts {
  agent: Agent;
  logger: Logger;
  /** Whether to offer modes to the client. */
  modes: () => boolean;
  update(sessionId: string, update: SessionUpdate): void;
  /** Aborts when the client disconnects. */
  closing: AbortSignal;
}

/** Sends changed titles, modes and options of a session to a client, each once, for changes of any client. */
export class SessionUpdates {
  readonly #parts: SessionUpdatesParts;

  constructor(parts: SessionUpdatesParts) {
    this.#parts = parts;
  }

  /**
   * Handles a session state from a watch, which may be outdated: reads the session again before it sends updates. Never
   * rejects.
   */
  async refresh(open: OpenSession, session: Session): Promise<void> {
    if (FIELDS.every((field) => session[field] === open.reportedState[field])) return;
    const { agent, logger } = this.#parts;
    const { changeCount } = open;
    try {
      const now = await agent.sessions.get(open.root);
      // A change in this process during the read is newer.
      if (now && open.changeCount === changeCount) this.changed(open, now);
    } catch (error) {
      logger.warn("session read failed; the client gets no update", { session: open.root, error });
    }
  }

  /** Handles the current state of a session. */
  changed(open: OpenSession, session: Session): void {
    const { reportedState } = open;
    open.changeCount += 1;
    open.reportedState = session;
    if (session.title !== reportedState.title)
      this.#parts.update(open.id, {
        sessionUpdate: "session_info_update",
        title: escapeInvisible(session.title),
        updatedAt: session.updatedAt,
      });
    const hasNewMode = session.mode !== reportedState.mode && this.#parts.modes();
    if (hasNewMode) this.#parts.update(open.id, { sessionUpdate: "current_mode_update", currentModeId: session.mode });
    // A first run only stores which of the offered models it uses.
    const hasNewModel =
      reportedState.model !== "" && MODEL_FIELDS.some((field) => session[field] !== reportedState[field]);
    if ((hasNewMode || hasNewModel) && !open.isSetting) void this.show(open, 0);
  }

  /**
   * Runs a setting by the client itself, whose answer contains the options. `mode`: the mode that the client then
   * knows.
   */
  async answering(
    open: OpenSession | undefined,
    set: () => Promise<Session>,
    mode?: Session["mode"],
  ): Promise<Session> {
    if (!open) return set();
    open.isSetting = true;
    if (mode) open.reportedState = { ...open.reportedState, mode };
    try {
      return await set();
    } finally {
      open.isSetting = false;
    }
  }

  /** The options of a newly opened session. Models that are found later are sent as an update. */
  async options(open: OpenSession, session: Session, context: RequestContext): Promise<readonly SelectOption[]> {
    const { options, complete } = await configOptions(this.#options, session, context.signal);
    open.options = options;
    if (!complete) context.after(() => void this.show(open));
    return options;
  }

  /** Sends the options if they differ from the last ones sent. Never rejects. */
  async show(open: OpenSession, afterMs = OPTIONS_DELAY_MS): Promise<void> {
    const { agent, logger, closing, update } = this.#parts;
    try {
      // An editor's first prompt often follows at once and has priority.
      if (afterMs > 0) await sleep(afterMs, undefined, { signal: closing });
      // Read after the delay, so that the state is current.
      const session = await agent.sessions.get(open.root);
      if (!session) return;
      const { options } = await configOptions(this.#options, session, closing, afterMs > 0);
      if (options.length === 0 || isDeepStrictEqual(options, open.options) || closing.aborted) return;
      open.options = options;
      update(open.id, { sessionUpdate: "config_option_update", configOptions: [...options] });
    } catch (error) {
      if (!closing.aborted) logger.warn("config options not sent", { error });
    }
  }

  /** Sends the slash commands if they differ from the last ones sent. Never rejects. */
  async commands(open: OpenSession): Promise<void> {
    const { agent, logger, closing, modes, update } = this.#parts;
    // The interface specification has no such update.
    if (!modes()) return;
    try {
      const { servers } = open.clientResources;
      const all = await agent.commands({ sessionId: open.root, projectDir: open.cwd, servers });
      const commands = all.map(({ name, description, hint }) => ({
        name,
        description: escapeInvisible(description),
        ...(hint !== "" && { input: { hint: escapeInvisible(hint) } }),
      }));
      if (closing.aborted || isDeepStrictEqual(commands, open.commands)) return;
      open.commands = commands;
      update(open.id, { sessionUpdate: "available_commands_update", availableCommands: commands });
    } catch (error) {
      // A session that was deleted meanwhile has no commands.
      if (!closing.aborted && !hasCode(error, "session_not_found")) logger.warn("slash commands not sent", { error });
    }
  }

  get #options() {
    const { agent, logger, modes } = this.#parts;
    return { agent, logger, modes: modes() };
  }
}
