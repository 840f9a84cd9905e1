import type { Ask } from "gantry";
import { isRecord } from "gantry/plugin";
import type { AcpClient } from "./client.js";
import { RpcError } from "./errors.js";
import { escapeInvisible } from "./printable-line.js";
import { ERROR_CODES } from "./wire.js";

/**
 * Asks a question of a tool in a form (`elicitation/create`, mode `form`), in which the user can enter text. Resolves
 * with the text, otherwise with the id of the choice. Rejects with `RpcError` if the user gave no answer: the question
 * then stays open.
 */
export async function askByForm(
  client: AcpClient,
  question: Pick<Ask, "callId" | "title" | "choices" | "freeText">,
  signal: AbortSignal,
): Promise<{ choice: string; text: string }> {
  const { callId: toolCallId, choices } = question;
  const form = { message: escapeInvisible(question.title), requestedSchema: createFormSchema(question), toolCallId };
  const result = await client.elicit(form, { signal });
  const values = isRecord(result) && result.action === "accept" && isRecord(result.content) ? result.content : {};
  if (question.freeText && typeof values.text === "string" && values.text.trim() !== "")
    return { choice: "", text: values.text };
  const choice = choices.find(({ id }) => id === values.choice);
  if (!choice) throw new RpcError(ERROR_CODES.internal, "the user gave no answer");
  return { choice: choice.id, text: "" };
}

/** The schema of the form: a field for the choices, a field for a text, or both. Only a single field is required. */
function createFormSchema({ choices, freeText }: Pick<Ask, "choices" | "freeText">) {
  const hasChoices = choices.length > 0;
  const properties = {
    ...(hasChoices && {
      choice: {
        type: "string",
        title: "Answer",
        oneOf: choices.map(({ id, label }) => ({ const: id, title: escapeInvisible(label) })),
      },
    }),
    ...(freeText && { text: { type: "string", title: hasChoices ? "Another answer" : "Answer" } }),
  };
  const required = Object.keys(properties);
  return { type: "object", properties, ...(required.length === 1 && { required }) };
}
