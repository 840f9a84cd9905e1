// Prints the size of the first request of a session in bytes, for each model family. With the name of a family it also
// prints the size of each tool and of each section of the system prompt:
// `npx tsx --conditions=@gantry/source test/bench/prompt-size.ts claude`
import { captureFirstRequest, countJsonBytes, FAMILY_MODELS, type ChatBody } from "../helpers/first-request.js";

const [, , detailedFamily] = process.argv;

function printRow(name: string, ...sizes: readonly (number | string)[]): void {
  process.stdout.write(`${name.padEnd(32)}${sizes.map((size) => String(size).padStart(12)).join("")}\n`);
}

printRow("family", "body", "system", "tools", "tool count");
for (const { family, id } of FAMILY_MODELS)
  for (const isAttended of [false, true]) {
    const body = (await captureFirstRequest(id, "openai", isAttended)) as ChatBody;
    const { messages, tools } = body;
    const system = messages.find(({ role }) => role === "system")?.content ?? "";
    const name = `${family}, ${isAttended ? "attended" : "unattended"}`;
    printRow(name, countJsonBytes(body), countJsonBytes(system), countJsonBytes(tools), tools.length);
    if (family !== detailedFamily) continue;
    for (const tool of tools) printRow(`  ${tool.function.name}`, countJsonBytes(tool));
    for (const section of system.split("\n\n"))
      printRow(`  ${section.slice(0, 24).split("\n")[0]}`, countJsonBytes(section));
  }
