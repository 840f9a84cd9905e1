/** Common providers: id in the config, name, variable of the key. `""`: a program of this machine, without a key. */
export const COMMON_PROVIDERS: readonly (readonly [id: string, name: string, keyVariable: string])[] = [
  ["anthropic", "Anthropic", "ANTHROPIC_API_KEY"],
  ["openai", "OpenAI", "OPENAI_API_KEY"],
  ["google", "Google Gemini", "GEMINI_API_KEY"],
  ["openrouter", "OpenRouter", "OPENROUTER_API_KEY"],
  ["mistral", "Mistral", "MISTRAL_API_KEY"],
  ["deepseek", "DeepSeek", "DEEPSEEK_API_KEY"],
  ["groq", "Groq", "GROQ_API_KEY"],
  ["xai", "xAI", "XAI_API_KEY"],
  ["ollama", "Ollama", ""],
  ["lmstudio", "LM Studio", ""],
];
