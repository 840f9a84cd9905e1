import { ApiError, NotFoundError, type GantryClient, type ApiModel } from "gantry/client";
import { AskPanel } from "./ask-panel.js";
import type { CommandEntry } from "./completion.js";
import { DraftKeeper } from "./draft-keeper.js";
import { TerminalConversation, getPromptTexts } from "./conversation.js";
import type { ConversationListener, NewSessionOptions } from "./conversation.js";
import type { Editor } from "./editor.js";
import type { KeyInput } from "./keys.js";
import type { Overlay } from "./overlays.js";
import { Prompt } from "./prompt.js";
import { escapeLine } from "./text.js";
import type { TranscriptNotice } from "./transcript.js";
import { ScrollPosition } from "./scroll.js";
import type { StateFiles, TerminalSettings } from "./state-files.js";

/**
 * Maximum time between an answer and the next question, in ms. Within this time, early keys count as meant for the
 * answered question: they are dropped and do not reach the prompt.
 */
const MAX_NEXT_QUESTION_DELAY_MS = 2_000;
/** Permission modes in the order of Shift+Tab. */
const MODES = ["auto", "ask", "plan"] as const;
/** Time after an answer in which a second Enter is ignored, in ms. */
const DOUBLE_ENTER_PERIOD_MS = 300;

export interface TerminalStoreOptions {
  client: GantryClient;
  /** Settings of new sessions. */
  newSessionOptions: NewSessionOptions;
  /** Lists the files that `@` suggests, from a folder on this machine. Undefined: no suggestions. */
  listFiles?: ((folder: string | undefined, signal: AbortSignal) => Promise<readonly string[]>) | undefined;
  /** Lists only sessions of this folder. Undefined: all sessions. */
  projectDir?: string | undefined;
  /** Location for the first line of the screen: a folder or a server. */
  location: string;
  /** Files of unsent texts, history and settings. Resolves with undefined, or is absent, if nothing is stored. */
  stateFiles?: Promise<StateFiles | undefined>;
  /** The terminal's own commands. */
  commands: readonly (readonly [name: string, description: string])[];
  /** Loads the function that runs a line with a command, of the terminal or of the agent. */
  loadCommands: () => Promise<{
    runCommand: (store: TerminalStore, line: string) => void;
    searchHistory: (store: TerminalStore) => void;
  }>;
  /** Rings the bell of the terminal. */
  ringBell?: () => void;
  requestExit: () => void;
  /** Returns the terminal to the shell. */
  suspend: () => void;
  /** Sets whether the program handles the wheel, not the terminal. */
  setWheel: (isEnabled: boolean) => void;
  /** Monotonic clock, in ms. Default: `performance.now`. */
  now?: () => number;
}

/** State of the terminal: a conversation, a prompt, and the panel above the prompt. Notifies its view of changes. */
export class TerminalStore implements ConversationListener {
  readonly options: TerminalStoreOptions;
  readonly prompt: Prompt;
  readonly scroll = new ScrollPosition();
  readonly #drafts: DraftKeeper;
  /** Texts that were taken from the prompt and are not sent yet. */
  #heldTexts: readonly string[] = [];
  conversation: TerminalConversation;
  notices: TranscriptNotice[] = [];
  overlay: Overlay | undefined;
  /** The oldest open question; undefined if there is none. */
  ask: AskPanel | undefined;
  /** Whether thoughts, outputs and diffs are shown in full. */
  showsAll = false;
  /** Whether the program handles the wheel, not the terminal. */
  hasWheel = true;
  /** Setting of the bell. Undefined: it rings for questions only. */
  bell: TerminalSettings["bell"];
  /** Whether a run was active at the last change. */
  #wasRunning = false;
  /** Settles when the session of the start is open or cannot be opened. Undefined: no session is being opened. */
  opening: Promise<void> | undefined;
  /** Set by the view that draws this store. */
  onChanged: () => void = () => undefined;
  #models: Promise<ApiModel[]> | undefined;
  readonly #now: () => number;
  /** Time of the last answer in this terminal, by the clock `now`, in ms. */
  #answeredAtMs = -Infinity;
  /** Whether the last key was Ctrl+C, so that a second Ctrl+C quits. */
  #isExitPending = false;
  readonly #closeController = new AbortController();
  readonly #closingConversations: Promise<void>[] = [];

