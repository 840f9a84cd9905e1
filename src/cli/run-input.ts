import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { abortable } from "../base/abort.js";
import { isRecord, parseJson } from "../base/json.js";
import type { Budget, RunInput } from "../ports/run.js";
import type { Input } from "./command.js";
import { size } from "./progress.js";
import { UsageError } from "./usage-error.js";

/** Maximum size of standard input as a prompt. */
const MOST_BYTES = 16_000_000;
/** Delay before the notice that standard input is still open, in case the user forgot it. */
const TELL_MS = 2_000;

/**
 * Reads the prompt from the arguments, standard input or both. Piped text is untrusted, so slash commands are accepted
 * only if arguments are given.
 *
 * Rejects with `UsageError`, or with the signal's reason.
 */
export async function promptOf(
  args: readonly string[],
  input: Input,
  tell: (line: string) => void,
  signal: AbortSignal,
): Promise<Required<Pick<RunInput, "message" | "commands">>> {
  // A single dash means standard input.
  const said = args.length === 1 && args[0] === "-" ? "" : args.join(" ").trim();
  const commands = said !== "";
  if (input.isTerminal) {
    if (said === "") throw new UsageError("expected a prompt, as arguments or on standard input");
    return { message: said, commands };
  }
  const waiting = setTimeout(
    () => tell("reading the rest of the prompt from standard input; < /dev/null for none"),
    TELL_MS,
  );
  try {
    const piped = (await textOf(input, signal)).trim();
    const prompt = [said, piped].filter((text) => text !== "").join("\n\n");
    if (prompt === "") throw new UsageError("expected a prompt, as arguments or on standard input");
    return { message: prompt, commands };
  } finally {
    clearTimeout(waiting);
  }
}

async function textOf(input: Input, signal: AbortSignal): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  const each = input[Symbol.asyncIterator]();
  for (;;) {
    const next = await abortable(each.next(), signal);
    if (next.done) break;
    bytes += next.value.length;
    if (bytes > MOST_BYTES) throw new UsageError(`standard input: expected at most ${size(MOST_BYTES)}`);
    chunks.push(next.value);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch {
    throw new UsageError("standard input: expected text in UTF-8");
  }
}

/** Reads a JSON Schema from a file. Rejects with `UsageError`. */
export async function schemaOf(file: string): Promise<NonNullable<RunInput["outputSchema"]>> {
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

/** Budget from the flags; undefined if none is set. */
export function budgetOf(flags: {
  budget?: number | undefined;
  budgetTokens?: number | undefined;
  budgetSeconds?: number | undefined;
}): Budget | undefined {
  const { budget: usd, budgetTokens: tokens, budgetSeconds: seconds } = flags;
  const said = Object.entries({ usd, tokens, seconds }).filter(([, value]) => value !== undefined);
  return said.length > 0 ? Object.fromEntries(said) : undefined;
}
