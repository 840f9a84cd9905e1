import type { Message, ModelEntry, Part, RunRecord, Session } from "gantry";
import type { Diff, SpawnedBy } from "gantry/plugin";
import type * as shapes from "./shapes.js";
import type { ResponseBody } from "./shapes.js";
import { toWireUsage } from "./wire.js";

/** Converts a session for the wire. `run`: its active run; undefined if there is none. */
export function toWireSession(session: Session, run?: RunRecord): ResponseBody<typeof shapes.Session> {
  return {
    id: session.id,
    title: session.title,
    provider: session.provider,
    model: session.model,
    reasoning_effort: session.reasoningEffort,
    project_dir: session.projectDir,
    parent_id: session.parentId,
    created_at: session.createdAt,
    updated_at: session.updatedAt,
    usage: toWireUsage(session.usage),
    mode: session.mode,
    ...(session.spawnedBy && { spawned_by: toWireSpawnedBy(session.spawnedBy) }),
    ...(session.archived && { archived: true as const }),
    ...(session.owner !== undefined && { owner: session.owner }),
    ...(session.shared && { shared: true as const }),
    ...(run && { run: { id: run.id, state: run.state } }),
  };
}

function toWireSpawnedBy({ sessionId, runId, callId }: SpawnedBy): ResponseBody<typeof shapes.SpawnedBy> {
  return { session_id: sessionId, run_id: runId, call_id: callId };
}

export function toWireMessage(message: Message): ResponseBody<typeof shapes.Message> {
  const reasoning = joinText(message.parts, "reasoning");
  return {
    id: message.id,
    session_id: message.sessionId,
    seq: message.seq,
    role: message.role,
    content: toWireContent(message.parts),
    ...toExpandedContent(message.parts),
    reasoning: reasoning === "" ? null : reasoning,
    name: message.name,
    tool_call_id: message.toolCallId,
    tool_calls: message.parts.flatMap((part) =>
      part.type === "tool_call"
        ? [{ id: part.id, type: "function" as const, function: { name: part.name, arguments: part.arguments } }]
        : [],
    ),
    created_at: message.createdAt,
    ...toWireDisplay(message),
    // Sent only when false: almost all messages are finished.
    ...(message.finished ? {} : { finished: false as const }),
  };
}

/** Display data of a tool result besides its text; empty fields are omitted. */
function toWireDisplay({
  failed,
  shown,
}: Message): Pick<ResponseBody<typeof shapes.Message>, "failed" | "diff" | "locations"> {
  return {
    ...(failed && { failed }),
    ...(shown && shown.diff.length > 0 && { diff: shown.diff.map(toWireDiff) }),
    ...(shown && shown.locations.length > 0 && { locations: shown.locations }),
  };
}

export function toWireDiff({ path, oldText, newText }: Diff): ResponseBody<typeof shapes.Diff> {
  return { path, old_text: oldText, new_text: newText };
}

type WirePart = ResponseBody<typeof shapes.ContentPart>;

/** A string if the message has no image and no file, otherwise a list of parts. */
function toWireContent(parts: readonly Part[]): string | WirePart[] {
  if (!parts.some((part) => part.type === "image" || part.type === "file")) return parts.map(toVisibleText).join("");
  return parts.flatMap((part): WirePart[] => {
    switch (part.type) {
      case "text":
        return [{ type: "text", text: part.originalText ?? part.text }];
      case "image":
        return [{ type: "image", media_type: part.mediaType, data: part.data }];
      case "file":
        return [{ type: "file", media_type: part.mediaType, filename: part.filename, data: part.data }];
      default:
        return [];
    }
  });
}

/** Text as users see it: for a slash command, the text as typed. */
function toVisibleText(part: Part): string {
  return part.type === "text" ? (part.originalText ?? part.text) : "";
}

/** For a slash command, the expanded text that the model received; empty for other messages. */
function toExpandedContent(parts: readonly Part[]): { expanded_content?: string } {
  return parts.some((part) => part.type === "text" && part.originalText !== undefined)
    ? { expanded_content: joinText(parts, "text") }
    : {};
}

/** The concatenated text, or reasoning, of a message. */
export function joinText(parts: readonly Part[], type: "text" | "reasoning"): string {
  return parts.map((part) => (part.type === type ? part.text : "")).join("");
}

export function toWireModel({ provider, model }: ModelEntry): ResponseBody<typeof shapes.Model> {
  return { provider, model: { id: model.id, name: model.name, owned_by: model.ownedBy } };
}
