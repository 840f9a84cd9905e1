// Sessions with models that require their earlier reasoning, on a server that enforces the rules of the providers.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Agent } from "gantry";
import { AiSdkProvider, type AiSdkProviderOptions } from "gantry/adapters/language-models";
import {
  errorStep,
  startFakeModelServer,
  textStep,
  type FakeRequest,
  type FakeStep,
} from "../../helpers/fake-model-server.js";
import { noopTool } from "../../helpers/noop-tool.js";

type Maker = "deepseek" | "kimi" | "minimax" | "mimo";

interface SentAnswer {
  model: string;
  /** `""`: the answer had no reasoning. */
  thought: string;
}

/** An assistant message of a request, in the form of either wire. */
interface AssistantMessage {
  callId: string | undefined;
  text: string;
  /** `reasoning_content`, or the text of the thinking blocks. Undefined: neither is present. */
  reasoning: string | undefined;
}

const SWITCHED_MODEL = "other-model";
const FOREIGN_THOUGHT = /thought \d+ of/;

function readAssistantMessages({ body, wire }: FakeRequest): AssistantMessage[] {
  // Message contents differ by the wire.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  const messages = (body.messages as Record<string, any>[]).filter(({ role }) => role === "assistant");
  if (wire === "openai")
    return messages.map(({ content, reasoning_content: reasoning, tool_calls: calls }) => {
      return { callId: calls?.[0].id, text: content ?? "", reasoning };
    });
  return messages.map(({ content }) => {
    const find = (type: string) => content.find((block: { type: string }) => block.type === type);
    return { callId: find("tool_use")?.id, text: find("text")?.text ?? "", reasoning: find("thinking")?.thinking };
  });
}

const MISSING_ERRORS: Readonly<Record<Exclude<Maker, "minimax">, FakeStep>> = {
  deepseek: errorStep(400, "The `reasoning_content` in the thinking mode must be passed back to the API."),
  kimi: errorStep(
    400,
    "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
  ),
  // Form of https://github.com/zed-industries/zed/issues/56600
  mimo: {
    status: 400,
    body: {
      error: {
        ...{ code: "400", message: "Param Incorrect", type: "" },
        param: "The reasoning_content in the thinking mode must be passed back to the API.",
      },
    },
  },
};

/** A server with a thinking model and another model. Each prompt gets two calls, the second without reasoning. */
async function startStrictServer(maker: Maker) {
  const answersByCallId = new Map<string, SentAnswer>();
  const rejections: string[] = [];
  const foreignThoughts: string[] = [];
  const missingThoughts: string[] = [];
  let answerCount = 0;
  const answer = (request: FakeRequest): FakeStep => {
    const { model } = request;
    const isThinkingModel = model !== SWITCHED_MODEL;
    const messages = readAssistantMessages(request);
    for (const { callId, text, reasoning } of messages) {
      const sentAnswer = callId === undefined ? undefined : answersByCallId.get(callId);
      const isOwn = sentAnswer?.model === model;
      const echo = `${reasoning ?? ""}${text}`;
      if (sentAnswer && !isOwn && FOREIGN_THOUGHT.test(echo)) foreignThoughts.push(`${model}: ${echo}`);
      if (sentAnswer && isOwn && isThinkingModel && !echo.includes(sentAnswer.thought)) missingThoughts.push(echo);
      const isMissing = reasoning === undefined || (maker === "kimi" && reasoning === "");
      if (isThinkingModel && maker !== "minimax" && callId !== undefined && isMissing) {
        rejections.push(model);
        const isAnthropic = request.wire === "anthropic";
        return isAnthropic
          ? errorStep(400, "The `content[].thinking` in the thinking mode must be passed back to the API.")
          : MISSING_ERRORS[maker];
      }
    }
    const lastMessages = request.body.messages as { role: string; content: unknown }[];
    const lastRequestIndex = lastMessages.findLastIndex(
      ({ role, content }) => role === "user" && !JSON.stringify(content).includes("tool_result"),
    );
    const turn = lastMessages.slice(lastRequestIndex).filter(({ role }) => role === "assistant").length;
    answerCount += 1;
    const thought = turn === 1 ? "" : `thought ${answerCount} of ${model}`;
    const thoughtPieces =
      thought === ""
        ? []
        : maker === "minimax" && isThinkingModel
          ? [{ text: `<think>\n${thought}\n</think>\n\n` }]
          : [{ reasoning: thought }];
    if (turn === 2) return { say: [...thoughtPieces, { text: "Done." }] };
    const id = `call_${answerCount}`;
    answersByCallId.set(id, { model, thought });
    return { say: [...thoughtPieces, { call: { id, name: "noop", arguments: { n: answerCount } } }] };
  };
  const server = await startFakeModelServer({
    fallback: answer,
    toolFreeAnswer: textStep("A title"),
    dialect: {
      message: ["reasoning_content"],
      body: ["thinking", "usage", "reasoning"],
      acceptsUnsignedThinking: true,
    },
  });
  return { server, rejections, foreignThoughts, missingThoughts };
}

