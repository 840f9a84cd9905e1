// An agent in ten lines: no server, no container, no config file. OfflineProvider needs no API key.
// With an API key, use new AiSdkProvider({ preset: "openai", apiKey: process.env.OPENAI_API_KEY }) instead.
import { Agent, builtinTools } from "gantry";
import { OfflineProvider } from "gantry/adapters/offline-provider";

const agent = new Agent({ providers: [new OfflineProvider()], tools: builtinTools() });
const run = await agent.run({ message: "Which files are here?" });
for await (const event of run) {
  if (event.type === "token") process.stdout.write(event.text ?? "");
}
console.log("\n", (await run.result).usage);
await agent.close();
