import { signal } from "@preact/signals";
import { listenToStored, readStored, writeStored } from "./browser-storage.js";

const STORAGE_KEY = "gantry.pastes";
/** Maximum number of stored texts. The oldest texts are dropped. */
const MAX_TEXTS = 50;
/** A pasted text with fewer lines and characters is inserted as it is. */
const MIN_FOLDED_LINES = 20;
const MIN_FOLDED_CHARACTERS = 4_000;

/** A long pasted text. In the draft of the session, the marker stands for the text. */
export interface PastedText {
  readonly sessionId: string;
  readonly marker: string;
  readonly text: string;
}

const pastedTexts = signal(readTexts());
listenToStored(STORAGE_KEY, () => (pastedTexts.value = readTexts()));

/** Whether a pasted text is replaced by a marker. */
export function isLongPaste(text: string): boolean {
  return text.length >= MIN_FOLDED_CHARACTERS || countLines(text) >= MIN_FOLDED_LINES;
}

/** Stores a long pasted text and returns its marker. */
export function foldPaste(sessionId: string, text: string): string {
  const texts = readTexts();
  const newestNumber = Number(/#(\d+)\]$/.exec(texts.at(-1)?.marker ?? "")?.[1] ?? 0);
  const lineCount = countLines(text);
  const marker = `[Pasted ${lineCount} ${lineCount === 1 ? "line" : "lines"} #${newestNumber + 1}]`;
  storeTexts([...texts, { sessionId, marker, text }]);
  return marker;
}

/** The pasted texts whose markers are in the draft. */
export function listPastes(sessionId: string, draft: string): readonly PastedText[] {
  if (!draft.includes("[Pasted ")) return [];
  return pastedTexts.value.filter((paste) => paste.sessionId === sessionId && draft.includes(paste.marker));
}

/** The draft with the pasted texts in place of their markers. */
export function expandPastes(sessionId: string, draft: string): string {
  return listPastes(sessionId, draft).reduce((text, paste) => text.replaceAll(paste.marker, () => paste.text), draft);
}

/** Forgets the pasted texts whose markers are in the draft. */
export function forgetPastes(sessionId: string, draft: string): void {
  const markers = new Set(listPastes(sessionId, draft).map(({ marker }) => marker));
  if (markers.size > 0)
    storeTexts(readTexts().filter((paste) => paste.sessionId !== sessionId || !markers.has(paste.marker)));
}

function countLines(text: string): number {
  return text.trimEnd().split("\n").length;
}

function readTexts(): readonly PastedText[] {
  const texts = readStored(STORAGE_KEY);
  return Array.isArray(texts) ? texts.filter(isPastedText) : [];
}

function isPastedText(value: Partial<Record<keyof PastedText, unknown>> | null): value is PastedText {
  return typeof value?.sessionId === "string" && typeof value.marker === "string" && typeof value.text === "string";
}

function storeTexts(texts: readonly PastedText[]): void {
  pastedTexts.value = texts.slice(-MAX_TEXTS);
  writeStored(STORAGE_KEY, texts.length > 0 ? pastedTexts.peek() : undefined);
}
