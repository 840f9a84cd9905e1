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
import { randomOf } from "../../../helpers/random.js";
import { tempDir, type Hooks } from "../../../helpers/temp.js";

type Call = readonly [tool: string, args: object];

/** The results of calls under rules, and the requests to the user. Third-party tools record their kind. */
async function outcome(
  t: Hooks,
  rules: readonly PermissionRule[],
  calls: readonly Call[],
  options: Partial<AgentOptions> & { input?: Partial<RunInput>; links?: Readonly<Record<string, string>> } = {},
) {
  const folder = await tempDir(t, { "src/a.ts": "a", "infra/a.tf": "a", ".env": "a" });
  const { input, links = {}, ...agentOptions } = options;
  await mkdir(folder.at("outside"));
  await mkdir(folder.at("work"));
  await writeFile(folder.at("outside", "o.txt"), "o");
  for (const [name, to] of Object.entries(links)) await symlink(folder.at(to), folder.at(name));
  const ran: string[] = [];
  const stranger = (name: string, kind: ToolKind) =>
    defineTool({
      name,
      description: name,
      kind,
      schema: { type: "object", properties: { path: { type: "string" }, command: {} } },
      describe: ({ path }, project) => ({
        title: name,
        locations: path === undefined ? [] : [{ path: join(project, path) }],
      }),
      run: () => (ran.push(name), "done"),
    });
  const provider = new ScriptedProvider([...calls.map(([name, args], i) => callTools([name, args, `c-${i}`])), "end"]);
  const agent = new Agent({
    providers: [provider],
    tools: [
      ...builtinTools({ allowPaths: [folder.at("outside")], bash: { sandbox: "off" } }),
      stranger("shell", "execute"),
      stranger("mcp_put", "other"),
      stranger("put", "edit"),
    ],
    projectDir: folder.path,
    rules,
    ...agentOptions,
  });
  t.after(() => agent.close());
  const requests: AskRequest[] = [];
  const ask: RunInput["ask"] = (request) => (requests.push(request), Promise.resolve("reject"));
  const outputs: string[] = [];
  const { ask: answer } = input ?? {};
  const asking = answer && { ask: (...args: Parameters<typeof ask>) => (void ask(...args), answer(...args)) };
  for await (const event of await agent.run({ message: "x", ...input, ...asking }))
    if (event.type === "tool_result") outputs.push(event.output);
  return { told: outputs, ran, asked: requests, folder };
}

/** `ran`, `denied`, `nobody`, `refused`, `unknown`, or the text of the result. */
function short(text: string): string {
  if (text.startsWith("This call is not allowed")) return "denied";
  if (text.includes("nobody could be asked")) return "nobody";
  if (text.startsWith("The user refused")) return "refused";
  if (text.includes("could not be found out")) return "unknown";
  return text.includes("leave") ? text : "ran";
}

