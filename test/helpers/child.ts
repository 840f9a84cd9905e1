import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { SOURCE_FLAGS, source } from "./node.js";
import { waitFor, withLimit } from "./wait.js";

/** A script of `test/helpers`, in a process of its own. */
export class Child {
  readonly process: ChildProcess;
  /** All that it wrote to stdout. */
  stdout = "";
  stderr = "";
  readonly #closed: Promise<void>;
  readonly #script: string;

  constructor(script: string, args: readonly string[]) {
    this.#script = script;
    this.process = fork(source(path.join("test/helpers", script)), args, {
      execArgv: [...SOURCE_FLAGS],
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    this.process.stdout?.setEncoding("utf8").on("data", (text: string) => (this.stdout += text));
    this.process.stderr?.setEncoding("utf8").on("data", (text: string) => (this.stderr += text));
    this.#closed = once(this.process, "close").then(() => undefined);
  }

  /** The next message that it sends. Rejects when it ends first. */
  async message(): Promise<unknown> {
    const ended = this.#closed.then(() => {
      throw new Error(`child ended: ${this.stderr}`);
    });
    const message = Promise.race([once(this.process, "message"), ended]);
    const [value] = (await withLimit(`a message of ${this.#script}`, message, () => this.#output())) as [unknown];
    return value;
  }

  send(message: string): void {
    this.process.send(message);
  }

  /** Resolves when it has ended well and all its output is read. */
  async ended(): Promise<void> {
    await withLimit(`the end of ${this.#script}`, this.#closed, () => this.#output());
    if (this.process.exitCode !== 0) throw new Error(`child ended with ${this.process.exitCode}: ${this.stderr}`);
  }

  /** kill -9; resolves when it is gone and all its output is read. */
  async kill(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.#closed;
  }

  /** Resolves when stdout has so many lines. */
  async lines(count: number): Promise<void> {
    await waitFor(
      `${count} lines of ${this.#script}`,
      () => {
        if (this.stdout.split("\n").length > count) return true;
        if (this.process.exitCode !== null) throw new Error(`child ended: ${this.stderr}`);
        return undefined;
      },
      () => this.#output(),
    );
  }

  #output(): string {
    return `stdout:\n${this.stdout}\nstderr:\n${this.stderr}`;
  }
}

/** Start several, wait until all are ready, let them go at once, and wait for their end. */
export async function allAtOnce(children: readonly Child[]): Promise<void> {
  await Promise.all(children.map((child) => child.message()));
  for (const child of children) child.send("go");
  await Promise.all(children.map((child) => child.ended()));
}
