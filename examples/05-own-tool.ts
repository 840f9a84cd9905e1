// A tool of your own. The model sees name, description and schema; what it sends goes through `parse`.
import { Agent, ToolInputError, type Tool } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";

const weather: Tool<{ city: string }> = {
  name: "weather",
  description: "The weather of a city, now.",
  inputSchema: {
    type: "object",
    properties: { city: { type: "string", description: "Its name in English." } },
    required: ["city"],
  },
  kind: "fetch",
  parallel: true,
  needsPermission: false,
  parse(input) {
    const { city } = Object(input) as { city?: unknown };
    if (typeof city !== "string" || city === "") throw new ToolInputError("city: expected the name of a city");
    return { city };
  },
  describe: ({ city }) => ({ title: `Weather of ${city}`, locations: [] }),
  run: ({ city }) => Promise.resolve({ text: `${city}: 21 degrees, clear` }),
};

// A model that says what a script tells it to; any provider does.
const provider = new ScriptedProvider([callTools(["weather", { city: "Oslo" }]), "Take a light coat."]);
const agent = new Agent({ providers: [provider], tools: [weather] });
const run = await agent.run({ message: "What shall I wear in Oslo?" });
for await (const event of run) {
  if (event.type === "tool_call") console.log(event.title);
  if (event.type === "tool_result") console.log(event.output);
}
console.log((await run.result).output);
await agent.close();
