/** A text that the prompt suggests. */
export interface Suggestion {
  /** Replaces the text from `Completion.start` to the cursor. */
  readonly text: string;
  readonly description: string;
  /** Whether the command takes an argument: Enter then inserts the command but does not send it. */
  readonly takesArgument?: boolean;
}

/** A command that starts with a slash. `hint` describes its argument. */
export type CommandEntry = readonly [name: string, description: string, hint?: string];

/** Suggestions, and the index in the text at which they start. */
export interface Completion {
  readonly start: number;
  readonly suggestions: readonly Suggestion[];
}

const MAX_SUGGESTIONS = 8;

/**
 * Returns the word at the cursor: a command at the start of the text, or a file name after `@`. `start` is the index of
 * `sign`. Undefined if the cursor is elsewhere.
 */
export function findWordAt(text: string, cursor: number): { sign: "/" | "@"; start: number; word: string } | undefined {
  const prefix = text.slice(0, cursor);
  if (/^\/\S*$/.test(prefix)) return { sign: "/", start: 0, word: prefix.slice(1) };
  const fileMatch = /(?:^|\s)@((?:[^\s\\]|\\ )*)$/.exec(prefix);
  return fileMatch
    ? { sign: "@", start: cursor - (fileMatch[1] ?? "").length - 1, word: (fileMatch[1] ?? "").replaceAll("\\ ", " ") }
    : undefined;
}

export function suggestCommands(prefix: string, commands: readonly CommandEntry[]): Suggestion[] {
  return (
    commands
      .filter(([name]) => name.startsWith(prefix))
      // Enter runs the first one: `/mode` must not open the list of models.
      .sort(([left], [right]) => Number(right === prefix) - Number(left === prefix))
      .map(([name, description, hint = ""]) => ({
        text: `/${name} `,
        description,
        ...(hint !== "" && { takesArgument: true }),
      }))
  );
}

/** Suggests files whose path contains the letters of `word` in this order, the best match first. */
export function suggestFiles(word: string, files: readonly string[]): Suggestion[] {
  const searchText = word.toLowerCase();
  const matches: { path: string; rank: number }[] = [];
  for (const path of files) {
    const rank = computeRank(path, searchText);
    if (rank !== undefined) matches.push({ path, rank });
  }
  return matches
    .sort((a, b) => a.rank - b.rank || a.path.length - b.path.length || (a.path < b.path ? -1 : 1))
    .slice(0, MAX_SUGGESTIONS)
    .map(({ path }) => ({ text: `@${path.replaceAll(" ", "\\ ")} `, description: "" }));
}

/** Returns the rank of a match; 0 is the best. Undefined if the path lacks a letter. */
function computeRank(path: string, searchText: string): number | undefined {
  const lowerCasePath = path.toLowerCase();
  const name = lowerCasePath.slice(lowerCasePath.lastIndexOf("/") + 1);
  if (name.startsWith(searchText)) return 0;
  if (lowerCasePath.startsWith(searchText)) return 1;
  if (name.includes(searchText)) return 2;
  if (lowerCasePath.includes(searchText)) return 3;
  let index = -1;
  for (const letter of searchText) {
    index = lowerCasePath.indexOf(letter, index + 1);
    if (index === -1) return undefined;
  }
  return 4;
}

/** Returns the paths that a prompt names with `@`, if they are in `files`. */
export function findPaths(text: string, files: readonly string[]): string[] {
  const existingPaths = new Set(files);
  const namedPaths = [...text.matchAll(/(?:^|\s)@((?:[^\s\\]|\\ )+)/g)].map(([, path = ""]) =>
    path.replaceAll("\\ ", " "),
  );
  return [...new Set(namedPaths.filter((path) => existingPaths.has(path)))];
}
