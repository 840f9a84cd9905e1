import { signal } from "@preact/signals";
import { listenToStored, readStored, writeStored } from "../state/browser-storage.js";
import { EDITOR_NAMES, type EditorName } from "./editor-urls.js";

const STORAGE_KEY = "gantry.editor";

/** The chosen editor of this browser's machine; `""` if none is chosen. */
export const editor = signal(readEditor());
listenToStored(STORAGE_KEY, () => (editor.value = readEditor()));

/** Chooses the editor for all windows of the browser. */
export function chooseEditor(name: EditorName | ""): void {
  writeStored(STORAGE_KEY, name === "" ? undefined : name);
  editor.value = name;
}

function readEditor(): EditorName | "" {
  const name = readStored(STORAGE_KEY);
  return EDITOR_NAMES.find((editorName) => editorName === name) ?? "";
}
