import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { ProviderError, silentLogger } from "gantry";
import { callTools, say } from "gantry/testing";
import { AcpServer, ACP_DEFAULTS } from "../../../adapters/acp-shared/index.js";
import { VERSION } from "../../../src/base/version.js";
import { todowriteTool } from "../../../src/tools/agent/todo.js";
import { createScriptedAgent, createTestTool } from "../../helpers/acp-agent.js";
import { tempDir } from "../../helpers/temp-dir.js";

/**
 * The exact bytes that a client with `acp.profile: "spec"` receives (gantry's interface document, docs/acp.md). Ids,
 * times and folders are replaced by placeholders.
 */
const RECORDED_MESSAGES = readFileSync(new URL("recorded-messages.jsonl", import.meta.url), "utf8").trim();

describe("an ACP client that follows the interface document", () => {
  it("receives exactly the recorded messages, byte for byte", async (t) => {
    const { path: cwd } = await tempDir(t);
    const editTool = createTestTool(
      "edit",
      () => ({ text: "edited", diff: [{ path: "/p/a", oldText: "x", newText: "y" }] }),
      {
        kind: "edit",
      },
    );
    const failingTool = createTestTool("broken", () => Promise.reject(new Error("no such thing")), { kind: "execute" });
    const todos = [{ content: "one", status: "in_progress" }];
    const { agent } = createScriptedAgent(
      t,
      [
        [
          { type: "reasoning", block: "r", text: "Hm." },
          ...callTools(["edit", { path: "a" }], ["broken", {}], ["todowrite", { todos }]),
        ],
        say("Done.", { inputTokens: 100, outputTokens: 20 }),
        new ProviderError("scripted", "authentication", "bad key", { status: 401 }),
      ],
      { tools: [editTool, failingTool, todowriteTool()], provider: { title: "" } },
    );
    const server = new AcpServer(agent, ACP_DEFAULTS, silentLogger);
    t.after(() => server.close());
    const sentMessages: string[] = [];
    const resolversById = new Map<unknown, () => void>();
    const connection = server.connect({
      send: (message) => {
        sentMessages.push(JSON.stringify(message));
        if ("id" in message && !("method" in message)) resolversById.get(message.id)?.();
      },
      waitUntilReady: () => undefined,
      waitForReader: () => undefined,
      isReachable: true,
    });
    const sendRequest = async (id: number, method: string, params: unknown): Promise<void> => {
      const response = new Promise<void>((resolve) => resolversById.set(id, resolve));
      connection.receive(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
      await response;
    };
    await sendRequest(1, "initialize", { protocolVersion: 1, clientInfo: { name: "my-client", version: "1" } });
    await sendRequest(2, "session/new", { cwd });
    const { sessionId } = (JSON.parse(sentMessages.at(-1) ?? "") as { result: { sessionId: string } }).result;
    const prompt = [
      { type: "text", text: "do it" },
      { type: "text", text: "and that" },
    ];
    await sendRequest(3, "session/prompt", { sessionId, prompt });
    await sendRequest(4, "session/prompt", { sessionId, prompt });
    await sendRequest(5, "session/list", {});
    await sendRequest(6, "session/load", { sessionId: "nobody", cwd });
    await sendRequest(7, "session/close", { sessionId });
    await sendRequest(8, "session/delete", { sessionId });
    assert.equal(maskText(sentMessages.join("\n"), sessionId, cwd), RECORDED_MESSAGES);
  });
});

function maskText(text: string, sessionId: string, cwd: string): string {
  const ids = new Map<string, string>([[sessionId, "SESSION"]]);
  return text
    .replaceAll(cwd, "CWD")
    .replaceAll(VERSION, "VERSION")
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}/g, (id) => {
      if (!ids.has(id)) ids.set(id, `ID${ids.size}`);
      return ids.get(id) ?? "";
    })
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME");
}
