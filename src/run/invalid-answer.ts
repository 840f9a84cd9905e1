import { hasCode, ProviderError } from "../ports/errors.js";
import { CONTINUE_INSTRUCTION, createMessage, textOf, toolCalls } from "../conversation/messages.js";
import type { Answer } from "../models/answer.js";
import type { ModelRequest } from "../ports/model-provider.js";

// An invalid answer is complete but unusable, through an error of the model. Repeating the same request usually gives
// the same answer, so the retry includes an instruction.

/** Maximum retries after invalid answers within one turn. */
export const MAX_INVALID_ANSWER_RETRIES = 3;

/** Maximum retries within one run after a final answer did not match the output schema. */
export const MAX_SCHEMA_RETRIES = 2;

/** Text for the model when its answer does not match the schema. */
export function createSchemaInstruction(mismatch: string): string {
  return `[Your answer could not be used: ${mismatch}. Answer again with the whole JSON, and nothing else.]`;
}

/** Returns the error of an invalid answer that a provider reported; undefined for any other error. */
export function toInvalidAnswerError(error: unknown): ProviderError | undefined {
  return hasCode(error, "provider") && error.kind === "malformed_answer" ? error : undefined;
}

/**
 * Returns the error of a complete but invalid answer; undefined if the answer is valid. `hasOutput`: whether the answer
 * continues an interrupted text; such an answer may be empty.
 */
export function findAnswerError(
  { parts, reason }: Answer,
  provider: string,
  hasOutput: boolean,
): ProviderError | undefined {
  const createError = (problem: string, advice: string) =>
    new ProviderError(provider, "malformed_answer", problem, { hint: `${describeUnusable(problem)} ${advice}` });
  const message = createMessage("assistant", parts);
  const calls = toolCalls(message);
  if (calls.some((call) => call.name.trim() === ""))
    return createError("the model made a tool call without a name", "Repeat the call with the name of the tool.");
  if (calls.length > 0) return undefined;
  if (reason === "tool_calls")
    return createError("the model announced a tool call but made none", "Make the call, or answer without one.");
  if (hasOutput || textOf(message).trim() !== "") return undefined;
  // The provider withheld the answer. The run reports the finish reason, and a retry would not help.
  if (reason === "content_filter") return undefined;
  const hasReasoning = parts.some((part) => part.type === "reasoning" && part.text.trim() !== "");
  if (reason === "length")
    return createError(
      `the model reached the output limit before ${hasReasoning ? "the end of its reasoning" : "any output"}`,
      "Think less, and answer or call a tool.",
    );
  const hint = "Continue with the task; when it is done, say so in one sentence.";
  return createError(
    hasReasoning ? "the model's answer contained only reasoning" : "the model's answer was empty",
    hint,
  );
}

/** Text for the model about its invalid answer. */
export function createRetryInstruction({ hint, message }: ProviderError): string {
  // Without a hint, the message still contains a reason, after the provider's name and the error kind.
  const reason = message.replace(/^[^:]*: [^:]*: /, "");
  return `[${hint ?? `${describeUnusable(reason)} Try again, in another way.`}]`;
}

function describeUnusable(reason: string): string {
  return `Your last answer could not be used: ${reason}.`;
}

/** Appends a note to the request. Roles keep alternating, as all providers require. */
export function withUserNote(request: ModelRequest, note: string): ModelRequest {
  const messages = [...request.messages];
  const lastMessage = messages.at(-1);
  if (lastMessage?.role === "user" && textOf(lastMessage) === CONTINUE_INSTRUCTION) {
    messages[messages.length - 1] = { ...lastMessage, parts: [...lastMessage.parts, { type: "text", text: note }] };
  } else {
    // The assistant message stands for the invalid answer. Some providers reject a user message directly after a tool
    // result or another user message.
    messages.push(createMessage("assistant", "(no answer)"), createMessage("user", note));
  }
  return { ...request, messages };
}
