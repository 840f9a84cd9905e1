import type { AskReply, AskRequest } from "gantry";
import type { Server, ServerContext } from "@modelcontextprotocol/server";

/** Timeout of an elicitation: the longest delay that a timer supports, about 25 days. */
const ELICITATION_TIMEOUT_MS = 2 ** 31 - 1;
/** Maximum characters shown of each side of a change and of the call arguments. */
const MAX_SHOWN_CHARACTERS = 4_000;

/** Options of a permission request. */
const PERMISSION_CHOICES = [
  { id: "allow", label: "Allow" },
  { id: "allow_always", label: "Always allow exactly this" },
  { id: "reject", label: "Reject" },
];

/**
 * Returns a function that sends a run's question to the client's user by MCP elicitation.
 *
 * The returned function rejects if the user declines or the answer is not one of the choices. A rejection neither
 * grants nor denies: another client can still answer.
 */
export function createAskHandler(server: Server, { mcpReq }: ServerContext) {
  return async (request: AskRequest, signal: AbortSignal): Promise<AskReply> => {
    const { question } = request;
    const choices = question ? question.choices : PERMISSION_CHOICES;
    const isText = choices.length === 0;
    const answerSchema = isText
      ? { type: "string" as const, title: "Answer" }
      : {
          type: "string" as const,
          title: "Answer",
          oneOf: choices.map(({ id, label }) => ({ const: id, title: label })),
        };
    const { action, content } = await server.elicitInput(
      {
        message: formatMessage(request),
        requestedSchema: { type: "object", properties: { answer: answerSchema }, required: ["answer"] },
      },
      { signal, timeout: ELICITATION_TIMEOUT_MS, relatedRequestId: mcpReq.id },
    );
    const answerText = action === "accept" ? content?.["answer"] : undefined;
    if (typeof answerText !== "string") throw new Error("the client's user gave no answer");
    if (isText) return { choice: "", text: answerText };
    if (!choices.some(({ id }) => id === answerText)) throw new Error("the client's user chose an unknown option");
    return { choice: answerText, text: "" };
  };
}

function formatMessage({ title, reason = "", diff = [], input, question }: AskRequest): string {
  const lines = [question ? title : `gantry asks: ${title}`, ...(reason === "" ? [] : [reason])];
  for (const { path, oldText, newText } of diff)
    lines.push(`${path}\n--- before\n${truncate(oldText ?? "")}\n--- after\n${truncate(newText)}`);
  if (!question && diff.length === 0) lines.push(truncate(JSON.stringify(input, undefined, 2)));
  return lines.join("\n\n");
}

function truncate(text = ""): string {
  return text.length <= MAX_SHOWN_CHARACTERS
    ? text
    : `${text.slice(0, MAX_SHOWN_CHARACTERS).toWellFormed()}… [${text.length - MAX_SHOWN_CHARACTERS} more characters]`;
}
