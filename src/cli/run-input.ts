import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { abortable } from "../base/abort.js";
import { isRecord, parseJson } from "../base/json.js";
import type { Budget } from "../ports/usage.js";
import type { RunInput } from "../ports/run.js";
import type { CommandInput } from "./command.js";
import { formatBytes } from "./progress.js";
import { UsageError } from "./usage-error.js";

/** Maximum size of standard input as a prompt. */
const MAX_PROMPT_BYTES = 16_000_000;
/** Delay before the notice that standard input is still open, in case the user forgot to close it. */
const NOTICE_DELAY_MS = 2_000;

/**
 * Reads the prompt from the arguments, standard input or both. Slash commands are accepted only if there are arguments,
 * because piped text is untrusted.
 *
 * Rejects with `UsageError`, or with the signal's reason.
 */
export async function readPrompt(
  args: readonly string[],
  input: CommandInput,
  report: (line: string) => void,
  signal: AbortSignal,
): Promise<Required<Pick<RunInput, "message" | "commands">>> {
  // A single dash means standard input.
  const argumentText = args.length === 1 && args[0] === "-" ? "" : args.join(" ").trim();
  const allowsCommands = argumentText !== "";
  if (input.isTerminal) {
    if (argumentText === "") throw new UsageError("expected a prompt, as arguments or on standard input");
    return { message: argumentText, commands: allowsCommands };
  }
  const noticeTimer = setTimeout(
    () => report("reading the prompt from standard input; redirect from /dev/null to skip it"),
    NOTICE_DELAY_MS,
  );
  try {
    const pipedText = (await readText(input, signal)).trim();
    const prompt = [argumentText, pipedText].filter((text) => text !== "").join("\n\n");
    if (prompt === "") throw new UsageError("expected a prompt, as arguments or on standard input");
    return { message: prompt, commands: allowsCommands };
  } finally {
    clearTimeout(noticeTimer);
  }
}

async function readText(input: CommandInput, signal: AbortSignal): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  const iterator = input[Symbol.asyncIterator]();
  for (;;) {
    const next = await abortable(iterator.next(), signal);
    if (next.done) break;
    bytes += next.value.length;
    if (bytes > MAX_PROMPT_BYTES)
      throw new UsageError(`standard input: expected at most ${formatBytes(MAX_PROMPT_BYTES)}`);
    chunks.push(next.value);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch {
    throw new UsageError("standard input: expected text in UTF-8");
  }
}

/** Reads a JSON Schema from a file. Rejects with `UsageError`. */
export async function readSchema(file: string): Promise<NonNullable<RunInput["outputSchema"]>> {
  let text: string;
  try {
    text = await readFile(resolve(file), "utf8");
  } catch (error) {
    throw new UsageError(`--schema ${file}: cannot be read (${(error as NodeJS.ErrnoException).code ?? "unknown"})`);
  }
  let schema: unknown;
  try {
    schema = parseJson(text);
  } catch (error) {
    throw new UsageError(`--schema ${file}: expected JSON: ${error instanceof Error ? error.message : ""}`);
  }
  if (!isRecord(schema)) throw new UsageError(`--schema ${file}: expected a JSON Schema that is an object`);
  return schema;
}

/** Returns the budget of the flags; undefined if no flag is set. */
export function toBudget(flags: {
  budget?: number | undefined;
  budgetTokens?: number | undefined;
  budgetSeconds?: number | undefined;
}): Budget | undefined {
  const { budget: usd, budgetTokens: tokens, budgetSeconds: seconds } = flags;
  const limits = Object.entries({ usd, tokens, seconds }).filter(([, value]) => value !== undefined);
  return limits.length > 0 ? Object.fromEntries(limits) : undefined;
}
