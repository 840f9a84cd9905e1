import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent } from "gantry";
import type { JsonSchema } from "gantry/plugin";
import { AiSdkProvider, type AiSdkProviderOptions } from "gantry/adapters/language-models";
import { fail, say, startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { noop } from "../../helpers/noop-tool.js";

const SCHEMA: JsonSchema = {
  type: "object",
  properties: { name: { type: "string" } },
  required: ["name"],
  additionalProperties: false,
};
const ANSWER = '{"name":"Ada"}';

interface Case {
  options: Omit<AiSdkProviderOptions, "name">;
  /** Path at the fake server. */
  path?: string;
  model: string;
  /** The part of the request body that holds the schema. Undefined: the body has none. */
  schemaIn: (body: Record<string, never>) => unknown;
  withTools: boolean;
}

const CASES: Readonly<Record<string, Case>> = {
  "OpenAI's chat completions": {
    options: { preset: "openai", driver: "openai" },
    model: "gpt-4o",
    schemaIn: ({ response_format: format }) => format,
    withTools: true,
  },
  "chat completions of other providers": {
    options: { preset: "groq" },
    model: "m1",
    schemaIn: ({ response_format: format }) => format,
    withTools: false,
  },
  "OpenAI's responses": {
    options: { preset: "openai", driver: "openai-responses" },
    model: "gpt-5",
    schemaIn: ({ text }: { text?: { format?: unknown } }) => text?.format,
    withTools: true,
  },
  "Anthropic's messages": {
    options: { preset: "anthropic" },
    model: "claude-sonnet-4-5",
    schemaIn: ({ output_config: config }: { output_config?: { format?: unknown } }) => config?.format,
    withTools: true,
  },
  "Anthropic's messages with an older model": {
    options: { preset: "anthropic" },
    model: "claude-3-5-haiku-latest",
    schemaIn: ({ output_config: config, tools }: { output_config?: unknown; tools?: { name: string }[] }) =>
      config ?? tools?.find(({ name }) => name === "json"),
    withTools: false,
  },
  Gemini: {
    options: { preset: "google" },
    path: "/v1beta",
    model: "gemini-2.5-pro",
    schemaIn: ({ generationConfig: config }: { generationConfig?: { responseSchema?: unknown } }) =>
      config?.responseSchema,
    withTools: false,
  },
};

function agentOf(t: TestContext, model: FakeModelServer, { options, path = "/v1", model: id }: Case, tools: boolean) {
  const provider = new AiSdkProvider({
    ...options,
    name: "lab",
    apiKey: "k",
    baseUrl: `${model.url}${path}`,
    models: [{ id, contextWindow: 100_000 }],
  });
  const agent = new Agent({ providers: [provider], tools: tools ? [noop] : [] });
  t.after(() => agent.close());
  return agent;
}

describe("the structured output mode of a provider", () => {
  for (const [name, testCase] of Object.entries(CASES))
    for (const tools of [false, true])
      it(`is used if ${name} supports it ${tools ? "with tools" : "without tools"}`, async (t) => {
        const model = await startFakeModelServer({
          fallback: say(ANSWER),
          models: [testCase.model],
          dialect: { body: ["response_format", "output_config", "text"] },
        });
        t.after(() => model.close());
        const agent = agentOf(t, model, testCase, tools);
        const run = await agent.run({ message: "x", outputSchema: SCHEMA });
        assert.deepEqual((await run.result).structured, { name: "Ada" });
        const body = model.requests[0]?.body as Record<string, never>;
        const sentSchema = testCase.schemaIn(body);
        const expected = testCase.withTools || (!tools && name !== "Anthropic's messages with an older model");
        assert.equal(sentSchema !== undefined, expected, JSON.stringify(sentSchema));
        if (expected) assert.match(JSON.stringify(sentSchema), /"name":\{"type":"(string|STRING)"\}/);
        assert.deepEqual(model.violations, []);
        // Other calls send no schema: titles are plain text.
        const plain = await agent.run({ message: "y", sessionId: run.sessionId });
        await plain.result;
        for (const { body } of model.requests.slice(1))
          assert.equal(testCase.schemaIn(body as Record<string, never>), undefined);
      });

  it("is not requested again after the provider rejected it", async (t) => {
    const model = await startFakeModelServer({
      fallback: ({ body }) =>
        (body as { response_format?: unknown }).response_format === undefined
          ? say(ANSWER)
          : fail(400, "This response_format type is unavailable now"),
      dialect: { body: ["response_format"] },
    });
    t.after(() => model.close());
    const agent = agentOf(t, model, CASES["chat completions of other providers"]!, false);
    for (let i = 0; i < 2; i += 1) {
      const run = await agent.run({ message: "x", outputSchema: SCHEMA, model: "m1", provider: "lab" });
      assert.deepEqual((await run.result).structured, { name: "Ada" });
    }
    const requestsWithFormat = model.requests.filter(
      ({ body }) => (body as { response_format?: unknown }).response_format,
    );
    assert.equal(requestsWithFormat.length, 1);
  });
});
