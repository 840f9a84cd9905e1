// gantry's own files and the files of a repository, accessed through a running server with the real tools.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { link, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { callStep, textStep, type FakeStep } from "../../helpers/fake-model-server.js";
import { runPrompt, startModelServer, createServerConfig } from "../../helpers/server-runs.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp-dir.js";

/** The API key that `createServerConfig` configures. */
const KEY = "key-of-the-lab";
const PLUGIN = `export default { gantry: 1, kind: "tool", name: "own", parse: () => ({}), useClass: class {
  name = "own"; description = "-"; inputSchema = { type: "object" }; kind = "other"; parallel = false; needsPermission = false;
  parse() { return {}; } describe() { return { title: "own", locations: [] }; } async run() { return { text: "" }; } } };`;

interface WireMessage {
  role: string;
  content: string;
  tool_call_id: string;
  tool_calls: { id: string }[];
}

/** Runs all calls of one model answer. Returns their outputs in the order of the calls. */
async function runCalls(
  server: GantryServer,
  modelServer: Awaited<ReturnType<typeof startModelServer>>,
  calls: FakeStep[],
) {
  modelServer.enqueue({ say: calls.flatMap((step) => step.say ?? []) }, textStep("Done."));
  const { sessionId, status } = await runPrompt(server, { message: "go" });
  assert.equal(status, 200);
  const response = await server.fetch(`/api/sessions/${sessionId}/messages`);
  const { messages } = (await response.json()) as { messages: WireMessage[] };
  const ids = messages.flatMap((message) => message.tool_calls.map(({ id }) => id));
  assert.equal(ids.length, calls.length);
  return ids.map((id) => messages.find((message) => message.tool_call_id === id)?.content ?? "");
}

describe("gantry's own files in the project folder", () => {
  for (const [driver, storePath, storeFiles] of [
    ["sqlite", "sessions.db", ["sessions.db", "sessions.db-wal", "sessions.db-shm"]],
    ["json", "chats", ["chats", "chats.d"]],
  ] as const)
    it(`config and store cannot be read, listed, changed or deleted, a plugin can only be read (${driver})`, async (t) => {
      const modelServer = await startModelServer(t);
      const project = await tempDir(t, { "own-tool.mjs": PLUGIN, "deep/x": "x" });
      const config = createServerConfig(modelServer, {
        session: { driver, path: storePath },
        agent: { tools: ["*", "./own-tool.mjs"] },
        tools: { bash: { enabled: false } },
      });
      await writeFile(project.at("gantry.json"), JSON.stringify(config));
      await symlink("gantry.json", project.at("alias.json"));
      await link(project.at("gantry.json"), project.at("second-name.json"));
      // The path of `--config` is a link, which must not be replaced either.
      const args = ["serve", "--port", "0", "--config", project.at("alias.json")];
      const server = await startServer(t, { args, projectDir: project.path });
      const originalConfig = await readFile(project.at("gantry.json"), "utf8");
      const secretPaths = ["gantry.json", "alias.json", "second-name.json", "GANTRY.JSON"];
      const outputs = await runCalls(server, modelServer, [
        ...secretPaths.map((path) => callStep("read", { path })),
        callStep("grep", { pattern: "base_url" }),
        ...["gantry.json", "alias.json"].flatMap((path) => [
          callStep("write", { path, content: "{}" }),
          callStep("edit", { path, old_string: "own-tool", new_string: "evil" }),
          callStep("delete", { path }),
        ]),
        ...storeFiles.flatMap((path) => [
          callStep(path === "chats" || path === "chats.d" ? "list" : "read", { path }),
          callStep("delete", { path, recursive: true }),
        ]),
        callStep("write", { path: `${storePath}-journal`, content: "x" }),
        callStep("write", { path: "own-tool.mjs", content: "evil" }),
        callStep("delete", { path: "own-tool.mjs" }),
        callStep("read", { path: "own-tool.mjs" }),
        callStep("list", { all: true, depth: 3 }),
      ]);
      for (const text of outputs) assert.ok(!text.includes(KEY), text);
      const listing = outputs.pop() ?? "";
      assert.match(outputs.pop() ?? "", /kind: "tool"/, "the source of a plugin can be read");
      for (const name of ["gantry.json", "alias.json", ...storeFiles])
        assert.ok(!listing.split("\n").includes(name), listing);
      const denialPattern = /access is denied|is protected|No match|not found/;
      for (const [i, text] of outputs.entries()) assert.match(text, denialPattern, `${i}: ${text}`);
      assert.equal(await readFile(project.at("gantry.json"), "utf8"), originalConfig);
      assert.equal(await readFile(project.at("own-tool.mjs"), "utf8"), PLUGIN);
      for (const name of storeFiles.slice(0, 1)) assert.ok(existsSync(project.at(name)), name);
    });

  it("a config that AGENTS.md links to is not sent to the model, and cannot be attached to a prompt", async (t) => {
    const modelServer = await startModelServer(t);
    const project = await tempDir(t, { "home/x": "" });
    // The project contains gantry's home. The project's AGENTS.md is a link to a file in this home.
    const home = project.at("home");
    await symlink("home/config.json", project.at("AGENTS.md"));
    const server = await startServer(t, { config: createServerConfig(modelServer), home, projectDir: project.path });
    modelServer.enqueue(textStep("Hello."));
    assert.equal((await runPrompt(server, { message: "go" })).status, 200);
    assert.ok(modelServer.requests.length > 0);
    for (const { body } of modelServer.requests) assert.ok(!JSON.stringify(body).includes(KEY));
    for (const path of ["home/config.json", "AGENTS.md", join(home, "sessions.db")])
      assert.match((await runPrompt(server, { message: "go", files: [path] })).error, /access is denied/);
  });
});

