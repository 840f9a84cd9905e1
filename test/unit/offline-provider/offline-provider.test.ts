import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { silentLogger } from "gantry";
import type { CompactionInput, ModelMessage } from "gantry/plugin";
import descriptor, { OfflineProvider } from "gantry/adapters/offline-provider";
import { Summary } from "../../../src/compaction/summary.js";
import { collectChunks, createMessage, createProvider, createRequest, getText } from "./harness.js";

const TITLE_SYSTEM =
  "You name conversations. Answer with a title for the conversation that begins with the user's message.";
const neverAbortedSignal = new AbortController().signal;

describe("OfflineProvider", () => {
  it("offers one model with the price 0", async () => {
    const [model, ...otherModels] = await createProvider().models(neverAbortedSignal);
    assert.equal(createProvider().name, "offline");
    assert.equal(model?.id, "guide");
    assert.deepEqual(model?.prices, { input: 0, output: 0 });
    assert.deepEqual(otherModels, []);
  });

  it("ends a stream with one finish, with token counts and cost 0", async () => {
    const chunks = await collectChunks(
      createProvider().stream(createRequest([createMessage("user", "List the files")]), neverAbortedSignal),
    );
    const finishes = chunks.filter(({ type }) => type === "finish");
    assert.equal(finishes.length, 1);
    const finishChunk = chunks.at(-1);
    assert.ok(finishChunk?.type === "finish");
    assert.equal(finishChunk.reason, "tool_calls");
    assert.ok(finishChunk.usage.inputTokens > 0 && finishChunk.usage.outputTokens > 0);
    assert.equal(finishChunk.usage.cost, 0);
    const stopChunks = await collectChunks(
      createProvider().stream(createRequest([createMessage("user", "Hello")]), neverAbortedSignal),
    );
    const stopChunk = stopChunks.at(-1);
    assert.ok(stopChunk?.type === "finish");
    assert.equal(stopChunk.reason, "stop");
  });

  it("streams pieces that never split a surrogate pair", async () => {
    const name = `${"😀".repeat(200)}.ts`;
    const chunks = await collectChunks(
      createProvider().stream(createRequest([createMessage("user", `Read \`${name}\``)]), neverAbortedSignal),
    );
    for (const chunk of chunks) if (chunk.type === "text") assert.ok(chunk.text.isWellFormed(), chunk.text);
  });

  it("rejects with the signal's reason, during a stream and before it", async () => {
    const controller = new AbortController();
    const reason = new Error("enough");
    const stream = createProvider().stream(createRequest([createMessage("user", "Hello")]), controller.signal);
    await assert.rejects(
      (async () => {
        for await (const chunk of stream) if (chunk.type === "text") controller.abort(reason);
      })(),
      (error) => error === reason,
    );
    await assert.rejects(
      collectChunks(createProvider().stream(createRequest([]), controller.signal)),
      (error) => error === reason,
    );
  });

  const titles: [prompt: string, expectedTitle: string][] = [
    ["Which files are here, and what does package.json say the main entry is?", "Which files are here"],
    ["please fix the login form", "Please fix the login form"],
    [
      "Can you explain how the session recorder batches its tokens before they are written?",
      "Can you explain how the session recorder batches",
    ],
    ["hi", "Hi"],
    ["日本語のタイトルを作ってください。", "日本語のタイトルを作ってください。"],
  ];
  for (const [prompt, expectedTitle] of titles) {
    it(`makes a title of "${prompt}"`, async () => {
      const chunks = await collectChunks(
        createProvider().stream(
          createRequest([createMessage("user", prompt)], { system: TITLE_SYSTEM, tools: [], temperature: 0.3 }),
          neverAbortedSignal,
        ),
      );
      const text = getText(chunks);
      assert.equal(text, expectedTitle);
      assert.ok(text.length <= 50);
      assert.ok(chunks.every(({ type }) => type !== "tool_call"));
    });
  }

  it("summarizes by quoting the prompts, including prompts in an earlier summary", async () => {
    const ask: CompactionInput["ask"] = async ({ system, message: transcript }) =>
      getText(
        await collectChunks(
          createProvider().stream(
            createRequest([createMessage("user", transcript)], { system, tools: [] }),
            neverAbortedSignal,
          ),
        ),
      );
    const summarize = async (messages: readonly ModelMessage[]): Promise<ModelMessage[]> => {
      const storedMessages = messages.map((entry, seq) => {
        return { ...entry, id: `m${seq}`, sessionId: "s", seq, createdAt: "2026-01-01T00:00:00.000Z", finished: true };
      });
      const estimate = (): number => 0;
      return await new Summary().compact(
        { messages: storedMessages, budget: 50_000, keepMessages: 2, estimate, ask },
        neverAbortedSignal,
      );
    };
    const createTurn = (prompt: string): ModelMessage[] => [
      createMessage("user", prompt),
      createMessage("assistant", "Done"),
    ];
    const firstSummary = await summarize([
      ...createTurn("Begin"),
      ...createTurn("First do this"),
      ...createTurn("Then that"),
      ...createTurn("Now"),
    ]);
    const secondSummary = await summarize([...firstSummary, ...createTurn("And more"), ...createTurn("Enough")]);
    const summaryText = secondSummary
      .map(({ parts }) => parts.map((part) => (part.type === "text" ? part.text : "")).join(""))
      .join("\n");
    assert.match(summaryText, /^- user: First do this\n- user: Then that\n(- .*\n)*- user: And more$/m);
    assert.doesNotMatch(summaryText, /No language model/);
  });

  it("names a local model server that is running, with its config entry and the hints", async () => {
    const server = createServer((_request, response) => {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ data: [{ id: "nomic-embed-text" }, { id: "llama3.2:3b" }] }));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const ollamaServer = { name: "Ollama", provider: "ollama", url: `http://127.0.0.1:${port}/v1/models` };
    try {
      const model = new OfflineProvider({ servers: [ollamaServer], hints: ["a hint"] });
      const getAnswer = async (): Promise<string> =>
        getText(await collectChunks(model.stream(createRequest([createMessage("user", "Hello")]), neverAbortedSignal)));
      assert.match(await getAnswer(), /Ollama is running on this machine with the model `llama3\.2:3b`/);
      assert.match(await getAnswer(), /"providers":\[\{"provider":"ollama"\}\]/);
      assert.match(await getAnswer(), /a hint/);
      await model.close();
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
    const unreachableProvider = new OfflineProvider({ servers: [ollamaServer] });
    assert.equal((await unreachableProvider.models(neverAbortedSignal)).length, 1);
    await unreachableProvider.close();
    await unreachableProvider.close();
  });
});

