// A key in the terminal, from the byte that is written to a pseudo-terminal until the key is drawn.
import { execFileSync, type ChildProcess } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { resolveBenchFile, runInterleaved, type Bench, type Figure, type Scenario } from "./bench.js";
import { endProcess, readCpuMs, startProcess } from "./processes.js";
import { median } from "./statistics.js";

/** Letters that no frame contains before they are typed. */
const KEYS = [..."αβγδεζηθικλμνξπρστυφ"];
const CTRL_U = "\u0015";
const ENTER = "\r";
/** Pause between two keys, as between those of a fast typist: each key gets its own frame. */
const KEY_INTERVAL_MS = 60;
/** Answer that is on the screen, in tokens. */
const ANSWER_TOKENS = 2_000;
const WARM_UP_KEYS = 20;
const LIMIT_MS = 20_000;

/** A program in a pseudo-terminal of 100 columns and 30 rows. */
class Terminal {
  readonly child: ChildProcess;
  #output = "";
  #onOutput: () => void = () => {};

  constructor(command: readonly string[], options: { cwd: string; env: NodeJS.ProcessEnv }) {
    const quotedCommand = command.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
    const shellLine = `stty cols 100 rows 30; exec ${quotedCommand}`;
    this.child = startProcess(["script", "--quiet", "--flush", "--command", shellLine, "/dev/null"], options);
    this.child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.#output += text;
      this.#onOutput();
    });
  }

  /** Writes text, and waits until later output contains `expectedText`. Resolves with the duration in ms. */
  async type(text: string, expectedText: string): Promise<number> {
    this.#output = "";
    const startMs = performance.now();
    this.child.stdin?.write(text);
    await this.waitFor(expectedText);
    return performance.now() - startMs;
  }

  /** Waits until the output since the last written text contains `expectedText`. */
  async waitFor(expectedText: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no ${expectedText} within ${LIMIT_MS} ms`)), LIMIT_MS);
      this.#onOutput = () => {
        if (!this.#output.includes(expectedText)) return;
        clearTimeout(timer);
        resolve();
      };
      this.#onOutput();
    });
  }

  /** Removes the typed line, and waits for the frame without it. */
  async clearLine(): Promise<void> {
    this.child.stdin?.write(CTRL_U);
    await delay(2 * KEY_INTERVAL_MS);
  }
}

export const terminalRows: Scenario = {
  rows: ["terminal-key"],
  async getSkipReason() {
    try {
      // The script of other systems has no long options.
      execFileSync("script", ["--version"], { stdio: "ignore" });
      return undefined;
    } catch {
      return "it needs script of util-linux, which is not installed";
    }
  },
  async run(bench) {
    const terminals = [await openChat(bench), await openFloor(bench)] as const;
    const keyCount = bench.getRounds(200, 60);
    const figures = terminals.map(() => ({ samples: [] as number[], cpuMs: 0 }));
    try {
      for (const terminal of terminals) await typeKeys(terminal, WARM_UP_KEYS);
      await runInterleaved([0, 1] as const, keyCount / KEYS.length, async (index) => {
        const { cpuMs, samples } = await typeKeys(terminals[index], KEYS.length);
        figures[index]!.samples.push(...samples);
        figures[index]!.cpuMs += cpuMs / keyCount;
      });
    } finally {
      await Promise.all(terminals.map(({ child }) => endProcess(child)));
    }
    const [gantry, floor] = figures as [Figure, Figure];
    return [{ row: "terminal-key", comparedValue: median(gantry.samples), gantry, floor }];
  },
};

/** Opens `gantry chat` with a conversation. */
async function openChat(bench: Bench): Promise<Terminal> {
  const env = { ...bench.createEnvironment(bench.createHome()), TERM: "xterm-256color", LANG: "C.UTF-8" };
  const terminal = new Terminal(bench.getGantryCommand("chat"), { cwd: bench.createProject(), env });
  await terminal.waitFor("Type a prompt");
  await terminal.type(`[tokens=${ANSWER_TOKENS}]${ENTER}`, "hello");
  // The title arrives, and the last frames of the run are drawn.
  await delay(1_000);
  return terminal;
}

async function openFloor(bench: Bench): Promise<Terminal> {
  const command = [bench.options.node, resolveBenchFile("floor-terminal.mjs")];
  const terminal = new Terminal(command, { cwd: bench.createProject(), env: { PATH: process.env.PATH } });
  await terminal.waitFor("Type a prompt");
  return terminal;
}

/** Types keys one at a time, and removes the line. Resolves with the time of each key and the CPU time of all. */
async function typeKeys(terminal: Terminal, count: number): Promise<{ samples: number[]; cpuMs: number }> {
  const cpuMsBefore = readCpuMs(terminal.child);
  const samples: number[] = [];
  for (let n = 0; n < count; n++) {
    const key = KEYS[n % KEYS.length] ?? "";
    samples.push(await terminal.type(key, key));
    await delay(KEY_INTERVAL_MS);
  }
  const cpuMs = readCpuMs(terminal.child) - cpuMsBefore;
  await terminal.clearLine();
  return { samples, cpuMs };
}
