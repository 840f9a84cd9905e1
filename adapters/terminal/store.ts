import { ApiError, NotFoundError } from "gantry/client";
import { AgentCatalog } from "./agent-catalog.js";
import type { AskPanel } from "./ask-panel.js";
import type { CommandEntry } from "./completion.js";
import { ContextGauge } from "./context-gauge.js";
import { CurrentAsk } from "./current-ask.js";
import { DraftKeeper } from "./draft-keeper.js";
import { InterruptKey } from "./interrupt-key.js";
import { handleGlobalKey } from "./global-keys.js";
import { HeldTexts } from "./held-texts.js";
import { TerminalConversation, getPromptTexts, type ConversationListener } from "./conversation.js";
import type { Editor } from "./editor.js";
import type { KeyInput } from "./keys.js";
import type { Overlay } from "./overlays.js";
import { Prompt } from "./prompt.js";
import { createPromptHost } from "./prompt-host.js";
import type { TranscriptNotice } from "./transcript.js";
import { ScrollPosition } from "./scroll.js";
import type { StateFiles, TerminalSettings } from "./state-files.js";
import type { StoreOptions } from "./store-options.js";

export type TerminalStoreOptions = StoreOptions<TerminalStore>;

/** State of the terminal: a conversation, a prompt, and the panel above the prompt. Notifies its view of changes. */
export class TerminalStore implements ConversationListener {
  readonly options: TerminalStoreOptions;
  readonly prompt: Prompt;
  readonly scroll = new ScrollPosition();
  readonly catalog: AgentCatalog;
  readonly #drafts: DraftKeeper;
  readonly #heldTexts = new HeldTexts();
  readonly #currentAsk: CurrentAsk;
  readonly contextGauge: ContextGauge;
  conversation: TerminalConversation;
  notices: TranscriptNotice[] = [];
  overlay: Overlay | undefined;
  /** Whether thoughts, outputs and diffs are shown in full. */
  showsAll = false;
  /** Whether the program handles the wheel, not the terminal. */
  hasWheel = true;
  /** Setting of the bell. Undefined: it rings for questions only. */
  bell: TerminalSettings["bell"];
  /** The running shell command of the user. */
  shell: { stop: () => void } | undefined;
  /** Whether a run was active at the last change. */
  #wasRunning = false;
  /** Settles when the session of the start is open or cannot be opened. Undefined: no session is being opened. */
  opening: Promise<void> | undefined;
  /** Set by the view that draws this store. */
  onChanged: () => void = () => undefined;
  readonly interruptKey: InterruptKey;
  readonly #closeController = new AbortController();
  readonly #closingConversations: Promise<void>[] = [];

