// Shared parts of all rows: the model server, the measured subjects, and interleaved rounds.
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import type { ChildProcess } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { HttpPeer } from "./http-peer.js";
import { endProcess, createTempFolder, startProcess } from "./processes.js";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Returns the path of a file in this folder. */
export const resolveBenchFile = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/** Options of the command line. */
export interface BenchOptions {
  /** Whether scenarios have fewer rounds. */
  quick: boolean;
  /** Ids of rows; empty for all. */
  rows: readonly string[];
  /** The built checkout that is measured. */
  product: string;
  /** Path of the Node that runs gantry and the floors (minimal reference programs). */
  node: string;
  /** ACP agents over stdio that are measured for comparison. */
  peers: readonly Peer[];
  /** HTTP servers that are measured for comparison. */
  httpPeers: readonly HttpPeer[];
  /** Port of the model server; 0 for any. */
  modelPort: number;
}

/** An ACP agent over stdio, started by a shell command. */
export interface Peer {
  name: string;
  command: string;
}

/** Samples of one subject in one row, in the unit of the row, and the mean CPU time of a sample. */
export interface Figure {
  samples: number[];
  cpuMs?: number;
}

/** Measured figures of one row. */
export interface RowMeasurement {
  row: string;
  /** The value that is compared with the goal. */
  comparedValue: number;
  gantry: Figure;
  floor?: Figure;
  peers?: Readonly<Record<string, Figure>>;
  /** Additional observations. */
  notes?: readonly string[];
}

/** Measures one or more rows together. It returns at least the requested rows. */
export interface Scenario {
  rows: readonly string[];
  /** Returns why the rows cannot be measured on this machine; undefined if they can. Default: they can. */
  getSkipReason?(): Promise<string | undefined>;
  run(bench: Bench): Promise<RowMeasurement[]>;
}

/** The model server and the options. Created once. */
export class Bench {
  readonly options: BenchOptions;
  /** Base URL of the model, for example `http://127.0.0.1:1234/v1`. */
  readonly modelUrl: string;
  readonly #child: ChildProcess;

  private constructor(options: BenchOptions, modelUrl: string, child: ChildProcess) {
    this.options = options;
    this.modelUrl = modelUrl;
    this.#child = child;
  }

  static async create(options: BenchOptions): Promise<Bench> {
    const child = startProcess([options.node, resolveBenchFile("fake-model.mjs"), String(options.modelPort)], {
      stderr: "inherit",
    });
    const { port } = JSON.parse(await waitForMatch(child, /^(\{.*\})$/m)) as { port: number };
    return new Bench(options, `http://127.0.0.1:${port}/v1`, child);
  }

  async close(): Promise<void> {
    await endProcess(this.#child);
  }

  /** Returns the number of rounds: `fullRounds`, or `quickRounds` in a quick run. */
  getRounds(fullRounds: number, quickRounds: number): number {
    return this.options.quick ? quickRounds : fullRounds;
  }

  isRowRequested(row: string): boolean {
    return this.options.rows.length === 0 || this.options.rows.includes(row);
  }

  /**
   * Creates a home folder with a config that has one provider. Without `session`, sessions are stored in the default
   * store.
   */
  createHome(session?: { driver: string; [option: string]: unknown }): string {
    const home = createTempFolder();
    const models = [{ id: "m1", name: "M1", context_window: 10_000_000 }];
    const provider = { name: "lab", driver: "openai", base_url: this.modelUrl, api_key: "no-key", models };
    const config = { providers: [provider], ...(session ? { session } : {}) };
    writeFileSync(path.join(home, "config.json"), JSON.stringify(config));
    return home;
  }

  /** Creates a project folder with a few files. */
  createProject(): string {
    const project = createTempFolder();
    mkdirSync(path.join(project, "src"));
    writeFileSync(path.join(project, "package.json"), "{}\n");
    writeFileSync(path.join(project, "src/answer.ts"), "export const answer = 42;\n");
    return project;
  }

  getGantryCommand(...args: string[]): [program: string, ...args: string[]] {
    const { product, node } = this.options;
    const { bin } = JSON.parse(readFileSync(path.join(product, "package.json"), "utf8")) as { bin: { gantry: string } };
    return [node, path.join(product, bin.gantry), ...args];
  }

  /** Creates a clean environment, so that settings of the caller have no effect. */
  createEnvironment(home: string): NodeJS.ProcessEnv {
    return { PATH: process.env.PATH, HOME: home, GANTRY_HOME: home };
  }

  /** Starts `gantry serve` and waits until it listens. */
  async startServer(
    home = this.createHome(),
    cwd = this.createProject(),
    nodeArgs: readonly string[] = [],
  ): Promise<Server> {
    const [node, ...gantryArguments] = this.getGantryCommand("serve", "--port", "0");
    const spawnedMs = performance.now();
    const child = startProcess([node, ...nodeArgs, ...gantryArguments], { cwd, env: this.createEnvironment(home) });
    const baseUrl = await waitForMatch(child, /listening on (\S+)/);
    return { child, baseUrl, startDurationMs: performance.now() - spawnedMs };
  }
}

/** A listening server. */
export interface Server {
  child: ChildProcess;
  baseUrl: string;
  /** Time from the spawn to the line that reports the address, in ms. */
  startDurationMs: number;
}

/**
 * Resolves with the first group of the first match in a process's output, or with the match if the pattern has no
 * group. Discards later output. Rejects if the process exits first.
 */
export async function waitForMatch(child: ChildProcess, pattern: RegExp): Promise<string> {
  const { stdout } = child;
  if (!stdout) throw new Error("no output to read");
  const exit = once(child, "exit").then(([code, signal]) => {
    throw new Error(`${child.spawnargs.join(" ")} ended (${code ?? signal}) without the expected output ${pattern}`);
  });
  let output = "";
  let hasMatched = false;
  const firstMatch = new Promise<string>((resolve) =>
    stdout.setEncoding("utf8").on("data", (text: string) => {
      if (hasMatched) return;
      output += text;
      const match = pattern.exec(output);
      if (!match) return;
      hasMatched = true;
      resolve(match[1] ?? match[0]);
    }),
  );
  return Promise.race([firstMatch, exit]);
}

/**
 * Runs rounds in which each subject has a turn. Every other round has the reverse order, so that no subject is always
 * first.
 */
export async function runInterleaved<Subject>(
  subjects: readonly Subject[],
  rounds: number,
  measure: (subject: Subject, round: number) => Promise<void>,
): Promise<void> {
  for (let round = 0; round < rounds; round++)
    for (const subject of round % 2 === 0 ? subjects : [...subjects].reverse()) await measure(subject, round);
}