describe("options of offline-provider", () => {
  const context = { location: "config.json: providers[0]", configDir: "/c", home: "/h/.gantry", projectDir: "/p" };

  it("have defaults", () => {
    assert.deepEqual(descriptor.parse({ provider: "offline" }, context), {
      provider: "offline",
      name: undefined,
      driver: undefined,
      hints: [],
      detect: true,
    });
  });

  it("reject a wrong value with its key and the expected value", () => {
    assert.throws(() => descriptor.parse({ hints: "x" }, context), {
      code: "config",
      message: 'config.json: providers[0].hints: expected a list of strings, got "x"',
    });
    assert.throws(() => descriptor.parse({ detect: 1 }, context), {
      message: /detect: expected true or false, got 1$/,
    });
    assert.throws(() => descriptor.parse({ hint: [] }, context), {
      message: /providers\[0\]\.hint: unknown key/,
    });
  });

  it("put the config path in gantry's home and the hints into an answer", async () => {
    const createContext = { ...context, logger: silentLogger, allowPaths: [], deniedPaths: [], http: undefined };
    const offlineProvider = await descriptor.create!(
      descriptor.parse({ detect: false, hints: ["a hint"] }, context),
      createContext,
    );
    assert.ok(offlineProvider instanceof OfflineProvider);
    const answerText = (
      await collectChunks(offlineProvider.stream(createRequest([createMessage("user", "Hello")]), neverAbortedSignal))
    )
      .map((chunk) => (chunk.type === "text" ? chunk.text : ""))
      .join("");
    assert.match(answerText, /\/h\/\.gantry\/config\.json/);
    assert.match(answerText, /a hint/);
    await offlineProvider.close();
  });
});