  constructor(options: TerminalStoreOptions) {
    this.options = options;
    this.catalog = new AgentCatalog(options.client, options.projectDir, this.#closeController.signal);
    this.contextGauge = new ContextGauge(options.client, this.#closeController.signal, () => this.onChanged());
    const now = options.now ?? (() => performance.now());
    this.interruptKey = new InterruptKey(now);
    this.#currentAsk = new CurrentAsk({
      now,
      isPromptEmpty: () => this.editor.text === "",
      attempt: (work) => this.attempt(work),
    });
    this.conversation = new TerminalConversation(options.client, this, options.newSessionOptions);
    this.prompt = new Prompt(
      createPromptHost(options, {
        signal: this.#closeController.signal,
        getFolder: () => this.conversation.mirror.state?.session.project_dir,
        loadAgentCommands: () => this.loadAgentCommands(),
        attempt: (work) => this.attempt(work),
        submit: (text, filePaths) => this.#submit(text, filePaths),
      }),
    );
    this.#drafts = new DraftKeeper(options.stateFiles ?? Promise.resolve(undefined), () => ({
      sessionId: this.conversation.id,
      draft: [...this.#heldTexts.texts, this.prompt.pastes.expand(this.editor.draft)]
        .filter((text) => text !== "")
        .join("\n"),
      entries: this.conversation.sender.outbox.entries,
    }));
    this.#loadTexts(this.conversation);
    if (options.stateFiles) this.attempt(() => this.#loadState(options.stateFiles));
  }

  get editor(): Editor {
    return this.prompt.editor;
  }

  /** The oldest open question; undefined if there is none. */
  get ask(): AskPanel | undefined {
    return this.#currentAsk.panel;
  }

  reportChange(): void {
    this.#updateAsk();
    this.contextGauge.update(this.conversation);
    this.#drafts.update();
    const { isRunning, sender } = this.conversation;
    if (this.#wasRunning && !isRunning && !sender.isStopRequested && this.bell === "on") this.ringBell();
    this.#wasRunning = isRunning;
    this.interruptKey.update(this);
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

  /** Loads the slash commands of this session's agent. */
  async loadAgentCommands(): Promise<CommandEntry[]> {
    const { COMMANDS: ownCommands } = await this.options.loadCommands();
    return this.catalog.loadCommands(this.conversation.id, ownCommands);
  }

  /** Sends a prompt, after the session that is being opened. The agent expands slash commands. */
  send(text: string, files: readonly string[] = [], isCommand = false): void {
    const { opening } = this;
    if (!opening) return this.attempt(() => this.conversation.sender.send(text, files, isCommand));
    this.holdText(text, () => opening.then(() => this.send(text, files, isCommand)));
  }

  /** Keeps a text of the prompt until `work` has sent it. If `work` fails, the text returns to the prompt. */
  holdText(text: string, work: () => Promise<void>): void {
    this.attempt(() => this.#heldTexts.hold(text, work, () => this.restoreTexts([text], "")));
  }

  /** Shows an overlay; undefined closes it. */
  showOverlay(overlay: Overlay | undefined): void {
    this.overlay = overlay;
    this.reportChange();
  }

  press(input: KeyInput): void {
    const isCtrlC = input.type === "key" && input.ctrl && input.name === "c";
    if (!isCtrlC) this.interruptKey.isExitPending = false;
    if (this.overlay) {
      const { overlay } = this;
      // The action may have opened another overlay.
      if (overlay.press(input) && this.overlay === overlay) this.overlay = undefined;
    } else if (isCtrlC) this.interruptKey.press(this);
    else if (input.type === "wheel" && !this.ask?.hasKeys) this.scroll.scrollBy(-input.rows);
    else if (!this.#currentAsk.passInput(input)) {
      if (input.type === "text" || input.type === "paste") this.prompt.insert(input.text, input.type === "paste");
      else if (input.type === "key" && !handleGlobalKey(this, input)) this.prompt.press(input);
    }
    this.reportChange();
  }

  /** Shows the earlier prompts, from which the user chooses one. */
  searchHistory(): void {
    this.attempt(async () => (await this.options.loadCommands()).searchHistory(this));
  }

  /** Opens the prompt in the editor of the user. */
  editPrompt(): void {
    const { options, editor, prompt } = this;
    this.attempt(async () => editor.setDraft((await options.editText?.(prompt.text)) ?? editor.text));
  }

  /** Sets the next permission mode. */
  changeMode(): void {
    const { conversation } = this;
    this.attempt(() => conversation.selectNextMode());
  }

  loadOlderMessages(): void {
    const { conversation } = this;
    if (conversation.hasOlder && !conversation.isLoading) this.attempt(() => conversation.loadOlder());
  }

  async close(): Promise<void> {
    this.#closeController.abort();
    this.shell?.stop();
    await Promise.all([this.conversation.close(), ...this.#closingConversations]);
    await this.#drafts.save();
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
    this.#currentAsk.panel = undefined;
  }

  #updateAsk(): void {
    const { conversation } = this;
    if (!this.#currentAsk.update(conversation.asks[0], (ask, reply) => conversation.answer(ask, reply))) return;
    this.scroll.scrollToEnd();
    this.ringBell();
  }

  /** Loads the history and the settings of earlier terminals. */
  async #loadState(stateFiles: Promise<StateFiles | undefined> | undefined): Promise<void> {
    const files = await stateFiles;
    if (!files) return;
    const [history, settings] = await Promise.all([files.readHistory(), files.readSettings()]);
    this.bell ??= settings.bell;
    this.editor.setHistory([...history, ...this.editor.history]);
  }

  #submit(text: string, files: readonly string[]): void {
    this.scroll.scrollToEnd();
    // For later terminals. The text is also in the outbox, so errors of the disk are ignored.
    void this.options.stateFiles?.then((files) => files?.appendHistory(text)).catch(() => undefined);
    if (/^(\/[^\s/]+(\s|$)|!)/.test(text))
      return this.holdText(text, async () => (await this.options.loadCommands()).runCommand(this, text));
    if (!/\.(png|jpe?g|gif|webp)/i.test(text)) return this.send(text, files);
    this.holdText(text, async () => this.send(text, [...files, ...((await this.options.findImages?.(text)) ?? [])]));
  }
}
