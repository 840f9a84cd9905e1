import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { call, say, startFakeModelServer } from "../../helpers/fake-model-server.js";
import { spawnGantry, startServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp.js";

/** Number of turns per window. `TURNS=300` is the long form. */
const TURNS = Number(process.env["TURNS"] ?? 24);
const GOAL = "The goal is to keep the word HELIOTROPE in mind.";

describe("a conversation longer than the model's context window, over HTTP and ACP", () => {
  for (const window of [4_000, 8_000, 128_000]) {
    it(`sends requests within ${window} tokens, keeps all answers, and resumes over ACP in another process`, async (t) => {
      const home = await tempDir(t);
      // A file whose content alone is larger than the smaller windows.
      const project = await tempDir(t, { "big.txt": "all work and no play\n".repeat(4_000) });
      const models = await startFakeModelServer({ aside: say("A title") });
      t.after(() => models.close());
      const config = {
        providers: [
          {
            name: "lab",
            driver: "openai",
            base_url: models.baseUrl,
            api_key: "x",
            models: [{ id: "m1", context_window: window, max_output: 500 }],
          },
        ],
      };
      const server = await startServer(t, { config, home: home.path, projectDir: project.path });
      let id: string | undefined;
      for (let turn = 1; turn <= TURNS; turn += 1) {
        const big = turn % 6 === 0;
        if (big) models.enqueue(call("read", { path: "big.txt" }));
        models.enqueue(say(`Answer ${turn}. ${"Noted and weighed. ".repeat(20)}`));
        const response = await server.fetch("/api/run", {
          method: "POST",
          body: JSON.stringify({
            message: turn === 1 ? GOAL : `Question ${turn}. ${"Think of this too. ".repeat(20)}`,
            session_id: id,
          }),
        });
        assert.equal(response.status, 200, await response.clone().text());
        id = response.headers.get("x-session-id") ?? undefined;
      }
      assert.deepEqual(models.violations, []);
      for (const { body, tools } of models.requests) {
        if (tools.length === 0) continue;
        const text = JSON.stringify(body);
        assert.ok(Buffer.byteLength(text) / 4 <= window, `a request of ${Buffer.byteLength(text)} bytes`);
        assert.match(text, /HELIOTROPE/);
      }
      const { sessions, total } = (await (await server.fetch("/api/sessions")).json()) as {
        sessions: { id: string }[];
        total: number;
      };
      assert.deepEqual([total, sessions.map((session) => session.id)], [1, [id]]);
      const { messages } = (await (await server.fetch(`/api/sessions/${id}/messages`)).json()) as {
        messages: { role: string; content: string; seq: number; session_id: string }[];
      };
      const answers = messages.filter(({ role }) => role === "assistant").map(({ content }) => content);
      for (let turn = 1; turn <= TURNS; turn += 1)
        assert.ok(
          answers.some((content) => content.startsWith(`Answer ${turn}.`)),
          `answer ${turn}`,
        );
      assert.ok(
        messages.every(({ seq }, i) => i === 0 || seq > (messages[i - 1]?.seq ?? 0)),
        "in order, without duplicates",
      );
      const parts = new Set(messages.map(({ session_id }) => session_id)).size;
      if (window < 10_000) assert.ok(parts > 1, "it was compacted");
      await server.stop();

      const editor = await spawnGantry(t, {
        home: home.path,
        projectDir: project.path,
        args: ["serve", "--acp", "--stdio"],
      });
      const request = (number: number, method: string, params: object) =>
        editor.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: number, method, params })}\n`);
      request(1, "initialize", { protocolVersion: 1 });
      request(2, "session/resume", { sessionId: id, cwd: project.path, mcpServers: [] });
      await editor.output(/"id":2/);
      models.enqueue(say("HELIOTROPE it is."));
      request(3, "session/prompt", { sessionId: id, prompt: [{ type: "text", text: "Which word?" }] });
      await editor.output(/"id":3/);
      assert.match(editor.stdout, /HELIOTROPE it is\./);
      assert.match(editor.stdout, /"stopReason":"end_turn"/);
      assert.match(
        JSON.stringify(models.requests.filter(({ tools }) => tools.length > 0).at(-1)?.body),
        /HELIOTROPE[\s\S]*Which word\?/,
      );
      assert.deepEqual(models.violations, []);
      editor.child.stdin.end();
      assert.deepEqual(await editor.exited, { code: 0, signal: null });
    });
  }
});
