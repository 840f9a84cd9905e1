import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { SOURCE_FLAGS, sourcePath } from "./source-paths.js";
import { waitFor, withLimit } from "./wait.js";

/** A script of `test/helpers` in its own process. */
export class Child {
  readonly process: ChildProcess;
  /** Text that the script has written to stdout until now. */
  stdout = "";
  stderr = "";
  readonly #closed: Promise<void>;
  readonly #script: string;

  constructor(script: string, args: readonly string[]) {
    this.#script = script;
    this.process = fork(sourcePath(path.join("test/helpers", script)), args, {
      execArgv: [...SOURCE_FLAGS],
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    this.process.stdout?.setEncoding("utf8").on("data", (text: string) => (this.stdout += text));
    this.process.stderr?.setEncoding("utf8").on("data", (text: string) => (this.stderr += text));
    this.#closed = once(this.process, "close").then(() => undefined);
  }

  /** Resolves with the next message from the script. Rejects if the script ends first. */
  async waitForMessage(): Promise<unknown> {
    const endRejection = this.#closed.then(() => {
      throw new Error(`child ended: ${this.stderr}`);
    });
    const message = Promise.race([once(this.process, "message"), endRejection]);
    const [value] = (await withLimit(`a message of ${this.#script}`, message, () => this.#output())) as [unknown];
    return value;
  }

  send(message: string): void {
    this.process.send(message);
  }

  /** Resolves when the script has ended with exit code 0 and its output is read. */
  async waitForEnd(): Promise<void> {
    await withLimit(`the end of ${this.#script}`, this.#closed, () => this.#output());
    if (this.process.exitCode !== 0) throw new Error(`child ended with ${this.process.exitCode}: ${this.stderr}`);
  }

  /** Sends SIGKILL. Resolves when the process has ended and its output is read. */
  async kill(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.#closed;
  }

  /** Resolves when stdout has at least `count` lines. */
  async waitForLines(count: number): Promise<void> {
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

/** Waits until all children are ready, starts them at the same time, and waits for their end. */
export async function runAtOnce(children: readonly Child[]): Promise<void> {
  await Promise.all(children.map((child) => child.waitForMessage()));
  for (const child of children) child.send("go");
  await Promise.all(children.map((child) => child.waitForEnd()));
}
