import type { Agent, Diff, Location, Message, ToolCallPart } from "gantry";
import { planOf } from "./plan.js";
import { textBlock, toolCall, toolResult } from "./updates.js";
import { visible } from "./visible.js";
import type { ContentBlock, Profile, SessionUpdate } from "./wire.js";

/** Messages read from the store at a time. */
const PAGE = 100;

export interface ReplayParts {
  agent: Agent;
  /** The chain's first session. */
  rootId: string;
  /** Where the tools run. */
  projectDir: string;
  profile: Profile;
  /** Whether the client is told what editors show besides. */
  editor: boolean;
}

/** A stored conversation as updates, in pages: every message of the chain, as it was said. */
export async function* replay(parts: ReplayParts): AsyncGenerator<SessionUpdate[]> {
  const context: Context = { ...parts, open: new Map() };
  const { agent, rootId } = parts;
  let after = 0;
  async function* rest(): AsyncGenerator<SessionUpdate[]> {
    for (;;) {
      const page = await agent.sessions.messages(rootId, { after, limit: PAGE });
      yield page.flatMap((message) => updatesOfMessage(message, context));
      after = page.at(-1)?.seq ?? after;
      if (page.length < PAGE) return;
    }
  }
  yield* rest();
  if (context.open.size === 0) return;
  // Through whatever door and in whatever process: it has its result still to come.
  if (await agent.sessions.isRunning(rootId)) {
    if (parts.editor) yield [...context.open.keys()].map((toolCallId) => stateOf(toolCallId, "in_progress"));
    return;
  }
  // The run may have ended between the last page and the question.
  yield* rest();
  // A crash left these without a result; a client would show them as running for ever.
  yield [...context.open.keys()].map((toolCallId) => stateOf(toolCallId, "failed"));
}

function stateOf(toolCallId: string, status: "in_progress" | "failed"): SessionUpdate {
  return { sessionUpdate: "tool_call_update", toolCallId, status };
}

interface OpenCall {
  input: unknown;
  locations: readonly Location[];
  diff: readonly Diff[];
}

interface Context extends ReplayParts {
  /** Calls that no result was seen of. */
  open: Map<string, OpenCall>;
}

function updatesOfMessage(message: Message, context: Context): SessionUpdate[] {
  const { id: messageId } = message;
  if (message.role === "tool") return resultOf(message, context);
  if (message.role === "system") return [];
  const updates = message.parts.flatMap((part): SessionUpdate[] => {
    if (part.type === "tool_call") return [callOf(part, context)];
    if (part.type === "reasoning") {
      return part.text === ""
        ? []
        : [{ sessionUpdate: "agent_thought_chunk", messageId, content: textBlock(part.text) }];
    }
    if (part.type === "text" && part.text === "") return [];
    const sessionUpdate = message.role === "user" ? "user_message_chunk" : "agent_message_chunk";
    return [{ sessionUpdate, messageId, content: blockOf(part) }];
  });
  const last = updates.at(-1);
  // Half an answer must not look like a whole one.
  if (!message.finished && last && "content" in last && "messageId" in last) last._meta = { finished: false };
  return updates;
}

function blockOf(part: Exclude<Message["parts"][number], ToolCallPart>): ContentBlock {
  if (part.type === "image") return { type: "image", data: part.data, mimeType: part.mediaType };
  if (part.type === "file") {
    const uri = `attachment:${encodeURIComponent(part.filename.replace(/\p{Cs}/gu, "\ufffd"))}`;
    return { type: "resource_link", uri, name: visible(part.filename), mimeType: part.mediaType };
  }
  return textBlock(part.text);
}

function callOf(part: ToolCallPart, { agent, projectDir, profile, open }: Context): SessionUpdate {
  const shown = agent.describeCall(part.name, part.arguments, projectDir);
  open.set(part.id, shown);
  return toolCall({ callId: part.id, arguments: part.arguments, ...shown }, profile);
}

/** The diff of an edit is not stored: its arguments tell the pieces that it put in place of others. */
function resultOf(message: Message, { editor, open }: Context): SessionUpdate[] {
  const { toolCallId: callId, failed } = message;
  const call = open.get(callId);
  open.delete(callId);
  const parts = message.parts.filter((part) => part.type === "image" || part.type === "file");
  const output = message.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
  const { diff = [], locations = [] } = call ?? {};
  const result = toolResult({ callId, output, failed, parts, diff: failed ? [] : diff, locations });
  const plan = editor && call && !failed ? planOf(message.name, call.input) : undefined;
  return plan ? [result, plan] : [result];
}
