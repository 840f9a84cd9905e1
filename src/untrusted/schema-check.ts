import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";

/** A JSON Schema and the value to check, both as JSON. Without a value, only the schema is checked. */
export interface SchemaJob {
  schema: string;
  value?: string;
}

/**
 * `requirement`: set if the schema cannot be used; the condition that the schema does not meet. `violations`: empty if
 * the value is valid.
 */
export type SchemaAnswer = { requirement: string } | { violations: string[] };

/** Maximum violations reported for one value. */
const MAX_REPORTED_VIOLATIONS = 12;
const OPTIONS = { strict: false, allErrors: true, validateFormats: false, logger: false } as const;
/** Values for a trial of the schema. Circular references without an end overflow the stack during the trial. */
const TRIAL_VALUES: readonly unknown[] = [null, true, 0, "", [], [[]], {}, { a: { a: {} } }];
const MAX_MESSAGE_CHARACTERS = 300;
/** Maximum characters of a violation's path, and of its details. */
const MAX_DETAIL_CHARACTERS = 200;

/**
 * Checks a schema, and a value against the schema. Supports draft 2020-12, which is the default, and draft-07. Loads no
 * external schema. Throws for invalid JSON.
 */
export function checkSchema({ schema: text, value }: SchemaJob): SchemaAnswer {
  const schema = JSON.parse(text) as Record<string, unknown>;
  const { $schema: draft = "2020-12" } = schema;
  const isDraft07 = typeof draft === "string" && /draft-0?7\b/.test(draft);
  if (!isDraft07 && !(typeof draft === "string" && draft.includes("2020-12")))
    return { requirement: "draft 2020-12 or draft-07 in $schema" };
  // An asynchronous validator returns a promise instead of a result.
  if ("$async" in schema) return { requirement: "a schema without $async" };
  let validate: ValidateFunction;
  try {
    validate = new (isDraft07 ? Ajv : Ajv2020)(OPTIONS).compile(schema);
    for (const trialValue of TRIAL_VALUES) validate(trialValue);
  } catch (error) {
    if (error instanceof RangeError) return { requirement: "references without endless recursion" };
    return { requirement: `a valid schema: ${(error as Error).message.slice(0, MAX_MESSAGE_CHARACTERS)}` };
  }
  if (value === undefined || validate(JSON.parse(value))) return { violations: [] };
  const errors = validate.errors ?? [];
  const shownViolations = errors.slice(0, MAX_REPORTED_VIOLATIONS).map(formatViolation);
  if (errors.length > MAX_REPORTED_VIOLATIONS)
    shownViolations.push(`and ${errors.length - MAX_REPORTED_VIOLATIONS} more`);
  return { violations: shownViolations };
}

function formatViolation({ instancePath, message = "is wrong", keyword, params }: ErrorObject): string {
  const location = instancePath === "" ? "the value" : instancePath.slice(0, MAX_DETAIL_CHARACTERS);
  const details: Readonly<Record<string, unknown>> = {
    additionalProperties: params["additionalProperty"],
    unevaluatedProperties: params["unevaluatedProperty"],
    enum: params["allowedValues"],
    const: params["allowedValue"],
  };
  const detail = details[keyword];
  return `${location} ${message.slice(0, MAX_MESSAGE_CHARACTERS)}${detail === undefined ? "" : `: ${JSON.stringify(detail).slice(0, MAX_DETAIL_CHARACTERS)}`}`;
}
