import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { builtinTools } from "gantry";
import { callTools } from "gantry/testing";
import { Terminals } from "../../../adapters/acp-shared/terminals.js";
import { InProcessAcp, createScriptedAgent, createTestTool } from "../../helpers/acp-agent.js";
import type { AcpPeer, Json } from "../../helpers/acp-peer.js";
import { createGate } from "../../helpers/gate.js";
import { tempDir, type Hooks } from "../../helpers/temp-dir.js";

const ZED = {
  clientInfo: { name: "zed", version: "1" },
  clientCapabilities: { terminal: true, _meta: { terminal_output: true } },
};

async function connectPeer(t: Hooks, agent: Json, params: Json = ZED): Promise<AcpPeer> {
  const peer = new InProcessAcp(t, agent).connect();
  await peer.initialize(params);
  peer.profile = "official";
  return peer;
}

/** The text and the exit of each terminal that a client of the extension shows, by id. */
function showTerminals(updates: readonly Json[]): Record<string, { text: string; exit?: Json }> {
  const terminals: Record<string, { text: string; exit?: Json }> = {};
  for (const { _meta, content } of updates) {
    const { terminal_info, terminal_output, terminal_exit } = _meta ?? {};
    if (terminal_info) terminals[terminal_info.terminal_id] = { text: "" };
    for (const part of content ?? [])
      if (part.type === "terminal") assert.ok(terminals[part.terminalId], "a terminal is created before it is shown");
    if (terminal_output) terminals[terminal_output.terminal_id]!.text += terminal_output.data;
    if (terminal_exit) terminals[terminal_exit.terminal_id]!.exit = terminal_exit;
  }
  return terminals;
}

const isCallUpdate = ({ sessionUpdate }: Json) => /^tool_call/.test(sessionUpdate);

