import type { Message, ModelEntry, Part, RunRecord, Session } from "gantry";
import type { Diff, SpawnedBy } from "gantry/plugin";
import type * as shapes from "./shapes.js";
import type { Told } from "./response-body.js";
import { wireUsage } from "./wire.js";

/** `run`: one that is under way in it. */
export function wireSession(session: Session, run?: RunRecord): Told<typeof shapes.Session> {
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
    usage: wireUsage(session.usage),
    mode: session.mode,
    ...(session.spawnedBy && { spawned_by: wireSpawnedBy(session.spawnedBy) }),
    ...(run && { run: { id: run.id, state: run.state } }),
  };
}

function wireSpawnedBy({ sessionId, runId, callId }: SpawnedBy): Told<typeof shapes.SpawnedBy> {
  return { session_id: sessionId, run_id: runId, call_id: callId };
}

export function wireMessage(message: Message): Told<typeof shapes.Message> {
  const reasoning = textOf(message.parts, "reasoning");
  return {
    id: message.id,
    session_id: message.sessionId,
    seq: message.seq,
    role: message.role,
    content: wireContent(message.parts),
    ...expanded(message.parts),
    reasoning: reasoning === "" ? null : reasoning,
    name: message.name,
    tool_call_id: message.toolCallId,
    tool_calls: message.parts.flatMap((part) =>
      part.type === "tool_call"
        ? [{ id: part.id, type: "function" as const, function: { name: part.name, arguments: part.arguments } }]
        : [],
    ),
    created_at: message.createdAt,
    ...wireShown(message),
    // Where it is true of most, nobody need read it.
    ...(message.finished ? {} : { finished: false as const }),
  };
}

/** What people are shown of a tool's result beside its text; left out where that is nothing. */
function wireShown({ failed, shown }: Message): Pick<Told<typeof shapes.Message>, "failed" | "diff" | "locations"> {
  return {
    ...(failed && { failed }),
    ...(shown && shown.diff.length > 0 && { diff: shown.diff.map(wireDiff) }),
    ...(shown && shown.locations.length > 0 && { locations: shown.locations }),
  };
}

export function wireDiff({ path, oldText, newText }: Diff): Told<typeof shapes.Diff> {
  return { path, old_text: oldText, new_text: newText };
}

type WirePart = Told<typeof shapes.ContentPart>;

/** A string when there is text alone, else a list of parts. */
function wireContent(parts: readonly Part[]): string | WirePart[] {
  if (!parts.some((part) => part.type === "image" || part.type === "file")) return parts.map(typedIn).join("");
  return parts.flatMap((part): WirePart[] => {
    switch (part.type) {
      case "text":
        return [{ type: "text", text: part.typed ?? part.text }];
      case "image":
        return [{ type: "image", media_type: part.mediaType, data: part.data }];
      case "file":
        return [{ type: "file", media_type: part.mediaType, filename: part.filename, data: part.data }];
      default:
        return [];
    }
  });
}

/** Text as people see it: of a command what was typed. */
function typedIn(part: Part): string {
  return part.type === "text" ? (part.typed ?? part.text) : "";
}

/** What a model was told in place of what was typed; nothing of any other message. */
function expanded(parts: readonly Part[]): { expanded?: string } {
  return parts.some((part) => part.type === "text" && part.typed !== undefined)
    ? { expanded: textOf(parts, "text") }
    : {};
}

/** All text, or all reasoning, of a message. */
export function textOf(parts: readonly Part[], type: "text" | "reasoning"): string {
  return parts.map((part) => (part.type === type ? part.text : "")).join("");
}

export function wireModel({ provider, model }: ModelEntry): Told<typeof shapes.Model> {
  return { provider, model: { id: model.id, name: model.name, owned_by: model.ownedBy } };
}
