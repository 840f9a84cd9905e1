import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { hasCode, type Agent, type Logger, type Session } from "gantry";
import { configOptions } from "./config-options.js";
import type { RequestContext } from "./dispatcher.js";
import type { OpenSession } from "./open-session.js";
import { visible } from "./printable-line.js";
import type { SelectOption, SessionUpdate } from "./wire.js";

/** So long after a session was opened, in ms, lists of models are asked for. */
const SETTLED_MS = 100;

const CHOICE = ["provider", "model", "reasoningEffort"] as const;
const FIELDS = ["title", "mode", ...CHOICE] as const;

export interface NewsParts {
  agent: Agent;
  logger: Logger;
  /** Whether the client is offered modes. */
  modes: () => boolean;
  update(sessionId: string, update: SessionUpdate): void;
  /** Aborted when the client is gone. */
  closing: AbortSignal;
}

/** What a client is told of a session beside its messages: title, mode, options. Each once, whoever changed it. */
export class SessionNews {
  readonly #parts: NewsParts;

  constructor(parts: NewsParts) {
    this.#parts = parts;
  }

  /** A watch found the session so, a while ago perhaps: it is looked at again before anything is told of it. Never rejects. */
  async found(open: OpenSession, session: Session): Promise<void> {
    if (FIELDS.every((field) => session[field] === open.told[field])) return;
    const { agent, logger } = this.#parts;
    const { changes } = open;
    try {
      const now = await agent.sessions.get(open.root);
      // What was changed here meanwhile is newer.
      if (now && open.changes === changes) this.changed(open, now);
    } catch (error) {
      logger.warn("a session could not be read", { session: open.root, error });
    }
  }

  /** The session as it is now. */
  changed(open: OpenSession, session: Session): void {
    const { told } = open;
    open.changes += 1;
    open.told = session;
    if (session.title !== told.title)
      this.#parts.update(open.id, {
        sessionUpdate: "session_info_update",
        title: visible(session.title),
        updatedAt: session.updatedAt,
      });
    const isMoved = session.mode !== told.mode && this.#parts.modes();
    if (isMoved) this.#parts.update(open.id, { sessionUpdate: "current_mode_update", currentModeId: session.mode });
    // A first run only says which of what is offered it took.
    const isOther = told.model !== "" && CHOICE.some((field) => session[field] !== told[field]);
    if ((isMoved || isOther) && !open.isSetting) void this.show(open, 0);
  }

  /** Have the client itself set something: its answer tells the options. `mode`: the one that it knows of by then. */
  async answering(
    open: OpenSession | undefined,
    set: () => Promise<Session>,
    mode?: Session["mode"],
  ): Promise<Session> {
    if (!open) return set();
    open.isSetting = true;
    if (mode) open.told = { ...open.told, mode };
    try {
      return await set();
    } finally {
      open.isSetting = false;
    }
  }

  /** The options of a session that is opened; what is heard of models later comes as an update. */
  async options(open: OpenSession, session: Session, context: RequestContext): Promise<readonly SelectOption[]> {
    const { options, complete } = await configOptions(this.#options, session, context.signal);
    open.options = options;
    if (!complete) context.after(() => void this.show(open));
    return options;
  }

  /** Tell the options, where they are others than those that were told last. Never rejects. */
  async show(open: OpenSession, afterMs = SETTLED_MS): Promise<void> {
    const { agent, logger, closing, update } = this.#parts;
    try {
      // An editor's first prompt often follows at once, and goes before.
      if (afterMs > 0) await sleep(afterMs, undefined, { signal: closing });
      // As it is by then.
      const session = await agent.sessions.get(open.root);
      if (!session) return;
      const { options } = await configOptions(this.#options, session, closing, afterMs > 0);
      if (options.length === 0 || isDeepStrictEqual(options, open.options) || closing.aborted) return;
      open.options = options;
      update(open.id, { sessionUpdate: "config_option_update", configOptions: [...options] });
    } catch (error) {
      if (!closing.aborted) logger.warn("no options to show", { error });
    }
  }

  /** Tell what can be said by a slash, where that is other than what was told last. Never rejects. */
  async commands(open: OpenSession): Promise<void> {
    const { agent, logger, closing, modes, update } = this.#parts;
    // The letter knows no such update.
    if (!modes()) return;
    try {
      const { servers } = open.brought;
      const all = await agent.commands({ sessionId: open.root, projectDir: open.cwd, servers });
      const commands = all.map(({ name, description, hint }) => ({
        name,
        description: visible(description),
        ...(hint !== "" && { input: { hint: visible(hint) } }),
      }));
      if (closing.aborted || isDeepStrictEqual(commands, open.commands)) return;
      open.commands = commands;
      update(open.id, { sessionUpdate: "available_commands_update", availableCommands: commands });
    } catch (error) {
      // A session that is deleted meanwhile has none.
      if (!closing.aborted && !hasCode(error, "session_not_found")) logger.warn("no commands to show", { error });
    }
  }

  get #options() {
    const { agent, logger, modes } = this.#parts;
    return { agent, logger, modes: modes() };
  }
}
