import type { AgentEvent, RunResult, ToolKind } from "gantry";
import { newId, roundCost, type Diff } from "gantry/plugin";
import { escapeInvisible } from "./printable-line.js";
import type { ClientProfile } from "./profile.js";
import type { ContentBlock, PromptResult, Profile, SessionUpdate, StopReason, ToolCallContent } from "./wire.js";

/** Reported context window of models whose window is unknown, in tokens. */
const DEFAULT_WINDOW_TOKENS = 128_000;
/** Context window that the interface specification fixes, in tokens. */
const SPEC_WINDOW_TOKENS = 200_000;

export function toTextBlock(text: string): ContentBlock {
  return { type: "text", text };
}

/**
 * Converts an event of a run to updates. `supportsCompactionUpdates`: whether the client supports `compaction_update`;
 * otherwise only a message is sent.
 */
export function toRunUpdates(event: AgentEvent, profile: Profile, supportsCompactionUpdates: boolean): SessionUpdate[] {
  switch (event.type) {
    case "token": {
      const { messageId } = event;
      if (event.reasoning)
        return [{ sessionUpdate: "agent_thought_chunk", messageId, content: toTextBlock(event.reasoning) }];
      if (event.text) return [{ sessionUpdate: "agent_message_chunk", messageId, content: toTextBlock(event.text) }];
      return [];
    }
    case "tool_call":
      return [toToolCallUpdate(event, profile)];
    case "tool_result":
      return [toToolResultUpdate(event)];
    case "compaction": {
      const text = `[Context compacted (${event.strategy}) — ${event.messages} messages, ${event.tokens} tokens]`;
      const messageChunk: SessionUpdate = {
        sessionUpdate: "agent_message_chunk",
        messageId: newId(),
        content: toTextBlock(text),
      };
      return supportsCompactionUpdates
        ? [{ sessionUpdate: "compaction_update", compactionId: newId(), status: "completed" }, messageChunk]
        : [messageChunk];
    }
    case "steered":
      return [{ sessionUpdate: "user_message_chunk", messageId: event.messageId, content: toTextBlock(event.text) }];
    case "tool_progress":
    case "retry":
    case "done":
    case "error":
      return [];
  }
}

type StatusProfile = Pick<ClientProfile, "supportsNotices" | "isEditor">;

/** The update that reports a retry of a model call after `delayMs`; none for a client that does not show it. */
export function toRetryUpdates(reason: string, delayMs: number, profile: StatusProfile): SessionUpdate[] {
  const retry = `retrying in ${Math.max(1, Math.ceil(delayMs / 1000))} s`;
  const thought = `${escapeInvisible(reason)}; ${retry}`;
  return toStatusUpdates(`The model call failed; ${retry}`, reason, thought, profile);
}

/** The update that reports that no model is available. `reason`: `""` if it is unknown. */
export function toWaitUpdates(reason: string, profile: StatusProfile): SessionUpdate[] {
  const thought = `waiting for a model${reason === "" ? "" : `: ${escapeInvisible(reason)}`}`;
  return toStatusUpdates("Waiting for a model", reason, thought, profile);
}

/** A notice for clients with notices, otherwise a thought for editors. */
function toStatusUpdates(
  title: string,
  reason: string,
  thought: string,
  { supportsNotices, isEditor }: StatusProfile,
): SessionUpdate[] {
  if (supportsNotices) return [toNotice("warning", title, reason)];
  if (!isEditor) return [];
  return [{ sessionUpdate: "agent_thought_chunk", messageId: newId(), content: toTextBlock(`[${thought}]\n`) }];
}

/** A notice for the user. `description`: `""` for none. */
export function toNotice(severity: "info" | "warning", title: string, description: string): SessionUpdate {
  return {
    sessionUpdate: "notice",
    severity,
    title: escapeInvisible(title),
    ...(description !== "" && { description: escapeInvisible(description) }),
  };
}

export interface ToolCallSummary {
  callId: string;
  title: string;
  kind: ToolKind;
  input: unknown;
  arguments: string;
  locations: readonly { path: string; line?: number }[];
}

export function toToolCallUpdate(call: ToolCallSummary, profile: Profile): SessionUpdate {
  return {
    sessionUpdate: "tool_call",
    toolCallId: call.callId,
    title: escapeInvisible(call.title),
    kind: profile === "spec" ? "other" : call.kind,
    status: "pending",
    locations: call.locations.map((location) => ({ ...location })),
    // Invalid JSON is shown as the model sent it.
    rawInput: call.input ?? call.arguments,
  };
}

export function toDiffContent(diff: readonly Diff[]): ToolCallContent[] {
  return diff.map((change) => ({ type: "diff", ...change }));
}

type ToolResult = Extract<AgentEvent, { type: "tool_result" }>;

export function toToolResultUpdate(
  result: Pick<ToolResult, "callId" | "output" | "failed" | "parts" | "diff" | "locations">,
): SessionUpdate {
  const content: ToolCallContent[] = toDiffContent(result.diff);
  if (content.length === 0 && result.output !== "")
    content.push({ type: "content", content: toTextBlock(result.output) });
  for (const part of result.parts) {
    if (part.type !== "image") continue;
    content.push({ type: "content", content: { type: "image", data: part.data, mimeType: part.mediaType } });
  }
  return {
    sessionUpdate: "tool_call_update",
    toolCallId: result.callId,
    status: result.failed ? "failed" : "completed",
    content,
    ...(result.locations.length > 0 ? { locations: result.locations.map((location) => ({ ...location })) } : {}),
    rawOutput: result.output,
  };
}

/** The usage update of a run; undefined if the run used no tokens. */
export function toUsageUpdate(
  { context, sessionUsage, usage }: Pick<RunResult, "context" | "sessionUsage" | "usage">,
  profile: Profile,
): SessionUpdate | undefined {
  if (usage.totalTokens <= 0) return undefined;
  return {
    sessionUpdate: "usage_update",
    used: toInteger(context.used),
    size: profile === "spec" ? SPEC_WINDOW_TOKENS : toInteger(context.size ?? DEFAULT_WINDOW_TOKENS),
    cost: { amount: Math.max(0, roundCost(sessionUsage.cost)), currency: "USD" },
  };
}

/** Rounds a number to an integer of at least 0: clients drop updates with fractional numbers. */
function toInteger(value: number): number {
  return Math.max(0, Math.round(value));
}

export function toFinishedResult(result: RunResult, profile: Profile): PromptResult {
  return { stopReason: profile === "spec" ? "end_turn" : toOfficialReason(result) };
}

function toOfficialReason(result: RunResult): StopReason {
  if (result.endedBy === "max_iterations") return "max_turn_requests";
  if (result.finishReason === "length") return "max_tokens";
  if (result.finishReason === "content_filter") return "refusal";
  return "end_turn";
}
