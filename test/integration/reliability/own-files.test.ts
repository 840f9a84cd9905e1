// gantry's own files and the files of a repository, accessed through a running server with the real tools.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { link, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { call, say, type FakeStep } from "../../helpers/fake-model-server.js";
import { ask, lab, labConfig } from "../../helpers/lab.js";
import { startServer, type GantryServer } from "../../helpers/server.js";
import { tempDir } from "../../helpers/temp.js";

const KEY = "key-of-the-lab";
const PLUGIN = `export default { gantry: 1, kind: "tool", name: "own", parse: () => ({}), use: class {
  name = "own"; description = "-"; inputSchema = { type: "object" }; kind = "other"; parallel = false; needsPermission = false;
  parse() { return {}; } describe() { return { title: "own", locations: [] }; } async run() { return { text: "" }; } } };`;

interface WireMessage {
  role: string;
  content: string;
  tool_call_id: string;
  tool_calls: { id: string }[];
}

/** The outputs of these calls, all made in one answer. */
async function outputs(server: GantryServer, models: Awaited<ReturnType<typeof lab>>, calls: FakeStep[]) {
  models.enqueue({ say: calls.flatMap((step) => step.say ?? []) }, say("Done."));
  const { sessionId, status } = await ask(server, { message: "go" });
  assert.equal(status, 200);
  const response = await server.fetch(`/api/sessions/${sessionId}/messages`);
  const { messages } = (await response.json()) as { messages: WireMessage[] };
  const ids = messages.flatMap((message) => message.tool_calls.map(({ id }) => id));
  assert.equal(ids.length, calls.length);
  return ids.map((id) => messages.find((message) => message.tool_call_id === id)?.content ?? "");
}

describe("gantry's own files in the project folder", () => {
  for (const [driver, store, storeFiles] of [
    ["sqlite", "sessions.db", ["sessions.db", "sessions.db-wal", "sessions.db-shm"]],
    ["json", "chats", ["chats", "chats.d"]],
  ] as const)
    it(`config and store cannot be read, listed, changed or deleted, a plugin can only be read (${driver})`, async (t) => {
      const models = await lab(t);
      const project = await tempDir(t, { "own-tool.mjs": PLUGIN, "deep/x": "x" });
      const config = labConfig(models, {
        session: { driver, path: store },
        agent: { tools: ["*", "./own-tool.mjs"] },
        tools: { bash: { enabled: false } },
      });
      await writeFile(project.at("gantry.json"), JSON.stringify(config));
      await symlink("gantry.json", project.at("alias.json"));
      await link(project.at("gantry.json"), project.at("second-name.json"));
      // The given config path is a link. It must not be replaced either.
      const args = ["serve", "--port", "0", "--config", project.at("alias.json")];
      const server = await startServer(t, { args, projectDir: project.path });
      const before = await readFile(project.at("gantry.json"), "utf8");
      const secret = ["gantry.json", "alias.json", "second-name.json", "GANTRY.JSON"];
      const texts = await outputs(server, models, [
        ...secret.map((path) => call("read", { path })),
        call("grep", { pattern: "base_url" }),
        ...["gantry.json", "alias.json"].flatMap((path) => [
          call("write", { path, content: "{}" }),
          call("edit", { path, old_string: "own-tool", new_string: "evil" }),
          call("delete", { path }),
        ]),
        ...storeFiles.flatMap((path) => [
          call(path === "chats" || path === "chats.d" ? "list" : "read", { path }),
          call("delete", { path, recursive: true }),
        ]),
        call("write", { path: `${store}-journal`, content: "x" }),
        call("write", { path: "own-tool.mjs", content: "evil" }),
        call("delete", { path: "own-tool.mjs" }),
        call("read", { path: "own-tool.mjs" }),
        call("list", { all: true, depth: 3 }),
      ]);
      for (const text of texts) assert.ok(!text.includes(KEY), text);
      const listed = texts.pop() ?? "";
      assert.match(texts.pop() ?? "", /kind: "tool"/, "a plugin's source may be read");
      for (const name of ["gantry.json", "alias.json", ...storeFiles])
        assert.ok(!listed.split("\n").includes(name), listed);
      const denied = /access is denied|is protected|No match|not found/;
      for (const [i, text] of texts.entries()) assert.match(text, denied, `${i}: ${text}`);
      assert.equal(await readFile(project.at("gantry.json"), "utf8"), before);
      assert.equal(await readFile(project.at("own-tool.mjs"), "utf8"), PLUGIN);
      for (const name of storeFiles.slice(0, 1)) assert.ok(existsSync(project.at(name)), name);
    });

  it("a config that AGENTS.md links to is not sent to the model, and cannot be attached to a prompt", async (t) => {
    const models = await lab(t);
    const project = await tempDir(t, { "home/x": "" });
    // The project contains gantry's home, and its AGENTS.md is a link to a file in that home.
    const home = project.at("home");
    await symlink("home/config.json", project.at("AGENTS.md"));
    const server = await startServer(t, { config: labConfig(models), home, projectDir: project.path });
    models.enqueue(say("Hello."));
    assert.equal((await ask(server, { message: "go" })).status, 200);
    assert.ok(models.requests.length > 0);
    for (const { body } of models.requests) assert.ok(!JSON.stringify(body).includes(KEY));
    for (const path of ["home/config.json", "AGENTS.md", join(home, "sessions.db")])
      assert.match((await ask(server, { message: "go", files: [path] })).error, /access is denied/);
  });
});

