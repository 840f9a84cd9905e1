import { GantryError, NotFoundError, type GantryClient, type Model } from "gantry/client";
import { AskPanel } from "./ask-panel.js";
import { commandsLike, filesIn, filesLike, wordAt, type Completion } from "./completion.js";
import { Conversation, promptsOf, type Told, type Wishes } from "./conversation.js";
import { Editor } from "./editor.js";
import type { Input } from "./keys.js";
import type { Overlay } from "./overlays.js";
import type { Notice } from "./transcript.js";
import { Scroll } from "./scroll.js";

/** Between two pictures, in ms, at least. */
const FRAME_MS = 16;

/** What a terminal is opened with. */
export interface DeskOptions {
  client: GantryClient;
  /** Of a session that begins here. */
  wishes: Wishes;
  /** The folder whose files `@` names, as this machine has it; without one nothing is proposed. */
  files?: ((folder: string | undefined, signal: AbortSignal) => Promise<readonly string[]>) | undefined;
  /** Sessions of this folder alone are listed. */
  projectDir?: string | undefined;
  /** What the status line calls the place: a folder, or a server. */
  place: string;
  /** What can be typed in place of a prompt, and what does it. */
  commands: readonly (readonly [name: string, about: string])[];
  run: (desk: Desk, line: string) => void;
  /** Leave. */
  leave: () => void;
  /** Let the shell have the terminal. */
  suspend: () => void;
  /** The wheel scrolls here, or is the terminal's own. */
  wheel: (on: boolean) => void;
}

/** What a person has before them: a conversation, a prompt, and what lies over it. Tells its view when it changed. */
export class Desk implements Told {
  readonly options: DeskOptions;
  readonly editor = new Editor();
  readonly scroll = new Scroll();
  conversation: Conversation;
  notices: Notice[] = [];
  overlay: Overlay | undefined;
  ask: AskPanel | undefined;
  completion: (Completion & { at: number }) | undefined;
  /** Thoughts, outputs and diffs whole. */
  all = false;
  wheel = true;
  /** Counts what was changed, for who shows it. */
  version = 0;
  #models: Promise<Model[]> | undefined;
  #files: readonly string[] | undefined;
  #filesAsked = false;
  #soon: NodeJS.Timeout | undefined;
  /** One Ctrl+C was pressed, and nothing since. */
  #leaving = false;
  readonly #end = new AbortController();
  readonly #listeners = new Set<() => void>();
  readonly #gone: Promise<void>[] = [];

  constructor(options: DeskOptions) {
    this.options = options;
    this.conversation = new Conversation(options.client, this, options.wishes);
  }

  /** For React: be told of changes until the function that comes back is called. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  changed(): void {
    this.#followAsks();
    this.version += 1;
    if (this.conversation.page.deleted && !this.#end.signal.aborted) {
      this.#replace(new Conversation(this.options.client, this, this.options.wishes));
      this.notice("This session was deleted.");
    }
    // What comes at once is one picture.
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      for (const listener of this.#listeners) listener();
    }, FRAME_MS);
  }

  notice(text: string, isBad = false): void {
    this.tell([text], isBad);
  }

  /** Lines behind what was said by now. */
  tell(rows: readonly string[], isBad = false): void {
    const behind = this.conversation.page.messages.at(-1)?.seq ?? 0;
    this.notices = [...this.notices, { behind, rows, isBad }];
    this.changed();
  }

