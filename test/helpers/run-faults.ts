/** Faults of a run's model calls and their effect on the run. A test runs the list, and docs/models.md shows it. */
import type { WireName } from "gantry/adapters/language-models";
import { errorStep, textStep, type FakeStep } from "./fake-model-server.js";

export interface RunFault {
  name: string;
  /** Faulty answers before the faultless answer. */
  steps: readonly FakeStep[];
  /** Wires on which the fault cannot occur, with the reason. */
  exceptions?: Partial<Record<WireName, string>>;
  /** Kind of the error that ends the run; if absent, the run continues to its answer. */
  errorKind?: string;
  /** Maximum silence of the provider, in seconds. Default: that of the config. */
  idleTimeoutSeconds?: number;
}

/** The model's answer without a fault. */
export const FAULTLESS_ANSWER = "All is well.";

const RETRY_IMMEDIATELY = { "retry-after-ms": "1" };
const HTML_PAGE = "<html><title>Sign in</title></html>";
const TEXT_PIECE = { text: ["One ", "two ", "three ", "four ", "five ", "six ", "seven ", "eight "] };
const REASONING_PIECE = { reasoning: ["Let ", "me ", "think ", "a ", "while ", "of ", "it."] };
const CALL_PIECE = { call: { name: "write", arguments: { path: "a.txt", content: "x".repeat(200) }, pieces: 12 } };
const brokenStep = (method: "reset" | "cut", ...pieces: NonNullable<FakeStep["say"]>): FakeStep => ({
  say: pieces,
  breaks: { at: 0.6, by: method },
});
const REFUSED_CALL = {
  error: {
    message: "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
    type: "invalid_request_error",
    code: "tool_use_failed",
    failed_generation: '<function=write{"path": "a.txt"</function>',
  },
};
const finishEvent = (finishReason: string): string =>
  `data: ${JSON.stringify({ candidates: [{ content: { role: "model", parts: [] }, finishReason, index: 0 }] })}\n\n`;
const UNSPLIT_CALLS_REASON = { google: "calls come whole" } as const;

export const RUN_FAULTS: readonly RunFault[] = [
  { name: "408", steps: [errorStep(408, "Too slow.", RETRY_IMMEDIATELY)] },
  { name: "429 with a short retry-after", steps: [errorStep(429, "Slow down.", RETRY_IMMEDIATELY)] },
  {
    name: "500, then 529",
    steps: [500, 529].map((status) => errorStep(status, "Oops.", RETRY_IMMEDIATELY)),
  },
  {
    name: "an HTML page of a gateway, with 502",
    steps: [{ status: 502, body: HTML_PAGE, headers: RETRY_IMMEDIATELY }],
  },
  { name: "an HTML page with 200, once", steps: [{ status: 200, body: HTML_PAGE }] },
  { name: "an error without a body", steps: [{ status: 500, body: "", headers: RETRY_IMMEDIATELY }] },
  { name: "a reset before the answer", steps: [{ say: [{ reset: true }] }] },
  { name: "a reset after the headers", steps: [{ say: [{ open: true }, { reset: true }] }] },
  { name: "a reset within text", steps: [brokenStep("reset", TEXT_PIECE)] },
  { name: "a reset within reasoning", steps: [brokenStep("reset", REASONING_PIECE)] },
  { name: "a reset within a tool call", steps: [brokenStep("reset", CALL_PIECE)], exceptions: UNSPLIT_CALLS_REASON },
  {
    name: "a reset after reasoning, text and a complete call",
    steps: [{ say: [REASONING_PIECE, TEXT_PIECE, CALL_PIECE, { reset: true }] }],
  },
  { name: "an end of the stream within text", steps: [brokenStep("cut", TEXT_PIECE)] },
  { name: "an end of the stream within reasoning", steps: [brokenStep("cut", REASONING_PIECE)] },
  {
    name: "an end of the stream within a tool call",
    steps: [brokenStep("cut", CALL_PIECE)],
    exceptions: UNSPLIT_CALLS_REASON,
  },
  { name: "an end of the stream before the first event", steps: [{ say: [{ cut: true }] }] },
  {
    name: "an overload as the first event",
    steps: [{ say: [{ error: { message: "Overloaded", type: "overloaded_error" } }] }],
  },
  {
    name: "an overload within text",
    steps: [{ say: [TEXT_PIECE, { error: { message: "Overloaded", type: "overloaded_error" } }] }],
  },
  {
    name: "a server error within reasoning",
    steps: [{ say: [REASONING_PIECE, { error: { message: "Internal server error", type: "server_error" } }] }],
  },
  { name: "silence within text", steps: [{ say: [TEXT_PIECE, { stall: true }] }], idleTimeoutSeconds: 2 },
  {
    name: "an answer that is interrupted twice",
    steps: [brokenStep("cut", TEXT_PIECE), brokenStep("reset", TEXT_PIECE, CALL_PIECE)],
  },
  { name: "an empty answer", steps: [{ say: [] }] },
  { name: "an empty answer three times", steps: [{ say: [] }, { say: [] }, { say: [] }] },
  { name: "reasoning only", steps: [{ say: [REASONING_PIECE] }] },
  { name: "white space only", steps: [textStep(" \n")] },
  {
    name: "an announced tool call that does not arrive",
    steps: [{ say: [TEXT_PIECE], finish: "tool_calls" }],
    exceptions: { "openai-responses": "no announcement in this protocol", google: "no announcement in this protocol" },
  },
  { name: "a tool call without a name", steps: [{ say: [{ call: { name: "", arguments: {} } }] }] },
  {
    name: "a tool call that the provider rejects (Groq)",
    steps: [{ status: 400, body: REFUSED_CALL }],
    exceptions: {
      "openai-responses": "not in this protocol",
      anthropic: "not in this protocol",
      google: "not in this protocol",
    },
  },
  ...["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"].map((reason) => ({
    name: reason,
    steps: [{ say: [{ raw: finishEvent(reason) }, { cut: true as const }] }],
    exceptions: {
      openai: "not in this protocol",
      "openai-responses": "not in this protocol",
      anthropic: "not in this protocol",
    },
  })),
  {
    name: "an empty answer each time",
    steps: Array.from({ length: 4 }, () => ({ say: [] })),
    errorKind: "malformed_answer",
  },
  {
    name: "an answer that is interrupted each time",
    steps: Array.from({ length: 3 }, () => brokenStep("reset", TEXT_PIECE)),
    errorKind: "network",
  },
  {
    name: "429 with retry-after of an hour",
    steps: [errorStep(429, "Slow down.", { "retry-after": "3600" })],
    errorKind: "rate_limit",
  },
  { name: "400", steps: [errorStep(400, "Nonsense.")], errorKind: "bad_request" },
  { name: "401", steps: [errorStep(401, "No such key.")], errorKind: "authentication" },
  { name: "403", steps: [errorStep(403, "Not yours.")], errorKind: "permission" },
  { name: "404", steps: [errorStep(404, "No such model.")], errorKind: "not_found" },
];

/** Effect of a fault on the run, as the text of a cell in the table of docs/models.md. */
export function describeEnd({ exceptions, errorKind }: RunFault, wire: WireName): string {
  const reason = exceptions?.[wire];
  return reason !== undefined ? `none: ${reason}` : errorKind === undefined ? "continues" : `ends: \`${errorKind}\``;
}
