// Prints the size of the constant prompt prefix in bytes: the system prompt and the tools, for each model family.
import { silentLogger } from "../../src/base/log.js";
import { selectOfferedTools } from "../../src/run/run-prompt.js";
import { builtinTools } from "../../src/tools/builtin-tools.js";
import { createWorkInstructions, type PromptFamily } from "../../src/run/prompt/sections.js";

/** A model of each family. */
const FAMILIES: readonly (readonly [PromptFamily, string])[] = [
  ["claude", "claude-sonnet-4-5"],
  ["gpt", "gpt-5.1-codex"],
  ["gemini", "gemini-2.5-pro"],
  ["other", "deepseek-chat"],
  ["small", "qwen2.5-coder:7b"],
];

const rows = [["family", "alone", "with a person", "tools"]];
for (const [family, id] of FAMILIES) {
  const selectTools = (isAttended: boolean) =>
    selectOfferedTools(
      builtinTools(),
      { provider: "", id },
      { canAskUser: isAttended, hasSkills: false },
      silentLogger,
    );
  const measureInstructions = (isAttended: boolean) =>
    Buffer.byteLength(createWorkInstructions({ family, tools: selectTools(isAttended) }));
  const specs = selectTools(false).map(({ name, description, inputSchema }) => ({ name, description, inputSchema }));
  rows.push(
    [family, measureInstructions(false), measureInstructions(true), Buffer.byteLength(JSON.stringify(specs))].map(
      String,
    ),
  );
}
for (const row of rows)
  process.stdout.write(
    `${row
      .map((cell) => cell.padEnd(15))
      .join("")
      .trimEnd()}\n`,
  );
