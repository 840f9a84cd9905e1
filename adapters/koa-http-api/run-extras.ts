import type { RunInput } from "gantry";
import { isRecord } from "gantry/plugin";
import * as v from "valibot";
import { attachedFiles } from "./attachments.js";
import { invalidField, type Fields } from "./fields.js";
import { Budget, type RunRequest } from "./shapes.js";

type Body = Readonly<Record<string, unknown>>;

/** Maximum characters of an unknown budget field in an error. */
const MAX_NAMED_CHARACTERS = 64;
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
  /** Rarely used fields that are passed to the run unchanged. */
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
  if (stream && background) throw invalidField("background");
  return {
    projectDir: fields.text("project_dir"),
    background,
    queue: fields.get("queue") ?? false,
    onDisconnect: fields.text("on_disconnect"),
    input: {
      ...(fields.get("can_answer") === true && { hasResponder: untilWatching() }),
      mode: fields.text("mode"),
      budget: checkBudget(recordField(body, "budget")),
      compact: fields.get("compact") ?? false,
      commands: fields.get("commands") ?? false,
      outputSchema: recordField(body, "output_schema"),
      attachments: attachedFiles(Object.hasOwn(body, "attachments") ? body["attachments"] : undefined),
      reasoningEffort: fields.text("reasoning_effort"),
    },
  };
}

/**
 * Returns a check that is true for a while after its first call at the start of the run. Until then the client can
 * begin to watch.
 */
function untilWatching(): () => boolean {
  let since: number | undefined;
  return () => Date.now() - (since ??= Date.now()) < WATCH_GRACE_MS;
}

/** A field that must be an object with any keys; the schema alone would also accept an array. */
function recordField(body: Body, name: "budget" | "output_schema"): Record<string, unknown> | undefined {
  const value = Object.hasOwn(body, name) ? body[name] : undefined;
  if (value !== undefined && !isRecord(value)) throw invalidField(name);
  return value;
}

/** Rejects unknown and invalid limits: a misspelled limit would have no effect. */
function checkBudget(budget: Readonly<Record<string, unknown>> | undefined): v.InferOutput<typeof Budget> | undefined {
  const bounds: Readonly<Record<string, v.GenericSchema>> = Budget.entries;
  for (const [name, bound] of Object.entries(budget ?? {})) {
    const shape = Object.hasOwn(bounds, name) ? bounds[name] : undefined;
    if (!shape || !v.is(shape, bound)) throw invalidField(`budget.${name.slice(0, MAX_NAMED_CHARACTERS)}`);
  }
  return budget;
}
