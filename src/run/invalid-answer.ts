import { hasCode, ProviderError } from "../ports/errors.js";
import { toolCalls, CUT_OFF, textOf } from "../conversation/messages.js";
import type { Answer } from "../models/answer.js";
import type { ModelRequest } from "../ports/model-provider.js";
import type { ModelMessage } from "../ports/message.js";

// An invalid answer is complete but unusable, through an error of the model. Repeating the same request usually gives
// the same answer, so the retry includes an instruction.

/** Maximum retries after invalid answers within one turn. */
export const MAX_INVALID_ANSWERS = 3;

/** Maximum retries within one run after a final answer did not match the output schema. */
export const MAX_SCHEMA_RETRIES = 2;

/** Text for the model when its answer does not match the schema. */
export function schemaInstruction(misfit: string): string {
  return `[Your answer could not be used: ${misfit}. Answer again with the whole JSON, and nothing else.]`;
}

/** The invalid answer that a provider reported; undefined for any other error. */
export function toInvalidAnswer(error: unknown): ProviderError | undefined {
  return hasCode(error, "provider") && error.kind === "malformed_answer" ? error : undefined;
}

/**
 * The error of a complete but invalid answer; undefined if the answer is valid. `hasOutput`: whether it continues an
 * interrupted text, so that it may be empty.
 */
export function findInvalidAnswer(
  { parts, reason }: Answer,
  provider: string,
  hasOutput: boolean,
): ProviderError | undefined {
  const slip = (what: string, advice: string) =>
    new ProviderError(provider, "malformed_answer", what, { hint: `${describeUnusable(what)} ${advice}` });
  const message: ModelMessage = { role: "assistant", parts, toolCallId: "", name: "", failed: false };
  const calls = toolCalls(message);
  if (calls.some((call) => call.name.trim() === ""))
    return slip("the model made a tool call without a name", "Repeat the call with the name of the tool.");
  if (calls.length > 0) return undefined;
  if (reason === "tool_calls")
    return slip("the model announced a tool call but made none", "Make the call, or answer without one.");
  if (hasOutput || textOf(message).trim() !== "") return undefined;
  // The provider withheld the answer. The reason reports this, and a retry would not help.
  if (reason === "content_filter") return undefined;
  const thought = parts.some((part) => part.type === "reasoning" && part.text.trim() !== "");
  if (reason === "length")
    return slip(
      `the model reached the output limit before ${thought ? "the end of its reasoning" : "any output"}`,
      "Think less, and answer or call a tool.",
    );
  const hint = "Continue with the task; when it is done, say so in one sentence.";
  return slip(thought ? "the model's answer contained only reasoning" : "the model's answer was empty", hint);
}

/** Text for the model about its invalid answer. */
export function retryInstruction({ hint, message }: ProviderError): string {
  // An adapter without advice still gives a reason, after its name and the error kind.
  const reason = message.replace(/^[^:]*: [^:]*: /, "");
  return `[${hint ?? `${describeUnusable(reason)} Try again, in another way.`}]`;
}

function describeUnusable(reason: string): string {
  return `Your last answer could not be used: ${reason}.`;
}

/** Appends a note to the request. Roles keep alternating, as all providers require. */
export function withUserNote(request: ModelRequest, word: string): ModelRequest {
  const messages = [...request.messages];
  const last = messages.at(-1);
  const text = { type: "text" as const, text: word };
  if (last?.role === "user" && textOf(last) === CUT_OFF) {
    messages[messages.length - 1] = { ...last, parts: [...last.parts, text] };
  } else {
    const from = (role: "assistant" | "user", parts: ModelMessage["parts"]): ModelMessage => ({
      role,
      parts: parts,
      toolCallId: "",
      name: "",
      failed: false,
    });
    // Stands for the answer. Some providers reject a user message directly after a tool result or another user message.
    messages.push(from("assistant", [{ type: "text", text: "(no answer)" }]), from("user", [text]));
  }
  return { ...request, messages };
}
