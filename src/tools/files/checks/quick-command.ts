import { existsSync } from "node:fs";
import type { ToolContext } from "../../../ports/tool.js";
import type { Sandbox, SandboxOptions } from "../../shell/sandbox/sandbox.js";

/** Kept of what a command prints, in bytes. */
const OUTPUT_BYTES = 512 * 1024;

/** What a command printed, and how it ended. */
export interface QuickEnd {
  output: string;
  /** Null: it was stopped, for its time was over. */
  code: number | null;
}

/** Runs commands that nobody called for, in the same surroundings as those of bash. */
export class QuickCommands {
  readonly #options: SandboxOptions & { shell?: string };
  #sandbox: Promise<Sandbox> | undefined;

  constructor(options: SandboxOptions & { shell?: string }) {
    this.#options = options;
  }

  /** Undefined where it cannot be started. Rejects with the signal's reason alone. */
  async run(command: string, timeoutMs: number, context: ToolContext): Promise<QuickEnd | undefined> {
    const { projectDir, folders, signal } = context;
    const { env, shell = ["/bin/bash", "/usr/bin/bash"].find((path) => existsSync(path)) ?? "/bin/sh" } = this.#options;
    const chunks: Buffer[] = [];
    let kept = 0;
    const onOutput = (chunk: Buffer): void => {
      if (kept < OUTPUT_BYTES) chunks.push(chunk);
      kept += chunk.length;
    };
    try {
      const sandbox = await (this.#sandbox ??= import("../../shell/sandbox/sandbox.js").then((made) => new made.Sandbox(this.#options)));
      const held = await sandbox.prepare(projectDir, folders);
      const { Child } = await import("../../../processes/child.js");
      const plain = ["-c", 'exec "$@" 2>&1', "sh", shell, "-c", command];
      const child = held
        ? await held.start(shell, command)
        : await Child.start({ file: "/bin/sh", args: plain, cwd: projectDir, env });
      const end = await child.run({ timeoutMs, signal, onOutput });
      await held?.tidy();
      if (end.sandboxFault !== undefined) return undefined;
      const output = Buffer.concat(chunks).toString();
      return { output, code: end.why === "exit" ? end.code : null };
    } catch {
      signal.throwIfAborted();
      return undefined;
    }
  }

  async close(): Promise<void> {
    await (await this.#sandbox?.catch(() => undefined))?.close();
  }
}
