import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { lstat, mkdir, readdir, readFile, readlink, symlink, writeFile } from "node:fs/promises";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Agent, builtinTools } from "gantry";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";
import { callTools, ScriptedProvider } from "gantry/testing";
import type { FakeCall, FakeStep } from "../../helpers/fake-model-server.js";
import { runPrompt, startModelServer, createServerConfig, fetchMessages } from "../../helpers/server-runs.js";
import { startServer } from "../../helpers/server.js";
import { makeTempDir, type Hooks, type TempDir } from "../../helpers/temp-dir.js";

/** Returns a line per entry of a folder tree, with everything that a change would affect, except access times. */
async function readTree(folder: string): Promise<string[]> {
  const entries: string[] = [];
  const addEntry = async (path: string): Promise<void> => {
    const stats = await lstat(path, { bigint: true });
    const { mode, size, ino, nlink, uid, mtimeNs, ctimeNs } = stats;
    const content = stats.isSymbolicLink()
      ? await readlink(path)
      : stats.isFile()
        ? createHash("sha256")
            .update(await readFile(path))
            .digest("hex")
        : "";
    entries.push([path, mode, size, ino, nlink, uid, mtimeNs, ctimeNs, content].join(" "));
    if (stats.isDirectory()) for (const name of (await readdir(path)).sort()) await addEntry(join(path, name));
  };
  await addEntry(folder);
  return entries;
}

/** A third-party tool that makes changes, unless its kind is read-only. */
const TOOL_CODE = `
import { appendFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
export const createTool = ({ name, kind, parallel = false, needsPermission = false, logFile }) => ({
  name, kind, parallel, needsPermission, description: name, inputSchema: { type: "object" },
  parse: (input) => input ?? {},
  describe: () => ({ title: name, locations: [] }),
  run: async (_, { projectDir }) => {
    appendFileSync(logFile, name + "\\n");
    if (["read", "search", "think", "fetch"].includes(kind)) return { text: "looked" };
    writeFileSync(join(projectDir, "by-" + name), "x");
    rmSync(join(projectDir, "a.txt"), { force: true });
    return { text: "done" };
  },
});
`;
const PLUGIN_CODE = `${TOOL_CODE}
export default { gantry: 1, kind: "tool", name: "plug", parse: (raw) => raw, create: (options) => createTool(options) };`;
const TOOL_SOURCE_CODE = `${TOOL_CODE}
export default { gantry: 1, kind: "tool-source", name: "server", parse: (raw) => raw, create: ({ tools }) => ({
  name: "server",
  open: async () => ({ tools: tools.map(createTool), close: async () => {} }),
}) };`;

const READ_ONLY_KINDS = ["read", "search", "think", "fetch"];
/** Valid and invalid kinds of tools. */
const KINDS = [
  "edit",
  "delete",
  "execute",
  "other",
  ...READ_ONLY_KINDS,
  "READ",
  " read",
  "toString",
  "__proto__",
  "move",
  "",
];

/** Creates a folder with a project, files outside the project, and links between them. */
async function createWorkspace(t: Hooks): Promise<TempDir> {
  const workspace = await makeTempDir();
  t.after(() => workspace.remove());
  await workspace.write({
    "project/a.txt": "a\n",
    "project/src/b.ts": "b\n",
    "project/.git/config": "[core]\n",
    "project/.git/hooks/pre-commit": "#!/bin/sh\n",
    "outside/c.txt": "c\n",
    "user/.bashrc": "# as it was\n",
  });
  await mkdir(workspace.at("project", "empty"));
  await symlink(workspace.at("outside"), workspace.at("project", "link"));
  await symlink(workspace.at("outside", "c.txt"), workspace.at("project", "c.txt"));
  execFileSync("mkfifo", [workspace.at("project", "pipe")]);
  return workspace;
}

