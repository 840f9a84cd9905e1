import { PathError } from "../ports/errors.js";
import { foldPath, isInside } from "./names.js";

/** Files that another program runs automatically later: with the user's rights and without a sandbox. */
const PROTECTED_NAMES: readonly (readonly [reason: string, names: readonly string[]])[] = [
  [
    "git runs commands from it",
    [".git", "git~1", ".gitmodules", ".gitconfig", ".config/git", ".husky", ".githooks", ".pre-commit-config.yaml"],
  ],
  ["it runs at the next commit", ["lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".lefthook.yaml"]],
  [
    "an editor runs commands from it when the folder is opened",
    [
      ".vscode",
      "*.code-workspace",
      ".idea",
      ".zed",
      ".fleet",
      ".devcontainer",
      ".devcontainer.json",
      ".exrc",
      ".nvimrc",
      ".nvim.lua",
      ".vimrc",
      ".dir-locals.el",
    ],
  ],
  [
    "a shell runs it automatically",
    [
      ".envrc",
      ".bashrc",
      ".bash_profile",
      ".bash_login",
      ".bash_logout",
      ".bash_aliases",
      ".profile",
      ".zshrc",
      ".zshenv",
      ".zprofile",
      ".zlogin",
      ".zlogout",
      ".kshrc",
      ".cshrc",
      ".tcshrc",
      ".config/fish",
      ".tmux.conf",
      ".inputrc",
    ],
  ],
  [
    "it decides what runs at the next login",
    [
      ".ssh",
      ".config/autostart",
      ".config/systemd",
      ".config/environment.d",
      ".local/bin",
      ".xprofile",
      ".xinitrc",
      ".xsession",
      ".xsessionrc",
      ".pam_environment",
      "Library/LaunchAgents",
    ],
  ],
  [
    "it decides which programs a package manager runs, and where packages come from",
    [".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".cargo/config", ".cargo/config.toml", ".pypirc", "pip.conf"],
  ],
  [
    "another agent runs commands from it",
    [
      ".claude/settings.json",
      ".claude/settings.local.json",
      ".claude/hooks",
      ".mcp.json",
      ".cursor/mcp.json",
      ".cursor/hooks.json",
      ".codex",
      ".gemini/settings.json",
    ],
  ],
];

/** Pattern that stands for the whole built-in list. */
const BUILT_IN_PATTERN = "*";
const CONFIGURED_REASON = "it is named in tools.protected_paths";
const LOADED_REASON = "gantry loads it at its next start";

/** One rule of the list. The last matching rule decides. */
interface Rule {
  readonly parts: readonly RegExp[];
  /** Whether the pattern matches only directly below a root. False: at any depth. */
  readonly isAnchored: boolean;
  /** Reason for the protection. Undefined if the rule lifts the protection. */
  readonly reason: string | undefined;
}

/** Decides which paths the file tools may read but not change. */
export class Protection {
  readonly #rules: readonly Rule[];
  readonly #readOnlyPaths: readonly string[];

  /**
   * - `patterns`: each names a file, or a folder with everything below it. A pattern with `/` is a path, `*` matches
   *   within one name. A leading `/` matches directly below a root only. `"*"` alone adds the built-in list, a leading
   *   `!` lifts the protection.
   * - `readOnlyPaths`: absolute paths that are always protected.
   */
  constructor(patterns: readonly string[], readOnlyPaths: readonly string[] = []) {
    this.#rules = patterns.flatMap((pattern) => {
      if (pattern === BUILT_IN_PATTERN)
        return PROTECTED_NAMES.flatMap(([reason, names]) => names.map((name) => createRule(name, reason)));
      return [
        pattern.startsWith("!") ? createRule(pattern.slice(1), undefined) : createRule(pattern, CONFIGURED_REASON),
      ];
    });
    this.#readOnlyPaths = readOnlyPaths.map(foldPath);
  }

  /**
   * Returns the reason why a path must not be changed. Undefined if the path may be changed. Names in the path of a
   * root itself are not matched.
   */
  findReason(path: string, roots: readonly string[]): string | undefined {
    const foldedPath = foldPath(path);
    if (
      this.#readOnlyPaths.some(
        (readOnlyPath) => isInside(foldedPath, readOnlyPath) || isInside(readOnlyPath, foldedPath),
      )
    )
      return LOADED_REASON;
    // The innermost root counts: a user who adds a protected folder to tools.allow_paths allows changes in it.
    const root = roots
      .map(foldPath)
      .filter((rootPath) => isInside(foldedPath, rootPath))
      .sort((left, right) => right.length - left.length)[0];
    const names = foldedPath
      .slice(root === undefined ? 0 : root.length)
      .split(/[\\/]/)
      .filter((name) => name !== "")
      .map(trimName);
    return this.#rules.findLast((candidate) => matchesNames(candidate, names))?.reason;
  }

  /** Whether this list protects the files from which Git runs commands. */
  get coversGit(): boolean {
    return this.#rules.findLast((candidate) => matchesNames(candidate, [".git", "config"]))?.reason !== undefined;
  }
}

/** Throws the `PathError` for a protected path. */
export function refuseChange(reason: string): never {
  throw new PathError("protected", `is protected, because ${reason}`);
}

function createRule(pattern: string, reason: string | undefined): Rule {
  const foldedPattern = foldPath(pattern);
  const parts = foldedPattern.split("/").filter((part) => part !== "");
  return { parts: parts.map(toRegExp), isAnchored: foldedPattern.startsWith("/"), reason };
}

function toRegExp(part: string): RegExp {
  return new RegExp(`^${part.split("*").map(escapeRegExp).join(".*")}$`, "su");
}

function escapeRegExp(text: string): string {
  return text.replace(/[\\^$.+?()[\]{}|/]/g, "\\$&");
}

function matchesNames({ parts, isAnchored }: Rule, names: readonly string[]): boolean {
  if (parts.length === 0) return false;
  const lastStart = isAnchored ? 0 : names.length - parts.length;
  for (let start = 0; start <= lastStart; start++)
    if (parts.every((part, i) => part.test(names[start + i] ?? ""))) return start + parts.length <= names.length;
  return false;
}

/** Returns a name as Windows resolves it: without dots and spaces at the end, and without a stream after a colon. */
function trimName(name: string): string {
  return name.replace(/:.*$/s, "").replace(/[. ]+$/, "") || name;
}
