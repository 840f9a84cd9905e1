import { isRecord, type JsonSchema, type ReasoningEffort, type RunInput, type SessionMode } from "gantry";
import { attachedFiles } from "./attached.js";
import { invalidField, type Fields } from "./fields.js";
import type { RunExtras } from "./run-request.js";

type Budget = NonNullable<RunInput["budget"]>;

export const MODES: readonly SessionMode[] = ["auto", "ask", "plan"];
const EFFORTS: readonly ReasoningEffort[] = ["minimal", "low", "medium", "high"];
const BOUNDS: ReadonlySet<string> = new Set(["usd", "tokens", "seconds"] satisfies (keyof Budget)[]);
/** Of a bound that nobody knows, so many characters are named. */
const NAMED = 64;

/** The fields that few requests have. Throws `HttpError`. */
export function runExtras(fields: Fields, stream: boolean): RunExtras {
  const background = fields.flag("background");
  // There is nobody to stream to.
  if (stream && background) throw invalidField("background");
  return {
    projectDir: fields.text("project_dir"),
    background,
    queue: fields.flag("queue"),
    onDisconnect: fields.oneOf("on_disconnect", ["cancel", "continue"]),
    mode: fields.oneOf("mode", MODES),
    budget: budgetOf(fields.own("budget")),
    outputSchema: schemaOf(fields.own("output_schema")),
    attachments: attachedFiles(fields.own("attachments")),
    reasoningEffort: fields.oneOf("reasoning_effort", EFFORTS),
  };
}

/** A misspelt bound would bound nothing: it is refused. */
function budgetOf(value: unknown): Budget | undefined {
  if (value === undefined) return undefined;
  if (!isRecord(value)) throw invalidField("budget");
  for (const [name, bound] of Object.entries(value))
    if (!BOUNDS.has(name) || typeof bound !== "number" || !Number.isFinite(bound) || bound <= 0)
      throw invalidField(`budget.${name.slice(0, NAMED)}`);
  return value;
}

function schemaOf(value: unknown): JsonSchema | undefined {
  if (value === undefined) return undefined;
  if (!isRecord(value)) throw invalidField("output_schema");
  return value;
}
