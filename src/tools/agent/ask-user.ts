import { toPrintable } from "../../base/printable.js";
import type { Tool } from "../../ports/tool.js";
import { defineArguments, flag, list, optional, text } from "../arguments.js";
import { defineTool } from "../define-tool.js";

const MAX_CHOICES = 12;

const schema = defineArguments({
  question: text("", { minLength: 1 }),
  choices: optional(
    list("Without choices the user writes the answer", text("", { minLength: 1 }), { max: MAX_CHOICES }),
  ),
  free_text: optional(flag("Allow another answer")),
});

const toOneLine = (question: string) => toPrintable(question.trim().replace(/\s+/g, " "));

/** Creates the tool `ask_user`, which asks the user a question. Offered only in runs where a user can answer. */
export function askUserTool(): Tool {
  return defineTool({
    name: "ask_user",
    description: "Ask the user about a preference or decision. Permission to use a tool is requested automatically.",
    schema,
    kind: "think",
    needsUser: true,
    describe: ({ question }) => toOneLine(question),
    run: async ({ question, choices = [], free_text }, context) => {
      const answer = await context.askUser({
        title: toOneLine(question),
        choices: [...new Set(choices)],
        freeText: choices.length === 0 || free_text === true,
      });
      if (answer === undefined) return "The user did not answer. Decide yourself, and report your assumptions.";
      return `The user answered: ${answer}`;
    },
  });
}