  constructor(options: TerminalStoreOptions) {
    this.options = options;
    this.#now = options.now ?? (() => performance.now());
    this.conversation = new TerminalConversation(options.client, this, options.newSessionOptions);
    const { listFiles } = options;
    this.prompt = new Prompt({
      commands: options.commands,
      findCommands: (onFound) =>
        this.attempt(async () => {
          // Loaded while the command is typed, so that commands and prompts are sent in the order of the Enter keys.
          await options.loadCommands();
          onFound(await this.loadAgentCommands().catch(() => []));
        }),
      findFiles:
        listFiles &&
        ((onFound) =>
          this.attempt(async () => {
            onFound(await listFiles(this.conversation.mirror.state?.session.project_dir, this.#closeController.signal));
          })),
      submit: (text, filePaths) => this.#submit(text, filePaths),
    });
    this.#drafts = new DraftKeeper(options.stateFiles ?? Promise.resolve(undefined), () => ({
      sessionId: this.conversation.id,
      draft: [...this.#heldTexts, this.editor.draft].filter((text) => text !== "").join("\n"),
      entries: this.conversation.sender.outbox.entries,
    }));
    this.#loadTexts(this.conversation);
    if (options.stateFiles) this.attempt(() => this.#loadState(options.stateFiles));
  }

  get editor(): Editor {
    return this.prompt.editor;
  }

  reportChange(): void {
    this.#updateAsk();
    this.#drafts.update();
    const { isRunning, sender } = this.conversation;
    if (this.#wasRunning && !isRunning && !sender.isStopRequested && this.bell === "on") this.ringBell();
    this.#wasRunning = isRunning;
    if (this.conversation.mirror.deleted && !this.#closeController.signal.aborted) {
      this.#replace(new TerminalConversation(this.options.client, this, this.options.newSessionOptions));
      this.showNotice("This session was deleted.");
    }
    this.onChanged();
  }

  showNotice(text: string, isError = false): void {
    this.addNotice([text], isError);
  }

  restoreTexts(texts: readonly string[], notice: string): void {
    const { draft } = this.editor;
    this.editor.setDraft([...texts, ...(draft === "" ? [] : [draft])].join("\n"));
    if (notice === "") this.reportChange();
    else this.showNotice(notice);
  }

  /** Rings the bell for a question, unless the bell is off. */
  ringBell(): void {
    if (this.bell !== "off") this.options.ringBell?.();
  }

  storeTexts(): Promise<void> | undefined {
    return this.options.stateFiles && this.#drafts.save();
  }

  /** Adds notice lines after the current last message. */
  addNotice(lines: readonly string[], isError = false): void {
    const afterSeq = this.conversation.mirror.messages.at(-1)?.seq ?? 0;
    this.notices = [...this.notices, { afterSeq, lines, isError }];
    this.reportChange();
  }

  /** Starts an asynchronous action. Shows its error as a notice. */
  attempt(work: () => Promise<unknown>): void {
    work().then(
      () => this.reportChange(),
      (error: unknown) => {
        if (this.#closeController.signal.aborted || (error instanceof Error && error.name === "AbortError")) return;
        this.showNotice(error instanceof ApiError || error instanceof Error ? error.message : String(error), true);
      },
    );
  }

  /** Shows another session. The run of the previous session continues. Rejects if the session cannot be read. */
  async open(id: string): Promise<void> {
    const nextConversation = new TerminalConversation(this.options.client, this, {});
    try {
      await nextConversation.open(id);
    } catch (error) {
      await nextConversation.close();
      throw error instanceof NotFoundError ? new Error(`session ${id} not found; /sessions lists sessions`) : error;
    }
    this.#replace(nextConversation);
    this.editor.setHistory([...this.editor.history, ...getPromptTexts(nextConversation.mirror.messages)]);
    this.#loadTexts(nextConversation);
    this.reportChange();
  }

  /** Shows a conversation without a session. */
  startNewSession(): void {
    this.#replace(new TerminalConversation(this.options.client, this, { ...this.options.newSessionOptions }));
    this.reportChange();
  }

  /** Loads the slash commands of this session's agent. Excludes names that the terminal's own commands use. */
  async loadAgentCommands(): Promise<CommandEntry[]> {
    const { client, projectDir, commands } = this.options;
    const { id } = this.conversation;
    const agentCommands = await client
      .commands(id === undefined ? { projectDir } : { sessionId: id }, { signal: this.#closeController.signal })
      // Older servers do not have this endpoint.
      .catch((error: unknown) => {
        if (error instanceof NotFoundError) return [];
        throw error;
      });
    return agentCommands
      .filter(({ name }) => escapeLine(name) === name && !commands.some(([commandName]) => commandName === name))
      .map(({ name, description, hint }) => [name, escapeLine(`${description} ${hint}`.trim()), hint]);
  }

  /** Sends a prompt, after the session that is being opened. The agent expands slash commands. */
  send(text: string, files: readonly string[] = [], isCommand = false): void {
    const { opening } = this;
    if (!opening) return this.attempt(() => this.conversation.sender.send(text, files, isCommand));
    this.holdText(text, () => opening.then(() => this.send(text, files, isCommand)));
  }

  /** Keeps a text of the prompt until `work` has sent it. If `work` fails, the text returns to the prompt. */
  holdText(text: string, work: () => Promise<void>): void {
    const release = () => (this.#heldTexts = this.#heldTexts.filter((heldText) => heldText !== text));
    this.#heldTexts = [...this.#heldTexts, text];
    this.attempt(() =>
      work().then(release, (error: unknown) => {
        release();
        this.restoreTexts([text], "");
        throw error;
      }),
    );
  }

  /** Loads the models at the first use and caches the list. */
  loadModels(): Promise<ApiModel[]> {
    this.#models ??= this.options.client.models({ signal: this.#closeController.signal }).catch((error: unknown) => {
      this.#models = undefined;
      throw error;
    });
    return this.#models;
  }

  /** Shows an overlay; undefined closes it. */
  showOverlay(overlay: Overlay | undefined): void {
    this.overlay = overlay;
    this.reportChange();
  }

  press(input: KeyInput): void {
    const isCtrlC = input.type === "key" && input.ctrl && input.name === "c";
    if (!isCtrlC) this.#isExitPending = false;
    if (this.overlay) {
      const { overlay } = this;
      // The action may have opened another overlay.
      if (overlay.press(input) && this.overlay === overlay) this.overlay = undefined;
    } else if (isCtrlC) this.#stop();
    else if (input.type === "wheel" && !this.ask?.hasKeys) this.scroll.scrollBy(-input.rows);
    else if (!this.#passInputToAsk(input)) {
      if (input.type === "text" || input.type === "paste") this.prompt.insert(input.text);
      else if (input.type === "key" && !this.#handleGlobalKey(input)) this.prompt.press(input);
    }
    this.reportChange();
  }

  loadOlderMessages(): void {
    const { conversation } = this;
    if (conversation.hasOlder && !conversation.isLoading) this.attempt(() => conversation.loadOlder());
  }

  async close(): Promise<void> {
    this.#closeController.abort();
    await Promise.all([this.conversation.close(), ...this.#closingConversations]);
    await this.#drafts.save();
  }

  get isExitPending(): boolean {
    return this.#isExitPending;
  }

  /** Adopts the unsent texts that earlier terminals have left for the session. */
  #loadTexts(conversation: TerminalConversation): void {
    this.#drafts.load(conversation.id, (texts) => {
      const drafts = texts.map(({ draft }) => draft).filter((draft) => draft !== "");
      if (drafts.length > 0) this.restoreTexts(drafts, "");
      conversation.sender.adopt(texts.flatMap(({ entries }) => entries));
    });
  }

  #replace(nextConversation: TerminalConversation): void {
    const { conversation } = this;
    const { entries } = conversation.sender.outbox;
    this.#closingConversations.push(conversation.close());
    this.conversation = nextConversation;
    // The text in the prompt moves to the next session. Texts of a session that does not exist yet return to the prompt.
    this.#drafts.leave({
      sessionId: conversation.id,
      draft: "",
      entries: conversation.id === undefined ? [] : entries,
    });
    if (conversation.id === undefined && entries.length > 0)
      this.restoreTexts(
        entries.map(({ text }) => text),
        "",
      );
    this.notices = [];
    this.scroll.scrollToEnd();
    this.ask = undefined;
  }

  /** Passes an input to the question. Returns whether the question consumed it. */
  #passInputToAsk(input: KeyInput): boolean {
    const { ask } = this;
    // This Enter was meant for the previous question.
    if (input.type === "key" && input.name === "enter" && this.#hasAnsweredWithin(DOUBLE_ENTER_PERIOD_MS)) return true;
    if (!ask?.hasKeys) return false;
    if (input.type === "key" && (input.ctrl || input.name === "tab" || input.name === "escape")) return false;
    // The input is no answer: the user is typing a prompt, which receives the keys from now on.
    if (!ask.press(input)) ask.hasKeys = false;
    return ask.hasKeys;
  }

  #hasAnsweredWithin(periodMs: number): boolean {
    return this.#now() - this.#answeredAtMs < periodMs;
  }

