// Prints what stands before every message, in bytes: the system prompt and the tools, for each family of models.
import { builtinTools } from "../src/tools/all.js";
import { workWords, type PromptFamily } from "../src/run/prompt-words.js";

const FAMILIES: readonly PromptFamily[] = ["claude", "gpt", "gemini", "other", "small"];

const all = builtinTools().filter(({ needsSkills }) => needsSkills !== true);
const rows = [["family", "alone", "with a person", "tools"]];
for (const family of FAMILIES) {
  const told = (isAttended: boolean) => all.filter(({ needsPerson }) => isAttended || needsPerson !== true);
  const words = (isAttended: boolean) => Buffer.byteLength(workWords({ family, tools: told(isAttended) }));
  const specs = told(false).map(({ name, description, inputSchema }) => ({ name, description, inputSchema }));
  rows.push([family, words(false), words(true), Buffer.byteLength(JSON.stringify(specs))].map(String));
}
for (const row of rows)
  process.stdout.write(
    `${row
      .map((cell) => cell.padEnd(15))
      .join("")
      .trimEnd()}\n`,
  );
