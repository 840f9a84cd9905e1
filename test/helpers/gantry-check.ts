import { run } from "../../src/cli/check.js";

export interface CheckOutput {
  /** Exit code of `gantry check`. */
  code: number | undefined;
  stdout: string;
  stderr: string;
}

/** Runs `gantry check` in this process. */
export async function runCheck(
  args: readonly string[],
  flags: Parameters<typeof run>[0]["flags"] = {},
  interruptSignal = new AbortController().signal,
): Promise<CheckOutput> {
  const result: CheckOutput = { code: undefined, stdout: "", stderr: "" };
  const output = {
    write: (text: string) => {
      result.stdout += text;
      return Promise.resolve();
    },
    report: (line: string) => void (result.stderr += `${line}\n`),
    columns: undefined,
    draw: () => undefined,
    isStdoutTerminal: false,
    redirectConsoleToStderr: () => undefined,
  };
  const input = { async *[Symbol.asyncIterator]() {}, fileBytes: undefined, isTerminal: false };
  result.code = await run({ name: "check", args, flags, input, output, handleInterrupts: () => interruptSignal });
  return result;
}
