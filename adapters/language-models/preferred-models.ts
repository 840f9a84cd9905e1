/**
 * Patterns of recommended model ids by preset, best pattern first. Without a configured model the default is the newest
 * match of the best matching pattern.
 */
export const PREFERRED_MODELS: Readonly<Record<string, readonly RegExp[]>> = {
  anthropic: [/^claude-sonnet-\d/, /^claude-opus-\d/],
  openai: [/^gpt-\d+(\.\d+)?$/],
  google: [/^gemini-\d+(\.\d+)?-pro(-preview)?$/, /^gemini-\d+(\.\d+)?-flash$/],
  openrouter: [/^anthropic\/claude-sonnet-\d+(\.\d+)?$/],
  groq: [/gpt-oss-120b/, /kimi-k2/],
  mistral: [/^devstral-(medium-)?latest$/, /^mistral-(large|medium)-latest$/],
  deepseek: [/^deepseek-(chat|v\d)/],
  xai: [/^grok-code/, /^grok-\d+(-\d)?$/],
  cerebras: [/coder|glm|gpt-oss-120b/],
  moonshot: [/^kimi-k\d/],
  zhipu: [/^glm-\d+(\.\d+)?$/],
  ollama: [/coder|devstral|gpt-oss|qwen3/],
};