  #updateAsk(): void {
    const [oldestAsk] = this.conversation.asks;
    if (oldestAsk?.id === this.ask?.ask.id) return;
    const { conversation } = this;
    const followsAnswer = this.#hasAnsweredWithin(MAX_NEXT_QUESTION_DELAY_MS);
    this.ask =
      oldestAsk &&
      new AskPanel(oldestAsk, {
        hasKeys: this.editor.text === "",
        followsAnswer,
        now: this.#now,
        answer: (reply) => {
          this.#answeredAtMs = this.#now();
          this.attempt(() =>
            conversation.answer(oldestAsk, reply).catch((error: unknown) => {
              if (this.ask?.ask === oldestAsk) this.ask.isAnswerSent = false;
              throw error;
            }),
          );
        },
      });
    if (!this.ask) return;
    this.scroll.scrollToEnd();
    this.ringBell();
  }

  /** Handles Ctrl+C: the first stops the run or clears the prompt, the second quits. */
  #stop(): void {
    if (this.#isExitPending) return this.options.requestExit();
    this.#isExitPending = true;
    const { conversation } = this;
    if (conversation.isRunning) this.attempt(() => conversation.sender.stop());
    else if (this.editor.text !== "") this.prompt.clear();
  }

  /** Handles a global key. Returns false for keys that belong to the prompt. */
  #handleGlobalKey({ name, ctrl, shift }: Extract<KeyInput, { type: "key" }>): boolean {
    const { scroll, ask } = this;
    if (name === "pageup") scroll.scrollPages(-1);
    else if (name === "pagedown") scroll.scrollPages(1);
    else if (name === "up" && (shift || ctrl)) scroll.scrollBy(-1);
    else if (name === "down" && (shift || ctrl)) scroll.scrollBy(1);
    else if (name === "home" && ctrl) scroll.scrollToStart();
    else if (name === "end" && ctrl) scroll.scrollToEnd();
    else if (ctrl && name === "l") scroll.scrollToEnd();
    else if (ctrl && name === "o") this.showsAll = !this.showsAll;
    else if (ctrl && name === "r") this.attempt(async () => (await this.options.loadCommands()).searchHistory(this));
    else if (name === "backtab") this.#changeMode();
    else if (ctrl && name === "z") this.options.suspend();
    else if (ctrl && name === "d" && this.editor.text === "") this.options.requestExit();
    else if (this.prompt.completion) return false;
    else if (name === "escape" && ask?.hasKeys) ask.hasKeys = false;
    else if (name === "escape") scroll.scrollToEnd();
    else if (name === "tab" && ask) ask.hasKeys = !ask.hasKeys;
    else return false;
    return true;
  }

  /** Sets the next permission mode. */
  #changeMode(): void {
    const { conversation } = this;
    const mode = MODES[(MODES.indexOf(conversation.mode as (typeof MODES)[number]) + 1) % MODES.length] ?? "auto";
    this.attempt(() => conversation.change({ mode }));
  }

  /** Loads the history and the settings of earlier terminals. */
  async #loadState(stateFiles: Promise<StateFiles | undefined> | undefined): Promise<void> {
    const files = await stateFiles;
    if (!files) return;
    const [history, settings] = await Promise.all([files.readHistory(), files.readSettings()]);
    this.bell ??= settings.bell;
    this.editor.setHistory([...history, ...this.editor.history]);
  }

  /** Stores a prompt for later terminals. The text is also in the outbox, so errors of the disk are ignored. */
  #storePrompt(text: string): void {
    void this.options.stateFiles?.then((files) => files?.appendHistory(text)).catch(() => undefined);
  }

  #submit(text: string, files: readonly string[]): void {
    this.scroll.scrollToEnd();
    this.#storePrompt(text);
    if (/^\/[^\s/]+(\s|$)/.test(text))
      return this.holdText(text, async () => (await this.options.loadCommands()).runCommand(this, text));
    this.send(text, files);
  }
}
