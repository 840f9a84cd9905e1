import { execFile, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { gantryCommand } from "./source-paths.js";
import { makeTempDir, type Hooks, type TempDir } from "./temp-dir.js";
import { waitFor } from "./wait.js";

/** Time between the hang-up and the kill of a process group. */
const HANG_UP_LIMIT_MS = 8_000;

/** Why terminal tests are skipped; false if tmux is installed. */
export const NO_TMUX: string | false =
  spawnSync("tmux", ["-V"]).status === 0 ? false : "tmux is not installed here (apt-get install tmux)";

/** Options of a pane. */
export interface PaneOptions {
  /** Arguments after `gantry`. */
  args?: readonly string[];
  /** Default: the build if the test runner has made it, otherwise the sources. */
  from?: "source" | "dist";
  columns?: number;
  rows?: number;
  /** Written to `<home>/config.json`. */
  config?: Readonly<Record<string, unknown>>;
  home?: string;
  /** Project folder. Default: a new one with `files`. */
  projectDir?: string;
  files?: Readonly<Record<string, string>>;
  env?: Readonly<Record<string, string>>;
  /** A shell command that replaces gantry; `"$@"` in it is the gantry command. */
  shell?: string;
}

/** A real pseudo-terminal that runs `gantry`, with its own tmux server. */
export class Pane {
  readonly projectDir: string;
  readonly home: string;
  readonly #tmux: (...args: string[]) => Promise<string>;

  constructor(tmux: (...args: string[]) => Promise<string>, projectDir: string, home: string) {
    this.#tmux = tmux;
    this.projectDir = projectDir;
    this.home = home;
  }

  /** The visible rows without colours; `-e` includes colours. */
  async readScreen(...flags: string[]): Promise<string> {
    return this.#tmux("capture-pane", "-p", ...flags);
  }

  /** Waits until the screen matches the pattern or condition. Resolves with the screen. */
  async waitForScreen(condition: RegExp | ((screen: string) => boolean), ...flags: string[]): Promise<string> {
    let screen = "";
    return waitFor(
      `a screen with ${String(condition)}`,
      async () => {
        screen = await this.readScreen(...flags);
        return (condition instanceof RegExp ? condition.test(screen) : condition(screen)) ? screen : undefined;
      },
      () => screen,
      50,
    );
  }

  /** Sends keys by tmux's names: `Enter`, `C-c`, `PPage`. */
  async sendKeys(...names: string[]): Promise<void> {
    await this.#tmux("send-keys", ...names);
  }

  /** Types characters one by one. */
  async type(text: string): Promise<void> {
    await this.#tmux("send-keys", "-l", text);
  }

  /** Pastes a text at once, with bracketed paste if the program enabled it. */
  async paste(text: string): Promise<void> {
    // The text may be too long for an argument.
    await writeFile(`${this.home}/pasted`, text);
    await this.#tmux("load-buffer", `${this.home}/pasted`);
    await this.#tmux("paste-buffer", "-p", "-r");
  }

  /** Also writes all further output of the program to a file. */
  async record(file: string): Promise<void> {
    await this.#tmux("pipe-pane", `cat >> '${file}'`);
  }

  async resize(columns: number, rows: number): Promise<void> {
    await this.#tmux("resize-window", "-x", String(columns), "-y", String(rows));
  }

  /** Reads a tmux format of the pane: `#{alternate_on}`, `#{cursor_flag}`, `#{pane_pid}`. */
  async readFormat(format: string): Promise<string> {
    return (await this.#tmux("display-message", "-p", format)).trim();
  }

  /** Waits until gantry has exited. Resolves with its exit code and the final screen. */
  async waitForExit(): Promise<{ code: number; screen: string }> {
    const screen = await this.waitForScreen(/\[ended \d+\]/);
    return { code: Number(/\[ended (\d+)\]/.exec(screen)?.[1]), screen };
  }
}

/** Opens a pane. After the test, the pane is closed and all its processes are ended. */
export async function openPane(hooks: Hooks, options: PaneOptions = {}): Promise<Pane> {
  const folders: TempDir[] = [];
  const createFolder = async () => {
    const newFolder = await makeTempDir();
    folders.push(newFolder);
    return newFolder;
  };
  const socketFolder = await createFolder();
  const socket = socketFolder.at("tmux");
  const runFile = promisify(execFile);
  const home = options.home ?? (await createFolder()).path;
  let { projectDir } = options;
  if (projectDir === undefined) {
    const newFolder = await createFolder();
    await newFolder.write(options.files ?? {});
    projectDir = newFolder.path;
  }
  if (options.config) await writeFile(`${home}/config.json`, JSON.stringify(options.config), { mode: 0o600 });
  const gantry = [process.execPath, ...gantryCommand(options.from), ...(options.args ?? ["chat"])];
  // Excludes API keys of the user who runs the tests, and CI, which disables drawing in some libraries.
  const env = {
    PATH: process.env.PATH ?? "",
    HOME: home,
    LANG: "C.UTF-8",
    LC_ALL: "C.UTF-8",
    TMPDIR: process.env.TMPDIR ?? "/tmp",
    GANTRY_HOME: home,
    ...options.env,
  };
  const tmux = async (...args: string[]) =>
    (await runFile("tmux", ["-S", socket, "-f", "/dev/null", ...args], { env })).stdout;
  hooks.after(async () => {
    // The shell leads its own process group, in which gantry runs.
    const processGroup = Number(await tmux("display-message", "-p", "#{pane_pid}").catch(() => ""));
    await tmux("kill-server").catch(() => undefined);
    // tmux sends a hang-up. A process that ignores the hang-up is killed after HANG_UP_LIMIT_MS.
    const killAtMs = performance.now() + HANG_UP_LIMIT_MS;
    const checkEnded = () => {
      if (!isGroupRunning(processGroup)) return true;
      if (performance.now() > killAtMs) killGroup(processGroup);
      return undefined;
    };
    await waitFor(`the end of process group ${processGroup} of a terminal`, checkEnded, undefined, 20);
    for (const temporaryFolder of folders) await temporaryFolder.remove();
  });
  const script = `${options.shell ?? '"$@"'}; echo "[ended $?]"; exec cat`;
  const sizeArguments = ["-x", String(options.columns ?? 100), "-y", String(options.rows ?? 30)];
  await tmux("new-session", "-d", ...sizeArguments, "-c", projectDir, "sh", "-c", script, "gantry", ...gantry);
  return new Pane(tmux, projectDir, home);
}

/** Whether a process of the group runs. Zombies do not count. */
function isGroupRunning(processGroup: number): boolean {
  if (!Number.isInteger(processGroup) || processGroup <= 0) return false;
  try {
    process.kill(-processGroup, 0);
  } catch {
    return false;
  }
  if (process.platform !== "linux") return true;
  return readdirSync("/proc").some((pid) => {
    try {
      // Fields after the name in parentheses: state, parent, group.
      const [state, , id] = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/.*\) /s, "").split(" ");
      return state !== "Z" && Number(id) === processGroup;
    } catch {
      return false;
    }
  });
}

function killGroup(processGroup: number): void {
  try {
    process.kill(-processGroup, "SIGKILL");
  } catch {
    // The process has already ended.
  }
}
