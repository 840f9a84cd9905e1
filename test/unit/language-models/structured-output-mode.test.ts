import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Agent } from "gantry";
import type { JsonSchema } from "gantry/plugin";
import { AiSdkProvider, type AiSdkProviderOptions } from "gantry/adapters/language-models";
import { errorStep, textStep, startFakeModelServer, type FakeModelServer } from "../../helpers/fake-model-server.js";
import { noopTool } from "../../helpers/noop-tool.js";

const SCHEMA: JsonSchema = {
  type: "object",
  properties: { name: { type: "string" } },
  required: ["name"],
  additionalProperties: false,
};
const ANSWER = '{"name":"Ada"}';

interface Case {
  options: Omit<AiSdkProviderOptions, "name">;
  /** Path at the fake server. Default `/v1`. */
  path?: string;
  model: string;
  /** Returns the part of the request body that holds the schema, or undefined if the body has none. */
  readSchema: (body: Record<string, never>) => unknown;
  /** Whether the provider accepts a schema together with tools. */
  supportsTools: boolean;
}

const CASES: Readonly<Record<string, Case>> = {
  "OpenAI's chat completions": {
    options: { preset: "openai", driver: "openai" },
    model: "gpt-4o",
    readSchema: ({ response_format: format }) => format,
    supportsTools: true,
  },
  "chat completions of other providers": {
    options: { preset: "groq" },
    model: "m1",
    readSchema: ({ response_format: format }) => format,
    supportsTools: false,
  },
  "OpenAI's responses": {
    options: { preset: "openai", driver: "openai-responses" },
    model: "gpt-5",
    readSchema: ({ text }: { text?: { format?: unknown } }) => text?.format,
    supportsTools: true,
  },
  "Anthropic's messages": {
    options: { preset: "anthropic" },
    model: "claude-sonnet-4-5",
    readSchema: ({ output_config: config }: { output_config?: { format?: unknown } }) => config?.format,
    supportsTools: true,
  },
  "Anthropic's messages with an older model": {
    options: { preset: "anthropic" },
    model: "claude-3-5-haiku-latest",
    readSchema: ({ output_config: config, tools }: { output_config?: unknown; tools?: { name: string }[] }) =>
      config ?? tools?.find(({ name }) => name === "json"),
    supportsTools: false,
  },
  Gemini: {
    options: { preset: "google" },
    path: "/v1beta",
    model: "gemini-2.5-pro",
    readSchema: ({ generationConfig: config }: { generationConfig?: { responseSchema?: unknown } }) =>
      config?.responseSchema,
    supportsTools: false,
  },
};

function createAgent(
  t: TestContext,
  server: FakeModelServer,
  { options, path = "/v1", model: id }: Case,
  hasTools: boolean,
) {
  const provider = new AiSdkProvider({
    ...options,
    name: "lab",
    apiKey: "k",
    baseUrl: `${server.url}${path}`,
    models: [{ id, contextWindow: 100_000 }],
  });
  const agent = new Agent({ providers: [provider], tools: hasTools ? [noopTool] : [] });
  t.after(() => agent.close());
  return agent;
}

describe("the structured output mode of a provider", () => {
  for (const [caseName, testCase] of Object.entries(CASES))
    for (const hasTools of [false, true])
      it(`is used if ${caseName} supports it ${hasTools ? "with tools" : "without tools"}`, async (t) => {
        const server = await startFakeModelServer({
          fallback: textStep(ANSWER),
          models: [testCase.model],
          dialect: { body: ["response_format", "output_config", "text"] },
        });
        t.after(() => server.close());
        const agent = createAgent(t, server, testCase, hasTools);
        const run = await agent.run({ message: "x", outputSchema: SCHEMA });
        assert.deepEqual((await run.result).structured, { name: "Ada" });
        const body = server.requests[0]?.body as Record<string, never>;
        const sentSchema = testCase.readSchema(body);
        const isSchemaExpected =
          testCase.supportsTools || (!hasTools && caseName !== "Anthropic's messages with an older model");
        assert.equal(sentSchema !== undefined, isSchemaExpected, JSON.stringify(sentSchema));
        if (isSchemaExpected) assert.match(JSON.stringify(sentSchema), /"name":\{"type":"(string|STRING)"\}/);
        assert.deepEqual(server.violations, []);
        // Other calls send no schema: titles are plain text.
        const secondRun = await agent.run({ message: "y", sessionId: run.sessionId });
        await secondRun.result;
        for (const { body } of server.requests.slice(1))
          assert.equal(testCase.readSchema(body as Record<string, never>), undefined);
      });

  it("is not requested again after the provider rejected it", async (t) => {
    const server = await startFakeModelServer({
      fallback: ({ body }) =>
        (body as { response_format?: unknown }).response_format === undefined
          ? textStep(ANSWER)
          : errorStep(400, "This response_format type is unavailable now"),
      dialect: { body: ["response_format"] },
    });
    t.after(() => server.close());
    const agent = createAgent(t, server, CASES["chat completions of other providers"]!, false);
    for (let i = 0; i < 2; i += 1) {
      const run = await agent.run({ message: "x", outputSchema: SCHEMA, model: "m1", provider: "lab" });
      assert.deepEqual((await run.result).structured, { name: "Ada" });
    }
    const requestsWithFormat = server.requests.filter(
      ({ body }) => (body as { response_format?: unknown }).response_format,
    );
    assert.equal(requestsWithFormat.length, 1);
  });
});
