import { HttpError } from "./errors.js";
import { Fields } from "./fields.js";
import type { RunExtras } from "./run-extras.js";
import { RunRequest as RunRequestShape } from "./shapes.js";

/** The checked body of `POST /api/run`. */
export interface ParsedRunRequest extends RunExtras {
  message: string;
  /** Undefined for `provider` and `model`: the model of the session, or the preferred model. */
  provider: string | undefined;
  model: string | undefined;
  /** Undefined: the run creates a session. */
  sessionId: string | undefined;
  /** Paths as sent. */
  files: readonly string[];
  stream: boolean;
  /** The complete body as sent. */
  body: Readonly<Record<string, unknown>>;
  /** Names of ignored fields; at most `MAX_IGNORED_FIELDS`. */
  ignoredFields: readonly string[];
}

const DEFAULT_EXTRAS: RunExtras = {
  projectDir: undefined,
  background: false,
  queue: false,
  onDisconnect: undefined,
  input: {},
};
/** Fields that need no `RunExtras`. */
const COMMON_FIELDS: ReadonlySet<string> = new Set(["message", "provider", "model", "session_id", "files", "stream"]);
/** Maximum number of reported ignored fields, and of characters of each. */
const MAX_IGNORED_FIELDS = 10;
const MAX_IGNORED_NAME_CHARACTERS = 64;

/** Checks the body of `POST /api/run`. Rejects with `HttpError`. */
export async function readRunRequest(body: Readonly<Record<string, unknown>>): Promise<ParsedRunRequest> {
  const fields = new Fields(RunRequestShape, body);
  const message = Object.hasOwn(body, "message") && body["message"];
  const attachments = Object.hasOwn(body, "attachments") && body["attachments"];
  const hasAttachments = Array.isArray(attachments) && attachments.length > 0;
  const isCompaction = Object.hasOwn(body, "compact") && body["compact"] === true;
  if (typeof message !== "string" || (!hasAttachments && !isCompaction && message.trim() === ""))
    throw new HttpError(400, "message is required", {}, "message_required");
  const files = fields.get("files") ?? [];
  const stream = fields.get("stream") ?? false;
  const hasOnlyCommonFields = Object.keys(body).every((name) => COMMON_FIELDS.has(name));
  return {
    ...(hasOnlyCommonFields ? DEFAULT_EXTRAS : (await import("./run-extras.js")).readRunExtras(body, fields, stream)),
    message,
    provider: fields.getText("provider"),
    model: fields.getText("model"),
    sessionId: fields.getText("session_id"),
    files,
    stream,
    body,
    ignoredFields: Object.keys(body)
      .filter((name) => !Object.hasOwn(RunRequestShape.entries, name))
      .slice(0, MAX_IGNORED_FIELDS)
      .map((name) => name.slice(0, MAX_IGNORED_NAME_CHARACTERS)),
  };
}
