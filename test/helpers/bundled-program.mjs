// The program that test/package/bundling.test.ts bundles. It loads a native addon, WebAssembly and all files of a
// worker.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent, builtinTools, createLogger } from "gantry";
import { AiSdkProvider } from "gantry/adapters/language-models";
import { KoaHttpTransport } from "gantry/adapters/koa-http-api";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { openHttpHost } from "gantry/http";
import { callTools, ScriptedProvider } from "gantry/testing";

/** A detached command. It outlives the program, in a process that the program starts with its own executable. */
const DETACHED_COMMAND = 'test -z "$ELECTRON_RUN_AS_NODE" && echo from a kept command';

async function main(projectDir) {
  writeFileSync(join(projectDir, "a.js"), "const one = 1;\nconst two = 2;\n");
  const provider = new ScriptedProvider([
    callTools(["read", { path: "a.js" }], ["grep", { pattern: "two" }], ["bash", { command: "echo from bash" }]),
    callTools(["edit", { path: "a.js", old_string: "const one = 1;", new_string: "const one = (1;" }]),
    callTools(
      ["bash", { command: "rm -r x && true" }],
      ["bash", { command: DETACHED_COMMAND, background: true, detached: true }],
    ),
    '{"done":true}',
  ]);
  const agent = new Agent({
    providers: [provider, new AiSdkProvider({ preset: "openai", apiKey: "none", models: ["m1"] })],
    driver: new SqliteDriver({ path: join(projectDir, "sessions.db") }),
    tools: builtinTools({ bash: { keptPath: join(projectDir, "kept"), startMs: 60_000 } }),
    projectDir,
    rules: [{ tool: "bash", match: "rm *", action: "deny", reason: "no rm" }],
    logger: createLogger({ level: "warn", write: (line) => process.stderr.write(line) }),
  });
  const host = openHttpHost({ port: 0 });
  const { address } = await new KoaHttpTransport({}, host).start(agent);
  const outputSchema = { type: "object", properties: { done: { const: true } } };
  const run = await agent.run({ message: "Go.", provider: "scripted", outputSchema });
  for await (const event of run)
    if (event.type === "tool_result") console.log(/^from a kept command$/m.exec(event.output)?.[0] ?? event.output);
  console.log((await run.result).structured);
  const response = await fetch(new URL("/api/sessions", address));
  const { sessions } = await response.json();
  console.log(`HTTP ${response.status}, ${sessions.length} session`);
  await host.close(AbortSignal.timeout(1_000));
  await agent.close();
  console.log("closed");
}

const folder = mkdtempSync(join(tmpdir(), "gantry-bundled-"));
main(folder)
  .finally(() => rmSync(folder, { recursive: true }))
  .catch((error) => {
    console.error(error);
    // The open port would keep the process alive.
    process.exit(1);
  });
