import { GantryError, NotFoundError, type GantryClient, type Model } from "gantry/client";
import { AskPanel } from "./ask-panel.js";
import type { CommandLine } from "./completion.js";
import { Conversation, promptsOf, type Told, type Wishes } from "./conversation.js";
import type { Editor } from "./editor.js";
import type { Input } from "./keys.js";
import type { Overlay } from "./overlays.js";
import { Prompt } from "./prompt.js";
import { writtenLine } from "./text.js";
import type { Notice } from "./transcript.js";
import { Scroll } from "./scroll.js";

/** A question so soon behind an answer, in ms, is looked at by who gave it: it has the keys, and none is for the prompt. */
const BEHIND_MS = 2_000;
/** An Enter so soon behind the one that answered, in ms, was for that. */
const TWICE_MS = 300;

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
  leave: () => void;
  /** Let the shell have the terminal. */
  suspend: () => void;
  /** The wheel scrolls here, or is the terminal's own. */
  wheel: (on: boolean) => void;
  /** Milliseconds of a clock that never goes back. */
  now?: () => number;
}

/** What a person has before them: a conversation, a prompt, and what lies over it. Tells its view when it changed. */
export class Desk implements Told {
  readonly options: DeskOptions;
  readonly prompt: Prompt;
  readonly scroll = new Scroll();
  conversation: Conversation;
  notices: Notice[] = [];
  overlay: Overlay | undefined;
  ask: AskPanel | undefined;
  /** Thoughts, outputs and diffs whole. */
  all = false;
  wheel = true;
  /** Set by the view that draws the desk. */
  onChanged: () => void = () => undefined;
  #models: Promise<Model[]> | undefined;
  readonly #now: () => number;
  /** When a question was answered here. */
  #answered = -Infinity;
  /** One Ctrl+C was pressed, and nothing since. */
  #leaving = false;
  readonly #end = new AbortController();
  readonly #gone: Promise<void>[] = [];

  constructor(options: DeskOptions) {
    this.options = options;
    this.#now = options.now ?? (() => performance.now());
    this.conversation = new Conversation(options.client, this, options.wishes);
    const { files } = options;
    this.prompt = new Prompt({
      commands: options.commands,
      findCommands: (found) => this.attempt(async () => found(await this.saidCommands().catch(() => []))),
      findFiles:
        files &&
        ((found) =>
          this.attempt(async () => {
            found(await files(this.conversation.page.state?.session.project_dir, this.#end.signal));
          })),
      submit: (text, named) => this.#submit(text, named),
    });
  }

  get editor(): Editor {
    return this.prompt.editor;
  }

  changed(): void {
    this.#followAsks();
    if (this.conversation.page.deleted && !this.#end.signal.aborted) {
      this.#replace(new Conversation(this.options.client, this, this.options.wishes));
      this.notice("This session was deleted.");
    }
    this.onChanged();
  }

  notice(text: string, isBad = false): void {
    this.tell([text], isBad);
  }

  /** The texts go back into the prompt, before what is typed by now. */
  returned(texts: readonly string[]): void {
    const { text } = this.editor;
    this.editor.set([...texts, ...(text === "" ? [] : [text])].join("\n"));
    this.notice("The run did not read your last message: it is in the prompt again.");
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

  /** What can be said by a slash to this session's agent, beside what is typed here in place of a prompt. */
  async saidCommands(): Promise<CommandLine[]> {
    const { client, projectDir, commands } = this.options;
    const { id } = this.conversation;
    const all = await client
      .commands(id === undefined ? { projectDir } : { sessionId: id }, { signal: this.#end.signal })
      // A server of before has none.
      .catch((error: unknown) => {
        if (error instanceof NotFoundError) return [];
        throw error;
      });
    return all
      .filter(({ name }) => writtenLine(name) === name && !commands.some(([own]) => own === name))
      .map(({ name, description, hint }) => [name, writtenLine(`${description} ${hint}`.trim()), hint]);
  }

  /** Say it as a prompt: what a slash stands for is found out by the agent. */
  say(text: string, files: readonly string[] = [], isCommand = false): void {
    const { conversation } = this;
    this.attempt(() =>
      conversation.say(text, files, isCommand).catch((error: unknown) => {
        // It was not said: it stands there again, if nothing else does.
        if (this.editor.text === "") this.editor.set(text);
        throw error;
      }),
    );
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
    else if (!this.#toAsk(input)) {
      if (input.type === "text" || input.type === "paste") this.prompt.insert(input.text);
      else if (input.type === "key" && !this.#key(input)) this.prompt.press(input);
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

  /** Whether the question took what was pressed. */
  #toAsk(input: Input): boolean {
    const { ask } = this;
    // Pressed once too often on the one before.
    if (input.type === "key" && input.name === "enter" && this.#hasAnswered(TWICE_MS)) return true;
    if (!ask?.hasKeys) return false;
    if (input.type === "key" && (input.ctrl || input.name === "tab" || input.name === "escape")) return false;
    // Nothing that answers: somebody is writing, and goes on where that belongs.
    if (!ask.press(input)) ask.hasKeys = false;
    return ask.hasKeys;
  }

  #hasAnswered(withinMs: number): boolean {
    return this.#now() - this.#answered < withinMs;
  }

  #followAsks(): void {
    const [first] = this.conversation.asks;
    if (first?.id === this.ask?.ask.id) return;
    const { conversation } = this;
    const isBehind = this.#hasAnswered(BEHIND_MS);
    this.ask =
      first &&
      new AskPanel(first, {
        hasKeys: this.editor.text === "",
        isBehind,
        now: this.#now,
        answer: (reply) => {
          this.#answered = this.#now();
          this.attempt(() =>
            conversation.answer(first, reply).catch((error: unknown) => {
              if (this.ask?.ask === first) this.ask.isSent = false;
              throw error;
            }),
          );
        },
      });
    if (this.ask) this.scroll.toEnd();
  }

  /** The first one stops what goes on, or takes back what was written; a second one leaves. */
  #stop(): void {
    if (this.#leaving) return this.options.leave();
    this.#leaving = true;
    const { conversation } = this;
    if (conversation.isRunning) this.attempt(() => conversation.stop());
    else if (this.editor.text !== "") this.prompt.putAside();
  }

  /** Whether it was one that the whole desk has, whatever is written. */
  #key({ name, ctrl, shift }: Extract<Input, { type: "key" }>): boolean {
    const { scroll, ask } = this;
    if (name === "pageup") scroll.pages(-1);
    else if (name === "pagedown") scroll.pages(1);
    else if (name === "up" && (shift || ctrl)) scroll.by(-1);
    else if (name === "down" && (shift || ctrl)) scroll.by(1);
    else if (name === "home" && ctrl) scroll.toBegin();
    else if (name === "end" && ctrl) scroll.toEnd();
    else if (ctrl && name === "l") scroll.toEnd();
    else if (ctrl && name === "o") this.all = !this.all;
    else if (ctrl && name === "z") this.options.suspend();
    else if (ctrl && name === "d" && this.editor.text === "") this.options.leave();
    else if (this.prompt.completion) return false;
    else if (name === "escape" && ask?.hasKeys) ask.hasKeys = false;
    else if (name === "escape") scroll.toEnd();
    else if (name === "tab" && ask) ask.hasKeys = !ask.hasKeys;
    else return false;
    return true;
  }

  #submit(text: string, files: readonly string[]): void {
    this.scroll.toEnd();
    if (/^\/[^\s/]+(\s|$)/.test(text)) return this.options.run(this, text);
    this.say(text, files);
  }
}
