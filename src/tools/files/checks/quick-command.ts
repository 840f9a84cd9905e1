import type { ToolContext } from "../../../ports/tool.js";
import type { Sandbox } from "../../shell/sandbox/sandbox.js";
import type { ShellOptions } from "../../shell/shell-command.js";

/** Maximum output that is kept, in bytes. The last chunk may exceed it. */
const MAX_OUTPUT_BYTES = 512 * 1024;

/** The output and the exit code of a command. */
export interface QuickResult {
  output: string;
  /** Exit code. Null: stopped at the time limit, or ended in another way than by an exit. */
  code: number | null;
}

/** Runs commands that no tool call requested, in the same environment and sandbox as those of bash. */
export class QuickCommands {
  readonly #options: ShellOptions;
  #sandbox: Promise<Sandbox> | undefined;

  constructor(options: ShellOptions) {
    this.#options = options;
  }

  /** Runs a command. Undefined if it cannot be started. Rejects only with the signal's reason. */
  async run(command: string, timeoutMs: number, context: ToolContext): Promise<QuickResult | undefined> {
    const { signal } = context;
    const chunks: Buffer[] = [];
    let outputBytes = 0;
    const onOutput = (chunk: Buffer): void => {
      if (outputBytes < MAX_OUTPUT_BYTES) chunks.push(chunk);
      outputBytes += chunk.length;
    };
    try {
      const sandbox = await (this.#sandbox ??= import("../../shell/sandbox/sandbox.js").then(
        (sandboxModule) => new sandboxModule.Sandbox(this.#options),
      ));
      const { prepareCommand } = await import("../../shell/shell-command.js");
      const preparedCommand = await prepareCommand(this.#options, sandbox, command, context);
      const child = await preparedCommand.start();
      const end = await child.run({ timeoutMs, signal, onOutput });
      await preparedCommand.tidy(end, "");
      if (end.sandboxFault !== undefined) return undefined;
      const output = Buffer.concat(chunks).toString();
      return { output, code: end.reason === "exit" ? end.code : null };
    } catch {
      signal.throwIfAborted();
      return undefined;
    }
  }

  async close(): Promise<void> {
    await (await this.#sandbox?.catch(() => undefined))?.close();
  }
}
