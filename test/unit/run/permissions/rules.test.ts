import assert from "node:assert/strict";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import {
  Agent,
  builtinTools,
  defineTool,
  type AgentOptions,
  type AskRequest,
  type PermissionRule,
  type RunInput,
  type ToolKind,
} from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { PathPattern } from "../../../../src/untrusted/search/glob-match.js";
import { isCommandGlob, isPathGlob, isToolGlob } from "../../../../src/run/permissions/rule-schema.js";
import { createRandom } from "../../../helpers/random.js";
import { tempDir, type Hooks } from "../../../helpers/temp-dir.js";

type ToolCall = readonly [tool: string, args: object];

/** The results of calls under rules, and the requests to the user. Third-party tools record their kind. */
async function runCalls(
  t: Hooks,
  rules: readonly PermissionRule[],
  calls: readonly ToolCall[],
  options: Partial<AgentOptions> & { input?: Partial<RunInput>; links?: Readonly<Record<string, string>> } = {},
) {
  const folder = await tempDir(t, { "src/a.ts": "a", "infra/a.tf": "a", ".env": "a" });
  const { input, links = {}, ...agentOptions } = options;
  await mkdir(folder.at("outside"));
  await mkdir(folder.at("work"));
  await writeFile(folder.at("outside", "o.txt"), "o");
  for (const [name, target] of Object.entries(links)) await symlink(folder.at(target), folder.at(name));
  const toolsRun: string[] = [];
  const thirdPartyTool = (name: string, kind: ToolKind) =>
    defineTool({
      name,
      description: name,
      kind,
      schema: { type: "object", properties: { path: { type: "string" }, command: {} } },
      describe: ({ path }, project) => ({
        title: name,
        locations: path === undefined ? [] : [{ path: join(project, path) }],
      }),
      run: () => (toolsRun.push(name), "done"),
    });
  const provider = new ScriptedProvider([...calls.map(([name, args], i) => callTools([name, args, `c-${i}`])), "end"]);
  const agent = new Agent({
    providers: [provider],
    tools: [
      ...builtinTools({ allowPaths: [folder.at("outside")], bash: { sandbox: "off" } }),
      thirdPartyTool("shell", "execute"),
      thirdPartyTool("mcp_put", "other"),
      thirdPartyTool("put", "edit"),
    ],
    projectDir: folder.path,
    rules,
    ...agentOptions,
  });
  t.after(() => agent.close());
  const requests: AskRequest[] = [];
  const ask: RunInput["ask"] = (request) => (requests.push(request), Promise.resolve("reject"));
  const outputs: string[] = [];
  const { ask: answerAsk } = input ?? {};
  const askOption = answerAsk && { ask: (...args: Parameters<typeof ask>) => (void ask(...args), answerAsk(...args)) };
  for await (const event of await agent.run({ message: "x", ...input, ...askOption }))
    if (event.type === "tool_result") outputs.push(event.output);
  return { outputs, toolsRun, requests, folder };
}

/** `ran`, `denied`, `no client`, `rejected`, `unknown`, or the text of the result. */
function toOutcome(text: string): string {
  if (text.startsWith("This call is not allowed")) return "denied";
  if (text.includes("no client could answer")) return "no client";
  if (text.startsWith("The user rejected")) return "rejected";
  if (text.includes("could not be determined")) return "unknown";
  return text.includes("permission") ? text : "ran";
}

