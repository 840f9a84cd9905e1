import { parseJson } from "../../base/json.js";
import { hasCode, InputError, OutputSchemaError } from "../../ports/errors.js";
import type { JsonSchema } from "../../ports/tool.js";
import { withThread } from "../../untrusted/workers.js";
import type { SchemaAnswer, SchemaJob } from "../../untrusted/schema-check.js";

/** Of a schema: its values, how deep they lie, and its characters as JSON. It is part of every prompt of the run. */
const MOST = { values: 10_000, depth: 64, characters: 65_536 };
/** For a look at a schema or at a value, in ms: both are made by strangers. */
const TIME_MS = 5_000;
/** Of the faults that a model is told. */
const TOLD_CHARACTERS = 2_000;

/** What came of reading an answer: its value, or why there is none. */
export type Read = { value: unknown } | { misfit: string };

/** Answers of a certain form, and how they are asked for. */
export class Structure {
  readonly schema: JsonSchema;
  readonly #text: string;

  private constructor(schema: JsonSchema, text: string) {
    this.schema = schema;
    this.#text = text;
  }

  /** Rejects with `InputError` where nothing could ever be told by the schema, or with the signal's reason. */
  static async open(schema: JsonSchema, signal: AbortSignal): Promise<Structure> {
    const text = textOf(schema);
    let refused: string | undefined;
    try {
      const answer = await look({ schema: text }, signal);
      refused = "refused" in answer ? answer.refused : undefined;
    } catch (error) {
      if (!hasCode(error, "work_limit")) throw error;
      refused = `a schema that can be used: ${error.message}`;
    }
    if (refused !== undefined) throw new InputError("outputSchema", refused);
    return new Structure(JSON.parse(text) as JsonSchema, text);
  }

  /** For the system prompt. */
  get instructions(): string {
    return `When you are done, your last answer must be JSON for which this JSON Schema holds true, with nothing before or behind it:\n${this.#text}`;
  }

  /** Rejects with `OutputSchemaError` where nobody can tell whether an answer fits, or with the signal's reason. */
  async read(answer: string, signal: AbortSignal): Promise<Read> {
    const found = jsonIn(answer);
    if ("fault" in found) return { misfit: `it is not JSON (${found.fault})` };
    try {
      const looked = await look({ schema: this.#text, value: found.text }, signal);
      if ("refused" in looked) throw new OutputSchemaError(looked.refused);
      if (looked.misfits.length === 0) return { value: found.value };
      return { misfit: looked.misfits.join("; ").slice(0, TOLD_CHARACTERS) };
    } catch (error) {
      if (!hasCode(error, "work_limit")) throw error;
      throw new OutputSchemaError(`whether it does could not be found out: ${error.message}`);
    }
  }
}

function look(job: SchemaJob, signal: AbortSignal): Promise<SchemaAnswer> {
  return withThread(signal, (thread) => thread.ask("schema", job, { ms: TIME_MS }));
}

/** A schema as JSON. Throws `InputError` where it is none, or too much. */
function textOf(schema: JsonSchema): string {
  const wrong = (expected: string) => new InputError("outputSchema", expected);
  if (typeof schema !== "object" || schema === null || Array.isArray(schema))
    throw wrong("a JSON Schema, as an object");
  // Before it is written out, which a circle would never end, and a deep one not survive.
  const open: [value: unknown, depth: number][] = [[schema, 1]];
  let values = 0;
  for (let one = open.pop(); one; one = open.pop()) {
    const [value, depth] = one;
    values += 1;
    if (values > MOST.values) throw wrong(`at most ${MOST.values} values`);
    if (depth > MOST.depth) throw wrong(`at most ${MOST.depth} levels, and none that holds itself`);
    if (typeof value === "object" && value !== null)
      for (const inner of Object.values(value)) open.push([inner, depth + 1]);
    else if (value !== undefined && !["string", "number", "boolean"].includes(typeof value) && value !== null)
      throw wrong("nothing but JSON");
  }
  const text = JSON.stringify(schema);
  if (text.length > MOST.characters) throw wrong(`at most ${MOST.characters} characters of JSON`);
  return text;
}

type Found = { text: string; value: unknown } | { fault: string };

/** The JSON of an answer: all of it, else its last fenced block that is JSON, else what stands between the first brace and the last. */
function jsonIn(answer: string): Found {
  const whole = parsed(answer.trim());
  if ("value" in whole) return whole;
  for (const text of fenced(answer).reverse()) {
    const found = parsed(text);
    if ("value" in found) return found;
  }
  const from = answer.search(/[[{]/);
  const to = Math.max(answer.lastIndexOf("]"), answer.lastIndexOf("}"));
  const within = from >= 0 && to > from ? parsed(answer.slice(from, to + 1)) : whole;
  return "value" in within ? within : whole;
}

function fenced(answer: string): string[] {
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

function parsed(text: string): Found {
  try {
    return { text, value: parseJson(text) };
  } catch (error) {
    return { fault: error instanceof Error ? error.message.slice(0, 200) : "not JSON" };
  }
}
