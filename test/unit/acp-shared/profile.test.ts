import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent, type Logger } from "gantry";
import { ScriptedProvider } from "gantry/testing";
import { ACP_DEFAULTS, AcpServer, type ProfileChoice } from "../../../adapters/acp-shared/index.js";
import { InProcessAcp, createScriptedAgent } from "../../helpers/acp-agent.js";
import { AcpPeer, type Json } from "../../helpers/acp-peer.js";
import { tempDir } from "../../helpers/temp-dir.js";

const FS_CAPABILITIES = { fs: { readTextFile: true, writeTextFile: true } };
const TWO_BLOCKS = [
  { type: "text", text: "first" },
  { type: "text", text: "second" },
];

/** The modes in the responses that open a session, in profiles that show modes. */
const MODES = {
  modes: {
    currentModeId: "auto",
    availableModes: [
      { id: "auto", name: "Auto", description: "Tools run as the server's configuration allows" },
      { id: "ask", name: "Ask", description: "Tools that change something ask for your permission" },
      { id: "plan", name: "Plan", description: "Only tools that change nothing run" },
    ],
  },
};

describe("acp.profile", () => {
  /** `modelText`: the text of a prompt with two text blocks that the model receives. */
  const cases: [profile: ProfileChoice, clientParams: Json, loadResult: Json, modelText: string][] = [
    ["auto", {}, null, "first"],
    ["auto", { clientInfo: { name: "mine", version: "1" } }, null, "first"],
    ["auto", { clientInfo: { name: "", version: "1" } }, null, "first"],
    ["auto", { clientInfo: { name: "zed-fork", version: "1" } }, null, "first"],
    ["auto", { clientCapabilities: {} }, null, "first"],
    ["auto", { clientCapabilities: null, clientInfo: null }, null, "first"],
    ["auto", { clientCapabilities: { fs: { readTextFile: false }, terminal: false } }, null, "first"],
    ["auto", { clientCapabilities: { session: { compaction: {} }, unknownField: true } }, null, "first"],
    ["auto", { clientCapabilities: { fs: { readTextFile: "true" }, terminal: 1 } }, null, "first"],
    ["auto", { clientCapabilities: { fs: { writeTextFile: true } } }, null, "first\nsecond"],
    ["auto", { clientCapabilities: { fs: { _meta: { unknownField: true } } } }, null, "first\nsecond"],
    ["auto", { clientCapabilities: { terminal: true } }, null, "first\nsecond"],
    ...ACP_DEFAULTS.officialClients.map((name): [ProfileChoice, Json, Json, string] => [
      "auto",
      { clientInfo: { name: name.replace("*", "PyCharm"), version: "1" } },
      MODES,
      "first\nsecond",
    ]),
    ["spec", { clientInfo: { name: "zed", version: "1" }, clientCapabilities: FS_CAPABILITIES }, null, "first"],
    ["official", {}, MODES, "first\nsecond"],
  ];
  for (const [profile, params, loadResult, modelText] of cases) {
    it(`${profile} with ${JSON.stringify(params)} reads ${JSON.stringify(modelText)}; load returns ${loadResult === null ? "null" : "modes"}`, async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent } = createScriptedAgent(t);
      const peer = new InProcessAcp(t, agent, { profile }).connect();
      await peer.initialize(params);
      const sessionId = await peer.newSession(cwd);
      await peer.request("session/prompt", { sessionId, prompt: TWO_BLOCKS });
      assert.deepEqual(await peer.request("session/load", { sessionId, cwd }), loadResult);
      const [userMessage] = await agent.sessions.messages(sessionId, { limit: 1 });
      assert.deepEqual(userMessage?.parts, [{ type: "text", text: modelText }]);
    });
  }

  it("warns once per session about omitted content blocks, with their types and the setting to read them", async (t) => {
    const { path: cwd } = await tempDir(t);
    const warnings: [string, Json][] = [];
    const ignoreEntry = () => undefined;
    const logger: Logger = {
      debug: ignoreEntry,
      info: ignoreEntry,
      error: ignoreEntry,
      warn: (...entry) => void warnings.push(entry as never),
    };
    const agent = new Agent({ providers: [new ScriptedProvider()] });
    t.after(() => agent.close());
    const server = new AcpServer(agent, ACP_DEFAULTS, logger);
    t.after(() => server.close());
    const peer = new AcpPeer((text) => connection.receive(text));
    const connection = server.connect({
      send: (message) => peer.receiveMessage(message),
      waitUntilReady: () => undefined,
      waitForReader: () => undefined,
      isReachable: true,
    });
    await peer.initialize({ clientInfo: { name: "mine", version: "1" } });
    const [firstSession, secondSession] = [await peer.newSession(cwd), await peer.newSession(cwd)];
    for (const sessionId of [firstSession, firstSession, secondSession])
      await peer.request("session/prompt", { sessionId, prompt: TWO_BLOCKS });
    await peer.prompt(firstSession, "alone");
    assert.equal(warnings.length, 2);
    assert.match(
      warnings[0]?.[0] ?? "",
      /only the first text is read\. Set acp\.profile or --acp-profile to official to read all blocks/,
    );
    assert.deepEqual(warnings[0]?.[1].types, ["text"]);
    assert.equal(warnings[0]?.[1].client, "mine");
  });
});