describe("permission rules", () => {
  it("match an MCP tool by its origin mcp:server/tool or its name, and no other tool by an origin", async (t) => {
    const mcpTool = (name: string, origin?: string) => ({
      ...defineTool({ name, description: name, kind: "other", run: () => "done" }),
      ...(origin !== undefined && { origin }),
    });
    const tools = [
      mcpTool("a__get_one", "mcp:a/get.one"),
      mcpTool("a__put", "mcp:a/put"),
      mcpTool("b__put", "mcp:b/put"),
      mcpTool("mcp_a_put"),
    ];
    const unusualTool = mcpTool("a__x_y_0badf00d", "mcp:a/x/y löschen");
    const calls = tools.map(({ name }): ToolCall => [name, {}]);
    const runWithRules = async (...rules: PermissionRule[]) =>
      (await runCalls(t, rules, calls, { tools })).outputs.map(toOutcome);
    const deny = (tool: string): PermissionRule => ({ tool, action: "deny" });
    assert.deepEqual(await runWithRules(deny("mcp:a/*")), ["denied", "denied", "ran", "ran"]);
    assert.deepEqual(await runWithRules(deny("mcp:?/put")), ["ran", "denied", "denied", "ran"]);
    assert.deepEqual(await runWithRules(deny("mcp:a/get.one")), ["denied", "ran", "ran", "ran"]);
    assert.deepEqual(await runWithRules(deny("mcp:*/*")), ["denied", "denied", "denied", "ran"]);
    assert.deepEqual(await runWithRules(deny("a__*")), ["denied", "denied", "ran", "ran"]);
    assert.deepEqual(await runWithRules({ ...deny("mcp:b/put"), action: "allow" }, deny("*")), [
      "denied",
      "denied",
      "ran",
      "denied",
    ]);
    const unusualOutcome = await runCalls(t, [deny("mcp:a/x/y löschen")], [[unusualTool.name, {}]], {
      tools: [unusualTool],
    });
    assert.deepEqual(unusualOutcome.outputs.map(toOutcome), ["denied"]);
    // A rule with a path applies to a tool without paths only if the rule names this tool.
    assert.deepEqual(await runWithRules({ tool: "mcp:a/put", path: "x", action: "deny" }), [
      "ran",
      "no client",
      "ran",
      "ran",
    ]);
  });

  it("allow, ask or deny by tool name or glob: the first match decides, and its reason is the result", async (t) => {
    const rules: PermissionRule[] = [
      { tool: "read", action: "deny", reason: "it is secret" },
      { tool: "?rite", action: "deny" },
      { tool: "l*", action: "ask" },
      { tool: "*", action: "allow" },
    ];
    const calls: ToolCall[] = [
      ["read", { path: "src/a.ts" }],
      ["write", { path: "x", content: "x" }],
      ["list", {}],
      ["glob", { pattern: "*" }],
    ];
    const { outputs } = await runCalls(t, rules, calls);
    assert.equal(outputs[0], "This call is not allowed: it is secret");
    assert.equal(outputs[1], "This call is not allowed: a rule denies it. Continue without it.");
    assert.deepEqual(outputs.map(toOutcome), ["denied", "denied", "no client", "ran"]);
  });

  it("that deny the path that a call writes win over rules for the path that it reads", async (t) => {
    const copyTool = defineTool({
      name: "copy",
      description: "Copies a file.",
      kind: "edit",
      describe: (_, project) => ({
        title: "copy",
        locations: [{ path: join(project, "b.ts") }],
        reads: [{ path: join(project, "src/a.ts") }],
      }),
      run: () => "done",
    });
    const rules: PermissionRule[] = [
      { tool: "copy", path: "b.ts", action: "deny" },
      { tool: "read", path: "src/**", action: "ask" },
    ];
    const runWithRules = async (...usedRules: PermissionRule[]) =>
      (await runCalls(t, usedRules, [["copy", {}]], { tools: [copyTool], unattended: "allow" })).outputs.map(toOutcome);
    assert.deepEqual(await runWithRules(...rules), ["denied"]);
    assert.deepEqual(await runWithRules({ ...rules[1]!, action: "deny" }), ["denied"]);
    assert.deepEqual(await runWithRules(), ["ran"]);
  });

  it('that may deny a command require a client\'s permission, even with unattended: "allow"', async (t) => {
    const deny: PermissionRule = { tool: "bash", match: "touch *", action: "deny" };
    const calls: ToolCall[] = [
      ["bash", { command: "touch made" }],
      ["bash", { command: "a=touch; $a made" }],
      ["bash", { command: "echo ok" }],
    ];
    const withoutClient = await runCalls(t, [deny], calls, { unattended: "allow" });
    assert.deepEqual(withoutClient.outputs.map(toOutcome), ["denied", "no client", "ran"]);
    await assert.rejects(withoutClient.folder.read("made"));
    const askRule: PermissionRule = { tool: "bash", match: "touch *", action: "ask" };
    const askOutcome = await runCalls(t, [askRule], calls.slice(0, 2), { unattended: "allow" });
    assert.deepEqual(askOutcome.outputs.map(toOutcome), ["ran", "ran"]);
  });

  it("judge a command with a workdir like the same command after cd", async (t) => {
    const touchArguments = ["touch", "made"];
    const calls: ToolCall[] = [
      ["bash", { command: "touch made", workdir: "work" }],
      ["bash", { command: "touch made", cwd: "work" }],
      ["bash", { command: "touch made", workdir: "../elsewhere" }],
      ["bash", { command: "touch made", workdir: "it's" }],
      ["bash", { command: "touch made" }],
    ];
    const runWithRules = async (...rules: PermissionRule[]) => (await runCalls(t, rules, calls)).outputs.map(toOutcome);
    const denyBash: PermissionRule = { tool: "bash", action: "deny" };
    const touchRule: PermissionRule = { tool: "bash", match: "touch *", action: "allow" };
    assert.deepEqual(await runWithRules(touchRule, denyBash), ["denied", "denied", "denied", "denied", "ran"]);
    const workRule: PermissionRule = { tool: "bash", match: "cd work", action: "allow" };
    assert.deepEqual(await runWithRules(touchRule, workRule, denyBash), ["ran", "ran", "denied", "denied", "ran"]);
    const parentFolderRule: PermissionRule = { tool: "bash", match: "cd ..*", action: "deny" };
    assert.deepEqual(await runWithRules(parentFolderRule), ["ran", "ran", "denied", "ran", "ran"]);
    const touchDenial: PermissionRule = { tool: "bash", match: "touch *", action: "deny" };
    assert.deepEqual(await runWithRules(touchDenial), ["denied", "denied", "denied", "denied", "denied"]);
    // The working folder is not a path of the call: a path rule allows no command.
    assert.deepEqual((await runWithRules({ tool: "bash", path: "work/**", action: "allow" }, denyBash))[0], "denied");
    const shellRules = [touchRule, denyBash].map((rule) => ({ ...rule, tool: "shell" }));
    const shellCalls = [{ command: touchArguments }, { command: touchArguments, workdir: "work" }].map(
      (args): ToolCall => ["shell", args],
    );
    assert.deepEqual((await runCalls(t, shellRules, shellCalls)).outputs.map(toOutcome), ["ran", "denied"]);
  });

  it("with action ask request permission from the client or a watcher, and otherwise follow `unattended`", async (t) => {
    const rules: PermissionRule[] = [{ tool: "read", action: "ask", reason: "think of it" }];
    const calls: ToolCall[] = [["read", { path: "src/a.ts" }]];
    const attendedOutcome = await runCalls(t, rules, calls, { input: { ask: () => Promise.resolve("allow") } });
    assert.deepEqual(attendedOutcome.outputs.map(toOutcome), ["ran"]);
    for (const [unattended, expected] of [
      ["reject", "no client"],
      ["allow", "ran"],
    ] as const)
      assert.deepEqual((await runCalls(t, rules, calls, { unattended })).outputs.map(toOutcome), [expected]);
    const [lateOutput] = (await runCalls(t, rules, calls, { unattended: "wait", askTimeoutSeconds: 0.05 })).outputs;
    assert.match(
      lateOutput!,
      /^This call needs permission and no client answered within 0.05 s, so it did not run\. It was not rejected/,
    );
    const watchedAgent = new Agent({
      providers: [new ScriptedProvider([callTools(["look", {}, "c"]), "end"])],
      tools: [defineTool({ name: "look", description: "x", kind: "read", run: () => "done" })],
      rules: [{ tool: "look", action: "ask", reason: "think of it" }],
    });
    t.after(() => watchedAgent.close());
    const { id } = await watchedAgent.sessions.create();
    const watchController = new AbortController();
    const reasons: string[] = [];
    let signalWatching = (): void => undefined;
    const watchStarted = new Promise<void>((resolve) => (signalWatching = resolve));
    const watchPromise = (async () => {
      for await (const event of watchedAgent.sessions.watch(id, { canAnswer: true, signal: watchController.signal })) {
        signalWatching();
        for (const ask of event.type === "state" ? event.state.asks : []) {
          reasons.push(ask.reason);
          await watchedAgent.asks.answer(ask.id, { choice: "allow" }).catch(() => undefined);
        }
      }
    })();
    await watchStarted;
    const run = await watchedAgent.run({ message: "x", sessionId: id });
    const outputs: string[] = [];
    for await (const event of run) if (event.type === "tool_result") outputs.push(event.output);
    watchController.abort();
    await watchPromise;
    assert.deepEqual(outputs, ["done"]);
    assert.equal(reasons[0], "think of it");
  });

  it("state their own reason for a command that may match or that they cannot parse", async (t) => {
    const rules: PermissionRule[] = [{ tool: "bash", match: "git push*", action: "deny" }];
    const commands = ["git $X", "case x in x) true;; esac", "git push"].map((command): ToolCall => [
      "bash",
      { command },
    ]);
    const { requests, outputs } = await runCalls(t, rules, commands, {
      input: { ask: () => Promise.resolve("reject") },
    });
    // Each of these commands needs permission even without a rule.
    assert.deepEqual(
      requests.map(({ reason }) => reason),
      ["a rule requires confirmation", "the rules cannot parse the command"],
    );
    assert.deepEqual(outputs.map(toOutcome), ["rejected", "rejected", "denied"]);
  });

  it("are logged for the call that they decided, with tool, call id, rule and action only", async (t) => {
    const lines: [message: string, fields: unknown][] = [];
    const recordLine = (message: string, fields?: object) => void lines.push([message, fields]);
    const logger = { debug: recordLine, info: recordLine, warn: recordLine, error: recordLine };
    const rules: PermissionRule[] = [
      { tool: "grep", action: "deny" },
      { tool: "read", path: "src/**", action: "allow" },
    ];
    await runCalls(t, rules, [["read", { path: "src/a.ts" }]], { logger });
    const [, decisionFields] = lines.find(([message]) => message === "permission decided") ?? [];
    const { run, session, ...fields } = decisionFields as Record<string, unknown>;
    for (const id of [run, session]) assert.match(String(id), /^[\da-f-]{36}$/);
    const decision = { tool: "read", call: "c-0", by: "permissions.rules[1]", action: "allow" };
    assert.deepEqual(fields, { client: "sdk", ...decision });
  });

  it("do not override plan mode", async (t) => {
    const rules: PermissionRule[] = [{ tool: "*", action: "allow" }];
    const { outputs } = await runCalls(t, rules, [["write", { path: "x", content: "x" }]], { mode: "plan" });
    assert.match(outputs[0]!, /plan mode/);
  });

  it("match the command in all argument names of bash and other tools, and ask if it cannot be read", async (t) => {
    const rules: PermissionRule[] = [{ tool: "*", match: "git push*", action: "deny" }];
    const calls: ToolCall[] = [
      ["bash", { command: "true" }],
      ["bash", { command: "true; git push" }],
      ["bash", { cmd: "git push" }],
      ["bash", { script: "git push", timeout: "5" }],
      ["bash", { command: "case x in x) true;; esac" }],
      ["shell", { command: "git push" }],
      ["shell", { command: ["git", "push"] }],
      ["shell", { command: 5 }],
      ["shell", {}],
      ["mcp_put", { command: "git push" }],
      ["mcp_put", {}],
      ["list", {}],
    ];
    const { outputs } = await runCalls(t, rules, calls);
    assert.deepEqual(outputs.map(toOutcome), [
      "ran",
      "denied",
      "denied",
      "denied",
      "no client",
      "denied",
      "denied",
      "no client",
      "no client",
      "denied",
      "ran",
      "ran",
    ]);
  });

  it("for commands apply to the input of a running command, but not to bash_stop", async (t) => {
    const calls: ToolCall[] = [
      ["bash", { command: "true" }],
      ["bash_input", { id: "bg-000000", text: "git push" }],
      ["bash_input", { id: "bg-000000", text: "y" }],
      ["bash_stop", { id: "bg-000000" }],
    ];
    const runWithRules = async (...rules: PermissionRule[]) =>
      (await runCalls(t, rules, calls, { unattended: "allow" })).outputs.map(toOutcome);
    const pushRule = { tool: "bash", match: "git push*" } as const;
    assert.deepEqual(await runWithRules({ ...pushRule, action: "deny" }), ["ran", "no client", "no client", "ran"]);
    assert.deepEqual(await runWithRules({ ...pushRule, tool: "*", action: "deny" }), [
      "ran",
      "no client",
      "no client",
      "ran",
    ]);
    assert.deepEqual(await runWithRules({ tool: "bash", action: "deny" }), ["denied", "denied", "denied", "ran"]);
    assert.deepEqual(await runWithRules({ ...pushRule, action: "allow" }), ["ran", "ran", "ran", "ran"]);
    assert.deepEqual(await runWithRules({ tool: "bash_input", action: "allow" }, { ...pushRule, action: "deny" }), [
      ...["ran", "ran", "ran", "ran"],
    ]);
    // A rule that allows commands does not allow typed input.
    const pushRules: PermissionRule[] = [
      { ...pushRule, action: "allow" },
      { tool: "bash*", action: "deny" },
    ];
    assert.deepEqual(await runWithRules(...pushRules), ["denied", "denied", "denied", "denied"]);
  });

  it("deny a path under every spelling and symlink that leads there", async (t) => {
    const links = { link: "infra", deep: "link", "file.txt": "infra/a.tf", "out.txt": "outside/o.txt" };
    const createWrite = (path: string): ToolCall => ["write", { path, content: "x" }];
    const calls = [
      createWrite("infra/x"),
      createWrite("./src/../infra/x"),
      createWrite("link/x"),
      createWrite("deep/new/x"),
      createWrite("file.txt"),
      createWrite("INFRA/x"),
      createWrite("src/x"),
      ["delete", { path: "infra", recursive: true }],
      ["delete", { path: ".", recursive: true }],
      ["delete", { path: "src", recursive: true }],
    ] as const satisfies ToolCall[];
    const { outputs, folder } = await runCalls(t, [{ tool: "*", path: "infra/**", action: "deny" }], calls, {
      links,
    });
    assert.deepEqual(outputs.map(toOutcome), [
      "denied",
      "denied",
      "denied",
      "denied",
      "denied",
      "denied",
      "ran",
      "denied",
      // This folder contains the denied folder.
      "no client",
      "ran",
    ]);
    assert.equal(await folder.read("infra/a.tf"), "a");
    const absoluteOutputs = (await runCalls(t, [{ tool: "*", path: `${folder.path}/**`, action: "deny" }], [], {}))
      .outputs;
    assert.deepEqual(absoluteOutputs, []);
  });

  it("deny a file name in every folder, and the content of a folder of that name", async (t) => {
    const calls: ToolCall[] = [
      ["read", { path: ".env" }],
      ["read", { path: "src/.env" }],
      ["read", { path: "outside/.env/a" }],
      ["read", { path: "src/a.ts" }],
      ["grep", { pattern: "a" }],
      ["bash", { command: "true" }],
    ];
    const { outputs } = await runCalls(t, [{ tool: "*", path: ".env", action: "deny" }], calls);
    // A search can find the file. Path rules do not know what a command reads.
    assert.deepEqual(outputs.map(toOutcome), ["denied", "denied", "denied", "ran", "no client", "ran"]);
  });

  it("require permission to list a folder that may contain a denied path", async (t) => {
    const calls: ToolCall[] = [
      ["list", { path: ".", depth: 5 }],
      ["list", {}],
      ["list", { path: "infra" }],
      ["list", { path: "src" }],
      ["read", { path: "src/a.ts" }],
    ];
    const { outputs } = await runCalls(t, [{ tool: "*", path: "infra/**", action: "deny" }], calls);
    assert.deepEqual(outputs.map(toOutcome), ["no client", "no client", "denied", "ran", "ran"]);
  });

  it("allow a call only if all its paths match after symlinks are resolved", async (t) => {
    const links = { "src/out": "outside", "src/in": "work" };
    const createWrite = (path: string): ToolCall => ["write", { path, content: "x" }];
    const rules: PermissionRule[] = [
      { tool: "*", path: "src/**", action: "allow" },
      { tool: "*", action: "deny" },
    ];
    const calls = [
      createWrite("src/x"),
      createWrite("src/new/x"),
      createWrite("src/out/x"),
      createWrite("src/in/x"),
      createWrite("SRC/x"),
      createWrite("x"),
    ];
    const { outputs } = await runCalls(t, rules, [...calls, ["put", {}], ["list", { path: "src" }], ["list", {}]], {
      links,
    });
    assert.deepEqual(outputs.map(toOutcome), [
      "ran",
      "ran",
      "denied",
      "denied",
      "denied",
      "denied",
      "denied",
      "ran",
      "denied",
    ]);
  });

  it("with a path ask about a tool without paths if they name the tool or the tool edits files", async (t) => {
    const calls: ToolCall[] = [
      ["put", {}],
      ["mcp_put", {}],
      ["shell", { command: "true" }],
    ];
    const generalOutcome = await runCalls(t, [{ tool: "*", path: "infra/**", action: "deny" }], calls);
    assert.deepEqual(generalOutcome.outputs.map(toOutcome), ["no client", "ran", "ran"]);
    const namedOutcome = await runCalls(t, [{ tool: "mcp_put", path: "infra/**", action: "deny" }], calls);
    assert.deepEqual(namedOutcome.outputs.map(toOutcome), ["ran", "no client", "ran"]);
  });

  it("apply if the project folder is a symlink", async (t) => {
    const folder = await tempDir(t, { "real/infra/a": "a" });
    await symlink(folder.at("real"), folder.at("project"));
    for (const path of ["infra/**", `${folder.at("project")}/infra/**`, `${folder.at("real")}/infra/**`]) {
      const rules: PermissionRule[] = [{ tool: "write", path, action: "deny" }];
      const { outputs } = await runCalls(t, rules, [["write", { path: "infra/x", content: "x" }]], {
        projectDir: folder.at("project"),
      });
      assert.deepEqual(outputs.map(toOutcome), ["denied"], path);
    }
  });

  it("deny a call whose path cannot be resolved", async (t) => {
    const rules: PermissionRule[] = [{ tool: "put", path: "a/**", action: "allow" }];
    const { outputs, toolsRun } = await runCalls(t, rules, [["put", { path: "a\0b" }]]);
    assert.deepEqual(outputs.map(toOutcome), ["unknown"]);
    assert.deepEqual(toolsRun, []);
  });

  it("are rejected with the field's name if they are invalid", () => {
    const createAgent = (rules: unknown) => () =>
      new Agent({ providers: [new ScriptedProvider([])], rules: rules as never });
    for (const [rule, field] of [
      [5, "rules[1]"],
      [{ tool: "a" }, "rules[1].action"],
      [{ tool: "a", action: "yes" }, "rules[1].action"],
      [{ tool: "", action: "ask" }, "rules[1].tool"],
      [{ tool: "a b", action: "ask" }, "rules[1].tool"],
      [{ tool: "a", action: "ask", pattern: "x" }, "rules[1].pattern"],
      [{ tool: "a", action: "ask", path: "[a" }, "rules[1].path"],
      [{ tool: "a", action: "ask", path: "a\\" }, "rules[1].path"],
      [{ tool: "a", action: "ask", path: "{a,b" }, "rules[1].path"],
      [{ tool: "a", action: "ask", path: "../a" }, "rules[1].path"],
      [{ tool: "a", action: "ask", path: "{a,b}".repeat(9) }, "rules[1].path"],
      [{ tool: "a", action: "ask", path: 5 }, "rules[1].path"],
      [{ tool: "a", action: "ask", match: "a && b" }, "rules[1].match"],
      [{ tool: "a", action: "ask", match: "a 'b'" }, "rules[1].match"],
      [{ tool: "a", action: "ask", match: " " }, "rules[1].match"],
      [{ tool: "a", action: "ask", match: "a [b" }, "rules[1].match"],
      [{ tool: "a", action: "ask", reason: 5 }, "rules[1].reason"],
    ] as const)
      assert.throws(
        createAgent([{ tool: "a", action: "ask" }, rule]),
        { code: "invalid_input", field },
        JSON.stringify(rule),
      );
    assert.throws(createAgent({}), { field: "rules" });
  });

  it("accept only globs that can match a path or command", () => {
    const random = createRandom(5);
    let acceptedGlobCount = 0;
    for (let i = 0; i < 20_000; i += 1) {
      const text = Array.from({ length: 1 + random() * 7 }, () => "ab/*?[]{},\\!^-:"[Math.floor(random() * 15)]).join(
        "",
      );
      const patterns = [
        ...(isPathGlob(text) ? [text] : []),
        ...(isCommandGlob(text) ? [text.replaceAll("/", "\0")] : []),
      ];
      for (const pattern of patterns) {
        // Braces are expanded first, and each alternative is tested separately.
        if (pattern.includes("{")) continue;
        acceptedGlobCount += 1;
        const names = pattern.split("/").map(() => "x");
        assert.ok(matchesExample(pattern, names.length), `${JSON.stringify(pattern)} is accepted but matches nothing`);
      }
    }
    assert.ok(acceptedGlobCount > 1_000);
  });
});

