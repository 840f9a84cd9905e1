import type { RunInput } from "gantry";
import { isRecord } from "gantry/plugin";
import * as v from "valibot";
import { attachedFiles } from "./attachments.js";
import { invalidField, type Fields } from "./fields.js";
import { Budget, type RunRequest } from "./shapes.js";

type Body = Readonly<Record<string, unknown>>;

/** Of a bound that nobody knows, so many characters are named. */
const NAMED = 64;
/** Whoever says that they answer watches the session so soon. */
const COMING_MS = 10_000;

/** What few clients ask of a run. */
export interface RunExtras {
  /** As it was given. */
  projectDir: string | undefined;
  /** Answered at once; the run goes on whatever becomes of its client. */
  background: boolean;
  /** Waits in line for a session that is busy. */
  queue: boolean;
  onDisconnect: "cancel" | "continue" | undefined;
  /** What the run is told beside what many ask. */
  input: Partial<
    Pick<
      RunInput,
      "mode" | "budget" | "compact" | "commands" | "outputSchema" | "attended" | "attachments" | "reasoningEffort"
    >
  >;
}

/** The fields that few requests have. Throws `HttpError`. */
export function runExtras(body: Body, fields: Fields<(typeof RunRequest)["entries"]>, stream: boolean): RunExtras {
  const background = fields.get("background") ?? false;
  // There is nobody to stream to.
  if (stream && background) throw invalidField("background");
  return {
    projectDir: fields.text("project_dir"),
    background,
    queue: fields.get("queue") ?? false,
    onDisconnect: fields.text("on_disconnect"),
    input: {
      ...(fields.get("answers") === true && { attended: soon() }),
      mode: fields.text("mode"),
      budget: budgetOf(recordIn(body, "budget")),
      compact: fields.get("compact") ?? false,
      commands: fields.get("commands") ?? false,
      outputSchema: recordIn(body, "output_schema"),
      attachments: attachedFiles(Object.hasOwn(body, "attachments") ? body["attachments"] : undefined),
      reasoningEffort: fields.text("reasoning_effort"),
    },
  };
}

/** Since it is asked first, when the run begins: until its client watches. */
function soon(): () => boolean {
  let since: number | undefined;
  return () => Date.now() - (since ??= Date.now()) < COMING_MS;
}

/** An object, whatever its fields are: to a shape a list is one too. */
function recordIn(body: Body, name: "budget" | "output_schema"): Record<string, unknown> | undefined {
  const value = Object.hasOwn(body, name) ? body[name] : undefined;
  if (value !== undefined && !isRecord(value)) throw invalidField(name);
  return value;
}

/** A misspelt bound would bound nothing: it is refused. */
function budgetOf(given: Readonly<Record<string, unknown>> | undefined): v.InferOutput<typeof Budget> | undefined {
  const bounds: Readonly<Record<string, v.GenericSchema>> = Budget.entries;
  for (const [name, bound] of Object.entries(given ?? {})) {
    const shape = Object.hasOwn(bounds, name) ? bounds[name] : undefined;
    if (!shape || !v.is(shape, bound)) throw invalidField(`budget.${name.slice(0, NAMED)}`);
  }
  return given;
}
