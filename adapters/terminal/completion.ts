/** A completion that the prompt offers. */
export interface Suggestion {
  /** Replaces the text from `from` to the cursor. */
  readonly text: string;
  readonly about: string;
  /** Whether the command takes an argument, so that Enter does not send it yet. */
  readonly takesArgument?: boolean;
}

/** A command that starts with a slash. `hint` describes its argument. */
export type CommandEntry = readonly [name: string, about: string, hint?: string];

/** Suggestions, and the position in the text where they start. */
export interface Completion {
  readonly from: number;
  readonly suggestions: readonly Suggestion[];
}

const MAX_SUGGESTIONS = 8;

/** The word at the cursor: a command at the start of the text, or a file name after `@`. */
export function wordAt(text: string, at: number): { sign: "/" | "@"; from: number; word: string } | undefined {
  const before = text.slice(0, at);
  if (/^\/\S*$/.test(before)) return { sign: "/", from: 0, word: before.slice(1) };
  const file = /(?:^|\s)@((?:[^\s\\]|\\ )*)$/.exec(before);
  return file
    ? { sign: "@", from: at - (file[1] ?? "").length - 1, word: (file[1] ?? "").replaceAll("\\ ", " ") }
    : undefined;
}

/** Commands whose name starts with `word`. */
export function commandsLike(word: string, commands: readonly CommandEntry[]): Suggestion[] {
  return commands
    .filter(([name]) => name.startsWith(word))
    .map(([name, about, hint = ""]) => ({ text: `/${name} `, about, ...(hint !== "" && { waits: true }) }));
}

/** Files whose path contains these letters in this order, the best match first. */
export function filesLike(word: string, files: readonly string[]): Suggestion[] {
  const searchText = word.toLowerCase();
  const matches: { path: string; rank: number }[] = [];
  for (const path of files) {
    const rank = rankOf(path, searchText);
    if (rank !== undefined) matches.push({ path, rank });
  }
  return matches
    .sort((a, b) => a.rank - b.rank || a.path.length - b.path.length || (a.path < b.path ? -1 : 1))
    .slice(0, MAX_SUGGESTIONS)
    .map(({ path }) => ({ text: `@${path.replaceAll(" ", "\\ ")} `, about: "" }));
}

/** Rank of a match: 0 if the file name starts with the text, undefined if the letters are missing. */
function rankOf(path: string, searchText: string): number | undefined {
  const lowerCasePath = path.toLowerCase();
  const name = lowerCasePath.slice(lowerCasePath.lastIndexOf("/") + 1);
  if (name.startsWith(searchText)) return 0;
  if (lowerCasePath.startsWith(searchText)) return 1;
  if (name.includes(searchText)) return 2;
  if (lowerCasePath.includes(searchText)) return 3;
  let at = -1;
  for (const letter of searchText) {
    at = lowerCasePath.indexOf(letter, at + 1);
    if (at === -1) return undefined;
  }
  return 4;
}

/** The existing files that a prompt names with `@`. */
export function filesIn(text: string, files: readonly string[]): string[] {
  const existingPaths = new Set(files);
  const named = [...text.matchAll(/(?:^|\s)@((?:[^\s\\]|\\ )+)/g)].map(([, path = ""]) => path.replaceAll("\\ ", " "));
  return [...new Set(named.filter((path) => existingPaths.has(path)))];
}