describe("permission rules", () => {
  it("name a tool of a server by where it comes from, and nothing else by that", async (t) => {
    const served = (name: string, origin?: string) => ({
      ...defineTool({ name, description: name, kind: "other", run: () => "done" }),
      ...(origin !== undefined && { origin }),
    });
    const tools = [
      served("a__get_one", "mcp:a/get.one"),
      served("a__put", "mcp:a/put"),
      served("b__put", "mcp:b/put"),
      served("mcp_a_put"),
    ];
    const odd = served("a__x_y_0badf00d", "mcp:a/x/y löschen");
    const calls = tools.map(({ name }): Call => [name, {}]);
    const of = async (...rules: PermissionRule[]) => (await outcome(t, rules, calls, { tools })).told.map(short);
    const deny = (tool: string): PermissionRule => ({ tool, action: "deny" });
    assert.deepEqual(await of(deny("mcp:a/*")), ["denied", "denied", "ran", "ran"]);
    assert.deepEqual(await of(deny("mcp:?/put")), ["ran", "denied", "denied", "ran"]);
    assert.deepEqual(await of(deny("mcp:a/get.one")), ["denied", "ran", "ran", "ran"]);
    assert.deepEqual(await of(deny("mcp:*/*")), ["denied", "denied", "denied", "ran"]);
    assert.deepEqual(await of(deny("a__*")), ["denied", "denied", "ran", "ran"]);
    assert.deepEqual(await of({ ...deny("mcp:b/put"), action: "allow" }, deny("*")), [
      "denied",
      "denied",
      "ran",
      "denied",
    ]);
    const oddOutcome = await outcome(t, [deny("mcp:a/x/y löschen")], [[odd.name, {}]], { tools: [odd] });
    assert.deepEqual(oddOutcome.told.map(short), ["denied"]);
    // A rule with a path applies to a tool without paths only if the rule names this tool.
    assert.deepEqual(await of({ tool: "mcp:a/put", path: "x", action: "deny" }), ["ran", "nobody", "ran", "ran"]);
  });

  it("allow, ask and deny by the tool's name or a glob, the first that fits, with their reason", async (t) => {
    const rules: PermissionRule[] = [
      { tool: "read", action: "deny", reason: "it is secret" },
      { tool: "?rite", action: "deny" },
      { tool: "l*", action: "ask" },
      { tool: "*", action: "allow" },
    ];
    const calls: Call[] = [
      ["read", { path: "src/a.ts" }],
      ["write", { path: "x", content: "x" }],
      ["list", {}],
      ["glob", { pattern: "*" }],
    ];
    const { told: outputs } = await outcome(t, rules, calls);
    assert.equal(outputs[0], "This call is not allowed: it is secret");
    assert.equal(outputs[1], "This call is not allowed: a rule forbids it. Go on without it.");
    assert.deepEqual(outputs.map(short), ["denied", "denied", "nobody", "ran"]);
  });

  it("that deny what a call does hold, whatever a rule says of what it reads", async (t) => {
    const copying = defineTool({
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
    const of = async (...used: PermissionRule[]) =>
      (await outcome(t, used, [["copy", {}]], { tools: [copying], unattended: "allow" })).told.map(short);
    assert.deepEqual(await of(...rules), ["denied"]);
    assert.deepEqual(await of({ ...rules[1]!, action: "deny" }), ["denied"]);
    assert.deepEqual(await of(), ["ran"]);
  });

  it("let a person alone say yes to what a rule may forbid, whatever is allowed where nobody is there", async (t) => {
    const deny: PermissionRule = { tool: "bash", match: "touch *", action: "deny" };
    const calls: Call[] = [
      ["bash", { command: "touch made" }],
      ["bash", { command: "a=touch; $a made" }],
      ["bash", { command: "echo ok" }],
    ];
    const alone = await outcome(t, [deny], calls, { unattended: "allow" });
    assert.deepEqual(alone.told.map(short), ["denied", "nobody", "ran"]);
    await assert.rejects(alone.folder.read("made"));
    const askRule: PermissionRule = { tool: "bash", match: "touch *", action: "ask" };
    const askOutcome = await outcome(t, [askRule], calls.slice(0, 2), { unattended: "allow" });
    assert.deepEqual(askOutcome.told.map(short), ["ran", "ran"]);
  });

  it("judge a command with a workdir as they judge a change of folder before it", async (t) => {
    const words = ["touch", "made"];
    const calls: Call[] = [
      ["bash", { command: "touch made", workdir: "work" }],
      ["bash", { command: "touch made", cwd: "work" }],
      ["bash", { command: "touch made", workdir: "../elsewhere" }],
      ["bash", { command: "touch made", workdir: "it's" }],
      ["bash", { command: "touch made" }],
    ];
    const of = async (...rules: PermissionRule[]) => (await outcome(t, rules, calls)).told.map(short);
    const denyBash: PermissionRule = { tool: "bash", action: "deny" };
    const touch: PermissionRule = { tool: "bash", match: "touch *", action: "allow" };
    assert.deepEqual(await of(touch, denyBash), ["denied", "denied", "denied", "denied", "ran"]);
    const work: PermissionRule = { tool: "bash", match: "cd work", action: "allow" };
    assert.deepEqual(await of(touch, work, denyBash), ["ran", "ran", "denied", "denied", "ran"]);
    const up: PermissionRule = { tool: "bash", match: "cd ..*", action: "deny" };
    assert.deepEqual(await of(up), ["ran", "ran", "denied", "ran", "ran"]);
    const deny: PermissionRule = { tool: "bash", match: "touch *", action: "deny" };
    assert.deepEqual(await of(deny), ["denied", "denied", "denied", "denied", "denied"]);
    // The working folder is not a path of the call: a path rule allows no command.
    assert.deepEqual((await of({ tool: "bash", path: "work/**", action: "allow" }, denyBash))[0], "denied");
    const shell = [touch, denyBash].map((rule) => ({ ...rule, tool: "shell" }));
    const lists = [{ command: words }, { command: words, workdir: "work" }].map((args): Call => ["shell", args]);
    assert.deepEqual((await outcome(t, shell, lists)).told.map(short), ["ran", "denied"]);
  });

  it("ask whoever is there, with the reason; in mode auto a watcher too, and nobody where nobody is", async (t) => {
    const rules: PermissionRule[] = [{ tool: "read", action: "ask", reason: "think of it" }];
    const calls: Call[] = [["read", { path: "src/a.ts" }]];
    const asking = await outcome(t, rules, calls, { input: { ask: () => Promise.resolve("allow") } });
    assert.deepEqual(asking.told.map(short), ["ran"]);
    for (const [unattended, expected] of [
      ["reject", "nobody"],
      ["allow", "ran"],
    ] as const)
      assert.deepEqual((await outcome(t, rules, calls, { unattended })).told.map(short), [expected]);
    const [late] = (await outcome(t, rules, calls, { unattended: "wait", askTimeout: 0.05 })).told;
    assert.match(
      late!,
      /^This call needs leave, and nobody answered within 0.05 s, so it did not run\. It was not refused/,
    );
    const watched = new Agent({
      providers: [new ScriptedProvider([callTools(["look", {}, "c"]), "end"])],
      tools: [defineTool({ name: "look", description: "x", kind: "read", run: () => "done" })],
      rules: [{ tool: "look", action: "ask", reason: "think of it" }],
    });
    t.after(() => watched.close());
    const { id } = await watched.sessions.create();
    const over = new AbortController();
    const reasons: string[] = [];
    let signalWatching = (): void => undefined;
    const isThere = new Promise<void>((resolve) => (signalWatching = resolve));
    const watching = (async () => {
      for await (const event of watched.sessions.watch(id, { canAnswer: true, signal: over.signal })) {
        signalWatching();
        for (const ask of event.type === "state" ? event.state.asks : []) {
          reasons.push(ask.reason);
          await watched.asks.answer(ask.id, { choice: "allow" }).catch(() => undefined);
        }
      }
    })();
    await isThere;
    const run = await watched.run({ message: "x", sessionId: id });
    const outputs: string[] = [];
    for await (const event of run) if (event.type === "tool_result") outputs.push(event.output);
    over.abort();
    await watching;
    assert.deepEqual(outputs, ["done"]);
    assert.equal(reasons[0], "think of it");
  });

  it("that may be for a call ask why in words of their own", async (t) => {
    const rules: PermissionRule[] = [{ tool: "bash", match: "git push*", action: "deny" }];
    const commands = ["git $X", "case x in x) true;; esac", "git push"].map((command): Call => ["bash", { command }]);
    const { asked: requests, told: outputs } = await outcome(t, rules, commands, {
      input: { ask: () => Promise.resolve("reject") },
    });
    // Without its own rule each command would need permission anyway.
    assert.deepEqual(
      requests.map(({ reason }) => reason),
      ["a rule requires confirmation", "the rules cannot parse the command"],
    );
    assert.deepEqual(outputs.map(short), ["refused", "refused", "denied"]);
  });

  it("are named in the log, at debug, for the call that they decided, and nothing of what it was about", async (t) => {
    const lines: [message: string, fields: unknown][] = [];
    const note = (message: string, fields?: object) => void lines.push([message, fields]);
    const logger = { debug: note, info: note, warn: note, error: note };
    const rules: PermissionRule[] = [
      { tool: "grep", action: "deny" },
      { tool: "read", path: "src/**", action: "allow" },
    ];
    await outcome(t, rules, [["read", { path: "src/a.ts" }]], { logger });
    const [, judged] = lines.find(([message]) => message === "permission decided") ?? [];
    const { run: _, ...fields } = judged as Record<string, unknown>;
    assert.deepEqual(fields, { tool: "read", call: "c-0", by: "permissions.rules[1]", action: "allow" });
  });

  it("come behind plan mode, which no rule opens", async (t) => {
    const rules: PermissionRule[] = [{ tool: "*", action: "allow" }];
    const { told: outputs } = await outcome(t, rules, [["write", { path: "x", content: "x" }]], { mode: "plan" });
    assert.match(outputs[0]!, /plan mode/);
  });

  it("judge commands as their tool reads them, and other tools' by the same names", async (t) => {
    const rules: PermissionRule[] = [{ tool: "*", match: "git push*", action: "deny" }];
    const calls: Call[] = [
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
    const { told: outputs } = await outcome(t, rules, calls);
    assert.deepEqual(outputs.map(short), [
      "ran",
      "denied",
      "denied",
      "denied",
      "nobody",
      "denied",
      "denied",
      "nobody",
      "nobody",
      "denied",
      "ran",
      "ran",
    ]);
  });

  it("for commands are for what is typed into one that runs, and not for its end", async (t) => {
    const calls: Call[] = [
      ["bash", { command: "true" }],
      ["bash_input", { id: "bg-000000", text: "git push" }],
      ["bash_input", { id: "bg-000000", text: "y" }],
      ["bash_stop", { id: "bg-000000" }],
    ];
    const of = async (...rules: PermissionRule[]) =>
      (await outcome(t, rules, calls, { unattended: "allow" })).told.map(short);
    const push = { tool: "bash", match: "git push*" } as const;
    assert.deepEqual(await of({ ...push, action: "deny" }), ["ran", "nobody", "nobody", "ran"]);
    assert.deepEqual(await of({ ...push, tool: "*", action: "deny" }), ["ran", "nobody", "nobody", "ran"]);
    assert.deepEqual(await of({ tool: "bash", action: "deny" }), ["denied", "denied", "denied", "ran"]);
    assert.deepEqual(await of({ ...push, action: "allow" }), ["ran", "ran", "ran", "ran"]);
    assert.deepEqual(await of({ tool: "bash_input", action: "allow" }, { ...push, action: "deny" }), [
      ...["ran", "ran", "ran", "ran"],
    ]);
    // A rule that allows commands does not allow typed input.
    const allowed: PermissionRule[] = [
      { ...push, action: "allow" },
      { tool: "bash*", action: "deny" },
    ];
    assert.deepEqual(await of(...allowed), ["denied", "denied", "denied", "denied"]);
  });

  it("deny paths by every name that leads there", async (t) => {
    const links = { link: "infra", deep: "link", "file.txt": "infra/a.tf", "out.txt": "outside/o.txt" };
    const write = (path: string): Call => ["write", { path, content: "x" }];
    const calls = [
      write("infra/x"),
      write("./src/../infra/x"),
      write("link/x"),
      write("deep/new/x"),
      write("file.txt"),
      write("INFRA/x"),
      write("src/x"),
      ["delete", { path: "infra", recursive: true }],
      ["delete", { path: ".", recursive: true }],
      ["delete", { path: "src", recursive: true }],
    ] as const satisfies Call[];
    const { told: outputs, folder } = await outcome(t, [{ tool: "*", path: "infra/**", action: "deny" }], calls, {
      links,
    });
    assert.deepEqual(outputs.map(short), [
      "denied",
      "denied",
      "denied",
      "denied",
      "denied",
      "denied",
      "ran",
      "denied",
      // The rule covers everything below it.
      "nobody",
      "ran",
    ]);
    assert.equal(await folder.read("infra/a.tf"), "a");
    const absolute = (await outcome(t, [{ tool: "*", path: `${folder.path}/**`, action: "deny" }], [], {})).told;
    assert.deepEqual(absolute, []);
  });

  it("deny a name wherever it stands, and what lies in a folder of that name", async (t) => {
    const calls: Call[] = [
      ["read", { path: ".env" }],
      ["read", { path: "src/.env" }],
      ["read", { path: "outside/.env/a" }],
      ["read", { path: "src/a.ts" }],
      ["grep", { pattern: "a" }],
      ["bash", { command: "true" }],
    ];
    const { told: outputs } = await outcome(t, [{ tool: "*", path: ".env", action: "deny" }], calls);
    // A search can find the file. Path rules do not know what a command reads.
    assert.deepEqual(outputs.map(short), ["denied", "denied", "denied", "ran", "nobody", "ran"]);
  });

  it("ask about a listing of a folder in which a denied one may lie", async (t) => {
    const calls: Call[] = [
      ["list", { path: ".", depth: 5 }],
      ["list", {}],
      ["list", { path: "infra" }],
      ["list", { path: "src" }],
      ["read", { path: "src/a.ts" }],
    ];
    const { told: outputs } = await outcome(t, [{ tool: "*", path: "infra/**", action: "deny" }], calls);
    assert.deepEqual(outputs.map(short), ["nobody", "nobody", "denied", "ran", "ran"]);
  });

  it("allow paths by what really lies there alone, and all paths of a call", async (t) => {
    const links = { "src/out": "outside", "src/in": "work" };
    const write = (path: string): Call => ["write", { path, content: "x" }];
    const rules: PermissionRule[] = [
      { tool: "*", path: "src/**", action: "allow" },
      { tool: "*", action: "deny" },
    ];
    const calls = [
      write("src/x"),
      write("src/new/x"),
      write("src/out/x"),
      write("src/in/x"),
      write("SRC/x"),
      write("x"),
    ];
    const { told: outputs } = await outcome(
      t,
      rules,
      [...calls, ["put", {}], ["list", { path: "src" }], ["list", {}]],
      {
        links,
      },
    );
    assert.deepEqual(outputs.map(short), [
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

  it("of a tool that says no path ask where they speak of it by name, or where it works on files", async (t) => {
    const calls: Call[] = [
      ["put", {}],
      ["mcp_put", {}],
      ["shell", { command: "true" }],
    ];
    const any = await outcome(t, [{ tool: "*", path: "infra/**", action: "deny" }], calls);
    assert.deepEqual(any.told.map(short), ["nobody", "ran", "ran"]);
    const named = await outcome(t, [{ tool: "mcp_put", path: "infra/**", action: "deny" }], calls);
    assert.deepEqual(named.told.map(short), ["ran", "nobody", "ran"]);
  });

  it("hold where the project folder is itself a link", async (t) => {
    const folder = await tempDir(t, { "real/infra/a": "a" });
    await symlink(folder.at("real"), folder.at("project"));
    for (const path of ["infra/**", `${folder.at("project")}/infra/**`, `${folder.at("real")}/infra/**`]) {
      const rules: PermissionRule[] = [{ tool: "write", path, action: "deny" }];
      const { told: outputs } = await outcome(t, rules, [["write", { path: "infra/x", content: "x" }]], {
        projectDir: folder.at("project"),
      });
      assert.deepEqual(outputs.map(short), ["denied"], path);
    }
  });

  it("keep closed what cannot be found out", async (t) => {
    const rules: PermissionRule[] = [{ tool: "put", path: "a/**", action: "allow" }];
    const { told: outputs, ran } = await outcome(t, rules, [["put", { path: "a\0b" }]]);
    assert.deepEqual(outputs.map(short), ["unknown"]);
    assert.deepEqual(ran, []);
  });

  it("are refused where they say nothing that can be meant", () => {
    const make = (rules: unknown) => () => new Agent({ providers: [new ScriptedProvider([])], rules: rules as never });
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
      assert.throws(make([{ tool: "a", action: "ask" }, rule]), { code: "invalid_input", field }, JSON.stringify(rule));
    assert.throws(make({}), { field: "rules" });
  });

  it("of globs that are taken each can be read", () => {
    const pick = randomOf(5);
    let taken = 0;
    for (let i = 0; i < 20_000; i += 1) {
      const text = Array.from({ length: 1 + pick() * 7 }, () => "ab/*?[]{},\\!^-:"[Math.floor(pick() * 15)]).join("");
      const patterns = [
        ...(isPathGlob(text) ? [text] : []),
        ...(isCommandGlob(text) ? [text.replaceAll("/", "\0")] : []),
      ];
      for (const pattern of patterns) {
        // Braces are expanded first, and each alternative is tested separately.
        if (pattern.includes("{")) continue;
        taken += 1;
        const names = pattern.split("/").map(() => "x");
        assert.ok(isRead(pattern, names.length), `${JSON.stringify(pattern)} is taken, and means nothing`);
      }
    }
    assert.ok(taken > 1_000);
  });
});

/** Whether a path with this number of names matches the pattern. */
function isRead(pattern: string, names: number): boolean {
  const read = new PathPattern(pattern);
  const path = Array.from({ length: names }, (_, i) => {
    const part = pattern.split("/")[i]!;
    return part === "**" ? "x" : exampleOf(part);
  });
  return read.matches(path.map((name) => [...name]));
}

/** A name that matches one part of a pattern. */
function exampleOf(part: string): string {
  const token = /\[([!^]?)([^\]]+)\]|\\([^])|[*?]/g;
  return part.replace(token, (all, not: string | undefined, of: string | undefined, escaped: string | undefined) => {
    if (escaped !== undefined) return escaped;
    if (of !== undefined) return not === "" ? of.replace("\\", "")[0]! : "z";
    return all === "*" ? "" : "q";
  });
}

describe("what may stand as a rule's tool", () => {
  it("is a name, or a server's, or a glob for one of them", () => {
    for (const right of ["read", "*", "a__?", "mcp:a/b", "mcp:a-b_c/*.get", "mcp:*/*", "mcp:a/b/c", "mcp:a/löschen!"])
      assert.ok(isToolGlob(right), right);
    for (const wrong of [
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
      assert.ok(!isToolGlob(wrong), wrong);
  });
});
