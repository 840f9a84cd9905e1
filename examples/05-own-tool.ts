// Your own tool. The model sees name, description and schema. `run` gets validated arguments.
import { Agent, defineTool } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";

const weather = defineTool({
  name: "weather",
  description: "Returns the current weather of a city.",
  // A schema of zod, valibot or any other Standard Schema library works too.
  schema: {
    type: "object",
    properties: { city: { type: "string", minLength: 1, description: "Name of the city, in English." } },
    required: ["city"],
  },
  describe: ({ city }) => `Weather of ${city}`,
  run: ({ city }) => `${city}: 21 degrees, clear`,
});

// A model that follows a script; any provider works.
const provider = new ScriptedProvider([callTools(["weather", { city: "Oslo" }]), "Take a light coat."]);
const agent = new Agent({ providers: [provider], tools: [weather] });
const run = await agent.run({ message: "What shall I wear in Oslo?" });
for await (const event of run) {
  if (event.type === "tool_call") console.log(event.title);
  if (event.type === "tool_result") console.log(event.output);
}
console.log((await run.result).output);
await agent.close();