/** Returns the commands of the sandbox test and further commands. No command may run. */
async function createCommands(workspace: TempDir): Promise<string[]> {
  const source = await readFile(new URL("../../helpers/sandbox-attacks.ts", import.meta.url), "utf8");
  const sandboxAttacks = [...source.matchAll(/await attack\(\s*("[^"]*"|`[^`]*`),\s*("[^"\n]*"|'[^'\n]*'|`[^`]*`),/g)]
    .map(([, , text = ""]) => text.slice(1, -1).replace(/\$\{[^}]*\}/g, workspace.at("outside")))
    // The removed commands would damage more than this folder if they ran by mistake.
    .filter((text) => !/\/proc|mount|mknod|nsenter|unshare|\/tmp|kill/.test(text));
  assert.ok(sandboxAttacks.length >= 8, `${sandboxAttacks.length} commands were found`);
  const outsidePath = workspace.at("outside");
  return [
    ...sandboxAttacks,
    "echo x > new.txt",
    "rm -rf a.txt src",
    `rm -rf ${outsidePath}`,
    "true",
    ": > a.txt",
    "touch -t 200001010000 a.txt",
    "chmod 777 a.txt",
    "ln -s / root; mv a.txt b.txt",
    "$(printf 'rm a.txt')",
    "`printf 'rm a.txt'`",
    "r''m a.txt",
    "eval \"r\"'m' a.txt",
    "sh -c 'rm a.txt'",
    "env X=1 rm a.txt",
    "printf 'a.txt' | xargs rm",
    "find . -delete",
    "find . -exec rm {} +",
    "cat <<EOF > new.txt\nx\nEOF",
    "f() { rm a.txt; }; f",
    "(rm a.txt) & wait",
    "trap 'rm a.txt' EXIT",
    "exec rm a.txt",
    'node -e \'require("fs").writeFileSync("new","x")\'',
    "git init; git commit --allow-empty -m x",
    "# rm\nrm a.txt",
    "rm a.txt\0",
    "\u202erm a.txt",
  ];
}

/** Returns the calls of built-in tools that a model attempts. */
function createCalls(
  workspace: TempDir,
  url: string,
): { changingCalls: [string, unknown][]; readingCalls: [string, unknown][] } {
  const outsideFolder = workspace.at("outside");
  const paths = [
    "new.txt",
    "a.txt",
    "src/new/x.txt",
    "link/x.txt",
    "c.txt",
    `${outsideFolder}/x.txt`,
    "../outside/x",
    ".git/config",
  ];
  return {
    changingCalls: [
      ...paths.map((path): [string, unknown] => ["write", { path, content: "evil" }]),
      ...paths.map((path): [string, unknown] => ["edit", { path, old_string: "a", new_string: "evil" }]),
      ["edit", JSON.stringify({ path: "a.txt", old_string: "a", new_string: "evil" })],
      ["multiedit", { path: "a.txt", edits: [{ old_string: "a", new_string: "evil" }] }],
      ...paths.map((path): [string, unknown] => ["delete", { path, recursive: true }]),
      ["delete", { path: ".", recursive: true }],
      ["bash", { cmd: "rm a.txt" }],
      ["bash", '{"command": "rm a.txt"}'],
    ],
    readingCalls: [
      ["read", { path: "a.txt" }],
      ["read", { path: "pipe" }],
      ["read", { path: "/dev/zero" }],
      ["read", { path: "/proc/self/environ" }],
      ["read", { path: "/dev/stdin" }],
      ["read", { path: "link/c.txt" }],
      ["list", { path: "." }],
      ["glob", { pattern: "**/*" }],
      ["grep", { pattern: "(a+)+$" }],
      ["todowrite", { todos: [{ content: "x", status: "pending" }] }],
      ["todoread", {}],
      ["webfetch", { url }],
      ["webfetch", { url: `file://${workspace.at("project", "a.txt")}` }],
    ],
  };
}

/** Creates answers of up to eight calls. The ids of the calls are `c0`, `c1` and so on. */
function createAnswers(calls: readonly [string, unknown][]): FakeStep[] {
  const steps: FakeStep[] = [];
  for (let i = 0; i < calls.length; i += 8)
    steps.push({
      say: calls
        .slice(i, i + 8)
        .map(([name, args], offset) => ({ call: { id: `c${i + offset}`, name, arguments: args } })),
    });
  return steps;
}

describe("plan mode", () => {
  it(
    "denies every changing tool call despite allow-all rules, and leaves the disk unchanged",
    { timeout: 120_000 },
    async (t) => {
      const workspace = await createWorkspace(t);
      const home = await makeTempDir();
      t.after(() => home.remove());
      const pageServer = createServer((_, response) => response.end("a page")).listen(0, "127.0.0.1");
      await once(pageServer, "listening");
      t.after(() => void pageServer.close());
      const url = `http://127.0.0.1:${(pageServer.address() as AddressInfo).port}/`;
      const modelServer = await startModelServer(t);
      const logFile = home.at("ran.txt");
      await writeFile(logFile, "");
      await home.write({ "plug.mjs": PLUGIN_CODE, "source.mjs": TOOL_SOURCE_CODE });
      const pluginTools = KINDS.flatMap((kind, i) =>
        [true, false].map((parallel) => ({ name: `plug-${i}-${parallel}`, kind, parallel, logFile })),
      );
      const sourceTools = KINDS.map((kind, i) => ({ name: `source-${i}`, kind, parallel: i % 2 === 0, logFile }));
      const config = createServerConfig(modelServer, {
        agent: {
          tools: [
            "*",
            ...pluginTools.map((pluginTool) => ({ tool: "./plug.mjs", ...pluginTool })),
            { tool: "./source.mjs", tools: sourceTools },
          ],
        },
        tools: {
          allow_paths: [workspace.at("outside")],
          protected_paths: [],
          bash: { sandbox: "off" },
          webfetch: { allow_private: true },
        },
        // Everything else is as permissive as possible.
        permissions: { mode: "plan", rules: [{ tool: "*", action: "allow" }], unattended: "allow" },
      });
      const originalTree = await readTree(workspace.path);
      const projectDir = workspace.at("project");
      const server = await startServer(t, { config, home: home.path, projectDir, env: { HOME: workspace.at("user") } });
      const { changingCalls, readingCalls } = createCalls(workspace, url);
      const bashCalls = (await createCommands(workspace)).map((command): [string, unknown] => ["bash", { command }]);
      const thirdPartyTools = [...pluginTools, ...sourceTools];
      const deniedCalls: [string, unknown][] = [
        ...changingCalls,
        ...bashCalls,
        ...thirdPartyTools
          .filter(({ kind }) => !READ_ONLY_KINDS.includes(kind))
          .map(({ name }): [string, unknown] => [name, {}]),
      ];
      const readOnlyTools = thirdPartyTools
        .filter(({ kind }) => READ_ONLY_KINDS.includes(kind))
        .map(({ name }) => name);
      modelServer.enqueue(
        ...createAnswers([
          ...deniedCalls,
          ...readingCalls,
          ...readOnlyTools.map((name): [string, unknown] => [name, {}]),
        ]),
        {
          say: [{ text: "I would change a lot." }],
        },
      );
      const { sessionId, output, error } = await runPrompt(server, { message: "change what you can" });
      assert.equal(output || error, "I would change a lot.");
      const readCallNumber = (message: object) => Number((message as { tool_call_id: string }).tool_call_id.slice(1));
      const results = (await fetchMessages(server, sessionId))
        .filter(({ role }) => role === "tool")
        .sort((a, b) => readCallNumber(a) - readCallNumber(b));
      assert.equal(results.length, deniedCalls.length + readingCalls.length + readOnlyTools.length);
      for (const [i, call] of deniedCalls.entries())
        assert.match(results[i]!.content, /^The session is in plan mode/, JSON.stringify(call));
      // The results are in the order of `readingCalls`. Item 11 is the fetched page.
      const readResults = results
        .slice(deniedCalls.length, deniedCalls.length + readingCalls.length)
        .map(({ content }) => content);
      assert.match(readResults[0]!, /a/);
      for (const text of readResults.slice(1, 5)) assert.match(text, /not a regular file|access is denied|outside/);
      assert.match(readResults[11]!, /a page/);
      assert.deepEqual((await readFile(logFile, "utf8")).split("\n").filter(Boolean).sort(), [...readOnlyTools].sort());
      assert.deepEqual(await readTree(workspace.path), originalTree);
      // A person can leave plan mode: the mode of a run replaces the session's mode.
      modelServer.enqueue(...createAnswers([["write", { path: "new.txt", content: "x" }]]), {
        say: [{ text: "done" }],
      });
      await runPrompt(server, { message: "now", session_id: sessionId, mode: "auto" }, server.personHeaders);
      assert.equal(await readFile(workspace.at("project", "new.txt"), "utf8"), "x");
    },
  );

  it(
    "applies from the next tool call when another process sets plan mode during a run",
    { timeout: 120_000 },
    async (t) => {
      const workspace = await createWorkspace(t);
      const home = await makeTempDir();
      t.after(() => home.remove());
      const modelServer = await startModelServer(t);
      const config = createServerConfig(modelServer, { tools: { bash: { sandbox: "off" } } });
      const server = await startServer(t, { config, home: home.path, projectDir: workspace.at("project") });
      let treeAfterModeChange: string[] = [];
      const createWriteCall = (path: string): [string, unknown] => ["write", { path, content: "x" }];
      modelServer.enqueue(...createAnswers([createWriteCall("first.txt")]), async () => {
        assert.equal(await readFile(workspace.at("project", "first.txt"), "utf8"), "x");
        const agent = new Agent({
          driver: new SqliteDriver({ path: home.at("sessions.db"), durability: "full" }),
          providers: [new ScriptedProvider([])],
        });
        const [{ id } = { id: "" }] = (await agent.sessions.list()).sessions;
        await agent.sessions.update(id, { mode: "plan" });
        await agent.close();
        treeAfterModeChange = await readTree(workspace.path);
        return createAnswers([
          createWriteCall("a.txt"),
          ["bash", { command: "touch b.txt" }],
          createWriteCall("c2.txt"),
          createWriteCall("d.txt"),
        ])[0]!;
      });
      modelServer.enqueue(...createAnswers([createWriteCall("e.txt"), ["bash", { command: "rm a.txt" }]]), {
        say: [{ text: "done" }],
      });
      const { sessionId } = await runPrompt(server, { message: "go" });
      assert.deepEqual(await readTree(workspace.path), treeAfterModeChange);
      const results = (await fetchMessages(server, sessionId))
        .filter(({ role }) => role === "tool")
        .map(({ content }) => content);
      assert.equal(results.filter((text) => text.startsWith("The session is in plan mode")).length, 6);
    },
  );

  it("denies changing calls of built-in tools in an SDK agent whose policy and ask callback allow everything", async (t) => {
    const workspace = await createWorkspace(t);
    const originalTree = await readTree(workspace.path);
    const { changingCalls } = createCalls(workspace, "http://127.0.0.1:1/");
    const attemptedCalls = [
      ...changingCalls,
      ...(await createCommands(workspace)).map((command): [string, unknown] => ["bash", { command }]),
    ];
    const steps = createAnswers(attemptedCalls).map(({ say = [] }) =>
      callTools(
        ...say.map((piece) => {
          const { name, arguments: args } = (piece as { call: FakeCall }).call;
          return [name, args] as const;
        }),
      ),
    );
    const agent = new Agent({
      providers: [new ScriptedProvider([...steps, "end"])],
      tools: builtinTools({ allowPaths: [workspace.at("outside")], protectedPaths: [], bash: { sandbox: "off" } }),
      projectDir: workspace.at("project"),
      permissions: { name: "yes", judge: () => ({ action: "allow" }) },
      mode: "plan",
    });
    t.after(() => agent.close());
    let deniedCount = 0;
    for await (const event of await agent.run({ message: "x", ask: () => Promise.resolve("allow_always") }))
      if (event.type === "tool_result" && event.output.startsWith("The session is in plan mode")) deniedCount += 1;
    assert.equal(deniedCount, attemptedCalls.length);
    assert.deepEqual(await readTree(workspace.path), originalTree);
  });
});
