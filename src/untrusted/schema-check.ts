import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";

/** A JSON Schema, and the value that it is to hold true of; both JSON. Without a value the schema alone is looked at. */
export interface SchemaJob {
  schema: string;
  value?: string;
}

/** Why a schema cannot be used, or what of the value it does not hold true of: nothing where it fits. */
export type SchemaAnswer = { refused: string } | { misfits: string[] };

/** Faults that are told of one value. */
const TOLD = 12;
const OPTIONS = { strict: false, allErrors: true, validateFormats: false, logger: false } as const;
/** What a schema is tried on before it is used: one that goes in circles does not come to an end of these either. */
const TRIALS: readonly unknown[] = [null, true, 0, "", [], [[]], {}, { a: { a: {} } }];

/** Draft 2020-12, which is also meant where nothing is said, or draft-07. Fetches nothing. */
export function checkSchema({ schema: text, value }: SchemaJob): SchemaAnswer {
  const schema = JSON.parse(text) as Record<string, unknown>;
  const { $schema: draft = "2020-12" } = schema;
  const isOld = typeof draft === "string" && /draft-0?7\b/.test(draft);
  if (!isOld && !(typeof draft === "string" && draft.includes("2020-12")))
    return { refused: "draft 2020-12 or draft-07 in $schema" };
  // One that answers with a promise has answered nothing yet.
  if ("$async" in schema) return { refused: "a schema without $async" };
  let validate: ValidateFunction;
  try {
    validate = new (isOld ? Ajv : Ajv2020)(OPTIONS).compile(schema);
    for (const trial of TRIALS) validate(trial);
  } catch (error) {
    if (error instanceof RangeError) return { refused: "references that do not go in circles" };
    return { refused: `a schema that can be used: ${(error as Error).message.slice(0, 300)}` };
  }
  if (value === undefined || validate(JSON.parse(value))) return { misfits: [] };
  const faults = validate.errors ?? [];
  const told = faults.slice(0, TOLD).map(faultText);
  if (faults.length > TOLD) told.push(`and ${faults.length - TOLD} more`);
  return { misfits: told };
}

function faultText({ instancePath, message = "is wrong", keyword, params }: ErrorObject): string {
  const where = instancePath === "" ? "the whole" : instancePath.slice(0, 200);
  const more: Readonly<Record<string, unknown>> = {
    additionalProperties: params["additionalProperty"],
    unevaluatedProperties: params["unevaluatedProperty"],
    enum: params["allowedValues"],
    const: params["allowedValue"],
  };
  const detail = more[keyword];
  return `${where} ${message.slice(0, 300)}${detail === undefined ? "" : `: ${JSON.stringify(detail).slice(0, 200)}`}`;
}
