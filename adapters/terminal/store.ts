import { ApiError, NotFoundError, type GantryClient, type ApiModel } from "gantry/client";
import { AskPanel } from "./ask-panel.js";
import type { CommandEntry } from "./completion.js";
import { TerminalConversation, promptsOf, type ConversationListener, type NewSessionOptions } from "./conversation.js";
import type { Editor } from "./editor.js";
import type { KeyInput } from "./keys.js";
import type { Overlay } from "./overlays.js";
import { Prompt } from "./prompt.js";
import { escapeLine } from "./text.js";
import type { TranscriptNotice } from "./transcript.js";
import { Scroll } from "./scroll.js";

/**
 * A question that appears within this time after an answer follows it, in ms. The user is looking at it: its early keys
 * are dropped and do not reach the prompt.
 */
const FOLLOW_UP_QUESTION_MS = 2_000;
/** A second Enter within this time after an answer is ignored, in ms. */
const DOUBLE_ENTER_MS = 300;

export interface TerminalStoreOptions {
  client: GantryClient;
  /** Settings of new sessions. */
  newSessionOptions: NewSessionOptions;
  /** Lists the files that `@` suggests, from a folder on this machine. Undefined: no suggestions. */
  files?: ((folder: string | undefined, signal: AbortSignal) => Promise<readonly string[]>) | undefined;
  /** Lists only sessions of this folder. Undefined: all sessions. */
  projectDir?: string | undefined;
  /** Location for the first line of the screen: a folder or a server. */
  place: string;
  /** The terminal's own commands, and the function that runs them. */
  commands: readonly (readonly [name: string, about: string])[];
  run: (store: TerminalStore, line: string) => void;
  requestExit: () => void;
  /** Returns the terminal to the shell. */
  suspend: () => void;
  /** Sets whether the program or the terminal handles the wheel. */
  wheel: (on: boolean) => void;
  /** Monotonic clock, in ms. Default: `performance.now`. */
  now?: () => number;
}

/** State of the terminal: a conversation, a prompt, and the panel over it. Notifies its view of changes. */
export class TerminalStore implements ConversationListener {
  readonly options: TerminalStoreOptions;
  readonly prompt: Prompt;
  readonly scroll = new Scroll();
  conversation: TerminalConversation;
  notices: TranscriptNotice[] = [];
  overlay: Overlay | undefined;
  ask: AskPanel | undefined;
  /** Whether thoughts, outputs and diffs are shown in full. */
  showsAll = false;
  wheel = true;
  /** Set by the view that draws this store. */
  onChanged: () => void = () => undefined;
  #models: Promise<ApiModel[]> | undefined;
  readonly #now: () => number;
  /** When the user last answered a question here, by the clock `now`. */
  #answeredAt = -Infinity;
  /** Whether the last key was Ctrl+C. */
  #isLeaving = false;
  readonly #end = new AbortController();
  readonly #gone: Promise<void>[] = [];

