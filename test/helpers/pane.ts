import { execFile, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { gantryCommand } from "./node.js";
import { makeTempDir, type Hooks, type TempDir } from "./temp.js";
import { waitFor } from "./wait.js";

/** Time that a terminal has to end after its hang-up, in ms. */
const HANG_UP_MS = 8_000;

/** Why tests of the terminal are skipped; false where tmux is to be had. */
export const NO_TMUX: string | false =
  spawnSync("tmux", ["-V"]).status === 0 ? false : "tmux is not installed here (apt-get install tmux)";

/** What a pane is opened with. */
export interface PaneOptions {
  /** Arguments after `gantry`. */
  args?: readonly string[];
  /** Default: the build if the test runner has made it, otherwise the sources. */
  from?: "source" | "dist";
  columns?: number;
  rows?: number;
  /** Written as `<home>/config.json`. */
  config?: Readonly<Record<string, unknown>>;
  home?: string;
  /** The project folder; default a new one with `files`. */
  projectDir?: string;
  files?: Readonly<Record<string, string>>;
  env?: Readonly<Record<string, string>>;
  /** A shell command in place of gantry; `"$@"` is gantry in it. */
  shell?: string;
}

/** A real pseudo-terminal with `gantry` in it, on a socket of tmux of its own. */
export class Pane {
  readonly projectDir: string;
  readonly home: string;
  readonly #tmux: (...args: string[]) => Promise<string>;

  constructor(tmux: (...args: string[]) => Promise<string>, projectDir: string, home: string) {
    this.#tmux = tmux;
    this.projectDir = projectDir;
    this.home = home;
  }

  /** Rows as they are seen, without colours; with `-e` those too. */
  async screen(...flags: string[]): Promise<string> {
    return this.#tmux("capture-pane", "-p", ...flags);
  }

  /** Wait until what is seen holds true of `wanted`; resolves with it. */
  async until(wanted: RegExp | ((screen: string) => boolean), ...flags: string[]): Promise<string> {
    let screen = "";
    return waitFor(
      `a screen with ${String(wanted)}`,
      async () => {
        screen = await this.screen(...flags);
        return (wanted instanceof RegExp ? wanted.test(screen) : wanted(screen)) ? screen : undefined;
      },
      () => screen,
      50,
    );
  }

  /** Keys by tmux's names: `Enter`, `C-c`, `PPage`. */
  async keys(...names: string[]): Promise<void> {
    await this.#tmux("send-keys", ...names);
  }

  /** Characters, one by one as a person types them. */
  async type(text: string): Promise<void> {
    await this.#tmux("send-keys", "-l", text);
  }

  /** A text at once, in brackets where the program asked for them. */
  async paste(text: string): Promise<void> {
    // As an argument it may be too long.
    await writeFile(`${this.home}/pasted`, text);
    await this.#tmux("load-buffer", `${this.home}/pasted`);
    await this.#tmux("paste-buffer", "-p", "-r");
  }

  /** From now on what the program writes goes into a file as well, byte by byte. */
  async record(file: string): Promise<void> {
    await this.#tmux("pipe-pane", `cat >> '${file}'`);
  }

  async resize(columns: number, rows: number): Promise<void> {
    await this.#tmux("resize-window", "-x", String(columns), "-y", String(rows));
  }

  /** What tmux knows of the pane: `#{alternate_on}`, `#{cursor_flag}`, `#{pane_pid}`. */
  async knows(format: string): Promise<string> {
    return (await this.#tmux("display-message", "-p", format)).trim();
  }

  /** Wait until gantry has ended; resolves with its exit code, and what the screen shows then. */
  async ended(): Promise<{ code: number; screen: string }> {
    const screen = await this.until(/\[ended \d+\]/);
    return { code: Number(/\[ended (\d+)\]/.exec(screen)?.[1]), screen };
  }
}

/** Open a pane; it is gone, with all that runs in it, after the test. */
export async function openPane(hooks: Hooks, options: PaneOptions = {}): Promise<Pane> {
  const folders: TempDir[] = [];
  const folder = async () => {
    const made = await makeTempDir();
    folders.push(made);
    return made;
  };
  const sockets = await folder();
  const socket = sockets.at("tmux");
  const run = promisify(execFile);
  const home = options.home ?? (await folder()).path;
  let { projectDir } = options;
  if (projectDir === undefined) {
    const made = await folder();
    await made.write(options.files ?? {});
    projectDir = made.path;
  }
  if (options.config) await writeFile(`${home}/config.json`, JSON.stringify(options.config), { mode: 0o600 });
  const gantry = [process.execPath, ...gantryCommand(options.from), ...(options.args ?? ["chat"])];
  // No key of the person who runs the tests gets in, and no CI, in which libraries draw nothing.
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
    (await run("tmux", ["-S", socket, "-f", "/dev/null", ...args], { env })).stdout;
  hooks.after(async () => {
    // The shell leads a group of its own, in which gantry runs.
    const group = Number(await tmux("display-message", "-p", "#{pane_pid}").catch(() => ""));
    await tmux("kill-server").catch(() => undefined);
    // tmux hangs up on it. A process that ignores that is killed after a while.
    const patience = performance.now() + HANG_UP_MS;
    const look = () => {
      if (!isRunning(group)) return true;
      if (performance.now() > patience) killGroup(group);
      return undefined;
    };
    await waitFor(`the end of process group ${group} of a terminal`, look, undefined, 20);
    for (const made of folders) await made.remove();
  });
  const script = `${options.shell ?? '"$@"'}; echo "[ended $?]"; exec cat`;
  const size = ["-x", String(options.columns ?? 100), "-y", String(options.rows ?? 30)];
  await tmux("new-session", "-d", ...size, "-c", projectDir, "sh", "-c", script, "gantry", ...gantry);
  return new Pane(tmux, projectDir, home);
}

/** True while a process of the group runs. One that has ended, and whose parent has not read its exit code, does not. */
function isRunning(group: number): boolean {
  if (!Number.isInteger(group) || group <= 0) return false;
  try {
    process.kill(-group, 0);
  } catch {
    return false;
  }
  if (process.platform !== "linux") return true;
  return readdirSync("/proc").some((pid) => {
    try {
      // After the name in brackets: state, parent, group.
      const [state, , id] = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/.*\) /s, "").split(" ");
      return state !== "Z" && Number(id) === group;
    } catch {
      return false;
    }
  });
}

function killGroup(group: number): void {
  try {
    process.kill(-group, "SIGKILL");
  } catch {
    // It has ended.
  }
}