/** Whether a path with this number of names matches the pattern. */
function matchesExample(pattern: string, nameCount: number): boolean {
  const pathPattern = new PathPattern(pattern);
  const path = Array.from({ length: nameCount }, (_, i) => {
    const part = pattern.split("/")[i]!;
    return part === "**" ? "x" : createExample(part);
  });
  return pathPattern.matches(path.map((name) => [...name]));
}

/** A name that matches one part of a pattern. */
function createExample(part: string): string {
  const token = /\[([!^]?)([^\]]+)\]|\\([^])|[*?]/g;
  return part.replace(
    token,
    (match, negation: string | undefined, characters: string | undefined, escaped: string | undefined) => {
      if (escaped !== undefined) return escaped;
      if (characters !== undefined) return negation === "" ? characters.replace("\\", "")[0]! : "z";
      return match === "*" ? "" : "q";
    },
  );
}

describe("isToolGlob", () => {
  it("accepts a tool name, an MCP tool as mcp:server/tool, and globs of these", () => {
    for (const validGlob of [
      "read",
      "*",
      "a__?",
      "mcp:a/b",
      "mcp:a-b_c/*.get",
      "mcp:*/*",
      "mcp:a/b/c",
      "mcp:a/löschen!",
    ])
      assert.ok(isToolGlob(validGlob), validGlob);
    for (const invalidGlob of [
      "",
      "a b",
      "mcp:a",
      "mcp:a/",
      "mcp:/b",
      "mcp:a/b\nc",
      "mcp:a b/c",
      "MCP:a/b",
      "x:a/b",
      `mcp:${"a".repeat(65)}/b`,
    ])
      assert.ok(!isToolGlob(invalidGlob), invalidGlob);
  });
});