describe("prompts without a text block", () => {
  const imageBlock = { type: "image", data: "aGk=", mimeType: "image/png" };
  const fileBlock = {
    type: "resource",
    resource: { uri: "file:///x/a.bin", blob: "aGk=", mimeType: "application/zip" },
  };
  const noteBlock = { type: "resource", resource: { uri: "file:///x/a.md", text: "a note" } };
  const linkBlock = { type: "resource_link", uri: "file:///x/a.md", name: "a.md" };
  const audioBlock = { type: "audio", data: "aGk=", mimeType: "audio/wav" };
  const cases: [name: string, prompt: Json[], parts: Json[]][] = [
    ["an image", [imageBlock], [{ type: "image", mediaType: "image/png", data: "aGk=" }]],
    ["a file", [fileBlock], [{ type: "file", mediaType: "application/zip", filename: "a.bin", data: "aGk=" }]],
    ["a resource", [noteBlock], [{ type: "text", text: '<context ref="file:///x/a.md">\na note\n</context>' }]],
    ["a link", [linkBlock], [{ type: "text", text: "[@a.md](file:///x/a.md)" }]],
    [
      "an image and an empty text",
      [{ type: "text", text: "" }, imageBlock],
      [{ type: "image", mediaType: "image/png", data: "aGk=" }],
    ],
  ];
  for (const [name, prompt, parts] of cases) {
    it(`${name} is accepted in profile official`, async (t) => {
      const { path: cwd } = await tempDir(t);
      const { agent, provider } = createScriptedAgent(t, ["seen"]);
      const peer = new InProcessAcp(t, agent, { profile: "official" }).connect();
      await peer.initialize();
      const sessionId = await peer.newSession(cwd);
      assert.deepEqual(await peer.request("session/prompt", { sessionId, prompt }), { stopReason: "end_turn" });
      assert.equal(provider.requests.length, 1);
      const [userMessage] = await agent.sessions.messages(sessionId, { limit: 1 });
      assert.deepEqual(userMessage?.parts, parts);
      peer.assertNoValidationErrors();
    });
  }

  it("are rejected with -32602 if they have no readable block, and in profile spec if they have no text", async (t) => {
    const { path: cwd } = await tempDir(t);
    const { agent } = createScriptedAgent(t);
    for (const [profile, prompt] of [
      ["official", []],
      ["official", [audioBlock]],
      ["official", [{ type: "text", text: " " }]],
      ["spec", [imageBlock]],
      ["auto", [linkBlock]],
    ] as const) {
      const peer = new InProcessAcp(t, agent, { profile }).connect();
      await peer.initialize();
      const sessionId = await peer.newSession(cwd);
      const { error } = await peer.call("session/prompt", { sessionId, prompt });
      assert.equal(error?.code, -32602, JSON.stringify(prompt));
      assert.match(error?.data.field, /^prompt/);
    }
  });
});
