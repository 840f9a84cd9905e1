import { createHash } from "node:crypto";
import { isRecord, type JsonSchema, type RunInput, type SessionMode } from "gantry";
import { HttpError } from "./errors.js";
import { Fields, invalidField } from "./fields.js";

type Budget = NonNullable<RunInput["budget"]>;

/** What a client asks of a run; checked. */
export interface RunRequest {
  message: string;
  provider: string | undefined;
  model: string | undefined;
  sessionId: string | undefined;
  /** As it was given. */
  projectDir: string | undefined;
  files: readonly string[];
  stream: boolean;
  /** Answered at once; the run goes on whatever becomes of its client. */
  background: boolean;
  /** Waits in line for a session that is busy. */
  queue: boolean;
  onDisconnect: "cancel" | "continue" | undefined;
  mode: SessionMode | undefined;
  budget: Budget | undefined;
  outputSchema: JsonSchema | undefined;
  /** All that was asked, in a form that is the same for the same. */
  fingerprint: () => string;
  /** Names of further fields, which nothing is made of; the first few. */
  ignored: readonly string[];
}

export const MODES: readonly SessionMode[] = ["auto", "ask", "plan"];

/** Fields that are made something of. */
const KNOWN: ReadonlySet<string> = new Set([
  "message",
  "provider",
  "model",
  "session_id",
  "project_dir",
  "files",
  "stream",
  "background",
  "queue",
  "on_disconnect",
  "mode",
  "budget",
  "output_schema",
]);
/** Of the others, so many are named, each cut at so many characters. */
const NAMED = { fields: 10, characters: 64 };
const BOUNDS: ReadonlySet<string> = new Set(["usd", "tokens", "seconds"] satisfies (keyof Budget)[]);

/** Throws `HttpError`. */
export function runRequest(body: Record<string, unknown>): RunRequest {
  const fields = new Fields(body);
  const message = fields.own("message");
  if (typeof message !== "string" || message.trim() === "")
    throw new HttpError(400, "message is required", {}, "message_required");
  const files = fields.own("files") ?? [];
  if (fields.own("files") === null || !Array.isArray(files) || !files.every((file) => typeof file === "string"))
    throw invalidField("files");
  const [stream, background] = [fields.flag("stream"), fields.flag("background")];
  // There is nobody to stream to.
  if (stream && background) throw invalidField("background");
  return {
    message,
    provider: fields.text("provider"),
    model: fields.text("model"),
    sessionId: fields.text("session_id"),
    projectDir: fields.text("project_dir"),
    files,
    stream,
    background,
    queue: fields.flag("queue"),
    onDisconnect: fields.oneOf("on_disconnect", ["cancel", "continue"]),
    mode: fields.oneOf("mode", MODES),
    budget: budgetOf(fields.own("budget")),
    outputSchema: schemaOf(fields.own("output_schema")),
    fingerprint: () => createHash("sha256").update(canonical(body)).digest("base64url"),
    ignored: fields.names
      .filter((name) => !KNOWN.has(name))
      .slice(0, NAMED.fields)
      .map((name) => name.slice(0, NAMED.characters)),
  };
}

/** A misspelt bound would bound nothing: it is refused. */
function budgetOf(value: unknown): Budget | undefined {
  if (value === undefined) return undefined;
  if (!isRecord(value)) throw invalidField("budget");
  for (const [name, bound] of Object.entries(value))
    if (!BOUNDS.has(name) || typeof bound !== "number" || !Number.isFinite(bound) || bound <= 0)
      throw invalidField(`budget.${name.slice(0, NAMED.characters)}`);
  return value;
}

function schemaOf(value: unknown): JsonSchema | undefined {
  if (value === undefined) return undefined;
  if (!isRecord(value)) throw invalidField("output_schema");
  return value;
}

/** JSON whose fields stand in one order. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) =>
    isRecord(one) ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1))) : one,
  );
}
