import type { AskReply, AskRequest } from "gantry";
import type { Server, ServerContext } from "@modelcontextprotocol/server";

/** Timeout of an elicitation: the longest delay that a timer supports, about 25 days. */
const PATIENCE_MS = 2 ** 31 - 1;
/** Maximum characters shown of each side of a change and of the call arguments. */
const SHOWN = 4_000;

/** Options of a permission request. */
const PERMISSION = [
  { id: "allow", label: "Allow" },
  { id: "allow_always", label: "Always allow exactly this" },
  { id: "reject", label: "Reject" },
];

/**
 * Returns a function that sends a run's question to the client's user by MCP elicitation.
 *
 * It rejects if the user declines or the answer is not one of the choices. A rejection neither grants nor denies:
 * another client can still answer.
 */
export function asker(server: Server, { mcpReq }: ServerContext) {
  return async (request: AskRequest, signal: AbortSignal): Promise<AskReply> => {
    const { question } = request;
    const choices = question ? question.choices : PERMISSION;
    const isText = choices.length === 0;
    const answer = isText
      ? { type: "string" as const, title: "Answer" }
      : {
          type: "string" as const,
          title: "Answer",
          oneOf: choices.map(({ id, label }) => ({ const: id, title: label })),
        };
    const { action, content } = await server.elicitInput(
      {
        message: messageOf(request),
        requestedSchema: { type: "object", properties: { answer }, required: ["answer"] },
      },
      { signal, timeout: PATIENCE_MS, relatedRequestId: mcpReq.id },
    );
    const given = action === "accept" ? content?.["answer"] : undefined;
    if (typeof given !== "string") throw new Error("the client's person gave no answer");
    if (isText) return { choice: "", text: given };
    if (!choices.some(({ id }) => id === given)) throw new Error("the client's person chose none of the choices");
    return { choice: given, text: "" };
  };
}

function messageOf({ title, reason = "", diff = [], input, question }: AskRequest): string {
  const lines = [question ? title : `gantry asks: ${title}`, ...(reason === "" ? [] : [reason])];
  for (const { path, oldText, newText } of diff)
    lines.push(`${path}\n--- before\n${shown(oldText ?? "")}\n--- after\n${shown(newText)}`);
  if (!question && diff.length === 0) lines.push(shown(JSON.stringify(input, undefined, 2)));
  return lines.join("\n\n");
}

function shown(text = ""): string {
  return text.length <= SHOWN
    ? text
    : `${text.slice(0, SHOWN).toWellFormed()}… [${text.length - SHOWN} more characters]`;
}
