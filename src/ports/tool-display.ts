/** What sort of thing a tool does, for clients that show it. */
export type ToolKind = "read" | "edit" | "delete" | "search" | "execute" | "fetch" | "think" | "other";

/** A place in a file; `path` absolute, `line` from 1. */
export interface Location {
  path: string;
  line?: number;
}

/** Change of one file; `oldText` null when the file is new. */
export interface Diff {
  path: string;
  oldText: string | null;
  newText: string;
}

/** What people are shown of a call's result beside its text. */
export interface Shown {
  diff: readonly Diff[];
  locations: readonly Location[];
}
