import type { RunInput } from "gantry";
import { isRecord } from "gantry/plugin";
import * as v from "valibot";
import { readAttachedFiles } from "./attachments.js";
import { createFieldError, type Fields } from "./body.js";
import { Budget, type RunRequest } from "./request-shapes.js";

type Body = Readonly<Record<string, unknown>>;

/** Maximum characters of an unknown budget field in an error. */
const MAX_FIELD_NAME_CHARACTERS = 64;
/** Time for a client with `can_answer` to begin watching the session, in ms. */
const WATCH_GRACE_MS = 10_000;

/** Rarely used fields of a run request. */
export interface RunExtras {
  /** Path as sent, not yet resolved. Undefined: the folder of the session, or the served folder. */
  projectDir: string | undefined;
  /** Whether to answer at once. The run continues if its client disconnects. */
  background: boolean;
  /** Whether the run is queued if its session is busy. */
  queue: boolean;
  /** Undefined: the default of the request kind, or of the server. */
  onDisconnect: "cancel" | "continue" | undefined;
  /** Fields that are passed to `agent.run`. */
  input: Partial<
    Pick<
      RunInput,
      | "mode"
      | "budget"
      | "compact"
      | "rewind"
      | "retry"
      | "commands"
      | "outputSchema"
      | "hasResponder"
      | "trace"
      | "attachments"
      | "reasoningEffort"
      | "worktree"
    >
  >;
}

/** Reads the rarely used fields of a run request. Throws `HttpError`. */
export function readRunExtras(body: Body, fields: Fields<(typeof RunRequest)["entries"]>, stream: boolean): RunExtras {
  const background = fields.get("background") ?? false;
  // A background run is answered at once; no client remains to read a stream.
  if (stream && background) throw createFieldError("background");
  return {
    projectDir: fields.getText("project_dir"),
    background,
    queue: fields.get("queue") ?? false,
    onDisconnect: fields.getText("on_disconnect"),
    input: {
      ...(fields.get("can_answer") === true && { hasResponder: createGraceCheck() }),
      mode: fields.getText("mode"),
      budget: checkBudget(readRecord(body, "budget")),
      compact: fields.get("compact") ?? false,
      rewind: readRewind(fields.get("rewind")),
      retry: fields.get("retry") ?? false,
      commands: fields.get("commands") ?? false,
      outputSchema: readRecord(body, "output_schema"),
      attachments: readAttachedFiles(Object.hasOwn(body, "attachments") ? body["attachments"] : undefined),
      reasoningEffort: fields.getText("reasoning_effort"),
      worktree: fields.get("worktree") ?? false,
    },
  };
}

function readRewind(rewind: RunRequest["rewind"]): RunInput["rewind"] {
  if (rewind?.before_message_id === "") throw createFieldError("rewind");
  return rewind && { before: rewind.before_message_id, files: rewind.files, force: rewind.force };
}

/**
 * Returns a check that is true until `WATCH_GRACE_MS` after its first call, which the agent makes at the start of the
 * run. In this time the client can begin to watch.
 */
function createGraceCheck(): () => boolean {
  let startedAtMs: number | undefined;
  return () => Date.now() - (startedAtMs ??= Date.now()) < WATCH_GRACE_MS;
}

/**
 * A field that must be an object with any keys; undefined if the field is absent. Throws `HttpError` for other values,
 * also for an array, which the schema alone would accept.
 */
function readRecord(body: Body, name: "budget" | "output_schema"): Record<string, unknown> | undefined {
  const value = Object.hasOwn(body, name) ? body[name] : undefined;
  if (value !== undefined && !isRecord(value)) throw createFieldError(name);
  return value;
}

/** Throws `HttpError` for unknown and invalid limits: a misspelled limit would have no effect. */
function checkBudget(budget: Readonly<Record<string, unknown>> | undefined): v.InferOutput<typeof Budget> | undefined {
  const limitSchemas: Readonly<Record<string, v.GenericSchema>> = Budget.entries;
  for (const [name, limit] of Object.entries(budget ?? {})) {
    const shape = Object.hasOwn(limitSchemas, name) ? limitSchemas[name] : undefined;
    if (!shape || !v.is(shape, limit)) throw createFieldError(`budget.${name.slice(0, MAX_FIELD_NAME_CHARACTERS)}`);
  }
  return budget;
}
