// Error messages of providers, most of them quoted from reports of users. adapters/language-models/context-overflow.ts
// names the sources.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { hasCode, type ProviderError } from "gantry";
import { AiSdkProvider } from "gantry/adapters/language-models";
import {
  errorStep,
  startFakeModelServer,
  type FakeModelServer,
  type FakeStep,
} from "../../helpers/fake-model-server.js";
import { createRequest, readAnswer } from "../../helpers/model-requests.js";

type Wording = readonly [host: string, message: string, status?: number, code?: string];

const OVERFLOWS: readonly Wording[] = [
  [
    "OpenAI",
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length of the messages.",
    400,
    "context_length_exceeded",
  ],
  ["OpenAI Responses", "Your input exceeds the context window of this model. Please adjust your input and try again."],
  [
    "GPT-5",
    "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens. Please reduce the length of the messages.",
  ],
  [
    "OpenAI, one message",
    "Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576, but got a string with length 1540820 instead.",
    400,
    "string_above_max_length",
  ],
  [
    "OpenAI, one item",
    "Invalid 'input[2].output': string too long. Expected a string with maximum length 10485760, but got a string with length 13000000 instead.",
    400,
    "string_above_max_length",
  ],
  [
    "OpenAI, tokens per minute",
    "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 45362. The input or output tokens must be reduced in order to run successfully.",
    429,
    "rate_limit_exceeded",
  ],
  ["Anthropic", "prompt is too long: 213462 tokens > 200000 maximum"],
  [
    "Anthropic with max_tokens",
    "input length and `max_tokens` exceed context limit: 90402 + 116650 > 204648, decrease input length or max_tokens and try again",
  ],
  ["Anthropic, bytes", "Request exceeds the maximum size", 413, "request_too_large"],
  ["Gemini", "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."],
  [
    "Vertex",
    "Unable to submit request because the input token count is 32825 but model only supports up to 32768. Reduce the input token count and try again.",
  ],
  ["Bedrock", "Input is too long for requested model."],
  [
    "Bedrock Nova",
    "The model returned the following errors: Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.",
  ],
  ["Bedrock through LiteLLM", "AWS Bedrock Error: The request payload size has exceed context limit."],
  ["Zhipu", "Prompt exceeds max length", 400, "1261"],
  ["Zhipu in Chinese", "Prompt 超长", 400, "1261"],
  ["Qwen", "Range of input length should be [1, 983616]", 400, "invalid_parameter_error"],
  ["Xunfei", "InternalError.Algo.InvalidParameter: Range of input length should be [1, 202745]", 400, "10012"],
  [
    "Together and Hugging Face",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4031 `inputs` tokens and 200 `max_new_tokens`",
    422,
  ],
  ["Hugging Face, prompt", "Input validation error: `inputs` must have less than 3072 tokens. Given: 4104", 422],
  ["Together", "The input (263000 tokens) is longer than the model's context length (262144 tokens)."],
  [
    "GitHub Copilot",
    "prompt token count of 1236658 exceeds the limit of 128000",
    400,
    "model_max_prompt_tokens_exceeded",
  ],
  ["GitHub Copilot, older", "prompt token count of 65446 exceeds the limit of 64000", 400, ""],
  ["xAI", "This model's maximum prompt length is 131072 but the request contains 136973 tokens."],
  ["Groq", "Please reduce the length of the messages or completion.", 400, "context_length_exceeded"],
  [
    "OpenRouter",
    'This endpoint\'s maximum context length is 131072 tokens. However, you requested about 219310 tokens (200000 of text input, 19310 of tool input). Please reduce the length of either one, or use the "middle-out" transform to compress your prompt automatically.',
  ],
  ["Poolside", "Input length 131393 exceeds the maximum allowed input length of 131040 tokens."],
  [
    "SGLang",
    "Requested token count exceeds the model's maximum context length of 202752 tokens. You requested a total of 202941 tokens: 170941 tokens from the input messages and 32000 tokens for the completion.",
  ],
  [
    "vLLM",
    "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens, for a total of at least 262145 tokens.",
  ],
  ["a proxy", "Input length (265330) exceeds model's maximum context length (262144)."],
  ["llama.cpp", "the request exceeds the available context size, try increasing it", 400, "exceed_context_size_error"],
  [
    "LM Studio",
    "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input",
  ],
  [
    "LM Studio, older",
    "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.",
  ],
  ["Ollama", "prompt too long; exceeded max context length by 12 tokens"],
  ["Ollama cloud", "The prompt is too long: 203557, model maximum context length: 196607"],
  ["Mistral", "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"],
  ["MiniMax", "invalid params, context window exceeds limit (2013)"],
  ["Kimi", "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)"],
  ["Cerebras", "Please reduce the length of the messages or completion. Current length is 8993 while limit is 8192"],
  [
    "Cloudflare",
    "5021: The estimated number of input and maximum output tokens (155740) exceeded this model context window limit (128000).",
    413,
  ],
  [
    "Cohere",
    "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. Try using a shorter prompt, or enabling prompt truncating.",
  ],
  ["DeepInfra", "Requested input length 140000 exceeds maximum input length 131072"],
  ["ds4", "Prompt has 32769 tokens, but the configured context size is 32768 tokens"],
  ["Volcengine", "Total tokens of image and text exceed max message tokens.", 400, "InvalidParameter"],
  [
    "DeepSeek",
    "This model's maximum context length is 131072 tokens. However, you requested 200000 tokens (168000 in the messages, 32000 in the completion). Please reduce the length of the messages or completion.",
  ],
];