/** Runs four prompts in one session, alternately with another model and with the thinking model. */
async function runSession(maker: Maker, model: string, options: Partial<AiSdkProviderOptions>) {
  const { server, ...findings } = await startStrictServer(maker);
  const provider = new AiSdkProvider({
    ...{ name: "lab", baseUrl: server.baseUrl, apiKey: "key" },
    models: [{ id: SWITCHED_MODEL }, { id: model, reasoning: true }],
    ...options,
  });
  const agent = new Agent({ providers: [provider], tools: [noopTool] });
  try {
    let sessionId: string | undefined;
    const outputs: string[] = [];
    for (const runModel of [SWITCHED_MODEL, model, SWITCHED_MODEL, model]) {
      const run = await agent.run({
        message: "Go.",
        provider: "lab",
        model: runModel,
        ...(sessionId && { sessionId }),
      });
      sessionId = run.sessionId;
      outputs.push((await run.result).output);
    }
    assert.deepEqual(server.violations, []);
    return { outputs, ...findings };
  } finally {
    await agent.close();
    await server.close();
  }
}

const SUCCESS = { outputs: Array.from({ length: 4 }, () => "Done."), foreignThoughts: [], missingThoughts: [] };

describe("a session that changes to a model with rules for its reasoning and back", { concurrency: 2 }, () => {
  const cases: readonly (readonly [Maker, path: string, model: string, Partial<AiSdkProviderOptions>])[] = [
    ["deepseek", "the preset", "deepseek-v4-pro", { preset: "deepseek" }],
    ["deepseek", "litellm", "deepseek/deepseek-v4-pro", { preset: "litellm" }],
    ["deepseek", "fireworks", "accounts/fireworks/models/deepseek-v4-pro", { preset: "fireworks" }],
    ["deepseek", "openrouter", "deepseek/deepseek-v4-flash", { preset: "openrouter" }],
    ["deepseek", "a custom base URL", "DeepSeek-V4-Pro", {}],
    ["deepseek", "the wire anthropic", "deepseek-v4-pro", { driver: "anthropic" }],
    ["kimi", "the preset", "kimi-k2.6", { preset: "moonshot" }],
    ["kimi", "litellm", "moonshot/kimi-k2.6", { preset: "litellm" }],
    ["kimi", "fireworks", "accounts/fireworks/models/kimi-k2p6", { preset: "fireworks" }],
    ["kimi", "a custom base URL", "Kimi-K2.6", {}],
    ["kimi", "the wire anthropic", "kimi-k2.6", { driver: "anthropic" }],
    ["mimo", "a custom base URL", "xiaomi/mimo-v2.5-pro", {}],
    ["minimax", "the preset", "MiniMax-M2.5", { preset: "minimax" }],
    ["minimax", "litellm", "minimax/MiniMax-M2", { preset: "litellm" }],
    ["minimax", "fireworks", "accounts/fireworks/models/minimax-m2p1", { preset: "fireworks" }],
    ["minimax", "a custom base URL", "MiniMax-M3", {}],
  ];
  for (const [maker, path, model, options] of cases)
    it(`${maker} through ${path}: no request is rejected`, async () => {
      assert.deepEqual(await runSession(maker, model, options), { ...SUCCESS, rejections: [] });
    });

  for (const [maker, driver] of [
    ["deepseek", "openai"],
    ["deepseek", "anthropic"],
    ["kimi", "openai"],
    ["mimo", "openai"],
  ] as const)
    it(`${maker} under an unknown name on the wire ${driver}: the first rejection is the last`, async () => {
      const { rejections, missingThoughts, ...result } = await runSession(maker, "team-model", { driver });
      assert.deepEqual({ ...result, missingThoughts: [] }, SUCCESS);
      assert.deepEqual(rejections, ["team-model"]);
      // On the wire `anthropic`, the first answers without a signature were stored before the need was known.
      assert.ok(driver === "anthropic" || missingThoughts.length === 0, String(missingThoughts));
    });
});
