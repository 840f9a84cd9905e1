import type { ProviderFault } from "./provider-fault.js";

// Sources: [pi] packages/ai/src/utils/overflow.ts of earendil-works/pi at 17c253c5; [opencode] the provider errors of
// packages/ai in anomalyco/opencode, August 2026; [litellm] the exception mapping of BerriAI/litellm at 00094693; else
// the report of a user. test/unit/language-models/context-overflow.test.ts has the complete messages.

/** Error codes for a prompt that exceeds the context window. Proxies repeat some codes in their messages. */
const CODES = [
  "context[_ -]?length[_ -]?exceeded", // OpenAI, Azure, many others
  "model_context_window_exceeded", // Z.ai [pi]
  "exceed_context_size", // llama.cpp
  "model_max_prompt_tokens_exceeded", // GitHub Copilot: microsoft/vscode#289219
  "request_too_large", // Anthropic, with 413 [pi]
];

/** Code of Zhipu for "Prompt exceeds max length" in any language: earendil-works/pi#8991, NousResearch/hermes-agent#1877 */
const ZHIPU_CODE_PATTERN = /\b1261\b/;

/** Parts of the messages for a prompt that exceeds the context window. */
const WORDINGS = [
  // OpenAI, DeepSeek, OpenRouter, vLLM, SGLang: "maximum context length is N tokens"; LiteLLM: "maximum context limit".
  "maximum context (length|limit)",
  // xAI: "maximum prompt length is N but the request contains M"; Ollama: "model maximum context length: N".
  "max(imum)? (model|prompt|context|input) (length|tokens)",
  // OpenAI: "Your input exceeds the context window"; LiteLLM for Bedrock: "has exceed context limit".
  "exceed[^.]{0,60}(context|token limit|maximum number of tokens|max_num_tokens)",
  // MiniMax: "context window exceeds limit"; Cloudflare: "exceeded this model context window limit" [opencode].
  "context (window|size|limit|length)[^.]{0,40}exceed",
  // GPT-5: "Input tokens exceed the configured limit of N tokens" [litellm].
  "input tokens exceed",
  // Nova on Bedrock: "Number of input tokens exceeds maximum length" [opencode]; DeepInfra: "Requested input length N exceeds ...".
  "input (tokens|length)[^.]{0,20} exceeds? (the )?max",
  // Gemini: "The input token count (N) exceeds the maximum"; Vertex: "input token count is N but model only supports up to M".
  "token count \\(?\\d+\\)? exceeds",
  "input token count is \\d+ but",
  // Copilot: "prompt token count of N exceeds the limit of M" (opencode-ai/opencode#305).
  "prompt token count of \\d+ exceeds",
  // Zhipu with code 1261 (zeroclaw-labs/zeroclaw#4124); the wordings without "exceeds" are of [opencode].
  "prompt (exceeds max length|超长)",
  // Qwen: "Range of input length should be [1, N]" (anomalyco/opencode#45834).
  "range of input length should be",
  // Text Generation Inference of Hugging Face and Together (router/src/validation.rs).
  "`?inputs`? tokens \\+ `?max_new_tokens`? must be <=",
  "`?inputs`? must have less than \\d+ tokens",
  // Anthropic, Fireworks: "prompt is too long"; Bedrock: "Input is too long for requested model"; Ollama: "prompt too long".
  "(prompt|input|request|conversation|messages?) (is |are |was )?too (long|large)",
  // Together, Novita: "is longer than the model's context length".
  "longer than the (maximum )?(model|context)",
  // LM Studio: "greater than the context length", "when context the overflows", "context length of only N tokens".
  "greater than the context length",
  "context the overflows",
  "context length (of|is) only \\d+ tokens",
  // Mistral: "too large for model with N maximum context length".
  "too large for model",
  // Groq, Cerebras: "Please reduce the length of the messages or completion".
  "reduce the length of (the )?(messages|your prompt|prompt|input)",
  // OpenAI, for a request above the tokens per minute, which waiting does not help.
  "input or output tokens must be reduced",
  // Anthropic: "input length and `max_tokens` exceed context limit".
  "input length and .?max_tokens.? exceed",
  // ds4: "Prompt has N tokens, but the configured context size is M tokens" [pi].
  "but the configured context size is",
  // Cohere: "too many tokens: total number of tokens in the prompt cannot exceed N"; AI21: "Prompt has too many tokens".
  "too many (input )?tokens",
  // Kimi: "exceeded model token limit" is covered above. Volcengine: "Total tokens of image and text exceed max message tokens".
  "tokens[^.]{0,20} exceed max message tokens",
  // OpenAI: "Invalid 'messages[1].content': string too long". Other parameters with this error are no part of the prompt.
  "'(messages|input)\\[\\d+\\][^']*': string too long",
];

/** Messages that contain one of the wordings but report a limit of the rate or of the answer. */
const OTHER_LIMIT_PATTERN = new RegExp(
  [
    "tokens per (min|day)",
    "per minute.{0,40}try again",
    // Bedrock: "Too many tokens, please wait before trying again." [pi]
    "please wait",
    "throttl",
    "too many requests",
    "rate limit",
    // Cohere [opencode]
    "max[_ ]tokens must be less than",
  ].join("|"),
  "i",
);

const OVERFLOW_PATTERN = new RegExp([...CODES, ...WORDINGS].join("|"), "i");
/** A request above the rate limit as a whole. Only a smaller request can succeed. */
const LARGER_THAN_RATE_PATTERN = /tokens must be reduced|request too large for/i;

/** Parts of the messages above with the limit in tokens. Limits in characters or bytes are not matched. */
const LIMIT_PATTERN = new RegExp(
  [
    "maximum (?:context|prompt) length (?:is|of) ",
    "maximum (?:allowed )?input length (?:of )?",
    "(?:context length|tokens allowed|window limit) \\(",
    "context length(?:: | of only )",
    "context limit: \\d+ \\+ \\d+ > ",
    "configured (?:limit of|context size is) ",
    "tokens > (?=\\d+ maximum)",
    "too large for model with ",
    "only supports up to ",
    "input length should be \\[1, ",
    "`inputs` must have less than |max_new_tokens` must be <= ",
    "token count of \\d+ exceeds the limit of ",
    "token limit: ",
    "while limit is ",
    "tokens in the prompt cannot exceed ",
  ].join("|"),
  "i",
);

/** The limit in tokens that the error of a prompt above the context window names; undefined if it names none. */
export function findContextTokens({ message }: Pick<ProviderFault, "message">): number | undefined {
  const { index, 0: text } = LIMIT_PATTERN.exec(message) ?? { index: -1, 0: "" };
  const digits = index < 0 ? undefined : /^\d{3,9}/.exec(message.slice(index + text.length))?.[0];
  return digits === undefined ? undefined : Number(digits);
}

/** Whether an error reports that the prompt exceeds the model's context window, so that a smaller prompt may succeed. */
export function isContextOverflow({ status, message, typeAndCode }: ProviderFault): boolean {
  if (status !== undefined && status < 500 && ![400, 413, 422, 429].includes(status)) return false;
  if (LARGER_THAN_RATE_PATTERN.test(message)) return true;
  if (OTHER_LIMIT_PATTERN.test(message)) return false;
  return OVERFLOW_PATTERN.test(`${typeAndCode} ${message}`) || ZHIPU_CODE_PATTERN.test(typeAndCode);
}
