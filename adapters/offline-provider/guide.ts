import type { ModelMessage, ModelRequest } from "gantry/plugin";
import {
  formatAnswer,
  explainAttachment,
  formatSubject,
  createSummary,
  createTitle,
  type AttachHints,
} from "./answer.js";
import { createSteps, type Outcome, type Step } from "./steps.js";

/** Maximum number of calls for one prompt. */
const MAX_CALLS = 12;
/** Start of a system prompt in which the purpose of an internal request is searched. */
const PURPOSE_CHARACTERS = 400;

/**
 * Returns the guide's next text and calls. A result without calls ends the run. Only the messages since the last user
 * message count.
 */
export function createNextTurn({ messages, system, tools }: ModelRequest, hints: AttachHints) {
  const promptIndex = messages.findLastIndex(({ role }) => role === "user");
  const parts = messages[promptIndex]?.parts ?? [];
  // The first text is the prompt. The other parts are attachments.
  const prompt = parts.find((part) => part.type === "text")?.text ?? "";
  if (tools.length === 0) {
    // Gantry's internal requests (title, summary) have no tools and name their purpose first.
    const purpose = system.slice(0, PURPOSE_CHARACTERS);
    if (/\btitle\b/i.test(purpose)) return { text: createTitle(prompt), calls: [] };
    if (/\b(?:notes|summar\w+)\b/i.test(purpose)) return { text: createSummary(prompt), calls: [] };
  }

  const outcomesByCallKey = mapOutcomes(messages.slice(promptIndex + 1));
  const steps = new Map<string, Step>();
  const missingTools = new Set<string>();
  const addSteps = (newSteps: readonly Step[]): void => {
    for (const step of newSteps) {
      const key = `${step.tool} ${JSON.stringify(step.input)}`;
      if (!tools.some(({ name }) => name === step.tool)) missingTools.add(step.tool);
      else if (steps.size < MAX_CALLS && !steps.has(key)) steps.set(key, step);
    }
  };
  addSteps(createSteps(prompt));
  const calls: Step[] = [];
  const results: [Step, Outcome][] = [];
  // An outcome can add steps to the map during the iteration.
  for (const [key, step] of steps) {
    const outcome = outcomesByCallKey.get(key);
    if (outcome) results.push([step, outcome]);
    else calls.push(step);
    if (outcome && step.next) addSteps(step.next(outcome));
  }
  if (calls.length === 0) {
    const answerText = formatAnswer(prompt, results, [...missingTools], parts.length - 1);
    return { text: `${answerText}\n\n${explainAttachment(hints)}`, calls: [] };
  }
  const callList = new Intl.ListFormat("en-GB").format(calls.map((step) => `\`${step.tool}\`${formatSubject(step)}`));
  return {
    text: `${results.length === 0 ? "Calling" : "Then calling"} ${callList}.\n\n`,
    calls: calls.map(({ tool, input }, n) => {
      return { id: `guide-${messages.length}-${n + 1}`, name: tool, arguments: JSON.stringify(input) };
    }),
  };
}

/** Maps each call's tool and arguments to its outcome. */
function mapOutcomes(messages: readonly ModelMessage[]): Map<string, Outcome> {
  const callKeysById = new Map<string, string>();
  const outcomesByCallKey = new Map<string, Outcome>();
  for (const { role, parts, toolCallId, failed } of messages) {
    for (const part of parts)
      if (part.type === "tool_call") callKeysById.set(part.id, `${part.name} ${part.arguments}`);
    const output = parts.map((part) => (part.type === "text" ? part.text : `[${part.type}]`)).join("\n");
    if (role === "tool") outcomesByCallKey.set(callKeysById.get(toolCallId) ?? "", { output, failed });
  }
  return outcomesByCallKey;
}
