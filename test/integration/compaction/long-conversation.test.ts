import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { callStep, textStep, startFakeModelServer } from "../../helpers/fake-model-server.js";
import { spawnGantry, startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** Number of turns per context window. The long form of the test sets `TURNS=300`. */
const TURN_COUNT = Number(process.env["TURNS"] ?? 24);
const GOAL = "The goal is to keep the word HELIOTROPE in mind.";

describe("a conversation longer than the model's context window, over HTTP and ACP", () => {
  for (const windowTokens of [4_000, 8_000, 128_000]) {
    it(`sends requests within ${windowTokens} tokens, keeps all answers, and resumes over ACP in another process`, async (t) => {
      const home = await tempDir(t);
      // A file whose content alone is larger than the smaller windows.
      const project = await tempDir(t, { "big.txt": "all work and no play\n".repeat(4_000) });
      const modelServer = await startFakeModelServer({ toolFreeAnswer: textStep("A title") });
      t.after(() => modelServer.close());
      const config = {
        providers: [
          {
            name: "lab",
            driver: "openai",
            base_url: modelServer.baseUrl,
            api_key: "x",
            models: [{ id: "m1", context_window: windowTokens, max_output: 500 }],
          },
        ],
      };
      const server = await startServer(t, { config, home: home.path, projectDir: project.path });
      let sessionId: string | undefined;
      for (let turn = 1; turn <= TURN_COUNT; turn += 1) {
        const readsLargeFile = turn % 6 === 0;
        if (readsLargeFile) modelServer.enqueue(callStep("read", { path: "big.txt" }));
        modelServer.enqueue(textStep(`Answer ${turn}. ${"Noted and weighed. ".repeat(20)}`));
        const response = await server.fetch("/api/run", {
          method: "POST",
          body: JSON.stringify({
            message: turn === 1 ? GOAL : `Question ${turn}. ${"Think of this too. ".repeat(20)}`,
            session_id: sessionId,
          }),
        });
        assert.equal(response.status, 200, await response.clone().text());
        sessionId = response.headers.get("x-session-id") ?? undefined;
      }
      assert.deepEqual(modelServer.violations, []);
      for (const { body, tools } of modelServer.requests) {
        if (tools.length === 0) continue;
        const text = JSON.stringify(body);
        // Four bytes a token are a common estimate.
        assert.ok(Buffer.byteLength(text) / 4 <= windowTokens, `a request of ${Buffer.byteLength(text)} bytes`);
        assert.match(text, /HELIOTROPE/);
      }
      const { sessions, total } = (await (await server.fetch("/api/sessions")).json()) as {
        sessions: { id: string }[];
        total: number;
      };
      assert.deepEqual([total, sessions.map((session) => session.id)], [1, [sessionId]]);
      const { messages } = (await (await server.fetch(`/api/sessions/${sessionId}/messages`)).json()) as {
        messages: { role: string; content: string; seq: number; session_id: string }[];
      };
      const answers = messages.filter(({ role }) => role === "assistant").map(({ content }) => content);
      for (let turn = 1; turn <= TURN_COUNT; turn += 1)
        assert.ok(
          answers.some((content) => content.startsWith(`Answer ${turn}.`)),
          `answer ${turn} is stored`,
        );
      assert.ok(
        messages.every(({ seq }, i) => i === 0 || seq > (messages[i - 1]?.seq ?? 0)),
        "the messages are in order, without duplicates",
      );
      const partCount = new Set(messages.map(({ session_id }) => session_id)).size;
      if (windowTokens < 10_000) assert.ok(partCount > 1, "the session was compacted");
      await server.stop();

      const acpProcess = await spawnGantry(t, {
        home: home.path,
        projectDir: project.path,
        args: ["serve", "--acp", "--stdio"],
      });
      const sendRequest = (requestId: number, method: string, params: object) =>
        acpProcess.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: requestId, method, params })}\n`);
      sendRequest(1, "initialize", { protocolVersion: 1 });
      sendRequest(2, "session/resume", { sessionId, cwd: project.path, mcpServers: [] });
      await acpProcess.waitForOutput(/"id":2/);
      modelServer.enqueue(textStep("HELIOTROPE it is."));
      sendRequest(3, "session/prompt", { sessionId, prompt: [{ type: "text", text: "Which word?" }] });
      await acpProcess.waitForOutput(/"id":3/);
      assert.match(acpProcess.stdout, /HELIOTROPE it is\./);
      assert.match(acpProcess.stdout, /"stopReason":"end_turn"/);
      assert.match(
        JSON.stringify(modelServer.requests.filter(({ tools }) => tools.length > 0).at(-1)?.body),
        /HELIOTROPE[\s\S]*Which word\?/,
      );
      assert.deepEqual(modelServer.violations, []);
      acpProcess.child.stdin.end();
      assert.deepEqual(await acpProcess.exited, { code: 0, signal: null });
    });
  }
});
