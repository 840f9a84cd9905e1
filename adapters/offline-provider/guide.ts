import type { ModelMessage, ModelRequest } from "gantry";
import { answer, summary, title } from "./answer.js";
import type { Hints } from "./answer.js";
import { toCall } from "./calls.js";
import type { Call, Result } from "./calls.js";
import { followUps } from "./follow-ups.js";
import { plan } from "./plan.js";
import type { Step } from "./plan.js";

/** What the guide says next: text, then calls; without calls it is done. */
export interface Turn {
  text: string;
  calls: readonly Call[];
}

/** Model calls for one prompt; what is not found by then stays unfound. */
const MAX_ROUNDS = 5;
const MAX_CALLS = 12;

/** Decide by the messages since the last user message alone: nothing is remembered between calls. */
export function nextTurn(request: ModelRequest, hints: Hints): Turn {
  const start = request.messages.findLastIndex(({ role }) => role === "user");
  const prompt = textOf(request.messages[start]);
  if (request.tools.length === 0) {
    // The kernel's own small requests have no tools and say at once what they are.
    const purpose = request.system.slice(0, 400);
    if (/\btitle\b/i.test(purpose)) return { text: title(prompt), calls: [] };
    if (/\bsummar/i.test(`${purpose} ${prompt.slice(0, 400)}`)) return { text: summary(request.messages), calls: [] };
  }

  const since = request.messages.slice(start + 1);
  const results = resultsOf(since);
  const steps = plan(prompt);
  const rounds = since.filter(({ role }) => role === "assistant").length;
  const calls = rounds >= MAX_ROUNDS ? [] : newCalls([...steps.steps, ...followUps(steps, results)], request, results);
  if (calls.length === 0) {
    const attachments = (request.messages[start]?.parts.length ?? 1) - 1;
    return { text: answer({ prompt, plan: steps, results, attachments, tools: request.tools, hints }), calls };
  }
  return { text: announce(calls, rounds), calls };
}

/** The prompt is the first text; what follows are attachments. */
function textOf(message: ModelMessage | undefined): string {
  for (const part of message?.parts ?? []) if (part.type === "text") return part.text;
  return "";
}

function resultsOf(messages: readonly ModelMessage[]): Result[] {
  const results: Result[] = [];
  for (const { role, parts } of messages) {
    if (role !== "assistant") continue;
    for (const part of parts) {
      if (part.type !== "tool_call") continue;
      const reply = messages.find((message) => message.role === "tool" && message.toolCallId === part.id);
      if (!reply) continue;
      const output = reply.parts.map((piece) => (piece.type === "text" ? piece.text : `[${piece.type}]`)).join("\n");
      results.push({ tool: part.name, arguments: part.arguments, output, failed: reply.failed });
    }
  }
  return results;
}

/** Calls for those steps whose tool is there and that were not made yet. */
function newCalls(steps: readonly Step[], request: ModelRequest, results: readonly Result[]): Call[] {
  const made = new Set(results.map((result) => `${result.tool} ${result.arguments}`));
  const calls: Call[] = [];
  for (const step of steps) {
    const call = toCall(step, request.tools, `guide-${request.messages.length}-${calls.length + 1}`);
    if (!call) continue;
    const key = `${call.tool} ${JSON.stringify(call.input)}`;
    if (made.has(key) || results.length + calls.length >= MAX_CALLS) continue;
    made.add(key);
    calls.push(call);
  }
  return calls;
}

function announce(calls: readonly Call[], rounds: number): string {
  const what = calls.map(({ tool, subject }) => `\`${tool}\`${subject ? ` ${subject}` : ""}`);
  const last = what.pop() ?? "";
  const list = what.length === 0 ? last : `${what.join(", ")} and ${last}`;
  return `${rounds === 0 ? "Calling" : "Then calling"} ${list}.\n\n`;
}
