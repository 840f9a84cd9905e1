import { hasCode, ProviderError } from "../ports/errors.js";
import { callsOf, CUT_OFF, textOf } from "../conversation/messages.js";
import type { Answer } from "../models/answer.js";
import type { ModelRequest } from "../ports/model-provider.js";
import type { ModelMessage } from "../ports/message.js";

// A slip is the model's own: an answer that came whole and is of no use. The same question mostly gets the same answer,
// so it is asked again with a word.

/** So often a model is asked again within one turn. */
export const SLIPS = 3;

/** So often a model is asked for another answer within one run, since its last one did not fit what was asked for. */
export const ASKED_AGAIN = 2;

/** What a model is told whose answer does not fit. */
export function wordAbout(misfit: string): string {
  return `[Your answer could not be used: ${misfit}. Answer again with the whole JSON, and nothing else.]`;
}

/** The slip that a provider told. */
export function slipOf(error: unknown): ProviderError | undefined {
  return hasCode(error, "provider") && error.kind === "malformed_answer" ? error : undefined;
}

/** The slip in a whole answer. `said`: whether it goes on from text that broke off, so that it may add nothing. */
export function slipIn({ parts, reason }: Answer, provider: string, said: boolean): ProviderError | undefined {
  const slip = (what: string, advice: string) =>
    new ProviderError(provider, "malformed_answer", what, { hint: `${useless(what)} ${advice}` });
  const message: ModelMessage = { role: "assistant", parts, toolCallId: "", name: "", failed: false };
  const calls = callsOf(message);
  if (calls.some((call) => call.name.trim() === ""))
    return slip("the model called a tool without naming it", "Make the call again, with the name of the tool.");
  if (calls.length > 0) return undefined;
  if (reason === "tool_calls")
    return slip("the model announced a tool call and made none", "Make the call, or answer without one.");
  if (said || textOf(message).trim() !== "") return undefined;
  // Withheld by the provider: the reason says so, and asking again gets no other.
  if (reason === "content_filter") return undefined;
  const thought = parts.some((part) => part.type === "reasoning" && part.text.trim() !== "");
  if (reason === "length")
    return slip(
      `the model came to the limit of an answer before it ${thought ? "had done thinking" : "said anything"}`,
      "Think less, and answer or call a tool.",
    );
  const hint = "Go on with the task; when it is done, say so in a sentence.";
  return slip(thought ? "the model thought and said nothing" : "the model's answer was empty", hint);
}

/** What the model is told of its slip. */
export function wordFor({ hint, message }: ProviderError): string {
  // An adapter that has no advice has at least a reason, behind its name and the kind.
  const reason = message.replace(/^[^:]*: [^:]*: /, "");
  return `[${hint ?? `${useless(reason)} Try again, in another way.`}]`;
}

function useless(reason: string): string {
  return `Your last answer could not be used: ${reason}.`;
}

/** The request with a word from us at its end, in roles that alternate on every provider. */
export function withWord(request: ModelRequest, word: string): ModelRequest {
  const messages = [...request.messages];
  const last = messages.at(-1);
  const text = { type: "text" as const, text: word };
  if (last?.role === "user" && textOf(last) === CUT_OFF) {
    messages[messages.length - 1] = { ...last, parts: [...last.parts, text] };
  } else {
    const from = (role: "assistant" | "user", said: ModelMessage["parts"]): ModelMessage => ({
      role,
      parts: said,
      toolCallId: "",
      name: "",
      failed: false,
    });
    // Stands for the answer: some providers refuse a user's message right behind a tool's result or another of the user.
    messages.push(from("assistant", [{ type: "text", text: "(no answer)" }]), from("user", [text]));
  }
  return { ...request, messages };
}