describe("files of a repository", () => {
  it("AGENTS.md is part of the prompt unless agent.project_instructions is false", async (t) => {
    const modelServer = await startModelServer(t);
    const project = await tempDir(t, { "AGENTS.md": "Use tabs, always." });
    for (const readsInstructions of [true, false]) {
      const config = createServerConfig(modelServer, { agent: { project_instructions: readsInstructions } });
      const server = await startServer(t, { config, projectDir: project.path });
      const earlierRequestCount = modelServer.requests.length;
      modelServer.enqueue(textStep("Hello."));
      await runPrompt(server, { message: "go" });
      assert.equal(
        JSON.stringify(modelServer.requests.slice(earlierRequestCount)).includes("Use tabs, always."),
        readsInstructions,
      );
      await server.stop();
    }
  });

  it("names with control characters are quoted and escaped in the results of list, glob, grep and read", async (t) => {
    const modelServer = await startModelServer(t);
    const specialName = "a\nb\u001b[2Jc\u202etxt";
    const project = await tempDir(t, { [`d/${specialName}`]: "needle", "d/plain ü.txt": "needle" });
    await symlink(specialName, project.at("d/link"));
    const server = await startServer(t, { config: createServerConfig(modelServer), projectDir: project.path });
    const calls = [
      callStep("list", { path: "d" }),
      callStep("glob", { pattern: "d/**" }),
      callStep("grep", { pattern: "needle" }),
      callStep("read", { path: `d/${specialName}x` }),
      callStep("read", { path: `d/${specialName}` }),
    ];
    const outputs = await runCalls(server, modelServer, calls);
    for (const text of outputs.slice(0, 4)) {
      // eslint-disable-next-line no-control-regex -- the test searches for control characters
      assert.doesNotMatch(text, /[\u001b\u202e]/);
      assert.match(text, /a\\nb\\u001b\[2Jc\\u202etxt/);
    }
    for (const text of outputs.slice(0, 3)) assert.match(text, /plain ü\.txt$/m);
    assert.equal(outputs[4], "1\tneedle");
  });
});

it("POST /api/run returns 400 for a lone surrogate in model, provider or session_id, and stores no session", async (t) => {
  const modelServer = await startModelServer(t);
  const server = await startServer(t, { config: createServerConfig(modelServer) });
  for (const field of ["model", "provider", "session_id"]) {
    const { status, error } = await runPrompt(server, { message: "go", [field]: "x\ud800" });
    assert.equal(status, 400, `${field}: ${error}`);
  }
  assert.deepEqual((await (await server.fetch("/api/sessions")).json()) as unknown, {
    sessions: [],
    total: 0,
    page: 1,
    size: 20,
  });
});

it("relative tools.allow_paths resolve against the config's folder", async (t) => {
  const modelServer = await startModelServer(t);
  const root = await tempDir(t, { "shared/a.txt": "shared text", "project/x": "", "etc/x": "" });
  await mkdir(root.at("etc/inner"), { recursive: true });
  const config = createServerConfig(modelServer, {
    tools: { allow_paths: ["../../shared"], bash: { enabled: false } },
  });
  await writeFile(root.at("etc/inner/gantry.json"), JSON.stringify(config));
  const args = ["serve", "--port", "0", "--config", root.at("etc/inner/gantry.json")];
  const server = await startServer(t, { args, projectDir: root.at("project") });
  const [output] = await runCalls(server, modelServer, [callStep("read", { path: root.at("shared/a.txt") })]);
  assert.equal(output, "1\tshared text");
});