  constructor(options: TerminalStoreOptions) {
    this.options = options;
    this.#now = options.now ?? (() => performance.now());
    this.conversation = new TerminalConversation(options.client, this, options.newSessionOptions);
    const { files } = options;
    this.prompt = new Prompt({
      commands: options.commands,
      findCommands: (onFound) => this.attempt(async () => onFound(await this.loadAgentCommands().catch(() => []))),
      findFiles:
        files &&
        ((onFound) =>
          this.attempt(async () => {
            onFound(await files(this.conversation.mirror.state?.session.project_dir, this.#end.signal));
          })),
      submit: (text, named) => this.#submit(text, named),
    });
  }

  get editor(): Editor {
    return this.prompt.editor;
  }

  changed(): void {
    this.#followAsks();
    if (this.conversation.mirror.deleted && !this.#end.signal.aborted) {
      this.#replace(new TerminalConversation(this.options.client, this, this.options.newSessionOptions));
      this.notice("This session was deleted.");
    }
    this.onChanged();
  }

  notice(text: string, isBad = false): void {
    this.addNotice([text], isBad);
  }

  /** Puts the texts back into the prompt, before the typed text. */
  returned(texts: readonly string[]): void {
    const { text } = this.editor;
    this.editor.set([...texts, ...(text === "" ? [] : [text])].join("\n"));
    this.notice("The run did not read your last message; it is back in the prompt.");
  }

  /** Adds notice lines after the current last message. */
  addNotice(rows: readonly string[], isBad = false): void {
    const behind = this.conversation.mirror.messages.at(-1)?.seq ?? 0;
    this.notices = [...this.notices, { afterSeq: behind, rows, isBad }];
    this.changed();
  }

  /** Starts an asynchronous action. Shows its error as a notice. */
  attempt(work: () => Promise<unknown>): void {
    work().then(
      () => this.changed(),
      (error: unknown) => {
        if (this.#end.signal.aborted || (error instanceof Error && error.name === "AbortError")) return;
        this.notice(error instanceof ApiError || error instanceof Error ? error.message : String(error), true);
      },
    );
  }

  /** Shows another session. The run of the previous one continues. */
  async open(id: string): Promise<void> {
    const next = new TerminalConversation(this.options.client, this, {});
    try {
      await next.open(id);
    } catch (error) {
      await next.close();
      throw error instanceof NotFoundError ? new Error(`session ${id} not found; /sessions lists sessions`) : error;
    }
    this.#replace(next);
    this.editor.seed(promptsOf(next.mirror.messages));
    this.changed();
  }

  /** Shows a conversation without a session. */
  startNew(): void {
    this.#replace(new TerminalConversation(this.options.client, this, { ...this.options.newSessionOptions }));
    this.changed();
  }

  /** Loads the slash commands of this session's agent. Excludes names that the terminal's own commands use. */
  async loadAgentCommands(): Promise<CommandEntry[]> {
    const { client, projectDir, commands } = this.options;
    const { id } = this.conversation;
    const all = await client
      .commands(id === undefined ? { projectDir } : { sessionId: id }, { signal: this.#end.signal })
      // Older servers do not have this endpoint.
      .catch((error: unknown) => {
        if (error instanceof NotFoundError) return [];
        throw error;
      });
    return all
      .filter(({ name }) => escapeLine(name) === name && !commands.some(([commandName]) => commandName === name))
      .map(({ name, description, hint }) => [name, escapeLine(`${description} ${hint}`.trim()), hint]);
  }

  /** Sends a prompt. The agent expands slash commands. */
  send(text: string, files: readonly string[] = [], isCommand = false): void {
    const { conversation } = this;
    this.attempt(() =>
      conversation.send(text, files, isCommand).catch((error: unknown) => {
        // Sending failed: restores the text, if the prompt is empty.
        if (this.editor.text === "") this.editor.set(text);
        throw error;
      }),
    );
  }

  /** Loads the models at the first use and caches them. */
  models(): Promise<ApiModel[]> {
    this.#models ??= this.options.client.models({ signal: this.#end.signal }).catch((error: unknown) => {
      this.#models = undefined;
      throw error;
    });
    return this.#models;
  }

  /** Shows an overlay; undefined closes it. */
  show(overlay: Overlay | undefined): void {
    this.overlay = overlay;
    this.changed();
  }

  /** Handles an input of the keyboard or wheel. */
  press(input: KeyInput): void {
    const isStop = input.type === "key" && input.ctrl && input.name === "c";
    if (!isStop) this.#isLeaving = false;
    if (this.overlay) {
      const { overlay } = this;
      // The action may have opened another overlay.
      if (overlay.press(input) && this.overlay === overlay) this.overlay = undefined;
    } else if (isStop) this.#stop();
    else if (input.type === "wheel" && !this.ask?.hasKeys) this.scroll.by(-input.rows);
    else if (!this.#toAsk(input)) {
      if (input.type === "text" || input.type === "paste") this.prompt.insert(input.text);
      else if (input.type === "key" && !this.#key(input)) this.prompt.press(input);
    }
    this.changed();
  }

  /** Called by the view when the user scrolled above the first row. */
  reachedTop(): void {
    const { conversation } = this;
    if (conversation.hasOlder && !conversation.isLoading) this.attempt(() => conversation.loadOlder());
  }

  async close(): Promise<void> {
    this.#end.abort();
    await Promise.all([this.conversation.close(), ...this.#gone]);
  }

  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  #replace(next: TerminalConversation): void {
    this.#gone.push(this.conversation.close());
    this.conversation = next;
    this.notices = [];
    this.scroll.toEnd();
    this.ask = undefined;
  }

  /** Whether the question consumed the input. */
  #toAsk(input: KeyInput): boolean {
    const { ask } = this;
    // A second Enter for the previous question.
    if (input.type === "key" && input.name === "enter" && this.#hasAnswered(DOUBLE_ENTER_MS)) return true;
    if (!ask?.hasKeys) return false;
    if (input.type === "key" && (input.ctrl || input.name === "tab" || input.name === "escape")) return false;
    // The input is no answer: the user is typing a prompt, which receives the keys from now on.
    if (!ask.press(input)) ask.hasKeys = false;
    return ask.hasKeys;
  }

  #hasAnswered(withinMs: number): boolean {
    return this.#now() - this.#answeredAt < withinMs;
  }

  #followAsks(): void {
    const [first] = this.conversation.asks;
    if (first?.id === this.ask?.ask.id) return;
    const { conversation } = this;
    const isBehind = this.#hasAnswered(FOLLOW_UP_QUESTION_MS);
    this.ask =
      first &&
      new AskPanel(first, {
        hasKeys: this.editor.text === "",
        followsAnswer: isBehind,
        now: this.#now,
        answer: (reply) => {
          this.#answeredAt = this.#now();
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

  /** The first Ctrl+C stops the run or clears the prompt; a second one quits. */
  #stop(): void {
    if (this.#isLeaving) return this.options.requestExit();
    this.#isLeaving = true;
    const { conversation } = this;
    if (conversation.isRunning) this.attempt(() => conversation.stop());
    else if (this.editor.text !== "") this.prompt.putAside();
  }

  /** Handles a global key. Returns false for keys that belong to the prompt. */
  #key({ name, ctrl, shift }: Extract<KeyInput, { type: "key" }>): boolean {
    const { scroll, ask } = this;
    if (name === "pageup") scroll.pages(-1);
    else if (name === "pagedown") scroll.pages(1);
    else if (name === "up" && (shift || ctrl)) scroll.by(-1);
    else if (name === "down" && (shift || ctrl)) scroll.by(1);
    else if (name === "home" && ctrl) scroll.toStart();
    else if (name === "end" && ctrl) scroll.toEnd();
    else if (ctrl && name === "l") scroll.toEnd();
    else if (ctrl && name === "o") this.showsAll = !this.showsAll;
    else if (ctrl && name === "z") this.options.suspend();
    else if (ctrl && name === "d" && this.editor.text === "") this.options.requestExit();
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
    this.send(text, files);
  }
}
