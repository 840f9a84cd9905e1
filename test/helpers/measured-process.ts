import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { statSync } from "node:fs";
import path from "node:path";
import type { Hooks } from "./temp-dir.js";
import { ROOT, sourcePath } from "./source-paths.js";
import { withLimit } from "./wait.js";

/** Work of a process in one phase, from the end of the previous phase until the process is idle. */
export interface Work {
  /** A line for each worker thread that was started. */
  threads: string[];
  /** Command lines of the child processes that were started, with shortened arguments. */
  processes: string[];
  /** Bytes of the loaded files of `dist`, by path relative to it. */
  modules: Map<string, number>;
  /** Calls of Node's file functions, each as `lstat PROJECT/AGENTS.md`. Reads of modules are not included. */
  fileCalls: string[];
  /** SQL statements, including the beginnings and ends of transactions. */
  statements: string[];
  /** JavaScript heap and external memory after a garbage collection. Undefined if it was not requested. */
  heapBytes?: number;
}

/** The report of work-probe.cjs. */
type Report = Omit<Work, "modules"> & { modules: string[] };

interface MeasuredProcessOptions {
  /** Arguments of Node: a program with its arguments. */
  nodeArgs: readonly string[];
  home: string;
  projectDir: string;
}

/**
 * A process of Node, for example the built `gantry`, whose work is counted. Its clock stands still, so that nothing
 * depends on time: polls and other periodic work do not run.
 */
export class MeasuredProcess {
  readonly child: ChildProcess;
  readonly #options: MeasuredProcessOptions;
  /** Rejects when the process ends. */
  readonly #end: Promise<never>;

  private constructor(child: ChildProcess, options: MeasuredProcessOptions) {
    this.child = child;
    this.#options = options;
    this.#end = once(child, "exit").then(([code, signal]) => {
      throw new Error(`the process ended (${code ?? signal})`);
    });
    this.#end.catch(() => {});
  }

  /** Starts the process. It is killed after the test. */
  static start(hooks: Hooks, options: MeasuredProcessOptions): MeasuredProcess {
    const { home, projectDir } = options;
    const nodeArgs = ["--require", sourcePath("test/helpers/work-probe.cjs"), ...options.nodeArgs];
    const env = { PATH: process.env.PATH, HOME: home, GANTRY_HOME: home };
    const child = spawn(process.execPath, nodeArgs, { cwd: projectDir, env, stdio: ["pipe", "pipe", "ignore", "ipc"] });
    child.stdin?.on("error", () => {});
    const measuredProcess = new MeasuredProcess(child, options);
    hooks.after(async () => {
      child.kill("SIGKILL");
      await measuredProcess.#end.catch(() => {});
    });
    return measuredProcess;
  }

  /** Waits until the process is idle. Resolves with its work since the last call. */
  async takeWork({ needsHeap = false } = {}): Promise<Work> {
    const message = new Promise<Report>((resolve) => this.child.once("message", (report) => resolve(report as Report)));
    this.child.send({ needsHeap });
    const report = await withLimit("an idle process", Promise.race([message, this.#end]));
    const distFiles = report.modules.map((file) => path.relative(path.join(ROOT, "dist"), file));
    return {
      ...report,
      modules: new Map(
        distFiles
          .filter((file) => !file.startsWith(".."))
          .map((file) => [file, statSync(path.join(ROOT, "dist", file)).size]),
      ),
      fileCalls: report.fileCalls.map((call) => this.#shorten(call)),
      statements: report.statements.map((sql) => sql.trim().split("\n")[0] ?? ""),
    };
  }

  /** Replaces the parts of a path that differ between two processes. */
  #shorten(call: string): string {
    return call
      .replaceAll(this.#options.home, "HOME")
      .replaceAll(this.#options.projectDir, "PROJECT")
      .replace(/\/fd\/\d+/, "/fd/N")
      .replace(/[\da-f]{8}-[\da-f-]{27}/, "ID");
  }
}
