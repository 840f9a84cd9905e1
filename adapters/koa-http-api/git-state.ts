import { once } from "node:events";
import { SessionNotFoundError } from "gantry";
import { createDeadline, startProcess } from "gantry/plugin";
import type { Context } from "koa";
import { createDisconnectController, sendJson, type ApiDependencies } from "./api.js";
import type { KoaHttpOptions } from "./options.js";
import { resolveProjectFolder } from "./projects.js";
import { QueryParameters } from "./query.js";
import type { GitState } from "./shapes.js";

/** Maximum time of all Git commands of a request, in ms. */
const TIMEOUT_MS = 5_000;
/** Maximum characters of Git's output that are kept. Further changed files are counted only. */
const MAX_OUTPUT_CHARACTERS = 1_000_000;
/** Programs that Git starts for files, by settings of a repository. `%` stands for the driver's name. */
const FILTER_SETTINGS = ["clean", "process"];

/** A folder, and the environment of Git. */
interface GitLocation {
  folder: string;
  environment: KoaHttpOptions["environment"];
}

type State = {
  branch: string | null;
  commit: string | null;
  detached: boolean;
  dirty: number;
  ahead: number | null;
  behind: number | null;
};

const NO_REPOSITORY: State = { branch: null, commit: null, detached: false, dirty: 0, ahead: null, behind: null };

/** `GET /api/git`. */
export async function showGitState(ctx: Context, { agent, options }: ApiDependencies): Promise<void> {
  const query = new QueryParameters(ctx);
  const sessionId = query.getText("session_id") || undefined;
  const session = sessionId === undefined ? undefined : await agent.sessions.get(sessionId);
  if (sessionId !== undefined && !session) throw new SessionNotFoundError(sessionId);
  const requestedDir = query.getText("project_dir") || undefined;
  const rules = { projectDir: agent.projectDir, roots: options.projectRoots, deniedPaths: options.deniedPaths };
  const folder =
    requestedDir === undefined
      ? (session?.projectDir ?? agent.projectDir)
      : await resolveProjectFolder(requestedDir, rules);
  const state = await readGitState({ folder, environment: options.environment }, createDisconnectController(ctx).signal);
  sendJson<typeof GitState>(ctx, { project_dir: folder, ...state });
}

/**
 * Reads the branch and the number of changed files. The answer without a repository applies also if Git is missing,
 * fails or is too slow.
 *
 * The repository is not trusted: no command from its settings runs.
 */
export async function readGitState(location: GitLocation, requestSignal: AbortSignal): Promise<State> {
  const deadline = createDeadline(TIMEOUT_MS, requestSignal);
  const { signal } = deadline;
  try {
    const settings = await runGit(location, ["config", "--null", "--name-only", "--list"], signal);
    if (settings === undefined) return NO_REPOSITORY;
    const status = await runGit(location, [...createFilterOverrides(settings), ...STATUS_ARGUMENTS], signal);
    return status === undefined ? NO_REPOSITORY : parseStatus(status);
  } catch {
    return NO_REPOSITORY;
  } finally {
    deadline.clear();
  }
}

const STATUS_ARGUMENTS = [
  ...["status", "--porcelain=v2", "--branch", "--null", "--untracked-files=normal", "--no-renames"],
  // Git would run in the submodules with their own settings.
  ...["--ignore-submodules=all", "--", "."],
];

/** Settings that stop Git from running the programs of a repository. */
const SAFE_SETTINGS = [
  "core.fsmonitor=false",
  "core.hooksPath=/dev/null",
  "core.pager=cat",
  "core.untrackedCache=keep",
  "submodule.recurse=false",
].flatMap((setting) => ["-c", setting]);

/** Replaces each configured filter by none: `git status` would run it for files whose time has changed. */
function createFilterOverrides(settings: string): string[] {
  const names = settings.split("\0").flatMap((key) => {
    const [, name] = /^filter\.(.+)\.(?:clean|process|smudge|required)$/s.exec(key) ?? [];
    return name === undefined ? [] : [name];
  });
  return [...new Set(names)].flatMap((name) => [
    ...FILTER_SETTINGS.flatMap((setting) => ["-c", `filter.${name}.${setting}=`]),
    ...["-c", `filter.${name}.required=false`],
  ]);
}

/** Environment of Git: the user's own settings apply, and no variable that changes what Git runs. */
function createEnvironment({ PATH = "", HOME = "" }: KoaHttpOptions["environment"]): Record<string, string> {
  return {
    ...{ PATH, HOME, LC_ALL: "C", GIT_OPTIONAL_LOCKS: "0", GIT_TERMINAL_PROMPT: "0" },
    // Missing objects of a partial clone are not fetched, and no transport can run a command.
    ...{ GIT_NO_LAZY_FETCH: "1", GIT_ALLOW_PROTOCOL: "none" },
  };
}

/** Runs Git in a folder. Resolves with its output, or with undefined if it fails. Rejects with the system's error. */
async function runGit(
  { folder, environment }: GitLocation,
  args: readonly string[],
  signal: AbortSignal,
): Promise<string | undefined> {
  signal.throwIfAborted();
  const program = { file: "git", args: [...SAFE_SETTINGS, ...args], cwd: folder, env: createEnvironment(environment) };
  const git = await startProcess(program);
  const stop = () => void git.stop(0);
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  let output = "";
  git.stdin.end();
  git.stderr.resume();
  git.stdout.setEncoding("utf8");
  git.stdout.on("data", (text: string) => {
    output = output.length < MAX_OUTPUT_CHARACTERS ? output + text : output;
  });
  const outputEnd = once(git.stdout, "close");
  const { code } = await git.ended;
  await outputEnd.catch(() => undefined);
  signal.removeEventListener("abort", stop);
  return code === 0 && !signal.aborted ? output : undefined;
}

/** Parses the output of `git status --porcelain=v2 --branch --null`. */
function parseStatus(output: string): State {
  const entries = output.split("\0").filter((entry) => entry !== "");
  const readHeader = (name: string): string | undefined =>
    entries.find((entry) => entry.startsWith(`# branch.${name} `))?.slice(`# branch.${name} `.length);
  const [head, commit] = [readHeader("head"), readHeader("oid")];
  const [, ahead, behind] = /^\+(\d+) -(\d+)$/.exec(readHeader("ab") ?? "") ?? [];
  const isDetached = head === "(detached)";
  return {
    branch: isDetached ? null : (head ?? null),
    commit: commit === undefined || commit === "(initial)" ? null : commit,
    detached: isDetached,
    dirty: entries.filter((entry) => !entry.startsWith("#")).length,
    ahead: ahead === undefined ? null : Number(ahead),
    behind: behind === undefined ? null : Number(behind),
  };
}
