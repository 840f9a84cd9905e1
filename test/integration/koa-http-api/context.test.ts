// The estimate of a session's context, compared with the requests that a model server receives.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { callStep, textStep } from "../../helpers/fake-model-server.js";
import { createServerConfig, runPrompt, startModelServer } from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";

/** The estimate counts this many bytes as a token. */
const BYTES_PER_TOKEN = 3;

interface WireContext {
  used: number;
  estimated: boolean;
  parts: { name: string; tokens: number }[];
}

const readContext = async (server: GantryServer, id: string): Promise<WireContext> =>
  (await (await server.fetch(`/api/sessions/${id}/context`)).json()) as WireContext;

describe("GET /api/sessions/{id}/context of a server process", () => {
  it("estimates the size of the requests within a tenth, and then reports the usage of the model", async (t) => {
    const modelServer = await startModelServer(t);
    const server = await startServer(t, {
      config: createServerConfig(modelServer, { permissions: { unattended: "wait" } }),
      files: { "AGENTS.md": "Write tests first. ".repeat(200), "notes.txt": "a line of notes\n".repeat(300) },
    });
    modelServer.enqueue(
      callStep("read", { path: "notes.txt" }),
      textStep("Read.", { usage: { input: 4_321, output: 9 } }),
    );
    const { sessionId } = await runPrompt(server, { message: "read the notes" });
    const { used, estimated } = await readContext(server, sessionId);
    assert.deepEqual([used, estimated], [4_330, false]);

    // A new process knows no usage.
    await server.stop();
    const { home, projectDir } = server;
    const secondServer = await startServer(t, { home, projectDir });
    const context = await readContext(secondServer, sessionId);
    assert.equal(context.estimated, true);
    assert.ok(context.parts.every(({ tokens }) => tokens > 0));
    const requestCount = modelServer.requests.length;
    await runPrompt(secondServer, { message: "and now?", session_id: sessionId });
    const { body } = modelServer.requests.slice(requestCount).find(({ tools }) => tools.length > 0)!;
    const requestTokens = Buffer.byteLength(JSON.stringify(body)) / BYTES_PER_TOKEN;
    assert.ok(
      Math.abs(context.used - requestTokens) < requestTokens / 10,
      `${context.used} estimated, ${requestTokens} sent`,
    );
  });
});
