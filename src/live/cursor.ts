import { InputError } from "../ports/errors.js";

/** A place in what a session says. */
export interface Cursor {
  /** Reverts and restores that the reader knows of. */
  readonly cuts: number;
  /** Of the last message that the reader has; 0 before the first. */
  readonly seq: number;
  /** UTF-16 units of its text and of its reasoning that the reader has; undefined when it has all of it. */
  readonly within: { readonly text: number; readonly reasoning: number } | undefined;
}

const BEGINNING: Cursor = { cuts: 0, seq: 0, within: undefined };

/** Opaque to clients: a mark of the session, then `cuts.seq` behind a message, `cuts.seq.text.reasoning` in a growing one. */
export function formatCursor(rootId: string, { cuts, seq, within }: Cursor): string {
  return `${markOf(rootId)}-${cuts}.${seq}${within ? `.${within.text}.${within.reasoning}` : ""}`;
}

/** Throws `InputError` for one that never was, and for one of another session. */
export function parseCursor(rootId: string, text: string): Cursor {
  if (text === "") return BEGINNING;
  const match = /^([a-z0-9]{1,7})-(\d{1,15})\.(\d{1,15})(?:\.(\d{1,15})\.(\d{1,15}))?$/.exec(text);
  if (!match) throw new InputError("after", "a cursor, as the id of an event tells it");
  if (match[1] !== markOf(rootId)) throw new InputError("after", "a cursor of this session, got one of another");
  const [cuts, seq, ofText, ofReasoning] = match.slice(2).map(Number) as [number, number, number, number];
  return { cuts, seq, within: match[4] === undefined ? undefined : { text: ofText, reasoning: ofReasoning } };
}

/** FNV-1a of the id: enough to find out a mistake. */
function markOf(id: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < id.length; at += 1) hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193);
  return (hash >>> 0).toString(36);
}
