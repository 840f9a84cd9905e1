import { readStored, writeStored } from "./state/browser-storage.js";

const STORAGE_KEY = "gantry.history";
/** Maximum number of stored prompts, and of characters of each. The oldest prompts are dropped. */
const MAX_PROMPTS = 200;
const MAX_CHARACTERS = 10_000;

/** Prompts that this browser has sent in any session, newest first. */
export function readPromptHistory(): readonly string[] {
  const storedPrompts = readStored(STORAGE_KEY);
  return Array.isArray(storedPrompts) ? storedPrompts.filter((prompt) => typeof prompt === "string") : [];
}

/** Adds a prompt, or moves it to the front. Longer prompts are not stored. */
export function addToPromptHistory(prompt: string): void {
  if (prompt.trim() === "" || prompt.length > MAX_CHARACTERS) return;
  const otherPrompts = readPromptHistory().filter((otherPrompt) => otherPrompt !== prompt);
  writeStored(STORAGE_KEY, [prompt, ...otherPrompts].slice(0, MAX_PROMPTS));
}

/** Walks through the prompt history with the arrow keys. */
export class HistoryWalk {
  /** Index of the shown prompt; -1 before the first prompt. */
  #index = -1;

  /**
   * Returns the text that the key shows; undefined if the key keeps its meaning. Only an empty field, or a prompt of
   * the history that the user has not changed, is replaced.
   */
  move(key: string, text: string): string | undefined {
    if (key !== "ArrowUp" && key !== "ArrowDown") return undefined;
    const prompts = readPromptHistory();
    if (text === "") this.#index = -1;
    else if (prompts[this.#index] !== text) return undefined;
    const index = this.#index + (key === "ArrowUp" ? 1 : -1);
    const prompt = index < 0 ? "" : prompts[index];
    if (prompt === undefined || (index < 0 && text === "")) return undefined;
    this.#index = Math.max(index, -1);
    return prompt;
  }
}
