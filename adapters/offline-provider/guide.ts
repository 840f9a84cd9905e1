import type { ModelMessage, ModelRequest } from "gantry/plugin";
import { answer, howToAttach, subject, summary, title, type AttachHints } from "./answer.js";
import { stepsFor, type Outcome, type Step } from "./steps.js";

/** Maximum number of calls for one prompt. */
const MAX_CALLS = 12;

/**
 * Returns the guide's next text and calls. A result without calls ends the run. Only the messages since the last user
 * message count.
 */
export function nextTurn({ messages, system, tools }: ModelRequest, hints: AttachHints) {
  const start = messages.findLastIndex(({ role }) => role === "user");
  const parts = messages[start]?.parts ?? [];
  // The first text is the prompt. The other parts are attachments.
  const prompt = parts.find((part) => part.type === "text")?.text ?? "";
  if (tools.length === 0) {
    // Gantry's internal requests (title, summary) have no tools and name their purpose first.
    const purpose = system.slice(0, 400);
    if (/\btitle\b/i.test(purpose)) return { text: title(prompt), calls: [] };
    if (/\b(?:notes|summar\w+)\b/i.test(purpose)) return { text: summary(prompt), calls: [] };
  }

  const outcomes = outcomesOf(messages.slice(start + 1));
  const steps = new Map<string, Step>();
  const lacking = new Set<string>();
  const add = (newSteps: readonly Step[]): void => {
    for (const step of newSteps) {
      const key = `${step.tool} ${JSON.stringify(step.input)}`;
      if (!tools.some(({ name }) => name === step.tool)) lacking.add(step.tool);
      else if (steps.size < MAX_CALLS && !steps.has(key)) steps.set(key, step);
    }
  };
  add(stepsFor(prompt));
  const calls: Step[] = [];
  const results: [Step, Outcome][] = [];
  // An outcome can add steps to the map during the iteration.
  for (const [key, step] of steps) {
    const outcome = outcomes.get(key);
    if (outcome) results.push([step, outcome]);
    else calls.push(step);
    if (outcome && step.next) add(step.next(outcome));
  }
  if (calls.length === 0) {
    const answerText = answer(prompt, results, [...lacking], parts.length - 1);
    return { text: `${answerText}\n\n${howToAttach(hints)}`, calls: [] };
  }
  const what = new Intl.ListFormat("en-GB").format(calls.map((step) => `\`${step.tool}\`${subject(step)}`));
  return {
    text: `${results.length === 0 ? "Calling" : "Then calling"} ${what}.\n\n`,
    calls: calls.map(({ tool, input }, n) => {
      return { id: `guide-${messages.length}-${n + 1}`, name: tool, arguments: JSON.stringify(input) };
    }),
  };
}

/** Maps each call's tool and arguments to its outcome. */
function outcomesOf(messages: readonly ModelMessage[]): Map<string, Outcome> {
  const calls = new Map<string, string>();
  const outcomes = new Map<string, Outcome>();
  for (const { role, parts, toolCallId, failed } of messages) {
    for (const part of parts) if (part.type === "tool_call") calls.set(part.id, `${part.name} ${part.arguments}`);
    const output = parts.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("\n");
    if (role === "tool") outcomes.set(calls.get(toolCallId) ?? "", { output, failed });
  }
  return outcomes;
}
