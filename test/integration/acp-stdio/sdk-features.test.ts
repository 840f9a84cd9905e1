import assert from "node:assert/strict";
import { Readable, Writable } from "node:stream";
import { describe, it } from "node:test";
import {
  client,
  methods,
  ndJsonStream,
  type PromptResponse,
  type SessionNotification,
} from "@agentclientprotocol/sdk/unstable";
import { callStep, startFakeModelServer, textStep } from "../../helpers/fake-model-server.js";
import { spawnGantry } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

async function* encodeTexts(stream: AsyncIterable<string>): AsyncGenerator<Buffer> {
  for await (const text of stream) yield Buffer.from(text);
}

describe("the official ACP client with everything that its unstable schema has", () => {
  it("answers a form, shows a terminal, forks, sets a title and logs out, against a real process", async (t) => {
    const model = await startFakeModelServer({ toolFreeAnswer: textStep("Generated") });
    t.after(() => model.close());
    model.enqueue(
      callStep("ask_user", { question: "Name?" }),
      callStep("bash", { command: "echo out; exit 4" }),
      textStep("done"),
      textStep("forked"),
    );
    /** The requests of runs. Requests for titles have no tools. */
    const getRequests = () =>
      model.requests.map(({ body }) => JSON.stringify(body)).filter((text) => text.includes('"tools"'));
    const { path: cwd } = await tempDir(t);
    const modelEntry = { id: "m1", context_window: 128_000, max_output: 4000 };
    const gantry = await spawnGantry(t, {
      args: ["serve", "--acp", "--stdio"],
      projectDir: cwd,
      config: {
        providers: [{ name: "lab", driver: "openai", base_url: model.baseUrl, api_key: "x", models: [modelEntry] }],
        tools: { bash: { sandbox: "off" } },
      },
    });
    const updates: SessionNotification["update"][] = [];
    const app = client({ name: "test" })
      .onNotification(methods.client.session.update, ({ params }) => void updates.push(params.update))
      .onRequest(methods.client.elicitation.create, ({ params }) => {
        assert.equal(params.message, "Name?");
        return { action: "accept" as const, content: { text: "Ada" } };
      });
    // The test helper decodes stdout to text, which the client needs as bytes.
    const stdoutBytes = Readable.toWeb(Readable.from(encodeTexts(gantry.child.stdout))) as ReadableStream<Uint8Array>;
    const stream = ndJsonStream(Writable.toWeb(gantry.child.stdin) as WritableStream<Uint8Array>, stdoutBytes);
    await app.connectWith(stream, async (context) => {
      const { agentCapabilities, authMethods } = await context.request(methods.agent.initialize, {
        protocolVersion: 1,
        clientInfo: { name: "zed", version: "1" },
        clientCapabilities: {
          elicitation: { form: {} },
          session: { notices: {} },
          _meta: { terminal_output: true },
        },
      });
      const { fork, title, archive, systemPrompt } = agentCapabilities?.sessionCapabilities ?? {};
      assert.deepEqual([fork, title, archive, systemPrompt], [{}, {}, {}, { mode: { override: {} } }]);
      const { sessionId } = await context.request(methods.agent.session.new, {
        cwd,
        mcpServers: [],
        systemPrompt: { mode: "override", content: [{ type: "text", text: "Be brief." }] },
      });
      const prompt = [{ type: "text" as const, text: "go" }];
      const answer = await context.request(methods.agent.session.prompt, { sessionId, prompt });
      assert.equal((answer as PromptResponse).stopReason, "end_turn");
      assert.ok(getRequests()[0]?.includes("Be brief."));
      assert.ok(getRequests()[1]?.includes("The user answered: Ada"));
      const [terminalCall] = updates.filter((update) => update._meta && "terminal_info" in update._meta);
      const exits = updates.flatMap((update) => update._meta?.terminal_exit ?? []);
      assert.ok(terminalCall?.sessionUpdate === "tool_call");
      assert.deepEqual(exits, [{ terminal_id: terminalCall.toolCallId, exit_code: 4, signal: null }]);
      const copy = await context.request(methods.agent.session.fork, { sessionId, cwd, mcpServers: [] });
      await context.request(methods.agent.session.prompt, { sessionId: copy.sessionId, prompt });
      assert.ok(getRequests().at(-1)?.includes("exit code 4"), "the copy has the conversation");
      const stored = await context.request(methods.agent.session.setTitle, { sessionId, title: " My title " });
      assert.equal(stored.title, "My title");
      const { sessions } = await context.request(methods.agent.session.list, { cwd });
      assert.ok(sessions.some((session) => session.title === "My title"));
      await context.request(methods.agent.session.archive, { sessionId });
      for (const archived of ["exclude", "only"] as const) {
        const page = await context.request(methods.agent.session.list, { cwd, archived });
        const entries = page.sessions.map((session) => [session.sessionId === sessionId, session.archived]);
        assert.deepEqual(entries, [[archived === "only", archived === "only"]]);
      }
      await context.request(methods.agent.session.unarchive, { sessionId });
      await context.request(methods.agent.logout, {});
      await assert.rejects(context.request(methods.agent.session.prompt, { sessionId, prompt }), /logged out/);
      await context.request(methods.agent.authenticate, { methodId: authMethods![0]!.id });
      await context.request(methods.agent.session.resume, { sessionId, cwd, mcpServers: [] });
    });
    assert.deepEqual(model.violations, []);
  });
});
