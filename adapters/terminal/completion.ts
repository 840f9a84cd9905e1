/** Something that a prompt may go on with. */
export interface Suggestion {
  /** In place of what stands from `from` to the cursor. */
  readonly text: string;
  readonly about: string;
  /** More is to be typed behind it. */
  readonly waits?: boolean;
}

/** What can be said by a slash; `hint`: what to type behind it. */
export type CommandLine = readonly [name: string, about: string, hint?: string];

/** What a prompt may go on with, and from where on. */
export interface Completion {
  readonly from: number;
  readonly suggestions: readonly Suggestion[];
}

const MOST = 8;

/** What is being written at the cursor: a command at the beginning, or the name of a file behind `@`. */
export function wordAt(text: string, at: number): { sign: "/" | "@"; from: number; word: string } | undefined {
  const before = text.slice(0, at);
  if (/^\/\S*$/.test(before)) return { sign: "/", from: 0, word: before.slice(1) };
  const file = /(?:^|\s)@((?:[^\s\\]|\\ )*)$/.exec(before);
  return file
    ? { sign: "@", from: at - (file[1] ?? "").length - 1, word: (file[1] ?? "").replaceAll("\\ ", " ") }
    : undefined;
}

/** The commands that begin so. */
export function commandsLike(word: string, commands: readonly CommandLine[]): Suggestion[] {
  return commands
    .filter(([name]) => name.startsWith(word))
    .map(([name, about, hint = ""]) => ({ text: `/${name} `, about, ...(hint !== "" && { waits: true }) }));
}

/** Files whose path has these letters in this order, the closest first. */
export function filesLike(word: string, files: readonly string[]): Suggestion[] {
  const wanted = word.toLowerCase();
  const found: { path: string; rank: number }[] = [];
  for (const path of files) {
    const rank = rankOf(path, wanted);
    if (rank !== undefined) found.push({ path, rank });
  }
  return found
    .sort((a, b) => a.rank - b.rank || a.path.length - b.path.length || (a.path < b.path ? -1 : 1))
    .slice(0, MOST)
    .map(({ path }) => ({ text: `@${path.replaceAll(" ", "\\ ")} `, about: "" }));
}

/** 0: its name begins so; undefined: these letters are not in it. */
function rankOf(path: string, wanted: string): number | undefined {
  const whole = path.toLowerCase();
  const name = whole.slice(whole.lastIndexOf("/") + 1);
  if (name.startsWith(wanted)) return 0;
  if (whole.startsWith(wanted)) return 1;
  if (name.includes(wanted)) return 2;
  if (whole.includes(wanted)) return 3;
  let at = -1;
  for (const letter of wanted) {
    at = whole.indexOf(letter, at + 1);
    if (at === -1) return undefined;
  }
  return 4;
}

/** The files that a prompt names with `@`, as far as there are such. */
export function filesIn(text: string, files: readonly string[]): string[] {
  const known = new Set(files);
  const named = [...text.matchAll(/(?:^|\s)@((?:[^\s\\]|\\ )+)/g)].map(([, path = ""]) => path.replaceAll("\\ ", " "));
  return [...new Set(named.filter((path) => known.has(path)))];
}
