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
const MAX_MISMATCH_CHARACTERS = 2_000;
/** Maximum characters of a JSON parser's error, which may quote the answer. */
const MAX_PARSE_ERROR_CHARACTERS = 200;

/** The result of reading an answer: the parsed value, or why the answer does not fit the schema. */
export type ParsedOutput = { value: unknown } | { mismatch: string };

/** The required JSON form of a final answer, with the instructions for the model and the check. */
export class StructuredOutput {
  readonly schema: JsonSchema;
  readonly #schemaText: string;

  private constructor(schema: JsonSchema, text: string) {
    this.schema = schema;
    this.#schemaText = text;
  }

  /**
   * Checks a schema. Rejects with `InputError` if the schema is invalid or too expensive to check, or with the signal's
   * reason.
   */
  static async open(schema: JsonSchema, signal: AbortSignal): Promise<StructuredOutput> {
    const text = serializeSchema(schema);
    let problem: string | undefined;
    try {
      const jobResult = await runSchemaJob({ schema: text }, signal);
      problem = "requirement" in jobResult ? jobResult.requirement : undefined;
    } catch (error) {
      if (!hasCode(error, "work_limit")) throw error;
      problem = `a schema that can be checked within the limits: ${error.message}`;
    }
    if (problem !== undefined) throw new InputError("outputSchema", problem);
    return new StructuredOutput(JSON.parse(text) as JsonSchema, text);
  }

  get instructions(): string {
    return `Your final answer must be JSON that is valid against this JSON Schema, with no text before or after it:\n${this.#schemaText}`;
  }

  /**
   * Parses an answer and checks it against the schema. Rejects with `OutputSchemaError` if the check is not possible,
   * or with the signal's reason.
   */
  async read(answer: string, signal: AbortSignal): Promise<ParsedOutput> {
    const json = findJson(answer);
    if ("parseError" in json) return { mismatch: `it is not JSON (${json.parseError})` };
    try {
      const result = await runSchemaJob({ schema: this.#schemaText, value: json.text }, signal);
      if ("requirement" in result) throw new OutputSchemaError(result.requirement);
      if (result.violations.length === 0) return { value: json.value };
      return { mismatch: result.violations.join("; ").slice(0, MAX_MISMATCH_CHARACTERS) };
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
function serializeSchema(schema: JsonSchema): string {
  const createError = (expected: string) => new InputError("outputSchema", expected);
  if (typeof schema !== "object" || schema === null || Array.isArray(schema))
    throw createError("a JSON Schema, as an object");
  // Check before serializing: `JSON.stringify` fails on cycles and on deep nesting.
  const pendingEntries: [value: unknown, depth: number][] = [[schema, 1]];
  let valueCount = 0;
  for (let entry = pendingEntries.pop(); entry; entry = pendingEntries.pop()) {
    const [value, depth] = entry;
    valueCount += 1;
    if (valueCount > SCHEMA_LIMITS.values) throw createError(`at most ${SCHEMA_LIMITS.values} values`);
    if (depth > SCHEMA_LIMITS.depth) throw createError(`at most ${SCHEMA_LIMITS.depth} levels and no cycles`);
    if (typeof value === "object" && value !== null)
      for (const innerValue of Object.values(value)) pendingEntries.push([innerValue, depth + 1]);
    else if (value !== undefined && !["string", "number", "boolean"].includes(typeof value) && value !== null)
      throw createError("nothing but JSON");
  }
  const text = JSON.stringify(schema);
  if (text.length > SCHEMA_LIMITS.characters)
    throw createError(`at most ${SCHEMA_LIMITS.characters} characters of JSON`);
  return text;
}

type JsonText = { text: string; value: unknown } | { parseError: string };

/**
 * Finds the JSON of an answer. Tries the full answer, then its last fenced block that is JSON, then the text from the
 * first to the last bracket.
 */
function findJson(answer: string): JsonText {
  const fullAnswer = tryParse(answer.trim());
  if ("value" in fullAnswer) return fullAnswer;
  for (const text of extractFencedBlocks(answer).reverse()) {
    const parsedBlock = tryParse(text);
    if ("value" in parsedBlock) return parsedBlock;
  }
  const jsonStart = answer.search(/[[{]/);
  const jsonEnd = Math.max(answer.lastIndexOf("]"), answer.lastIndexOf("}"));
  const bracketedText =
    jsonStart >= 0 && jsonEnd > jsonStart ? tryParse(answer.slice(jsonStart, jsonEnd + 1)) : fullAnswer;
  return "value" in bracketedText ? bracketedText : fullAnswer;
}

function extractFencedBlocks(answer: string): string[] {
  const lines = answer.split("\n");
  const blocks: string[] = [];
  let blockStart: number | undefined;
  for (const [i, line] of lines.entries()) {
    if (!line.trimStart().startsWith("```")) continue;
    if (blockStart !== undefined) blocks.push(lines.slice(blockStart, i).join("\n"));
    blockStart = blockStart === undefined ? i + 1 : undefined;
  }
  return blocks;
}

function tryParse(text: string): JsonText {
  try {
    return { text, value: parseJson(text) };
  } catch (error) {
    return { parseError: error instanceof Error ? error.message.slice(0, MAX_PARSE_ERROR_CHARACTERS) : "not JSON" };
  }
}