describe("files of a repository", () => {
  it("AGENTS.md is part of the prompt unless agent.project_instructions is false", async (t) => {
    const models = await lab(t);
    const project = await tempDir(t, { "AGENTS.md": "Use tabs, always." });
    for (const readsInstructions of [true, false]) {
      const config = labConfig(models, { agent: { project_instructions: readsInstructions } });
      const server = await startServer(t, { config, projectDir: project.path });
      const earlierRequests = models.requests.length;
      models.enqueue(say("Hello."));
      await ask(server, { message: "go" });
      assert.equal(
        JSON.stringify(models.requests.slice(earlierRequests)).includes("Use tabs, always."),
        readsInstructions,
      );
      await server.stop();
    }
  });

  it("names with control characters are quoted and escaped in the results of list, glob, grep and read", async (t) => {
    const models = await lab(t);
    const oddName = "a\nb\u001b[2Jc\u202etxt";
    const project = await tempDir(t, { [`d/${oddName}`]: "needle", "d/plain ü.txt": "needle" });
    await symlink(oddName, project.at("d/link"));
    const server = await startServer(t, { config: labConfig(models), projectDir: project.path });
    const calls = [
      call("list", { path: "d" }),
      call("glob", { pattern: "d/**" }),
      call("grep", { pattern: "needle" }),
      call("read", { path: `d/${oddName}x` }),
      call("read", { path: `d/${oddName}` }),
    ];
    const texts = await outputs(server, models, calls);
    for (const text of texts.slice(0, 4)) {
      // eslint-disable-next-line no-control-regex -- the test searches for control characters
      assert.doesNotMatch(text, /[\u001b\u202e]/);
      assert.match(text, /a\\nb\\u001b\[2Jc\\u202etxt/);
    }
    for (const text of texts.slice(0, 3)) assert.match(text, /plain ü\.txt$/m);
    assert.equal(texts[4], "1\tneedle");
  });
});

it("POST /api/run returns 400 for a lone surrogate in model, provider or session_id, and stores no session", async (t) => {
  const models = await lab(t);
  const server = await startServer(t, { config: labConfig(models) });
  for (const field of ["model", "provider", "session_id"]) {
    const { status, error } = await ask(server, { message: "go", [field]: "x\ud800" });
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
  const models = await lab(t);
  const root = await tempDir(t, { "shared/a.txt": "shared text", "project/x": "", "etc/x": "" });
  await mkdir(root.at("etc/inner"), { recursive: true });
  const config = labConfig(models, {
    tools: { allow_paths: ["../../shared"], bash: { enabled: false } },
  });
  await writeFile(root.at("etc/inner/gantry.json"), JSON.stringify(config));
  const args = ["serve", "--port", "0", "--config", root.at("etc/inner/gantry.json")];
  const server = await startServer(t, { args, projectDir: root.at("project") });
  const [read] = await outputs(server, models, [call("read", { path: root.at("shared/a.txt") })]);
  assert.equal(read, "1\tshared text");
});
