import { dirname, join, relative, resolve, sep } from "node:path";
import { isInside, PathGuard } from "../paths.js";
import { PathPattern } from "./glob-match.js";

/** Larger ignore files are not looked at. */
const MAX_BYTES = 1024 * 1024;

interface Rule {
  pattern: PathPattern;
  negated: boolean;
  foldersOnly: boolean;
}

/** The rules of one ignore file, for paths below its folder. */
class IgnoreFile {
  readonly #rules: readonly Rule[];

  constructor(
    readonly folder: string,
    content: string,
  ) {
    this.#rules = content
      .replace(/^\uFEFF/, "")
      .split("\n")
      .flatMap((line) => parseRule(line.endsWith("\r") ? line.slice(0, -1) : line) ?? []);
  }

  /** Undefined where no rule speaks of it. */
  ignores(path: string, isFolder: boolean): boolean | undefined {
    const way = relative(this.folder, path).split(sep).join("/");
    const rule = this.#rules.findLast((one) => (isFolder || !one.foldersOnly) && one.pattern.matches(way));
    return rule && !rule.negated;
  }
}

function parseRule(line: string): Rule | undefined {
  if (line.startsWith("#")) return undefined;
  let text = line;
  // Trailing blanks do not count, unless escaped.
  while (text.endsWith(" ") && !/(^|[^\\])(\\\\)*\\ $/.test(text)) text = text.slice(0, -1);
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
  return { pattern: new PathPattern(text), negated, foldersOnly };
}

/** Which paths git would leave alone: nested .gitignore files, .git/info/exclude, negations; deeper files win. */
export class Gitignore {
  /** From the outermost to the innermost. */
  readonly #files: readonly IgnoreFile[];
  readonly #guard: PathGuard;

  private constructor(files: readonly IgnoreFile[], guard: PathGuard) {
    this.#files = files;
    this.#guard = guard;
  }

  /**
   * The rules that hold in `folder`, a resolved path; those of a folder that is itself ignored do not hide what is in it.
   * Outside a repository they begin in `project`.
   */
  static async open(folder: string, project: string): Promise<Gitignore> {
    // Ignore files lie above the project too, so they are read by a guard of their own; nothing of them is shown.
    const guard = await PathGuard.create({ roots: "anywhere", denied: [] });
    const chain: string[] = [];
    let top = isInside(folder, project) ? project : folder;
    let files: IgnoreFile[] = [];
    for (let at = folder; ; at = dirname(at)) {
      const exclude = await readExclude(guard, at);
      if (exclude !== undefined) {
        top = at;
        files = [new IgnoreFile(at, exclude)];
        break;
      }
      if (dirname(at) === at) break;
    }
    for (let at = folder; at !== top; at = dirname(at)) chain.unshift(at);
    let rules = await new Gitignore(files, guard).enter(top);
    for (const one of chain) {
      if (rules.ignores(one, true)) rules = new Gitignore([], guard);
      rules = await rules.enter(one);
    }
    return rules;
  }

  /** The rules that hold below `folder`, where these hold above it. */
  async enter(folder: string): Promise<Gitignore> {
    const content = await readSmall(this.#guard, join(folder, ".gitignore"));
    return content ? new Gitignore([...this.#files, new IgnoreFile(folder, content)], this.#guard) : this;
  }

  /** @param path Resolved; its parents are known not to be ignored. */
  ignores(path: string, isFolder: boolean): boolean {
    const speaks = this.#files.findLast((file) => file.ignores(path, isFolder) !== undefined);
    return speaks?.ignores(path, isFolder) ?? false;
  }
}

/** Content of a regular file of sane size; undefined for everything else. */
async function readSmall(guard: PathGuard, path: string): Promise<string | undefined> {
  // Git follows no link here either.
  try {
    if ((await guard.readLink(path)) !== undefined) return undefined;
    const { handle, stats } = await guard.openFile(path);
    try {
      return stats.size > MAX_BYTES ? undefined : await handle.readFile("utf8");
    } finally {
      await handle.close();
    }
  } catch {
    return undefined;
  }
}

/** `.git/info/exclude` of a repository whose top is `folder`, `""` where it has none; undefined when this is no top. */
async function readExclude(guard: PathGuard, folder: string): Promise<string | undefined> {
  const git = join(folder, ".git");
  if (
    await guard.openFolder(git).then(
      (opened) => opened.close().then(() => true),
      () => false,
    )
  )
    return (await readSmall(guard, join(git, "info", "exclude"))) ?? "";
  // A worktree or submodule: a file that names the folder.
  const pointer = /^gitdir: (.+?)\s*$/m.exec((await readSmall(guard, git)) ?? "")?.[1];
  if (pointer === undefined) return undefined;
  const own = resolve(folder, pointer);
  const common = resolve(own, ((await readSmall(guard, join(own, "commondir"))) ?? ".").trim());
  return (await readSmall(guard, join(common, "info", "exclude"))) ?? "";
}
