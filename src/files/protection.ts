import { PathError } from "../ports/errors.js";
import { folded, isInside } from "./names.js";

/** Files that nobody runs now, and that another program runs by itself later: with the user's rights, in no sandbox. */
const GROUPS: readonly (readonly [why: string, names: readonly string[]])[] = [
  [
    "git runs what it says",
    [".git", "git~1", ".gitmodules", ".gitconfig", ".config/git", ".husky", ".githooks", ".pre-commit-config.yaml"],
  ],
  ["it runs at the next commit", ["lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".lefthook.yaml"]],
  [
    "an editor runs what it says when the folder is opened",
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
    "a shell runs it by itself",
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
    "another agent runs what it says",
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

/** Stands for all of the above in a list. */
const ALL = "*";
const NAMED = "it is named in tools.protected_paths";
const LOADED = "gantry loads it at its next start";

/** Rules of one list; the last that fits decides. */
interface Rule {
  readonly parts: readonly RegExp[];
  /** From the root alone, not at any depth. */
  readonly anchored: boolean;
  /** Undefined: lifted. */
  readonly why: string | undefined;
}

/** Which paths file tools may read and not change. */
export class Protection {
  readonly #rules: readonly Rule[];
  readonly #readOnly: readonly string[];

  /**
   * `patterns`: names of files or folders (then all below), several with `/`, `*` for a part of one name, a leading `/`
   * for the root alone; `"*"` alone stands for the built-in list, a leading `!` lifts. `readOnly`: absolute paths.
   */
  constructor(patterns: readonly string[], readOnly: readonly string[] = []) {
    this.#rules = patterns.flatMap((pattern) => {
      if (pattern === ALL) return GROUPS.flatMap(([why, names]) => names.map((name) => rule(name, why)));
      return [pattern.startsWith("!") ? rule(pattern.slice(1), undefined) : rule(pattern, NAMED)];
    });
    this.#readOnly = readOnly.map(folded);
  }

  /** Why a path may not be changed; undefined when it may. `roots`: a name above them says nothing. */
  why(path: string, roots: readonly string[]): string | undefined {
    const plain = folded(path);
    if (this.#readOnly.some((one) => isInside(plain, one) || isInside(one, plain))) return LOADED;
    // The innermost: who opens a protected folder by tools.allow_paths means it.
    const root = roots
      .map(folded)
      .filter((one) => isInside(plain, one))
      .sort((a, b) => b.length - a.length)[0];
    const names = plain
      .slice(root === undefined ? 0 : root.length)
      .split(/[\\/]/)
      .filter((name) => name !== "")
      .map(trimmed);
    return this.#rules.findLast((one) => fits(one, names))?.why;
  }

  /** Whether this list protects what git runs. */
  get coversGit(): boolean {
    return this.#rules.findLast((one) => fits(one, [".git", "config"]))?.why !== undefined;
  }
}

/** Throws the refusal. */
export function refuseChange(why: string): never {
  throw new PathError("protected", `is protected, because ${why}`);
}

function rule(pattern: string, why: string | undefined): Rule {
  const plain = folded(pattern);
  const parts = plain.split("/").filter((part) => part !== "");
  return { parts: parts.map(matcher), anchored: plain.startsWith("/"), why };
}

function matcher(part: string): RegExp {
  return new RegExp(`^${part.split("*").map(escaped).join(".*")}$`, "su");
}

function escaped(text: string): string {
  return text.replace(/[\\^$.+?()[\]{}|/]/g, "\\$&");
}

function fits({ parts, anchored }: Rule, names: readonly string[]): boolean {
  if (parts.length === 0) return false;
  const last = anchored ? 0 : names.length - parts.length;
  for (let at = 0; at <= last; at++)
    if (parts.every((part, i) => part.test(names[at + i] ?? ""))) return at + parts.length <= names.length;
  return false;
}

/** What Windows takes for the same name: no dots or blanks at the end, no stream behind a colon. */
function trimmed(name: string): string {
  return name.replace(/:.*$/s, "").replace(/[. ]+$/, "") || name;
}
