import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { isInside, PathGuard } from "../files/path-guard.js";
import { PathRules, type Allowance, type PathRule } from "./path-rules.js";

/** Larger ignore files are not looked at. */
const MAX_BYTES = 1024 * 1024;
/** Rules of one file, and characters of one rule; what is beyond them is left out. */
const MAX_RULES = 20_000;
const MAX_RULE = 10_000;

interface Rule extends PathRule {
  negated: boolean;
}

/** What the ignore files of one search share. */
export interface IgnoreOptions {
  allowance: Allowance;
  /** Told the folder of a file whose rules are not all used. */
  onCut(folder: string): void;
}

/** The rules of one ignore file, for paths below its folder. */
class IgnoreFile {
  readonly #rules: PathRules;
  readonly #negated: readonly boolean[];

  constructor(
    readonly folder: string,
    content: string,
    { allowance, onCut }: IgnoreOptions,
  ) {
    const rules: Rule[] = [];
    let cut = false;
    for (const line of content.replace(/^\uFEFF/, "").split("\n")) {
      allowance.tick();
      const rule = line.length > MAX_RULE ? undefined : parseRule(line.endsWith("\r") ? line.slice(0, -1) : line);
      if (rule && rules.length < MAX_RULES) rules.push(rule);
      else if (rule || line.length > MAX_RULE) cut = true;
    }
    if (cut) onCut(folder);
    this.#rules = new PathRules(rules, allowance);
    this.#negated = rules.map(({ negated }) => negated);
  }

  /** Undefined where no rule speaks of it. @param way From the folder of the file, with `/`. */
  ignores(way: string, isFolder: boolean): boolean | undefined {
    const place = this.#rules.last(way, isFolder);
    return place < 0 ? undefined : !this.#negated[place];
  }
}

function parseRule(line: string): Rule | undefined {
  if (line.startsWith("#")) return undefined;
  let text = withoutTrailingBlanks(line);
  const negated = text.startsWith("!");
  if (negated) text = text.slice(1);
  const foldersOnly = text.endsWith("/");
  if (foldersOnly) text = text.slice(0, -1);
  if (text === "") return undefined;
  const anchored = text.includes("/");
  if (text.startsWith("/")) text = text.slice(1);
  if (!anchored) text = `**/${text}`;
  // `a/**` is what lies in `a`, not `a` itself.
  else if (text.endsWith("/**")) text = `${text}/*`;
  return { pattern: text, negated, foldersOnly };
}

/** They do not count, unless escaped. */
function withoutTrailingBlanks(line: string): string {
  let end = line.length;
  while (line[end - 1] === " ") end--;
  let escapes = end;
  while (line[escapes - 1] === "\\") escapes--;
  return line.slice(0, end < line.length && (end - escapes) % 2 === 1 ? end + 1 : end);
}

/** Which paths git would leave alone: nested .gitignore files, .git/info/exclude, negations; deeper files win. */
export class Gitignore {
  /** From the outermost to the innermost. */
  readonly #files: readonly IgnoreFile[];
  readonly #guard: PathGuard;
  readonly #options: IgnoreOptions;

  private constructor(files: readonly IgnoreFile[], guard: PathGuard, options: IgnoreOptions) {
    this.#files = files;
    this.#guard = guard;
    this.#options = options;
  }

  /**
   * The rules that hold in `folder`, a resolved path; those of a folder that is itself ignored do not hide what is in it.
   * Outside a repository they begin in `project`.
   */
  static async open(folder: string, project: string, options: IgnoreOptions): Promise<Gitignore> {
    // Ignore files lie above the project too, so they are read by a guard of their own; nothing of them is shown.
    const guard = await PathGuard.create({ roots: "anywhere", denied: [] });
    const chain: string[] = [];
    let top = isInside(folder, project) ? project : folder;
    let files: IgnoreFile[] = [];
    for (let at = folder; ; at = dirname(at)) {
      const exclude = await readExclude(guard, at, options);
      if (exclude !== undefined) {
        top = at;
        files = [options.allowance.spend(() => new IgnoreFile(at, exclude, options))];
        break;
      }
      if (dirname(at) === at) break;
    }
    for (let at = folder; at !== top; at = dirname(at)) chain.unshift(at);
    let rules = await new Gitignore(files, guard, options).enter(top);
    for (const one of chain) {
      if (rules.#ignoresFolder(one)) rules = new Gitignore([], guard, options);
      rules = await rules.enter(one);
    }
    return rules;
  }

  /** The rules that hold below `folder`, where these hold above it. */
  async enter(folder: string): Promise<Gitignore> {
    const content = await readSmall(this.#guard, join(folder, ".gitignore"), this.#options);
    if (!content) return this;
    const file = this.#options.allowance.spend(() => new IgnoreFile(folder, content, this.#options));
    return new Gitignore([...this.#files, file], this.#guard, this.#options);
  }

  /** Judges what lies in `folder`, whose parents are known not to be ignored. Its result throws `OutOfTime`. */
  in(folder: string): (name: string, isFolder: boolean) => boolean {
    // The innermost file speaks first.
    const files = this.#files.toReversed().map((file) => {
      const way = relative(file.folder, folder).split(sep).join("/");
      return { file, start: way === "" ? "" : `${way}/` };
    });
    return (name, isFolder) => {
      for (const { file, start } of files) {
        const ignored = file.ignores(start + name, isFolder);
        if (ignored !== undefined) return ignored;
      }
      return false;
    };
  }

  #ignoresFolder(path: string): boolean {
    return this.#options.allowance.spend(() => this.in(dirname(path))(basename(path), true));
  }
}

/** Content of a regular file of sane size; undefined for everything else. */
async function readSmall(guard: PathGuard, path: string, { onCut }: IgnoreOptions): Promise<string | undefined> {
  // Git follows no link here either.
  try {
    if ((await guard.readLink(path)) !== undefined) return undefined;
    const { handle, stats } = await guard.openFile(path);
    try {
      if (stats.size <= MAX_BYTES) return await handle.readFile("utf8");
      onCut(dirname(path));
      return undefined;
    } finally {
      await handle.close();
    }
  } catch {
    return undefined;
  }
}

/**
 * Rules of `.git/info/exclude` in a repository whose top is `folder`, `""` where it has none; undefined when this is no top.
 */
async function readExclude(guard: PathGuard, folder: string, options: IgnoreOptions): Promise<string | undefined> {
  const read = (path: string): Promise<string | undefined> => readSmall(guard, path, options);
  const git = join(folder, ".git");
  if (
    await guard.openFolder(git).then(
      (opened) => opened.close().then(() => true),
      () => false,
    )
  )
    return (await read(join(git, "info", "exclude"))) ?? "";
  // A worktree or submodule: a file that names the folder.
  const pointer = /^gitdir: (.{1,4096})$/m.exec((await read(git)) ?? "")?.[1]?.trim();
  if (pointer === undefined) return undefined;
  const own = resolve(folder, pointer);
  const common = resolve(own, ((await read(join(own, "commondir"))) ?? ".").trim());
  return (await read(join(common, "info", "exclude"))) ?? "";
}
