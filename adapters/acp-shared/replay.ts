import type { Agent, Message, ToolCallPart } from "gantry";
import { textBlock, toolCall, toolResult } from "./updates.js";
import type { ContentBlock, Profile, SessionUpdate } from "./wire.js";

/** Messages read from the store at a time. */
const PAGE = 100;

/** A stored conversation as updates, in pages: every message of the chain, as it was said. `running`: whether a prompt goes on in it. */
export async function* replay(
  agent: Agent,
  rootId: string,
  projectDir: string,
  profile: Profile,
  running: () => boolean,
): AsyncGenerator<SessionUpdate[]> {
  const open = new Set<string>();
  for (let after = 0; ;) {
    const page = await agent.sessions.messages(rootId, { after, limit: PAGE });
    yield page.flatMap((message) => updatesOfMessage(message, { agent, projectDir, profile, open }));
    const last = page.at(-1);
    if (!last || page.length < PAGE) break;
    after = last.seq;
  }
  if (running()) return;
  // A crash left these without a result; a client would show them as running for ever.
  yield [...open].map((toolCallId) => ({ sessionUpdate: "tool_call_update", toolCallId, status: "failed" }));
}

interface Context {
  agent: Agent;
  projectDir: string;
  profile: Profile;
  /** Calls that no result was seen of. */
  open: Set<string>;
}

function updatesOfMessage(message: Message, context: Context): SessionUpdate[] {
  const { id: messageId } = message;
  if (message.role === "tool") return [resultOf(message, context)];
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
    const uri = `attachment:${encodeURIComponent(part.filename)}`;
    return { type: "resource_link", uri, name: part.filename, mimeType: part.mediaType };
  }
  return textBlock(part.text);
}

function callOf(part: ToolCallPart, { agent, projectDir, profile, open }: Context): SessionUpdate {
  open.add(part.id);
  const shown = agent.describeCall(part.name, part.arguments, projectDir);
  return toolCall({ callId: part.id, arguments: part.arguments, ...shown }, profile);
}

function resultOf(message: Message, { open }: Context): SessionUpdate {
  open.delete(message.toolCallId);
  const parts = message.parts.filter((part) => part.type === "image" || part.type === "file");
  const output = message.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
  return toolResult({ callId: message.toolCallId, output, failed: message.failed, parts, diff: [], locations: [] });
}
