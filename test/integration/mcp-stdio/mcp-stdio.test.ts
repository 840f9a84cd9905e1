import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { ElicitRequestSchema, type ClientCapabilities, type Progress } from "@modelcontextprotocol/sdk/types.js";
import { callStep, textStep } from "../../helpers/fake-model-server.js";
import { connectMcpClient } from "../../helpers/mcp-client.js";
import { startModelServer, createServerConfig, waitUntil } from "../../helpers/server-runs.js";
import { spawnGantry } from "../../helpers/server.js";
import type { Hooks } from "../../helpers/temp-dir.js";

async function connectClient(t: Hooks, config: Record<string, unknown> = {}, capabilities: ClientCapabilities = {}) {
  const modelServer = await startModelServer(t);
  const gantry = await spawnGantry(t, { args: ["mcp", "serve"], config: createServerConfig(modelServer, config) });
  return { modelServer, gantry, client: await connectMcpClient(gantry, capabilities) };
}

type ToolResult = { content: { text: string }[]; isError?: boolean; structuredContent?: Record<string, unknown> };

describe("gantry mcp serve", () => {
  it("runs prompts in one session, reports progress, and serves the session as a resource and through the tools", async (t) => {
    const { modelServer, gantry, client } = await connectClient(t);
    assert.equal(client.getServerVersion()?.name, "gantry");
    assert.deepEqual(
      (await client.listTools()).tools.map(({ name }) => name),
      ["run", "sessions", "session"],
    );
    modelServer.enqueue(
      callStep("bash", { command: "echo from the shell" }),
      textStep("All done."),
      textStep("Again."),
    );
    const progressReports: Progress[] = [];
    const onprogress = (progress: Progress) => void progressReports.push(progress);
    const firstResult = (await client.callTool({ name: "run", arguments: { prompt: "Do it" } }, undefined, {
      onprogress,
    })) as ToolResult;
    const { session, output, ended_by: endedBy } = firstResult.structuredContent ?? {};
    assert.deepEqual([output, endedBy], ["All done.", "model"]);
    assert.match(firstResult.content[0]?.text ?? "", /^All done\.\n\n\[session /);
    assert.deepEqual(
      progressReports.map(({ message }) => message),
      [`session ${String(session)}`, "echo from the shell"],
    );
    assert.deepEqual(
      progressReports.map(({ progress }) => progress),
      [1, 2],
    );
    const secondResult = (await client.callTool({ name: "run", arguments: { prompt: "More", session } })) as ToolResult;
    assert.deepEqual(
      [secondResult.structuredContent?.session, secondResult.structuredContent?.output],
      [session, "Again."],
    );

    const { resources } = await client.listResources();
    assert.equal(resources[0]?.uri, `gantry://sessions/${String(session)}`);
    const { contents } = await client.readResource({ uri: resources[0].uri });
    const text = String((contents[0] as { text?: string }).text);
    for (const expectedText of ["Do it", "> bash", "from the shell", "All done.", "More", "Again."])
      assert.ok(text.includes(expectedText), expectedText);
    const sessionList = (await client.callTool({ name: "sessions", arguments: {} })) as ToolResult;
    assert.equal(sessionList.structuredContent?.total, 1);
    const laterMessages = (await client.callTool({ name: "session", arguments: { session, after: 4 } })) as ToolResult;
    assert.ok(laterMessages.content[0]?.text.includes("Again.") && !laterMessages.content[0].text.includes("Do it"));
    await client.close();
    assert.equal((await gantry.exited).code, 0);
  });

  it("returns errors as tool results or JSON-RPC errors, and keeps serving", async (t) => {
    const { modelServer, client } = await connectClient(t);
    const callTool = async (name: string, args: Record<string, unknown>) =>
      (await client.callTool({ name, arguments: args })) as ToolResult;
    const unknownSessionResult = await callTool("run", { prompt: "x", session: "none" });
    assert.deepEqual(
      [unknownSessionResult.isError, unknownSessionResult.content[0]?.text],
      [true, "session not found"],
    );
    assert.equal((await callTool("session", { session: "none" })).isError, true);
    await assert.rejects(callTool("run", {}), {
      message: "MCP error -32602: prompt: expected a string that is not empty",
    });
    await assert.rejects(callTool("run", { prompt: 1 }), /prompt: expected a string/);
    await assert.rejects(callTool("run", { prompt: "x", mode: "free" }), /mode: expected one of auto, ask, plan/);
    await assert.rejects(
      callTool("run", { prompt: "x", project_dir: "src" }),
      /project_dir: expected an absolute path/,
    );
    await assert.rejects(callTool("sessions", { limit: 0 }), /limit: expected an integer from 1/);
    await assert.rejects(callTool("nothing", {}), /no tool "nothing"/);
    for (const uri of ["gantry://sessions/none", "file:///etc/passwd", "gantry://sessions/../x"])
      await assert.rejects(client.readResource({ uri }), /resource not found/);
    await assert.rejects(client.listResources({ cursor: "x" }), /unknown cursor/);
    modelServer.enqueue(textStep("Fine."));
    assert.equal((await callTool("run", { prompt: "x" })).structuredContent?.output, "Fine.");
  });

  it("reads a request of 300,000 characters, and exits with 0 after a message larger than 16 MB", async (t) => {
    const { modelServer, client, gantry } = await connectClient(t);
    modelServer.enqueue(textStep("Fine."));
    const { structuredContent } = (await client.callTool({
      name: "run",
      arguments: { prompt: `Sum up. ${"x".repeat(300_000)}` },
    })) as ToolResult;
    assert.equal(structuredContent?.output, "Fine.");
    gantry.child.stdin.on("error", () => undefined);
    gantry.child.stdin.write("x".repeat(17 * 1024 * 1024));
    assert.equal((await gantry.exited).code, 0);
    assert.match(gantry.stderr, /a client message is larger than 16 MB/);
  });

  it("requests permission by elicitation; accept allows the call, and decline denies the call", async (t) => {
    const { modelServer, client } = await connectClient(t, { permissions: { mode: "ask" } }, { elicitation: {} });
    const elicitationMessages: string[] = [];
    const elicitResults: ({ action: "accept"; content: { answer: string } } | { action: "decline" })[] = [
      { action: "accept", content: { answer: "allow" } },
      { action: "decline" },
    ];
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
      elicitationMessages.push(params.message);
      return elicitResults.shift() ?? { action: "cancel" as const };
    });
    modelServer.enqueue(
      callStep("write", { filePath: "yes.txt", content: "one\n" }),
      callStep("write", { filePath: "no.txt", content: "two\n" }),
      textStep("Ended."),
    );
    const { structuredContent } = (await client.callTool({
      name: "run",
      arguments: { prompt: "Write" },
    })) as ToolResult;
    assert.equal(structuredContent?.output, "Ended.");
    assert.equal(elicitationMessages.length, 2);
    assert.match(elicitationMessages[0] ?? "", /gantry asks: .*yes\.txt[^]*one/);
    const transcript = (await client.callTool({
      name: "session",
      arguments: { session: structuredContent.session },
    })) as ToolResult;
    assert.match(transcript.content[0]?.text ?? "", /tool write\n[^]*tool write \(failed\)/);
  });

  it("denies a call that needs permission if the client does not support elicitation", async (t) => {
    const { modelServer, client } = await connectClient(t, { permissions: { mode: "ask" } });
    modelServer.enqueue(callStep("write", { filePath: "no.txt", content: "two\n" }), textStep("Ended."));
    const { structuredContent } = (await client.callTool({
      name: "run",
      arguments: { prompt: "Write" },
    })) as ToolResult;
    const transcript = (await client.callTool({
      name: "session",
      arguments: { session: structuredContent?.session },
    })) as ToolResult;
    assert.match(transcript.content[0]?.text ?? "", /tool write \(failed\)/);
  });

  for (const condition of ["is cancelled", "loses its client"])
    it(`ends the command of a run that ${condition}`, async (t) => {
      const { modelServer, gantry, client } = await connectClient(t, { tools: { bash: { sandbox: "off" } } });
      modelServer.enqueue(callStep("bash", { command: "echo $$ > pid; exec sleep 600" }), textStep("Never."));
      const abortController = new AbortController();
      const pendingRun = client.callTool({ name: "run", arguments: { prompt: "Sleep" } }, undefined, {
        signal: abortController.signal,
      });
      pendingRun.catch(() => undefined);
      const pidFile = join(gantry.projectDir, "pid");
      let pid = 0;
      await waitUntil(async () => (pid = Number(await readFile(pidFile, "utf8").catch(() => "0"))) > 0);
      if (condition === "is cancelled") abortController.abort();
      else gantry.child.stdin.end();
      await assert.rejects(pendingRun);
      await waitUntil(() => !isAlive(pid));
      if (condition !== "is cancelled") return assert.equal((await gantry.exited).code, 0);
      const sessionList = (await client.callTool({ name: "sessions", arguments: {} })) as ToolResult;
      assert.equal(sessionList.structuredContent?.total, 1, "the server answers later calls");
    });
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
