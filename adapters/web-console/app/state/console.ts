import { computed, effect, signal, untracked, type ReadonlySignal, type Signal } from "@preact/signals";
import {
  UnauthorizedError,
  type ApiAsk,
  type Effort,
  type GantryClient,
  type Mode,
  type ApiModel,
  type ApiRunInput,
} from "gantry/client";
import { announce } from "./announce.js";
import { WatchedSession } from "./open-session.js";
import { addressRoute, type Route } from "./router.js";
import { SessionBrowser } from "./session-list.js";
import { preferredTheme, type Theme } from "./theme.js";
import { errorMessage } from "./words.js";

/** A message that is shown at the edge of the page for a while. */
export interface Notice {
  id: number;
  kind: "error" | "info";
  text: string;
}

/** Settings of a new session. */
export interface Draft {
  model: Signal<{ provider: string; model: string } | undefined>;
  effort: Signal<Effort>;
  mode: Signal<Mode | "">;
  projectDir: Signal<string>;
}

/** A file that is sent with a prompt; `data` is base64. */
export interface PromptFile {
  filename: string;
  media_type: string;
  data: string;
}

/** Polling interval of the session list and of open questions, in ms. */
const POLL_INTERVAL_MS = 10_000;
/** Time that a notice is shown, in ms. */
const NOTICE_MS = 8000;

/** State of the whole page. Each page has one instance. */
export class Console {
  readonly client: GantryClient;
  readonly list: SessionBrowser;
  readonly draft: Draft = { model: signal(undefined), effort: signal(""), mode: signal(""), projectDir: signal("") };
  readonly panel = signal<"" | "spending" | "help">("");
  readonly drawer = signal(false);
  readonly theme: Signal<Theme> = signal(preferredTheme());
  /** Whether the server rejected this page's credentials. */
  readonly locked = signal(false);
  readonly #models = signal<readonly ApiModel[] | undefined>(undefined);
  readonly #notices = signal<readonly Notice[]>([]);
  readonly #session = signal<WatchedSession | undefined>(undefined);
  readonly #asks = signal<readonly ApiAsk[]>([]);
  /** Open questions of sessions other than the shown one, newest first. */
  readonly asksElsewhere: ReadonlySignal<readonly ApiAsk[]> = computed(() => {
    const open = this.#session.value;
    const ids = [open?.id, open?.info.value?.id];
    return this.#asks.value.filter(({ session_id: id }) => !ids.includes(id));
  });
  readonly #address = addressRoute();
  readonly #ends: (() => void)[] = [];
  #noticeIds = 0;
  /** The last prompt request without an answer, and its idempotency key. */
  #unanswered: { requestJson: string; key: string } | undefined;

  constructor(client: GantryClient) {
    this.client = client;
    this.list = new SessionBrowser(client, (error) => this.fail(error));
  }

  get route(): ReadonlySignal<Route> {
    return this.#address.route;
  }

  /** The open session; undefined on other routes. */
  get session(): ReadonlySignal<WatchedSession | undefined> {
    return this.#session;
  }

  /** Undefined until the models are loaded. */
  get models(): ReadonlySignal<readonly ApiModel[] | undefined> {
    return this.#models;
  }

  get notices(): ReadonlySignal<readonly Notice[]> {
    return this.#notices;
  }

