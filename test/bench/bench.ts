// What all rows share: the model, what is measured beside what, and rounds that take turns.
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import type { ChildProcess } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { HttpPeer } from "./http-peer.js";
import { end, folder, start } from "./processes.js";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** A file of this folder that runs by itself. */
export const beside = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/** What the command line said. */
export interface BenchOptions {
  quick: boolean;
  /** Ids of rows; empty for all. */
  rows: readonly string[];
  /** The checkout that is measured, built. */
  product: string;
  /** The Node that gantry and the floors run on. */
  node: string;
  /** ACP agents over stdio. */
  peers: readonly Peer[];
  /** HTTP servers. */
  httpPeers: readonly HttpPeer[];
  /** Port of the model; 0 for any. */
  modelPort: number;
}

/** An ACP agent over stdio, by a line for the shell. */
export interface Peer {
  name: string;
  command: string;
}

/** Samples of one subject in one row, and what CPU each took at the mean. */
export interface Figure {
  samples: number[];
  cpuMs?: number;
}

/** What a row measured. */
export interface Line {
  row: string;
  /** What is compared with the goal. */
  judged: number;
  gantry: Figure;
  floor?: Figure;
  peers?: Readonly<Record<string, Figure>>;
  /** What else was seen. */
  notes?: readonly string[];
}

/** Measures some rows at once. Only what is wanted need be told. */
export interface Scenario {
  rows: readonly string[];
  /** Why it cannot be measured here; undefined where it can. */
  lacks?(): Promise<string | undefined>;
  run(bench: Bench): Promise<Line[]>;
}

/** The model and the command line; made once. */
export class Bench {
  readonly options: BenchOptions;
  /** Of the model: `http://127.0.0.1:1234/v1`. */
  readonly model: string;
  readonly #child: ChildProcess;

  private constructor(options: BenchOptions, model: string, child: ChildProcess) {
    this.options = options;
    this.model = model;
    this.#child = child;
  }

  static async create(options: BenchOptions): Promise<Bench> {
    const child = start([options.node, beside("fake-model.mjs"), String(options.modelPort)], { stderr: "inherit" });
    const { port } = JSON.parse(await lineOf(child, /^(\{.*\})$/m)) as { port: number };
    return new Bench(options, `http://127.0.0.1:${port}/v1`, child);
  }

  async close(): Promise<void> {
    await end(this.#child);
  }

  /** So many in a full run, so many in a quick one. */
  rounds(full: number, quick: number): number {
    return this.options.quick ? quick : full;
  }

  wants(row: string): boolean {
    return this.options.rows.length === 0 || this.options.rows.includes(row);
  }

  /** A home with the config of somebody who has one provider; sessions are stored as by default unless `session` says how. */
  home(session?: { driver: string; [option: string]: unknown }): string {
    const home = folder();
    const models = [{ id: "m1", name: "M1", context_window: 10_000_000 }];
    const provider = { name: "lab", driver: "openai", base_url: this.model, api_key: "no-key", models };
    const config = { providers: [provider], ...(session ? { session } : {}) };
    writeFileSync(path.join(home, "config.json"), JSON.stringify(config));
    return home;
  }

  /** A project folder with a few files. */
  project(): string {
    const project = folder();
    mkdirSync(path.join(project, "src"));
    writeFileSync(path.join(project, "package.json"), "{}\n");
    writeFileSync(path.join(project, "src/answer.ts"), "export const answer = 42;\n");
    return project;
  }

  gantry(...args: string[]): [program: string, ...args: string[]] {
    const { product, node } = this.options;
    const { bin } = JSON.parse(readFileSync(path.join(product, "package.json"), "utf8")) as { bin: { gantry: string } };
    return [node, path.join(product, bin.gantry), ...args];
  }

  /** A clean environment, so that nothing of who runs the bench gets in. */
  environment(home: string): NodeJS.ProcessEnv {
    return { PATH: process.env.PATH, HOME: home, GANTRY_HOME: home };
  }

  /** `gantry serve`, listening. */
  async serve(home = this.home(), cwd = this.project(), nodeArgs: readonly string[] = []): Promise<Server> {
    const [node, ...rest] = this.gantry("serve", "--port", "0");
    const since = performance.now();
    const child = start([node, ...nodeArgs, ...rest], { cwd, env: this.environment(home) });
    const base = await lineOf(child, /listening on (\S+)/);
    return { child, base, ms: performance.now() - since };
  }
}

/** A server that listens. */
export interface Server {
  child: ChildProcess;
  base: string;
  /** From its spawn to the line that says so. */
  ms: number;
}

/** What a process's output says where it matches; the rest is thrown away. Rejects when it ends first. */
export async function lineOf(child: ChildProcess, pattern: RegExp): Promise<string> {
  const { stdout } = child;
  if (!stdout) throw new Error("no output to read");
  const gone = once(child, "exit").then(([code, signal]) => {
    throw new Error(`${child.spawnargs.join(" ")} ended (${code ?? signal}) before it was up`);
  });
  let output = "";
  const found = new Promise<string>((resolve) =>
    stdout.setEncoding("utf8").on("data", (text: string) => {
      if (output === "-") return;
      output += text;
      const match = pattern.exec(output);
      if (!match) return;
      output = "-";
      resolve(match[1] ?? match[0]);
    }),
  );
  return Promise.race([found, gone]);
}

/** Rounds in which each subject has its turn, every other round in the opposite order, so that none is always first. */
export async function interleaved<Subject>(
  subjects: readonly Subject[],
  rounds: number,
  work: (subject: Subject, round: number) => Promise<void>,
): Promise<void> {
  for (let round = 0; round < rounds; round++)
    for (const subject of round % 2 === 0 ? subjects : [...subjects].reverse()) await work(subject, round);
}
