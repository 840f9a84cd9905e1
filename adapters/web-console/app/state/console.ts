import { computed, effect, signal, untracked, type ReadonlySignal, type Signal } from "@preact/signals";
import {
  UnauthorizedError,
  type ApiAsk,
  type Effort,
  type GantryClient,
  type McpServersClient,
  type Mode,
  type ApiModel,
  type ApiRunInput,
} from "gantry/client";
import { Drafts } from "../drafts.js";
import { announce } from "./announce.js";
import { ConsoleOutbox } from "./console-outbox.js";
import { createRandomId } from "./random-id.js";
import { WatchedSession } from "./watched-session.js";
import type { LiveHandlers, LiveSource } from "./live-source.js";
import { createRouter, type Route } from "./router.js";
import { expandPastes } from "./pasted-texts.js";
import { Pins } from "./pins.js";
import { SessionBrowser } from "./session-browser.js";
import { readPreferredTheme, type Theme } from "./theme.js";
import { toErrorMessage } from "./error-message.js";

/** A message that the page shows for a few seconds. */
export interface Notice {
  id: number;
  kind: "error" | "info";
  text: string;
}

/** Settings of a new session; undefined or `""` leaves the choice to the server. */
export interface NewSessionSettings {
  model: Signal<{ provider: string; model: string } | undefined>;
  effort: Signal<Effort>;
  mode: Signal<Mode | "">;
  projectDir: Signal<string>;
  /** Whether the session works in a Git worktree of the folder. */
  worktree: Signal<boolean>;
}

/** A file that is sent with a prompt; `data` is base64. */
export interface PromptFile {
  filename: string;
  media_type: string;
  data: string;
}

/** Time that a notice is shown, in ms. */
const NOTICE_DURATION_MS = 8_000;
/** Maximum number of notices that are shown at once. */
const MAX_NOTICES = 4;

/** State of the whole page. Each page has one instance. */
export class Console {
  readonly client: GantryClient;
  readonly mcpServers: McpServersClient;
  readonly outbox = new ConsoleOutbox();
  readonly drafts = new Drafts((sessionId, text) => this.outbox.addHeld(sessionId, expandPastes(sessionId, text)));
  readonly sessionBrowser: SessionBrowser;
  readonly pins: Pins;
  readonly newSessionSettings: NewSessionSettings = {
    model: signal(undefined),
    effort: signal(""),
    mode: signal(""),
    projectDir: signal(""),
    worktree: signal(false),
  };
  /** Text of the search in messages. */
  readonly messageSearchText = signal("");
  /** `""` if no panel is open. */
  readonly openPanel = signal<"" | "spending" | "conversation" | "help" | "palette">("");
  /** Whether the session list covers the page on a narrow screen. */
  readonly isDrawerOpen = signal(false);
  readonly theme: Signal<Theme> = signal(readPreferredTheme());
  /** Whether the server rejected this page's credentials. */
  readonly isLocked = signal(false);
  readonly #models = signal<readonly ApiModel[] | undefined>(undefined);
  readonly #notices = signal<readonly Notice[]>([]);
  readonly #session = signal<WatchedSession | undefined>(undefined);
  readonly #asks = signal<readonly ApiAsk[]>([]);
  /** Open questions of sessions other than the shown one, newest first. */
  readonly asksOfOtherSessions: ReadonlySignal<readonly ApiAsk[]> = computed(() => {
    const session = this.#session.value;
    const ids = [session?.id, session?.info.value?.id];
    return this.#asks.value.filter(({ session_id: id }) => !ids.includes(id));
  });
  /** Open questions of all sessions, newest first. The stream of the open session updates its questions at once. */
  readonly openAsks: ReadonlySignal<readonly ApiAsk[]> = computed(() => {
    const session = this.#session.value;
    if (!session?.info.value) return this.#asks.value;
    return [...session.asks.value, ...this.asksOfOtherSessions.value].sort(compareByCreation);
  });
  readonly #events: LiveSource;
  readonly #router = createRouter();
  readonly #cleanups: (() => void)[] = [];
  #lastNoticeId = 0;
  /** The last prompt request without an answer, and its idempotency key. */
  #unansweredRequest: { requestJson: string; key: string } | undefined;