describe("terminals in tool calls", () => {
  it("show the output and the exit code of bash commands, live and on session/load", async (t) => {
    const { path: cwd } = await tempDir(t);
    const calls = ["echo one; echo two", "echo bad; exit 3", "kill -9 $$"].map((command) =>
      callTools(["bash", { command }]),
    );
    const { agent } = createScriptedAgent(t, [...calls, "done"], {
      tools: builtinTools({ bash: { sandbox: "off" } }),
    });
    const peer = await connectPeer(t, agent);
    const session = await peer.newSession(cwd);
    await peer.prompt(session, "x");
    const liveUpdates = peer.getUpdates(session).filter(isCallUpdate);
    const ids = liveUpdates.flatMap(({ sessionUpdate, toolCallId }) =>
      sessionUpdate === "tool_call" ? toolCallId : [],
    );
    const createExit = (terminal_id: string, exit_code: number | null, signal: string | null) => ({
      ...{ terminal_id, exit_code, signal },
    });
    const expected = {
      [ids[0]]: { text: "one\ntwo\n[exit code 0]", exit: createExit(ids[0], 0, null) },
      [ids[1]]: { text: "bad\n[exit code 3]", exit: createExit(ids[1], 3, null) },
      [ids[2]]: { text: "(no output)\n[ended by SIGKILL]", exit: createExit(ids[2], null, "SIGKILL") },
    };
    assert.deepEqual(showTerminals(liveUpdates), expected);
    for (const update of liveUpdates.filter(({ status }) => status === "completed" || status === "failed"))
      assert.deepEqual(update.content, [{ type: "terminal", terminalId: update.toolCallId }]);
    const start = peer.getUpdates(session).length;
    await peer.request("session/load", { sessionId: session, cwd });
    assert.deepEqual(showTerminals(peer.getUpdates(session).slice(start).filter(isCallUpdate)), expected);
    peer.assertNoValidationErrors();
  });

  it("receive output while the command runs, once, for the client that prompts and for a second one", async (t) => {
    const { path: cwd } = await tempDir(t);
    const gate = createGate();
    const tool = createTestTool(
      "bash",
      async (_args, { progress }) => {
        progress("first\n");
        await gate.wait();
        progress("second\n");
        return { text: "first\nsecond\nthird\n[exit code 0]" };
      },
      { kind: "execute" },
    );
    const { agent } = createScriptedAgent(t, [callTools(["bash", { command: "make" }]), "done"], { tools: [tool] });
    const peer = await connectPeer(t, agent);
    const otherPeer = await connectPeer(t, agent);
    const session = await peer.newSession(cwd);
    await otherPeer.request("session/load", { sessionId: session, cwd });
    const result = peer.prompt(session, "x");
    const hasFirst = ({ params }: Json) => params?.update?._meta?.terminal_output?.data === "first\n";
    await Promise.all([peer, otherPeer].map((client) => client.waitForMessage(hasFirst)));
    gate.open();
    await result;
    await otherPeer.waitForMessage(({ params }) => params?.update?.sessionUpdate === "usage_update");
    for (const client of [peer, otherPeer]) {
      const [terminal] = Object.values(showTerminals(client.getUpdates(session).filter(isCallUpdate)));
      assert.equal(terminal?.text, "first\nsecond\nthird\n[exit code 0]");
      assert.equal(terminal?.exit.exit_code, 0);
      for (const update of client.getUpdates(session).filter(({ status }) => status === "in_progress"))
        assert.equal(update.content, undefined, "no text replaces the terminal");
      client.assertNoValidationErrors();
    }
  });

  it("are not sent for other tools, nor to a client that does not declare them or has the profile spec", async (t) => {
    const { path: cwd } = await tempDir(t);
    const tools = [
      createTestTool("bash", (_args, { progress }) => (progress("out"), { text: "out" }), { kind: "execute" }),
      createTestTool("look", () => ({ text: "seen" }), { kind: "read" }),
    ];
    const { _meta } = ZED.clientCapabilities;
    const clients: [params: Json, name: string][] = [
      [ZED, "look"],
      [{ clientInfo: ZED.clientInfo }, "bash"],
      [{ clientInfo: ZED.clientInfo, clientCapabilities: { _meta: { terminal_output: "true" } } }, "bash"],
      [{ clientCapabilities: { terminal: true, _meta } }, "bash"],
    ];
    for (const [params, name] of clients) {
      const { agent } = createScriptedAgent(t, [callTools([name, { command: "x" }]), "done"], { tools });
      const peer = new InProcessAcp(t, agent).connect();
      await peer.initialize(params);
      const session = await peer.newSession(cwd);
      await peer.prompt(session, "x");
      const updates = peer.getUpdates(session).filter(isCallUpdate);
      assert.ok(updates.length >= 2);
      assert.doesNotMatch(JSON.stringify(updates), /terminal/, JSON.stringify(params));
    }
  });

  it("get the complete result if the reported output is not its start", () => {
    const convertAll = (chunks: readonly string[], rawOutput: string) => {
      const terminals = new Terminals();
      const call = { toolCallId: "c", kind: "execute", rawInput: { command: "x" } };
      const updates: Json[] = [
        terminals.convert("s", { sessionUpdate: "tool_call", title: "x", ...call }),
        ...chunks.map((data) =>
          terminals.convert("s", {
            sessionUpdate: "tool_call_update",
            toolCallId: "c",
            status: "in_progress",
            _meta: { terminal_output: { terminal_id: "c", data } },
          }),
        ),
        terminals.convert("s", {
          sessionUpdate: "tool_call_update",
          toolCallId: "c",
          status: "completed",
          content: [{ type: "content", content: { type: "text", text: rawOutput } }],
          rawOutput,
        }),
      ];
      return showTerminals(updates).c;
    };
    assert.equal(convertAll([], "a\n[exit code 0]")?.text, "a\n[exit code 0]");
    assert.equal(convertAll(["a\n", "b\n\n"], "a\nb\n[exit code 0]")?.text, "a\nb\n\n[exit code 0]");
    assert.equal(convertAll(["b\n"], "a\nb\n[exit code 0]")?.text, "b\n\n[complete result]\na\nb\n[exit code 0]");
    const longText = "x".repeat(300_000);
    assert.equal(
      convertAll([longText], "xx\n[exit code 0]")?.text,
      `${longText}\n[complete result]\nxx\n[exit code 0]`,
    );
    assert.deepEqual(convertAll([], "[exit code 1]\n[exit code 2]\n[a note]")?.exit, {
      ...{ terminal_id: "c", exit_code: 2, signal: null },
    });
    assert.equal(convertAll([], "the command did not run")?.exit.exit_code, null);
  });
});
