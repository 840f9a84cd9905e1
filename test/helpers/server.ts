import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { gantryCommand } from "./source-paths.js";
import { makeTempDir, type Hooks, type TempDir } from "./temp-dir.js";
import { waitFor, withLimit } from "./wait.js";

const REPOSITORY_ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** Matches `http server listening on http://127.0.0.1:1234` and the line for ACP. */
const LISTEN_LINE = /^(\w+) server listening on (\S+)$/gm;

export interface GantryOptions {
  /** Arguments after `gantry`. */
  args?: readonly string[];
  /** Written to `<home>/config.json`. */
  config?: Readonly<Record<string, unknown>>;
  /** Files of a new project folder. */
  files?: Readonly<Record<string, string | Uint8Array>>;
  /** Home folder, for restarts. Default: a new one, removed after the test. */
  home?: string;
  /** Working directory, and so the project folder. Default: a new one, removed after the test. */
  projectDir?: string;
  /** Added to a minimal environment without API keys of the user who runs the tests. */
  env?: Readonly<Record<string, string>>;
  /** A command prefix that runs gantry as the same process: `["unshare", ...]`. */
  commandPrefix?: readonly string[];
  /**
   * Whether `fetch` sends the token. A server in its own user namespace cannot identify the process of the test.
   * Default: false.
   */
  sendsToken?: boolean;
  /** Default: the build if `npm test` has just made it, otherwise the sources. */
  from?: "source" | "dist";
}

/** `commandPrefix` for a process whose standard output is a full disk (Linux). */
export const FULL_DISK_COMMAND: readonly string[] = ["bash", "-c", 'exec "$@" > /dev/full', "bash"];

export interface ProcessExit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** A `gantry` process with its output and exit. */
export class GantryProcess {
  readonly child: ChildProcessWithoutNullStreams;
  readonly home: string;
  readonly projectDir: string;
  /** Resolves when the process has exited and its output is complete. */
  readonly exited: Promise<ProcessExit>;
  stdout = "";
  stderr = "";
  #hasEnded = false;

