import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";

/** A JSON Schema and the value to check, both as JSON. Without a value only the schema is checked. */
export interface SchemaJob {
  schema: string;
  value?: string;
}

/** `refused`: why the schema cannot be used. `misfits`: violations of the value; empty if it is valid. */
export type SchemaAnswer = { refused: string } | { misfits: string[] };

/** Maximum violations reported for one value. */
const MAX_REPORTED_VIOLATIONS = 12;
const OPTIONS = { strict: false, allErrors: true, validateFormats: false, logger: false } as const;
/** Values for a trial before the schema is used. A schema with circular references fails on them. */
const TRIAL_VALUES: readonly unknown[] = [null, true, 0, "", [], [[]], {}, { a: { a: {} } }];

/** Supports draft 2020-12, which is the default, and draft-07. Fetches nothing. */
export function checkSchema({ schema: text, value }: SchemaJob): SchemaAnswer {
  const schema = JSON.parse(text) as Record<string, unknown>;
  const { $schema: draft = "2020-12" } = schema;
  const isDraft07 = typeof draft === "string" && /draft-0?7\b/.test(draft);
  if (!isDraft07 && !(typeof draft === "string" && draft.includes("2020-12")))
    return { refused: "draft 2020-12 or draft-07 in $schema" };
  // An asynchronous validator returns a promise instead of a result.
  if ("$async" in schema) return { refused: "a schema without $async" };
  let validate: ValidateFunction;
  try {
    validate = new (isDraft07 ? Ajv : Ajv2020)(OPTIONS).compile(schema);
    for (const trial of TRIAL_VALUES) validate(trial);
  } catch (error) {
    if (error instanceof RangeError) return { refused: "references that do not go in circles" };
    return { refused: `a valid schema: ${(error as Error).message.slice(0, 300)}` };
  }
  if (value === undefined || validate(JSON.parse(value))) return { misfits: [] };
  const faults = validate.errors ?? [];
  const violations = faults.slice(0, MAX_REPORTED_VIOLATIONS).map(formatFault);
  if (faults.length > MAX_REPORTED_VIOLATIONS) violations.push(`and ${faults.length - MAX_REPORTED_VIOLATIONS} more`);
  return { misfits: violations };
}

function formatFault({ instancePath, message = "is wrong", keyword, params }: ErrorObject): string {
  const location = instancePath === "" ? "the whole" : instancePath.slice(0, 200);
  const details: Readonly<Record<string, unknown>> = {
    additionalProperties: params["additionalProperty"],
    unevaluatedProperties: params["unevaluatedProperty"],
    enum: params["allowedValues"],
    const: params["allowedValue"],
  };
  const detail = details[keyword];
  return `${location} ${message.slice(0, 300)}${detail === undefined ? "" : `: ${JSON.stringify(detail).slice(0, 200)}`}`;
}