  /** Do something that takes a while; what goes wrong is told. */
  attempt(work: () => Promise<unknown>): void {
    work().then(
      () => this.changed(),
      (error: unknown) => {
        if (this.#end.signal.aborted || (error instanceof Error && error.name === "AbortError")) return;
        this.notice(error instanceof GantryError || error instanceof Error ? error.message : String(error), true);
      },
    );
  }

  /** Show another session; the one that was shown goes on without us. */
  async open(id: string): Promise<void> {
    const next = new Conversation(this.options.client, this, {});
    try {
      await next.open(id);
    } catch (error) {
      await next.close();
      throw error instanceof NotFoundError ? new Error(`there is no session ${id}`) : error;
    }
    this.#replace(next);
    this.editor.seed(promptsOf(next.page.messages));
    this.changed();
  }

  /** A conversation that has no session yet. */
  fresh(): void {
    this.#replace(new Conversation(this.options.client, this, { ...this.options.wishes }));
    this.changed();
  }

  /** Asked for once, when somebody looks. */
  models(): Promise<Model[]> {
    this.#models ??= this.options.client.models({ signal: this.#end.signal }).catch((error: unknown) => {
      this.#models = undefined;
      throw error;
    });
    return this.#models;
  }

  /** Lie over the prompt. */
  show(overlay: Overlay | undefined): void {
    this.overlay = overlay;
    this.changed();
  }

  /** What somebody did at the keyboard. */
  press(input: Input): void {
    const isStop = input.type === "key" && input.ctrl && input.name === "c";
    if (!isStop) this.#leaving = false;
    if (this.overlay) {
      const { overlay } = this;
      // What it does may lay another one in its place.
      if (overlay.press(input) && this.overlay === overlay) this.overlay = undefined;
    } else if (isStop) this.#stop();
    else if (input.type === "wheel" && !this.ask?.hasKeys) this.scroll.by(-input.rows);
    else if (
      this.ask?.hasKeys &&
      !(input.type === "key" && (input.name === "tab" || input.name === "escape" || input.ctrl))
    )
      this.ask.press(input);
    else if (input.type === "key") this.#key(input);
    else if (input.type !== "wheel") {
      this.editor.insert(input.text);
      this.#complete();
    }
    this.changed();
  }

  /** The view has nothing above what it shows. */
  reachedTop(): void {
    const { conversation } = this;
    if (conversation.hasOlder && !conversation.isLoading) this.attempt(() => conversation.older());
  }

  async close(): Promise<void> {
    this.#end.abort();
    clearTimeout(this.#soon);
    await Promise.all([this.conversation.close(), ...this.#gone]);
  }

  get isLeaving(): boolean {
    return this.#leaving;
  }

  #replace(next: Conversation): void {
    this.#gone.push(this.conversation.close());
    this.conversation = next;
    this.notices = [];
    this.scroll.toEnd();
    this.ask = undefined;
  }

  #followAsks(): void {
    const [first] = this.conversation.asks;
    if (first?.id === this.ask?.ask.id) return;
    const { conversation } = this;
    this.ask = first
      ? new AskPanel(first, this.editor.text === "", (reply) => {
          this.attempt(() =>
            conversation.answer(first, reply).catch((error: unknown) => {
              if (this.ask?.ask === first) this.ask.isSent = false;
              throw error;
            }),
          );
        })
      : undefined;
    if (this.ask) this.scroll.toEnd();
  }

  /** The first one stops what goes on, or takes back what was written; a second one leaves. */
  #stop(): void {
    if (this.#leaving) return this.options.leave();
    this.#leaving = true;
    const { conversation } = this;
    if (conversation.isRunning) this.attempt(() => conversation.stop());
    else if (this.editor.text !== "") {
      this.editor.remember(this.editor.text);
      this.editor.set("");
      this.completion = undefined;
    }
  }

  #key({ name, ctrl, alt, shift }: Extract<Input, { type: "key" }>): void {
    const { editor, scroll } = this;
    if (this.completion && !alt && this.#inCompletion(name, ctrl)) return;
    if (name === "enter" && (alt || shift || ctrl)) editor.insert("\n");
    else if (name === "enter" && editor.text.slice(0, editor.at).endsWith("\\")) {
      editor.backspace();
      editor.insert("\n");
    } else if (name === "enter") this.#submit();
    else if (name === "pageup") scroll.pages(-1);
    else if (name === "pagedown") scroll.pages(1);
    else if (name === "up" && (shift || ctrl)) scroll.by(-1);
    else if (name === "down" && (shift || ctrl)) scroll.by(1);
    else if (name === "home" && ctrl) scroll.toBegin();
    else if (name === "end" && ctrl) scroll.toEnd();
    else if (name === "escape") {
      if (this.ask?.hasKeys) this.ask.hasKeys = false;
      else scroll.toEnd();
    } else if (name === "tab" && this.ask) this.ask.hasKeys = !this.ask.hasKeys;
    else if (ctrl) this.#control(name);
    else if (alt) this.#alternate(name);
    else this.#edit(name);
    if (name !== "enter" || this.editor.text !== "") this.#complete(["up", "down", "escape"].includes(name));
  }

  #control(name: string): void {
    const { editor } = this;
    const does: Readonly<Record<string, () => void>> = {
      a: () => editor.lineStart(),
      e: () => editor.lineEnd(),
      b: () => editor.left(),
      f: () => editor.right(),
      p: () => editor.older(),
      n: () => editor.newer(),
      k: () => editor.killToEnd(),
      u: () => editor.killToStart(),
      w: () => editor.killWord(),
      y: () => editor.yank(),
      h: () => editor.backspace(),
      j: () => editor.insert("\n"),
      d: () => (editor.text === "" ? this.options.leave() : editor.delete()),
      o: () => (this.all = !this.all),
      l: () => this.scroll.toEnd(),
      z: () => this.options.suspend(),
      left: () => editor.wordLeft(),
      right: () => editor.wordRight(),
    };
    if (Object.hasOwn(does, name)) does[name]?.();
  }

  #alternate(name: string): void {
    if (name === "b" || name === "left") this.editor.wordLeft();
    else if (name === "f" || name === "right") this.editor.wordRight();
    else if (name === "backspace") this.editor.killWord();
  }

  #edit(name: string): void {
    const { editor } = this;
    const does: Readonly<Record<string, () => void>> = {
      left: () => editor.left(),
      right: () => editor.right(),
      up: () => editor.up(),
      down: () => editor.down(),
      home: () => editor.lineStart(),
      end: () => editor.lineEnd(),
      backspace: () => editor.backspace(),
      delete: () => editor.delete(),
    };
    if (Object.hasOwn(does, name)) does[name]?.();
  }

  #submit(): void {
    const text = this.editor.text.trim();
    if (text === "") return;
    this.editor.take();
    this.completion = undefined;
    this.scroll.toEnd();
    if (/^\/[a-z]+(\s|$)/.test(text)) return this.options.run(this, text);
    const files = filesIn(text, this.#files ?? []);
    this.attempt(() =>
      this.conversation.say(text, files).catch((error: unknown) => {
        // It was not said: it stands there again, if nothing else does.
        if (this.editor.text === "") this.editor.set(text);
        throw error;
      }),
    );
  }

  /** What may follow at the cursor. `not`: it was looked for, not written. */
  #complete(not = false): void {
    const { editor } = this;
    const found = not ? undefined : wordAt(editor.text, editor.at);
    this.completion = undefined;
    if (!found) return;
    const { sign, from, word } = found;
    if (sign === "@") this.#listFiles();
    const suggestions = sign === "/" ? commandsLike(word, this.options.commands) : filesLike(word, this.#files ?? []);
    if (suggestions.length > 0) this.completion = { from, suggestions, at: 0 };
  }

  #listFiles(): void {
    const { files } = this.options;
    if (this.#filesAsked || !files) return;
    this.#filesAsked = true;
    this.attempt(async () => {
      this.#files = await files(this.conversation.page.state?.session.project_dir, this.#end.signal);
      this.#complete();
      // Those that were made meanwhile are found the next time.
      setTimeout(() => (this.#filesAsked = false), 5_000).unref();
    });
  }

  /** Whether the key was for the list below the prompt. */
  #inCompletion(name: string, ctrl: boolean): boolean {
    const { completion, editor } = this;
    if (!completion || ctrl) return false;
    const { suggestions, from, at } = completion;
    if (name === "up" || name === "down")
      completion.at = (at + (name === "up" ? suggestions.length - 1 : 1)) % suggestions.length;
    else if (name === "escape") this.completion = undefined;
    else if (name === "tab" || name === "enter") {
      const text = suggestions[at]?.text ?? "";
      // A command that is written out is done with Enter at once.
      if (name === "enter" && `${editor.text.slice(from, editor.at)} ` === text) return false;
      editor.replace(from, text);
      this.completion = undefined;
      if (name === "enter" && text.startsWith("/")) this.#submit();
    } else return false;
    return true;
  }
}