  /** Starts following the address, and loads the list and the models. */
  start(): void {
    this.#ends.push(
      effect(() => {
        const route = this.route.value;
        untracked(() => this.#show(route));
        void this.#loadAsks();
      }),
    );
    const look = setInterval(() => {
      if (!this.#notLocked()) return;
      void this.#loadAsks();
      if (document.visibilityState === "visible") void this.list.refresh({ quiet: true });
    }, POLL_INTERVAL_MS);
    this.#ends.push(() => clearInterval(look));
    void this.list.refresh();
    void this.loadModels();
  }

  /** Stops polling and closes the open session. */
  stop(): void {
    for (const end of this.#ends.splice(0)) end();
    this.#session.peek()?.close();
  }

  go(route: Route): void {
    this.drawer.value = false;
    this.#address.go(route);
  }

  /** Shows a notice for a while. */
  notify(text: string, kind: Notice["kind"] = "info"): void {
    const same = this.#notices.peek().find((notice) => notice.text === text);
    if (same) this.dismiss(same.id);
    const id = (this.#noticeIds += 1);
    this.#notices.value = [...this.#notices.peek(), { id, kind, text }].slice(-4);
    setTimeout(() => this.dismiss(id), NOTICE_MS);
  }

  /** Shows an error for a while, worded for users. */
  fail(error: unknown): void {
    if (error instanceof UnauthorizedError) this.locked.value = true;
    else this.notify(errorMessage(error), "error");
  }

  dismiss(id: number): void {
    this.#notices.value = this.#notices.peek().filter((notice) => notice.id !== id);
  }

  async loadModels(): Promise<void> {
    try {
      this.#models.value = await this.client.models();
    } catch (error) {
      this.fail(error);
    }
  }

  /** Sends a prompt to the open session, or to a new one with the draft's settings. Throws the client's errors. */
  async prompt(
    message: string,
    { files, attachments }: { files?: string[]; attachments?: PromptFile[] } = {},
  ): Promise<void> {
    const open = this.#session.peek();
    const { model, effort, mode, projectDir } = this.draft;
    const request: ApiRunInput & { attachments?: PromptFile[]; reasoning_effort?: Effort } = {
      message,
      // This page opens the session when it has started.
      can_answer: true,
      ...(message.startsWith("/") && { commands: true }),
      ...(files?.length && { files }),
      ...(attachments?.length && { attachments }),
      ...(open
        ? { session_id: open.id, queue: true }
        : {
            ...model.peek(),
            ...(effort.peek() && { reasoning_effort: effort.peek() }),
            mode: mode.peek(),
            project_dir: projectDir.peek(),
          }),
    };
    // A retry of an unanswered request uses the same key, so that the server executes it once.
    const requestJson = JSON.stringify(request);
    const { key } = (this.#unanswered =
      this.#unanswered?.requestJson === requestJson ? this.#unanswered : { requestJson, key: newIdempotencyKey() });
    const begun = await this.client.start(request, { key });
    this.#unanswered = undefined;
    if (!open) this.go({ name: "session", id: begun.session_id });
    void this.list.refresh();
  }

  /**
   * Loads open questions. The request also declares that this page can answer, so that they wait even if the page is
   * hidden or shows another session.
   */
  async #loadAsks(): Promise<void> {
    try {
      const previousIds = new Set(this.#asks.peek().map(({ id }) => id));
      this.#asks.value = await this.client.asks.list({ canAnswer: true });
      const [fresh] = this.asksElsewhere.peek().filter(({ id }) => !previousIds.has(id));
      if (fresh) announce(`Another session asks: ${fresh.title}`);
    } catch {
      // The next poll may succeed. The list reports the error.
    }
  }

  #show(route: Route): void {
    const open = this.#session.peek();
    if (route.name === "session" && open?.id === route.id) return;
    // Closed before the next one opens, because browsers limit the connections per host.
    open?.close();
    if (this.panel.peek() === "spending") this.panel.value = "";
    this.#session.value =
      route.name === "session"
        ? new WatchedSession(route.id, {
            client: this.client,
            fail: (error) => this.fail(error),
            state: ({ session, run }) => {
              const { id, state } = run ?? {};
              const under = id !== undefined && (state === "queued" || state === "running" || state === "waiting");
              this.list.update({ ...session, run: under ? { id, state } : undefined });
            },
            gone: (id) => this.list.drop(id),
          })
        : undefined;
  }

  #notLocked(): boolean {
    return !this.locked.peek();
  }
}

/** A random idempotency key. `crypto.randomUUID` does not exist on plain HTTP, except on loopback. */
function newIdempotencyKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