  constructor(child: ChildProcessWithoutNullStreams, home: string, projectDir: string) {
    this.child = child;
    this.home = home;
    this.projectDir = projectDir;
    child.stdout.setEncoding("utf8").on("data", (text: string) => (this.stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (this.stderr += text));
    // A write to an ended process must not be an uncaught error.
    child.stdin.on("error", () => {});
    this.exited = once(child, "close").then(([code, signal]) => {
      this.#hasEnded = true;
      return { code: code as number | null, signal: signal as NodeJS.Signals | null };
    });
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  get pid(): number {
    const { pid } = this.child;
    if (pid === undefined) throw new Error("gantry did not start");
    return pid;
  }

  /** Sends a signal and waits for the exit. May be called twice. */
  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<ProcessExit> {
    if (!this.#hasEnded) this.child.kill(signal);
    return this.waitForExit(`the end of gantry after ${signal}`);
  }

  /** Like `exited`, but rejects with all output if the process does not exit in time. */
  async waitForExit(event = "the end of gantry"): Promise<ProcessExit> {
    return withLimit(event, this.exited, () => this.#formatOutput());
  }

  /** Waits until `stdout` or `stderr` matches. Rejects with all output if the process exits first. */
  async waitForOutput(pattern: RegExp, stream: "stdout" | "stderr" = "stdout"): Promise<RegExpExecArray> {
    const nonGlobalPattern = new RegExp(pattern.source, pattern.flags.replace("g", ""));
    return waitFor(
      `${stream} of gantry with ${pattern}`,
      () => {
        const match = nonGlobalPattern.exec(this[stream]);
        if (match) return match;
        if (this.#hasEnded) throw new Error(`gantry ended without ${pattern}\n${this.#formatOutput()}`);
        return undefined;
      },
      () => this.#formatOutput(),
    );
  }

  #formatOutput(): string {
    return `stdout:\n${this.stdout}\nstderr:\n${this.stderr}`;
  }
}

/** A listening server. */
export class GantryServer extends GantryProcess {
  sendsToken = false;

  /** Addresses in the order printed. */
  get addresses(): { label: string; url: string }[] {
    return [...this.stdout.matchAll(LISTEN_LINE)].map(([, label = "", url = ""]) => ({ label, url }));
  }

  /** Origin of the first address: `http://127.0.0.1:<port>`, without a path. */
  get url(): string {
    const [firstAddress] = this.addresses;
    if (!firstAddress) throw new Error("the server does not listen");
    return new URL(firstAddress.url).origin;
  }

  /** The token in the home folder. */
  get token(): string {
    return readFileSync(`${this.home}/token`, "utf8");
  }

  /** Headers for requests that only a user may send. */
  get personHeaders(): Record<string, string> {
    return { Authorization: `Bearer ${this.token}` };
  }

  /** Fetches a path of this server. Checks JSON responses against the API's description. */
  async fetch(path: string, init?: RequestInit): Promise<Response> {
    const headers = this.sendsToken ? { ...this.personHeaders, ...init?.headers } : init?.headers;
    const response = await fetch(new URL(path, this.url), { ...init, ...(headers && { headers }) });
    if (response.headers.get("content-type") !== "application/json") return response;
    const { status } = response;
    const text = await response.clone().text();
    const { checkExchange } = await import("./api-contract.js");
    const { method = "GET", body } = init ?? {};
    const requestBody = typeof body === "string" ? body : undefined;
    checkExchange({ method, path, body: requestBody, status, headers: Object.fromEntries(response.headers), text });
    return response;
  }
}

/** Starts `gantry` as a real process. After the test, the process is killed and its folders are removed. */
export async function spawnGantry(hooks: Hooks, options: GantryOptions = {}): Promise<GantryServer> {
  const folders: TempDir[] = [];
  const createFolder = async (): Promise<TempDir> => {
    const newFolder = await makeTempDir();
    folders.push(newFolder);
    return newFolder;
  };
  // One hook, so that the process has ended before its folders are removed.
  const runningServers: GantryServer[] = [];
  hooks.after(async () => {
    for (const server of runningServers) await server.stop("SIGKILL");
    for (const temporaryFolder of folders) await temporaryFolder.remove();
  });

  const home = options.home ?? (await createFolder()).path;
  let { projectDir } = options;
  if (projectDir === undefined) {
    const newFolder = await createFolder();
    await newFolder.write(options.files ?? {});
    projectDir = newFolder.path;
  }
  if (options.config) {
    await writeFile(`${home}/config.json`, JSON.stringify(options.config, null, 2), { mode: 0o600 });
  }
  const [command = "", ...args] = [
    ...(options.commandPrefix ?? []),
    process.execPath,
    ...gantryCommand(options.from),
    ...(options.args ?? ["serve", "--port", "0"]),
  ];
  const child = spawn(command, args, {
    cwd: projectDir,
    env: {
      ...createEnvironment(),
      TSX_TSCONFIG_PATH: `${REPOSITORY_ROOT}tsconfig.json`,
      GANTRY_HOME: home,
      ...options.env,
    },
    stdio: "pipe",
  });
  const server = new GantryServer(child, home, projectDir);
  server.sendsToken = options.sendsToken === true;
  runningServers.push(server);
  return server;
}

/** Starts `gantry serve --port 0` (or `args`) and waits for its listening line. */
export async function startServer(hooks: Hooks, options: GantryOptions = {}): Promise<GantryServer> {
  const server = await spawnGantry(hooks, options);
  await server.waitForOutput(LISTEN_LINE);
  return server;
}

/** Runs `gantry` until it exits, with `input` on stdin. */
export async function runGantry(
  hooks: Hooks,
  args: readonly string[],
  options: Omit<GantryOptions, "args"> & { input?: string } = {},
): Promise<ProcessExit & { stdout: string; stderr: string }> {
  const server = await spawnGantry(hooks, { ...options, args });
  server.child.stdin.end(options.input ?? "");
  const exit = await server.waitForExit(`the end of gantry ${args.join(" ")}`);
  return { ...exit, stdout: server.stdout, stderr: server.stderr };
}

/** Environment variables that a process needs, without API keys of model providers. */
function createEnvironment(): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const name of [
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TERM",
    "TMPDIR",
    "TEMP",
    "TMP",
    "USER",
    "SHELL",
    "SystemRoot",
  ]) {
    const value = process.env[name];
    if (value !== undefined) environment[name] = value;
  }
  return environment;
}