/** Errors with similar words that a smaller prompt does not solve. */
const OTHER_ERRORS: readonly Wording[] = [
  ["OpenAI, rate", "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000. Please try again in 6s.", 429],
  ["Bedrock, rate", "Too many tokens, please wait before trying again.", 429, "ThrottlingException"],
  ["Bedrock, day", "Too many tokens per day, please wait before trying again.", 429],
  ["Cohere, answer", "too many tokens: max tokens must be less than or equal to 4096, the maximum output length"],
  ["OpenAI, answer", "max_tokens is too large: 32768. This model supports at most 16384 completion tokens."],
  ["Anthropic, answer", "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens"],
  ["Qwen, answer", "Range of max_tokens should be [1, 8192]"],
  [
    "OpenAI, cache key",
    "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64, but got a string with length 80 instead.",
    400,
    "string_above_max_length",
  ],
  [
    "OpenAI, tools",
    "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 256 instead.",
    400,
    "array_above_max_length",
  ],
  ["Anthropic, image", "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880"],
  ["Zhipu, parameter", "The parameter max_tokens 1261 is invalid", 400, "1214"],
  ["a quota", "The number of concurrent requests exceeds the limit of 5", 429],
  ["a timeout", "Upstream request timed out", 504],
];

describe("the error of a prompt that exceeds the context window", () => {
  let server: FakeModelServer;
  let provider: AiSdkProvider;
  before(async () => {
    server = await startFakeModelServer();
    provider = new AiSdkProvider({ name: "lab", driver: "openai", baseUrl: server.baseUrl, apiKey: "k" });
  });
  after(async () => {
    await provider.close();
    await server.close();
  });

  const readError = async (step: FakeStep): Promise<ProviderError | undefined> => {
    server.enqueue(step);
    try {
      await readAnswer(provider, createRequest());
    } catch (error) {
      if (hasCode(error, "provider")) return error;
      throw error;
    }
    return undefined;
  };
  const readKind = async (step: FakeStep): Promise<ProviderError["kind"] | "none"> =>
    (await readError(step))?.kind ?? "none";

  it(`has the kind context_length in the ${OVERFLOWS.length} wordings of providers`, async () => {
    const otherKinds: string[] = [];
    for (const [host, message, status = 400, code] of OVERFLOWS) {
      const kind = await readKind(errorStep(status, { message, ...(code === undefined ? {} : { code }) }));
      if (kind !== "context_length") otherKinds.push(`${host}: ${kind}`);
    }
    assert.deepEqual(otherKinds, []);
  });

  it("has the kind context_length as an error within a stream too", async () => {
    for (const [host, message, , code] of OVERFLOWS) {
      const kind = await readKind({ say: [{ error: { message, ...(code === undefined ? {} : { code }) } }] });
      assert.equal(kind, "context_length", host);
    }
  });

  it("has the limit in tokens that the message names", async () => {
    const limits: (readonly [string, number])[] = [];
    for (const [host, message, status = 400, code] of OVERFLOWS) {
      const error = await readError(errorStep(status, { message, ...(code === undefined ? {} : { code }) }));
      if (error?.contextTokens !== undefined) limits.push([host, error.contextTokens]);
    }
    assert.deepEqual(limits, [
      ["OpenAI", 8192],
      ["GPT-5", 272_000],
      ["Anthropic", 200_000],
      ["Anthropic with max_tokens", 204_648],
      ["Gemini", 1_048_575],
      ["Vertex", 32_768],
      ["Qwen", 983_616],
      ["Xunfei", 202_745],
      ["Together and Hugging Face", 4096],
      ["Hugging Face, prompt", 3072],
      ["Together", 262_144],
      ["GitHub Copilot", 128_000],
      ["GitHub Copilot, older", 64_000],
      ["xAI", 131_072],
      ["OpenRouter", 131_072],
      ["Poolside", 131_040],
      ["SGLang", 202_752],
      ["vLLM", 262_144],
      ["a proxy", 262_144],
      ["LM Studio, older", 4096],
      ["Ollama cloud", 196_607],
      ["Mistral", 32_768],
      ["Kimi", 262_144],
      ["Cerebras", 8192],
      ["Cloudflare", 128_000],
      ["Cohere", 4081],
      ["DeepInfra", 131_072],
      ["ds4", 32_768],
      ["DeepSeek", 131_072],
    ]);
  });

  it("differs from errors with similar words", async () => {
    const wrongKinds: string[] = [];
    for (const [host, message, status = 400, code] of OTHER_ERRORS) {
      const kind = await readKind(errorStep(status, { message, ...(code === undefined ? {} : { code }) }));
      if (kind === "context_length") wrongKinds.push(host);
    }
    assert.deepEqual(wrongKinds, []);
  });
});
