import { parseJson } from "../../base/json.js";
import { hasCode, InputError, OutputSchemaError } from "../../ports/errors.js";
import type { JsonSchema } from "../../ports/tool.js";
import { withWorker } from "../../untrusted/workers.js";
import type { SchemaAnswer, SchemaJob } from "../../untrusted/schema-check.js";

/**
 * Limits of a schema: number of values, nesting depth, and characters as JSON. The schema is part of every prompt of
 * the run.
 */
const SCHEMA_LIMITS = { values: 10_000, depth: 64, characters: 65_536 };
/** Time limit for one check of a schema or a value, in ms. Both come from third parties. */
const CHECK_TIMEOUT_MS = 5_000;
/** Maximum characters of the errors that are reported to the model. */
const MAX_MISFIT_CHARACTERS = 2_000;

/** The result of reading an answer: its value, or why it has none. */
export type ParsedOutput = { value: unknown } | { misfit: string };

/** A required form of answers, with its instructions and its check. */
export class StructuredOutput {
  readonly schema: JsonSchema;
  readonly #text: string;

  private constructor(schema: JsonSchema, text: string) {
    this.schema = schema;
    this.#text = text;
  }

  /** Rejects with `InputError` if the schema is invalid or too expensive to check, or with the signal's reason. */
  static async open(schema: JsonSchema, signal: AbortSignal): Promise<StructuredOutput> {
    const text = textOf(schema);
    let refused: string | undefined;
    try {
      const answer = await runSchemaJob({ schema: text }, signal);
      refused = "refused" in answer ? answer.refused : undefined;
    } catch (error) {
      if (!hasCode(error, "work_limit")) throw error;
      refused = `a schema that can be checked within the limits: ${error.message}`;
    }
    if (refused !== undefined) throw new InputError("outputSchema", refused);
    return new StructuredOutput(JSON.parse(text) as JsonSchema, text);
  }

  /** Instructions for the system prompt. */
  get instructions(): string {
    return `Your final answer must be JSON that is valid against this JSON Schema, with no text before or after it:\n${this.#text}`;
  }

  /**
   * Parses an answer and checks it against the schema. Rejects with `OutputSchemaError` if the check is not possible,
   * or with the signal's reason.
   */
  async read(answer: string, signal: AbortSignal): Promise<ParsedOutput> {
    const json = findJson(answer);
    if ("fault" in json) return { misfit: `it is not JSON (${json.fault})` };
    try {
      const looked = await runSchemaJob({ schema: this.#text, value: json.text }, signal);
      if ("refused" in looked) throw new OutputSchemaError(looked.refused);
      if (looked.misfits.length === 0) return { value: json.value };
      return { misfit: looked.misfits.join("; ").slice(0, MAX_MISFIT_CHARACTERS) };
    } catch (error) {
      if (!hasCode(error, "work_limit")) throw error;
      throw new OutputSchemaError(`the check did not finish: ${error.message}`);
    }
  }
}

function runSchemaJob(job: SchemaJob, signal: AbortSignal): Promise<SchemaAnswer> {
  return withWorker(signal, (thread) => thread.runJob("schema", job, { ms: CHECK_TIMEOUT_MS }));
}

/** Serializes a schema as JSON. Throws `InputError` if it is invalid or too large. */
function textOf(schema: JsonSchema): string {
  const wrong = (expected: string) => new InputError("outputSchema", expected);
  if (typeof schema !== "object" || schema === null || Array.isArray(schema))
    throw wrong("a JSON Schema, as an object");
  // Check before serializing: `JSON.stringify` fails on cycles and on deep nesting.
  const open: [value: unknown, depth: number][] = [[schema, 1]];
  let values = 0;
  for (let entry = open.pop(); entry; entry = open.pop()) {
    const [value, depth] = entry;
    values += 1;
    if (values > SCHEMA_LIMITS.values) throw wrong(`at most ${SCHEMA_LIMITS.values} values`);
    if (depth > SCHEMA_LIMITS.depth) throw wrong(`at most ${SCHEMA_LIMITS.depth} levels and no cycles`);
    if (typeof value === "object" && value !== null)
      for (const inner of Object.values(value)) open.push([inner, depth + 1]);
    else if (value !== undefined && !["string", "number", "boolean"].includes(typeof value) && value !== null)
      throw wrong("nothing but JSON");
  }
  const text = JSON.stringify(schema);
  if (text.length > SCHEMA_LIMITS.characters) throw wrong(`at most ${SCHEMA_LIMITS.characters} characters of JSON`);
  return text;
}

type JsonText = { text: string; value: unknown } | { fault: string };

/**
 * Finds the JSON of an answer. Tries the full answer, then its last fenced block that is JSON, then the text from the
 * first to the last bracket.
 */
function findJson(answer: string): JsonText {
  const fullAnswer = tryParse(answer.trim());
  if ("value" in fullAnswer) return fullAnswer;
  for (const text of fencedBlocks(answer).reverse()) {
    const block = tryParse(text);
    if ("value" in block) return block;
  }
  const from = answer.search(/[[{]/);
  const to = Math.max(answer.lastIndexOf("]"), answer.lastIndexOf("}"));
  const within = from >= 0 && to > from ? tryParse(answer.slice(from, to + 1)) : fullAnswer;
  return "value" in within ? within : fullAnswer;
}

function fencedBlocks(answer: string): string[] {
  const lines = answer.split("\n");
  const blocks: string[] = [];
  let begun: number | undefined;
  for (const [i, line] of lines.entries()) {
    if (!line.trimStart().startsWith("```")) continue;
    if (begun !== undefined) blocks.push(lines.slice(begun, i).join("\n"));
    begun = begun === undefined ? i + 1 : undefined;
  }
  return blocks;
}

function tryParse(text: string): JsonText {
  try {
    return { text, value: parseJson(text) };
  } catch (error) {
    return { fault: error instanceof Error ? error.message.slice(0, 200) : "not JSON" };
  }
}
