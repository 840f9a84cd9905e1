/** Faults of a run's model calls and their effect on the run. A test runs the list, and docs/models.md shows it. */
import type { WireName } from "gantry/adapters/language-models";
import { fail, say, type FakeStep } from "./fake-model-server.js";

export interface RunFault {
  name: string;
  /** Faulty answers before the good one. */
  steps: readonly FakeStep[];
  /** Wires on which the fault cannot occur, with the reason. */
  except?: Partial<Record<WireName, string>>;
  /** Kind of the error that ends the run; if absent, the run continues to its answer. */
  ends?: string;
  /** Maximum silence of the provider, in seconds. */
  timeout?: number;
}

/** The model's answer without a fault. */
export const GOOD = "All is well.";

const RETRY_IMMEDIATELY = { "retry-after-ms": "1" };
const HTML = "<html><title>Sign in</title></html>";
const TEXT = { text: ["One ", "two ", "three ", "four ", "five ", "six ", "seven ", "eight "] };
const THOUGHT = { reasoning: ["Let ", "me ", "think ", "a ", "while ", "of ", "it."] };
const CALL = { call: { name: "write", arguments: { path: "a.txt", content: "x".repeat(200) }, pieces: 12 } };
const half = (by: "reset" | "cut", ...pieces: NonNullable<FakeStep["say"]>): FakeStep => ({
  say: pieces,
  breaks: { at: 0.6, by },
});
const REFUSED_CALL = {
  error: {
    message: "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
    type: "invalid_request_error",
    code: "tool_use_failed",
    failed_generation: '<function=write{"path": "a.txt"</function>',
  },
};
const ended = (finishReason: string): string =>
  `data: ${JSON.stringify({ candidates: [{ content: { role: "model", parts: [] }, finishReason, index: 0 }] })}\n\n`;
const WHOLE_CALLS = { google: "calls come whole" } as const;

export const RUN_FAULTS: readonly RunFault[] = [
  { name: "408", steps: [fail(408, "Too slow.", RETRY_IMMEDIATELY)] },
  { name: "429 that asks for a short wait", steps: [fail(429, "Slow down.", RETRY_IMMEDIATELY)] },
  {
    name: "500, then 529",
    steps: [500, 529].map((status) => fail(status, "Oops.", RETRY_IMMEDIATELY)),
  },
  { name: "a gateway's page with 502", steps: [{ status: 502, body: HTML, headers: RETRY_IMMEDIATELY }] },
  { name: "a page with 200, once", steps: [{ status: 200, body: HTML }] },
  { name: "an error without a body", steps: [{ status: 500, body: "", headers: RETRY_IMMEDIATELY }] },
  { name: "a reset before the answer", steps: [{ say: [{ reset: true }] }] },
  { name: "a reset behind the headers", steps: [{ say: [{ open: true }, { reset: true }] }] },
  { name: "a reset amid text", steps: [half("reset", TEXT)] },
  { name: "a reset amid thoughts", steps: [half("reset", THOUGHT)] },
  { name: "a reset amid a tool call", steps: [half("reset", CALL)], except: WHOLE_CALLS },
  { name: "a reset behind thoughts, text and a whole call", steps: [{ say: [THOUGHT, TEXT, CALL, { reset: true }] }] },
  { name: "an end amid text", steps: [half("cut", TEXT)] },
  { name: "an end amid thoughts", steps: [half("cut", THOUGHT)] },
  { name: "an end amid a tool call", steps: [half("cut", CALL)], except: WHOLE_CALLS },
  { name: "an end before the first event", steps: [{ say: [{ cut: true }] }] },
  {
    name: "an overload as the first event",
    steps: [{ say: [{ error: { message: "Overloaded", type: "overloaded_error" } }] }],
  },
  {
    name: "an overload amid text",
    steps: [{ say: [TEXT, { error: { message: "Overloaded", type: "overloaded_error" } }] }],
  },
  {
    name: "a server error amid thoughts",
    steps: [{ say: [THOUGHT, { error: { message: "Internal server error", type: "server_error" } }] }],
  },
  { name: "silence amid text", steps: [{ say: [TEXT, { stall: true }] }], timeout: 2 },
  {
    name: "an answer that breaks off twice",
    steps: [half("cut", TEXT), half("reset", TEXT, CALL)],
  },
  { name: "an empty answer", steps: [{ say: [] }] },
  { name: "an empty answer three times", steps: [{ say: [] }, { say: [] }, { say: [] }] },
  { name: "thoughts alone", steps: [{ say: [THOUGHT] }] },
  { name: "white space alone", steps: [say(" \n")] },
  {
    name: "the announcement of a tool call that does not come",
    steps: [{ say: [TEXT], finish: "tool_calls" }],
    except: { "openai-responses": "not announced", google: "not announced" },
  },
  { name: "a tool call without a name", steps: [{ say: [{ call: { name: "", arguments: {} } }] }] },
  {
    name: "a tool call that the provider itself refuses (Groq)",
    steps: [{ status: 400, body: REFUSED_CALL }],
    except: { "openai-responses": "not its words", anthropic: "not its words", google: "not its words" },
  },
  ...["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"].map((reason) => ({
    name: reason,
    steps: [{ say: [{ raw: ended(reason) }, { cut: true as const }] }],
    except: { openai: "not its words", "openai-responses": "not its words", anthropic: "not its words" },
  })),
  {
    name: "an empty answer each time",
    steps: Array.from({ length: 4 }, () => ({ say: [] })),
    ends: "malformed_answer",
  },
  {
    name: "an answer that breaks off each time",
    steps: Array.from({ length: 3 }, () => half("reset", TEXT)),
    ends: "network",
  },
  {
    name: "429 that asks for an hour",
    steps: [fail(429, "Slow down.", { "retry-after": "3600" })],
    ends: "rate_limit",
  },
  { name: "400", steps: [fail(400, "Nonsense.")], ends: "bad_request" },
  { name: "401", steps: [fail(401, "No such key.")], ends: "authentication" },
  { name: "403", steps: [fail(403, "Not yours.")], ends: "permission" },
  { name: "404", steps: [fail(404, "No such model.")], ends: "not_found" },
];

/** Text of a cell in the table. */
export function endOf({ except, ends }: RunFault, wire: WireName): string {
  const reason = except?.[wire];
  return reason !== undefined ? `none: ${reason}` : ends === undefined ? "goes on" : `ends: \`${ends}\``;
}
