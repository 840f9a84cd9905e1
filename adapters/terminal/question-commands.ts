import type { ApiAsk } from "gantry/client";
import { AskPanel } from "./ask-panel.js";
import type { KeyInput } from "./keys.js";
import { Picker, type ListEntry, type Overlay } from "./overlays.js";
import type { Line } from "./spans.js";
import type { TerminalStore } from "./store.js";

/** A question of any session as an overlay. Escape leaves the question open. */
class AskOverlay implements Overlay {
  readonly #panel: AskPanel;

  constructor(store: TerminalStore, ask: ApiAsk) {
    this.#panel = new AskPanel(ask, {
      hasKeys: true,
      followsAnswer: false,
      now: () => performance.now(),
      answer: (reply) => store.attempt(() => store.options.client.asks.answer(ask.id, reply)),
    });
  }

  renderRows(columns: number, rows: number): Line[] {
    return this.#panel.renderRows(columns, rows, 0);
  }

  press(input: KeyInput): boolean {
    if (input.type === "key" && (input.name === "escape" || (input.ctrl && input.name === "c"))) return true;
    this.#panel.press(input);
    return this.#panel.isAnswerSent;
  }
}

/** `/questions`: lists the open questions of all sessions. Enter shows a question, which can be answered there. */
export function chooseQuestion(store: TerminalStore): void {
  store.attempt(async () => {
    const asks = await store.options.client.asks.list({ canAnswer: true });
    if (asks.length === 0) return store.showNotice("No open questions.");
    const entries = asks.map(({ id, title, session_id: sessionId, created_at: createdAt }): ListEntry => ({
      id,
      label: title,
      description: `${sessionId === store.conversation.id ? "this session" : sessionId.slice(0, 8)}  ${createdAt.slice(11, 16)}`,
    }));
    const pick = (entry: ListEntry) => {
      const ask = asks.find(({ id }) => id === entry.id);
      if (ask) store.showOverlay(new AskOverlay(store, ask));
    };
    store.showOverlay(new Picker({ title: "Open questions", entries, pick }));
  });
}

/** `/bell on|off`: rings for questions and at the end of a run, or never. */
export function setBell(store: TerminalStore, argument: string): void {
  if (argument !== "on" && argument !== "off")
    return store.showNotice(`The bell is ${store.bell ?? "on for questions only"}; /bell on or /bell off changes it.`);
  store.bell = argument;
  store.attempt(async () => {
    await (await store.options.stateFiles)?.writeSettings({ bell: argument });
    store.showNotice(argument === "on" ? "The bell rings for questions and at the end of a run." : "The bell is off.");
  });
}

/** Ctrl+R: searches the earlier prompts of all sessions of this server or folder. */
export function searchHistory(store: TerminalStore): void {
  const prompts = [...new Set([...store.editor.history].reverse())];
  const entries = prompts.map((text): ListEntry => ({ id: text, label: text, description: "" }));
  store.showOverlay(new Picker({ title: "Earlier prompts", entries, pick: ({ id }) => store.editor.setDraft(id) }));
}
