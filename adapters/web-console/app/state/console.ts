import { computed, effect, signal, untracked, type ReadonlySignal, type Signal } from "@preact/signals";
import {
  UnauthorizedError,
  type Ask,
  type Effort,
  type GantryClient,
  type Mode,
  type Model,
  type RunInput,
} from "gantry/client";
import { announce } from "./announce.js";
import { OpenSession } from "./open-session.js";
import { addressRoute, type Route } from "./router.js";
import { SessionList } from "./session-list.js";
import { preferredTheme, type Theme } from "./theme.js";
import { wordsOf } from "./words.js";

/** Something that is told at the edge of the page for a while. */
export interface Notice {
  id: number;
  kind: "error" | "info";
  text: string;
}

/** What a new session begins with. */
export interface Draft {
  model: Signal<{ provider: string; model: string } | undefined>;
  effort: Signal<Effort>;
  mode: Signal<Mode | "">;
  projectDir: Signal<string>;
}

/** A file that goes with a prompt; `data` is base64. */
export interface Attachment {
  filename: string;
  media_type: string;
  data: string;
}

/** Milliseconds between two looks at the list and at open questions. */
const LOOK = 10_000;
/** Milliseconds that a notice stays. */
const SHOWN = 8000;

/** All that the page knows. One for each page. */
export class Console {
  readonly client: GantryClient;
  readonly list: SessionList;
  readonly draft: Draft = { model: signal(undefined), effort: signal(""), mode: signal(""), projectDir: signal("") };
  readonly panel = signal<"" | "spending" | "help">("");
  readonly drawer = signal(false);
  readonly theme: Signal<Theme> = signal(preferredTheme());
  /** That the server wants to know who this is, and the page cannot say. */
  readonly locked = signal(false);
  readonly #models = signal<readonly Model[] | undefined>(undefined);
  readonly #notices = signal<readonly Notice[]>([]);
  readonly #session = signal<OpenSession | undefined>(undefined);
  readonly #asks = signal<readonly Ask[]>([]);
  /** Open questions of other sessions than the one that is shown, newest first. */
  readonly asksElsewhere: ReadonlySignal<readonly Ask[]> = computed(() => {
    const open = this.#session.value;
    const ids = [open?.id, open?.info.value?.id];
    return this.#asks.value.filter(({ session_id: id }) => !ids.includes(id));
  });
  readonly #address = addressRoute();
  readonly #ends: (() => void)[] = [];
  #noticeIds = 0;
  /** The prompt that was sent last, until it was answered. */
  #unanswered: { asked: string; key: string } | undefined;

  constructor(client: GantryClient) {
    this.client = client;
    this.list = new SessionList(client, (error) => this.fail(error));
  }

  get route(): ReadonlySignal<Route> {
    return this.#address.route;
  }

  /** The open one; none on other routes. */
  get session(): ReadonlySignal<OpenSession | undefined> {
    return this.#session;
  }

  /** Undefined until they came. */
  get models(): ReadonlySignal<readonly Model[] | undefined> {
    return this.#models;
  }

  get notices(): ReadonlySignal<readonly Notice[]> {
    return this.#notices;
  }

  /** Begin to look: at the address, the list and the models. */
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
    }, LOOK);
    this.#ends.push(() => clearInterval(look));
    void this.list.refresh();
    void this.loadModels();
  }

  /** Nobody looks any more: nothing is asked for. */
  stop(): void {
    for (const end of this.#ends.splice(0)) end();
    this.#session.peek()?.close();
  }

  go(route: Route): void {
    this.drawer.value = false;
    this.#address.go(route);
  }

  /** Show a text for a while. */
  tell(text: string, kind: Notice["kind"] = "info"): void {
    const same = this.#notices.peek().find((notice) => notice.text === text);
    if (same) this.dismiss(same.id);
    const id = (this.#noticeIds += 1);
    this.#notices.value = [...this.#notices.peek(), { id, kind, text }].slice(-4);
    setTimeout(() => this.dismiss(id), SHOWN);
  }

  /** Show an error for a while, in people's words. */
  fail(error: unknown): void {
    if (error instanceof UnauthorizedError) this.locked.value = true;
    else this.tell(wordsOf(error), "error");
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

  /** Say something in the open session, or in a new one as the draft has it. Throws what the client throws. */
  async prompt(
    message: string,
    { files, attachments }: { files?: string[]; attachments?: Attachment[] } = {},
  ): Promise<void> {
    const open = this.#session.peek();
    const { model, effort, mode, projectDir } = this.draft;
    const request: RunInput & { attachments?: Attachment[]; reasoning_effort?: Effort } = {
      message,
      // This page opens the session when it has begun.
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
    // Whoever got no answer sends the same again: it is done once.
    const asked = JSON.stringify(request);
    const { key } = (this.#unanswered =
      this.#unanswered?.asked === asked ? this.#unanswered : { asked, key: newKey() });
    const begun = await this.client.begin(request, { key });
    this.#unanswered = undefined;
    if (!open) this.go({ name: "session", id: begun.session_id });
    void this.list.refresh();
  }

  /** Also says that this page answers them: questions wait for a page that shows another session or none, hidden or not. */
  async #loadAsks(): Promise<void> {
    try {
      const known = new Set(this.#asks.peek().map(({ id }) => id));
      this.#asks.value = await this.client.asks.list({ canAnswer: true });
      const [fresh] = this.asksElsewhere.peek().filter(({ id }) => !known.has(id));
      if (fresh) announce(`Another session asks: ${fresh.title}`);
    } catch {
      // The next look may succeed. The list says what is wrong.
    }
  }

  #show(route: Route): void {
    const open = this.#session.peek();
    if (route.name === "session" && open?.id === route.id) return;
    // Before the next one opens: a browser has few connections.
    open?.close();
    if (this.panel.peek() === "spending") this.panel.value = "";
    this.#session.value =
      route.name === "session"
        ? new OpenSession(route.id, {
            client: this.client,
            fail: (error) => this.fail(error),
            state: ({ session, run }) => {
              const { id, state } = run ?? {};
              const under = id !== undefined && (state === "queued" || state === "running" || state === "waiting");
              this.list.told({ ...session, run: under ? { id, state } : undefined });
            },
            gone: (id) => this.list.drop(id),
          })
        : undefined;
  }

  #notLocked(): boolean {
    return !this.locked.peek();
  }
}

/** By which the server knows the same request again. `crypto.randomUUID` is not there on plain HTTP beyond loopback. */
function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
