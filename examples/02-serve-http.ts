// The HTTP API inside your own program: start it, send a request, stop it.
import { Agent, builtinTools } from "gantry";
import { KoaHttpTransport } from "gantry/adapters/koa-http-api";
import { OfflineProvider } from "gantry/adapters/offline-provider";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";

const agent = new Agent({
  providers: [new OfflineProvider()],
  tools: builtinTools(),
  driver: new SqliteDriver({ path: process.argv[2] ?? "sessions.db" }),
});
const listening = await new KoaHttpTransport({ port: 0 }).start(agent);
console.log(`listening on ${listening.address}`);

const response = await fetch(`${listening.address}/api/run`, {
  method: "POST",
  body: JSON.stringify({ message: "Which files are here?" }),
});
const { output, usage } = (await response.json()) as { output: string; usage: { total_tokens: number } };
console.log(output);
console.log(`${usage.total_tokens} tokens, session ${response.headers.get("x-session-id")}`);

// Active runs get two seconds to finish; then they are cancelled.
await listening.stop(AbortSignal.timeout(2_000));
await agent.close();