  /** `mcpServers`: with the options of `client`. `openEvents` connects to the server's events. */
  constructor(client: GantryClient, mcpServers: McpServersClient, openEvents: (handlers: LiveHandlers) => LiveSource) {
    this.client = client;
    this.mcpServers = mcpServers;
    this.sessionBrowser = new SessionBrowser(client, (error) => this.reportError(error));
    this.pins = new Pins(client, this.sessionBrowser.sessions);
    this.#events = openEvents({
      onAsks: (asks) => this.#showAsks(asks),
      onSession: (session) => this.sessionBrowser.apply(session),
      onSessionRemoved: (id) => this.sessionBrowser.removeFromList(id),
      onConnection: (state, error) => {
        // The events contain the changes since the connection was opened.
        if (state === "open") void this.sessionBrowser.refresh({ quiet: true });
        if (error instanceof UnauthorizedError) this.reportError(error);
      },
    });
  }

  get route(): ReadonlySignal<Route> {
    return this.#router.route;
  }

  /** The open session; undefined on other routes. */
  get session(): ReadonlySignal<WatchedSession | undefined> {
    return this.#session;
  }

  /** Available models; undefined until they are loaded. */
  get models(): ReadonlySignal<readonly ApiModel[] | undefined> {
    return this.#models;
  }

  get notices(): ReadonlySignal<readonly Notice[]> {
    return this.#notices;
  }

  /** Shows the view of the page's address. Loads the session list and the models. */
  start(): void {
    this.#cleanups.push(
      effect(() => {
        const route = this.route.value;
        untracked(() => this.#showRoute(route));
      }),
    );
    this.#cleanups.push(this.pins.start(computed(() => this.sessionBrowser.total.value !== undefined)));
    void this.sessionBrowser.refresh();
    void this.loadModels();
    void this.#repeatNewSessionRequests();
  }

  /** Ends the connection to the server's events and closes the open session. */
  stop(): void {
    for (const cleanUp of this.#cleanups.splice(0)) cleanUp();
    this.#session.peek()?.close();
    this.#events.close();
  }

  navigate(route: Route): void {
    this.isDrawerOpen.value = false;
    this.#router.navigate(route);
  }

  /** Shows a notice for `NOTICE_DURATION_MS`. Replaces a notice with the same text. */
  notify(text: string, kind: Notice["kind"] = "info"): void {
    const noticeWithSameText = this.#notices.peek().find((notice) => notice.text === text);
    if (noticeWithSameText) this.dismiss(noticeWithSameText.id);
    const id = (this.#lastNoticeId += 1);
    this.#notices.value = [...this.#notices.peek(), { id, kind, text }].slice(-MAX_NOTICES);
    setTimeout(() => this.dismiss(id), NOTICE_DURATION_MS);
  }

  /** Shows an error as a notice, or locks the page if the server requires a login. */
  reportError(error: unknown): void {
    if (error instanceof UnauthorizedError) this.isLocked.value = true;
    else this.notify(toErrorMessage(error), "error");
  }

  dismiss(id: number): void {
    this.#notices.value = this.#notices.peek().filter((notice) => notice.id !== id);
  }

  async loadModels(): Promise<void> {
    try {
      this.#models.value = await this.client.models();
    } catch (error) {
      this.reportError(error);
    }
  }

  /**
   * Sends a prompt to the open session, or to a new session with `newSessionSettings`. Rejects with the client's
   * errors.
   */
  async sendPrompt(
    message: string,
    {
      files,
      attachments,
      rewind,
    }: { files?: string[]; attachments?: PromptFile[]; rewind?: ApiRunInput["rewind"] } = {},
  ): Promise<void> {
    const session = this.#session.peek();
    const { model, effort, mode, projectDir, worktree } = this.newSessionSettings;
    const request: ApiRunInput & { attachments?: PromptFile[]; reasoning_effort?: Effort } = {
      message,
      // This page opens the session of the run, where the user can answer its questions.
      can_answer: true,
      ...(message.startsWith("/") && { commands: true }),
      ...(files?.length && { files }),
      ...(attachments?.length && { attachments }),
      ...(session
        ? { session_id: session.id, ...(rewind ? { rewind } : { queue: true }) }
        : {
            ...model.peek(),
            ...(effort.peek() && { reasoning_effort: effort.peek() }),
            mode: mode.peek(),
            project_dir: projectDir.peek(),
            ...(worktree.peek() && { worktree: true }),
          }),
    };
    // A retry of an unanswered request uses the same key, so that the server executes it once.
    const requestJson = JSON.stringify(request);
    const { key } = (this.#unansweredRequest =
      this.#unansweredRequest?.requestJson === requestJson
        ? this.#unansweredRequest
        : { requestJson, key: createRandomId() });
    const run = await this.outbox.deliver(
      {
        sessionId: session?.id ?? "",
        kind: "prompt",
        text: message,
        after: session?.outbox.newestSeq ?? 0,
        // Files are too large for the browser's storage.
        ...(!attachments?.length && { request: { body: request, key } }),
      },
      () => this.client.start(request, { key }),
    );
    this.#unansweredRequest = undefined;
    if (!session && run) this.navigate({ name: "session", id: run.session_id });
    void this.sessionBrowser.refresh();
  }

  #showAsks(asks: readonly ApiAsk[]): void {
    const previousIds = new Set(this.#asks.peek().map(({ id }) => id));
    this.#asks.value = asks;
    const [newAsk] = this.asksOfOtherSessions.peek().filter(({ id }) => !previousIds.has(id));
    if (newAsk) announce(`Another session asks: ${newAsk.title}`);
  }

  /** Sends the prompts of new sessions again whose answer a reload has lost. Never rejects. */
  async #repeatNewSessionRequests(): Promise<void> {
    for (const entry of this.outbox.getEntries("").filter((entry) => this.outbox.isAbandoned(entry))) {
      try {
        const run = await this.outbox.repeat(this.client, entry);
        if (run && this.outbox.isOwn(entry) && this.route.peek().name === "new")
          this.navigate({ name: "session", id: run.session_id });
        // A prompt with files cannot be sent again.
        if (!entry.request && this.outbox.take(entry.id)) this.drafts.returnTexts("", [entry.text]);
      } catch {
        this.drafts.returnTexts("", [entry.text]);
      }
    }
  }

  #showRoute(route: Route): void {
    const session = this.#session.peek();
    const sessionId = "id" in route ? route.id : undefined;
    if (sessionId !== undefined && session?.id === sessionId) {
      if (route.name === "session" && route.seq !== undefined) session.jump.toMessage(route.seq);
      return;
    }
    session?.close();
    if (/^(spending|conversation)$/.test(this.openPanel.peek())) this.openPanel.value = "";
    this.#session.value =
      sessionId !== undefined
        ? new WatchedSession(sessionId, {
            client: this.client,
            outbox: this.outbox,
            drafts: this.drafts,
            events: this.#events,
            reportError: (error) => this.reportError(error),
            onState: ({ session, run }) => {
              const { id, state } = run ?? {};
              const activeRun =
                id !== undefined && (state === "queued" || state === "running" || state === "waiting")
                  ? { id, state }
                  : undefined;
              this.sessionBrowser.update({ ...session, run: activeRun });
            },
            onDeleted: (id) => this.sessionBrowser.removeFromList(id),
          })
        : undefined;
    if (route.name === "session" && route.seq !== undefined) this.#session.peek()?.jump.toMessage(route.seq);
  }
}

function compareByCreation(first: ApiAsk, second: ApiAsk): number {
  return first.created_at < second.created_at ? 1 : first.created_at > second.created_at ? -1 : 0;
}
