/** Category of a tool, for clients that show its calls. */
export type ToolKind = "read" | "edit" | "delete" | "search" | "execute" | "fetch" | "think" | "other";

/** Position in a file. `path` is absolute; `line` starts at 1. */
export interface Location {
  path: string;
  line?: number;
}

/** Change of one file. `oldText` is null for a new file. */
export interface Diff {
  path: string;
  oldText: string | null;
  newText: string;
}

/** Display data of a call's result, besides its text. */
export interface ToolDisplay {
  diff: readonly Diff[];
  locations: readonly Location[];
}
