import type { AskPanel } from "./ask-panel.js";
import type { KeyInput } from "./keys.js";
import type { Prompt } from "./prompt.js";
import type { ScrollPosition } from "./scroll.js";

/** The parts of the terminal that keys outside the prompt change. */
export interface GlobalKeyTarget {
  readonly scroll: ScrollPosition;
  readonly prompt: Prompt;
  readonly ask: AskPanel | undefined;
  showsAll: boolean;
  readonly conversation: { readonly isRunning: boolean; moveToBackground(): Promise<void> };
  readonly options: { requestExit: () => void; suspend: () => void };
  searchHistory(): void;
  editPrompt(): void;
  changeMode(): void;
  attempt(work: () => Promise<unknown>): void;
}

/** Handles a global key. Returns false for keys that belong to the prompt. */
export function handleGlobalKey(
  target: GlobalKeyTarget,
  { name, ctrl, shift }: Extract<KeyInput, { type: "key" }>,
): boolean {
  const { scroll, ask, prompt, options } = target;
  if (name === "pageup") scroll.scrollPages(-1);
  else if (name === "pagedown") scroll.scrollPages(1);
  else if (name === "up" && (shift || ctrl)) scroll.scrollBy(-1);
  else if (name === "down" && (shift || ctrl)) scroll.scrollBy(1);
  else if (name === "home" && ctrl) scroll.scrollToStart();
  else if (name === "end" && ctrl) scroll.scrollToEnd();
  else if (ctrl && name === "l") scroll.scrollToEnd();
  else if (ctrl && name === "o") target.showsAll = !target.showsAll;
  else if (ctrl && name === "r") target.searchHistory();
  else if (ctrl && name === "g") target.editPrompt();
  else if (name === "backtab") target.changeMode();
  else if (ctrl && name === "z") options.suspend();
  else if (ctrl && name === "d" && prompt.editor.text === "") options.requestExit();
  else if (ctrl && name === "b" && prompt.editor.text === "" && target.conversation.isRunning)
    target.attempt(() => target.conversation.moveToBackground());
  else if (prompt.completion) return false;
  else if (name === "escape" && ask?.hasKeys) ask.hasKeys = false;
  else if (name === "escape") scroll.scrollToEnd();
  else if (name === "tab" && ask) ask.hasKeys = !ask.hasKeys;
  else return false;
  return true;
}
