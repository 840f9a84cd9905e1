import type { RunInput } from "gantry";
import { isRecord } from "gantry/plugin";
import * as v from "valibot";
import { readAttachedFiles } from "./attachments.js";
import { createFieldError, type Fields } from "./fields.js";
import { Budget, type RunRequest } from "./shapes.js";

type Body = Readonly<Record<string, unknown>>;

/** Maximum characters of an unknown budget field in an error. */
const MAX_FIELD_NAME_CHARACTERS = 64;
/** Time for a client with `can_answer` to begin watching the session, in ms. */
const WATCH_GRACE_MS = 10_000;

/** Rarely used fields of a run request. */
export interface RunExtras {
  /** Path as sent, not yet resolved. */
  projectDir: string | undefined;
  /** Whether to answer at once. The run continues if its client disconnects. */
  background: boolean;
  /** Whether the run is queued if its session is busy. */
  queue: boolean;
  onDisconnect: "cancel" | "continue" | undefined;
  /** Fields that are passed to `agent.run`. */
  input: Partial<
    Pick<
      RunInput,
      "mode" | "budget" | "compact" | "commands" | "outputSchema" | "hasResponder" | "attachments" | "reasoningEffort"
    >
  >;
}

/** Reads the rarely used fields of a run request. Throws `HttpError`. */
export function readRunExtras(body: Body, fields: Fields<(typeof RunRequest)["entries"]>, stream: boolean): RunExtras {
  const background = fields.get("background") ?? false;
  // A background run is answered at once; no client remains to read a stream.
  if (stream && background) throw createFieldError("background");
  return {
    projectDir: fields.text("project_dir"),
    background,
    queue: fields.get("queue") ?? false,
    onDisconnect: fields.text("on_disconnect"),
    input: {
      ...(fields.get("can_answer") === true && { hasResponder: createGraceCheck() }),
      mode: fields.text("mode"),
      budget: checkBudget(readRecord(body, "budget")),
      compact: fields.get("compact") ?? false,
      commands: fields.get("commands") ?? false,
      outputSchema: readRecord(body, "output_schema"),
      attachments: readAttachedFiles(Object.hasOwn(body, "attachments") ? body["attachments"] : undefined),
      reasoningEffort: fields.text("reasoning_effort"),
    },
  };
}

/**
 * Returns a check that is true for a while after its first call at the start of the run. Until then the client can
 * begin to watch.
 */
function createGraceCheck(): () => boolean {
  let startedAtMs: number | undefined;
  return () => Date.now() - (startedAtMs ??= Date.now()) < WATCH_GRACE_MS;
}

/** A field that must be an object with any keys; the schema alone would also accept an array. */
function readRecord(body: Body, name: "budget" | "output_schema"): Record<string, unknown> | undefined {
  const value = Object.hasOwn(body, name) ? body[name] : undefined;
  if (value !== undefined && !isRecord(value)) throw createFieldError(name);
  return value;
}

/** Rejects unknown and invalid limits: a misspelled limit would have no effect. */
function checkBudget(budget: Readonly<Record<string, unknown>> | undefined): v.InferOutput<typeof Budget> | undefined {
  const bounds: Readonly<Record<string, v.GenericSchema>> = Budget.entries;
  for (const [name, limit] of Object.entries(budget ?? {})) {
    const shape = Object.hasOwn(bounds, name) ? bounds[name] : undefined;
    if (!shape || !v.is(shape, limit)) throw createFieldError(`budget.${name.slice(0, MAX_FIELD_NAME_CHARACTERS)}`);
  }
  return budget;
}
