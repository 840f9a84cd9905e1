// Validation schemas for the lines of an export, which a third party may have written.

import { posix, win32 } from "node:path";
import * as v from "valibot";
import { isRecord } from "../base/json.js";
import { toPrintable } from "../base/printable.js";
import { EFFORTS } from "../models/efforts.js";
import type { Part } from "../ports/message.js";

const PART_TYPES: readonly unknown[] = ["text", "reasoning", "image", "file", "tool_call"] satisfies Part["type"][];
const isPart = (value: unknown): boolean =>
  isRecord(value) && PART_TYPES.includes(value["type"]) && typeof (value["originalText"] ?? "") === "string";
const naturalNumber = v.pipe(v.number(), v.integer(), v.minValue(0));
const timestamp = v.pipe(v.string(), v.isoTimestamp());
/**
 * Folder that a session's tools may change. A root folder is rejected: a third party's file must not open a complete
 * disk.
 */
const folder = v.custom<string>(isFolderPath, "the absolute path of a folder below the root");
const readonlyArray = <S extends v.GenericSchema>(itemShape: S) => v.pipe(v.array(itemShape), v.readonly());
const usageShape = v.object({
  promptTokens: naturalNumber,
  completionTokens: naturalNumber,
  totalTokens: naturalNumber,
  cost: v.number(),
});
const sessionShape = v.object({
  id: v.pipe(v.string(), v.nonEmpty()),
  alias: v.string(),
  title: v.string(),
  hasFinalTitle: v.boolean(),
  provider: v.string(),
  model: v.string(),
  reasoningEffort: v.picklist(EFFORTS),
  // Absent in exports of earlier versions, like some of the fields below.
  mode: v.optional(v.picklist(["auto", "ask", "plan"]), "auto"),
  permissionGrants: v.optional(
    readonlyArray(
      v.object({ tool: v.string(), scope: v.string(), title: v.string(), grantedBy: v.string(), grantedAt: timestamp }),
    ),
    [],
  ),
  rewinds: v.optional(readonlyArray(naturalNumber), []),
  projectDir: folder,
  parentId: v.string(),
  spawnedBy: v.optional(v.nullable(v.object({ sessionId: v.string(), runId: v.string(), callId: v.string() })), null),
  archived: v.exactOptional(v.boolean()),
  owner: v.exactOptional(v.pipe(v.string(), v.nonEmpty())),
  shared: v.exactOptional(v.boolean()),
  chain: v.object({ root: v.string(), index: naturalNumber }),
  lastSeq: naturalNumber,
  createdAt: timestamp,
  updatedAt: timestamp,
  usage: usageShape,
});
const locationsShape = readonlyArray(v.object({ path: v.string(), line: v.exactOptional(naturalNumber) }));
const diffShape = readonlyArray(v.object({ path: v.string(), oldText: v.nullable(v.string()), newText: v.string() }));
const messageShape = v.object({
  id: v.string(),
  sessionId: v.string(),
  seq: v.pipe(naturalNumber, v.minValue(1)),
  role: v.picklist(["user", "assistant", "system", "tool"]),
  parts: v.array(v.custom<Part>(isPart, "a part")),
  toolCallId: v.string(),
  name: v.string(),
  failed: v.boolean(),
  createdAt: timestamp,
  shown: v.exactOptional(v.object({ diff: diffShape, locations: locationsShape })),
  finished: v.boolean(),
});
const holderShape = v.object({
  id: v.string(),
  host: v.string(),
  boot: v.string(),
  pid: v.pipe(v.number(), v.safeInteger()),
  started: v.string(),
});
const runShape = v.object({
  id: v.pipe(v.string(), v.nonEmpty()),
  sessionId: v.string(),
  idempotencyKey: v.string(),
  fingerprint: v.optional(v.string(), ""),
  after: v.optional(naturalNumber, 0),
  state: v.picklist(["queued", "running", "waiting", "finished", "failed", "cancelled", "interrupted"]),
  startedAt: timestamp,
  endedAt: v.union([v.literal(""), timestamp]),
  provider: v.string(),
  model: v.string(),
  usage: usageShape,
  iterations: naturalNumber,
  user: v.exactOptional(v.string()),
  endedBy: v.picklist(["", "model", "max_iterations", "budget"]),
  error: v.nullable(v.object({ code: v.string(), message: v.string() })),
  queueLease: v.optional(v.nullable(v.object({ holder: holderShape, expiresAt: timestamp })), null),
  retry: v.optional(
    v.nullable(v.object({ attempt: naturalNumber, nextAttemptAt: timestamp, reason: v.string() })),
    null,
  ),
  answer: v.optional(
    v.nullable(
      v.object({
        output: v.string(),
        finishReason: v.nullable(v.picklist(["stop", "length", "content_filter", "tool_calls"])),
        structured: v.optional(v.unknown()),
      }),
    ),
    null,
  ),
});
const askShape = v.object({
  id: v.pipe(v.string(), v.nonEmpty()),
  sessionId: v.string(),
  runId: v.string(),
  callId: v.string(),
  kind: v.picklist(["permission", "question"]),
  tool: v.string(),
  toolKind: v.picklist(["read", "edit", "delete", "search", "execute", "fetch", "think", "other"]),
  title: v.string(),
  input: v.unknown(),
  locations: locationsShape,
  diff: diffShape,
  reason: v.string(),
  choices: readonlyArray(v.object({ id: v.string(), label: v.string() })),
  freeText: v.boolean(),
  createdAt: timestamp,
  deadline: v.union([v.literal(""), timestamp]),
  state: v.picklist(["open", "answered", "withdrawn"]),
  reply: v.nullable(v.object({ choice: v.string(), text: v.string() })),
  answeredBy: v.string(),
  closedAt: v.union([v.literal(""), timestamp]),
});
/** The lines of an export by their `type`, without this field. */
export const LINE_SHAPES = {
  chain: v.object({
    root: v.string(),
    snapshots: v.array(v.object({ id: v.pipe(v.string(), v.nonEmpty()), after: naturalNumber, createdAt: timestamp })),
  }),
  session: v.object({ hiddenBy: v.string(), session: sessionShape }),
  view: v.object({ message: messageShape }),
  message: v.object({ hiddenBy: v.string(), message: messageShape }),
  run: v.object({ run: runShape }),
  ask: v.object({ ask: askShape }),
  end: v.object({ root: v.string(), messages: naturalNumber }),
};
export type LineKind = keyof typeof LINE_SHAPES;
/** The content of a line, without its `type`. */
export type LineOf<K extends LineKind> = v.InferOutput<(typeof LINE_SHAPES)[K]>;

function isFolderPath(value: unknown): boolean {
  if (typeof value !== "string" || toPrintable(value) !== value) return false;
  // A path of any system, independent of this one. On another system the folder is not found, and nothing runs in it.
  const pathModule = value.startsWith("/") ? posix : win32;
  return (
    (pathModule === posix || /^([A-Za-z]:|\\\\[^\\]+)[\\/]/.test(value)) &&
    pathModule.resolve(value) !== pathModule.parse(value).root
  );
}
