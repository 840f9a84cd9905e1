import { once } from "node:events";
import { startProcess } from "./start-process.js";

/** A folder, and the environment of Git. */
export interface GitLocation {
  /** Absolute path of the working directory. */
  readonly folder: string;
  /** Source of `PATH` and `HOME`. No other variable is used. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Variables that select the repository, its index and its objects, such as `GIT_DIR`. Default: none. */
  readonly variables?: Readonly<Record<string, string>> | undefined;
}

/** The end of a Git command. */
export interface GitResult {
  /** Whether Git ended with code 0. */
  readonly isSuccess: boolean;
  readonly stdout: string;
  readonly stderr: string;
  /** Whether `stdout` lacks its end. */
  readonly isCut: boolean;
}

/** A setting of a repository, of the user or of the system. */
export type GitSetting = readonly [name: string, value: string];

/** Options of a Git command. */
export interface GitRunOptions {
  /** Kills Git. The command then rejects with the signal's reason. */
  readonly signal: AbortSignal;
  /** Maximum characters of each output. Default: 1,000,000. */
  readonly maxCharacters?: number | undefined;
}

const MAX_OUTPUT_CHARACTERS = 1_000_000;

/** Settings that stop Git from running the programs of a repository. */
const SAFE_SETTINGS = [
  "core.fsmonitor=false",
  "core.hooksPath=/dev/null",
  "core.pager=cat",
  "core.untrackedCache=keep",
  "submodule.recurse=false",
];

/** Programs that Git starts for files, by settings of a repository. */
const FILTER_SETTINGS = ["clean", "smudge", "process"];

/** Runs Git in a repository that is not trusted: no hook, filter or other command from its settings runs. */
export class Git {
  readonly #location: GitLocation;
  readonly #safeArguments: readonly string[];
  /** All settings that apply to the repository. Names are in lower case, except for the middle part. */
  readonly settings: readonly GitSetting[];

  constructor(location: GitLocation, settings: readonly GitSetting[]) {
    this.#location = location;
    this.settings = settings;
    this.#safeArguments = [...SAFE_SETTINGS, ...createOverrides(settings)].flatMap((entry) => ["-c", entry]);
  }

  /** Rejects with the system's error if Git cannot start, or with the signal's reason. */
  run(args: readonly string[], options: GitRunOptions): Promise<GitResult> {
    return runGit(this.#location, [...this.#safeArguments, ...args], options);
  }
}

/**
 * Reads the settings of the repository that contains a folder. Undefined if Git fails. Rejects with the system's error
 * if Git cannot start, or with the signal's reason.
 */
export async function openGit(location: GitLocation, signal: AbortSignal): Promise<Git | undefined> {
  const safeArguments = SAFE_SETTINGS.flatMap((entry) => ["-c", entry]);
  const listing = await runGit(location, [...safeArguments, "config", "--null", "--list"], { signal });
  // A cut list could lack a filter.
  if (!listing.isSuccess || listing.isCut) return undefined;
  const settings = listing.stdout.split("\0").map((entry): GitSetting => {
    const nameEnd = entry.indexOf("\n");
    return nameEnd === -1 ? [entry, ""] : [entry.slice(0, nameEnd), entry.slice(nameEnd + 1)];
  });
  return new Git(location, settings);
}

/** Replaces each configured filter by none, and disables configured hooks. */
function createOverrides(settings: readonly GitSetting[]): string[] {
  const filters = new Set<string>();
  const hooks = new Set<string>();
  for (const [name] of settings) {
    const [, filter] = /^filter\.(.+)\.(?:clean|process|smudge|required)$/s.exec(name) ?? [];
    const [, hook] = /^hook\.(.+)\.(?:command|event)$/s.exec(name) ?? [];
    if (filter !== undefined) filters.add(filter);
    if (hook !== undefined) hooks.add(hook);
  }
  return [
    ...[...filters].flatMap((name) => [
      ...FILTER_SETTINGS.map((setting) => `filter.${name}.${setting}=`),
      `filter.${name}.required=false`,
    ]),
    ...[...hooks].map((name) => `hook.${name}.enabled=false`),
  ];
}

/** The user's own settings apply, and no variable that changes what Git runs. */
function createEnvironment({ environment, variables }: GitLocation): Record<string, string> {
  const { PATH = "", HOME = "" } = environment;
  return {
    ...{ PATH, HOME, LC_ALL: "C", GIT_OPTIONAL_LOCKS: "0", GIT_TERMINAL_PROMPT: "0" },
    // Missing objects of a partial clone are not fetched, and no transport can run a command.
    ...{ GIT_NO_LAZY_FETCH: "1", GIT_ALLOW_PROTOCOL: "none" },
    ...variables,
  };
}

async function runGit(
  location: GitLocation,
  args: readonly string[],
  { signal, maxCharacters = MAX_OUTPUT_CHARACTERS }: GitRunOptions,
): Promise<GitResult> {
  signal.throwIfAborted();
  const git = await startProcess({ file: "git", args, cwd: location.folder, env: createEnvironment(location) });
  const stop = () => void git.stop(0);
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  git.stdin.end();
  const outputs = [git.stdout, git.stderr].map((stream) => {
    const output = { text: "", isCut: false, end: once(stream, "close") };
    stream.setEncoding("utf8");
    stream.on("data", (text: string) => {
      if (output.text.length < maxCharacters) output.text += text;
      else output.isCut = true;
    });
    return output;
  });
  const { code } = await git.ended;
  for (const { end } of outputs) await end.catch(() => undefined);
  signal.removeEventListener("abort", stop);
  signal.throwIfAborted();
  const [stdout, stderr] = outputs;
  return {
    isSuccess: code === 0,
    stdout: stdout?.text ?? "",
    stderr: stderr?.text ?? "",
    isCut: stdout?.isCut ?? false,
  };
}
