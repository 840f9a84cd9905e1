import { silentLogger } from "../base/log.js";
import { bytesOfAll, bytesOfPrefix, BYTES_PER_TOKEN, bytesOfTool, cachedBytesOf } from "../models/estimate.js";
import type { Message } from "../ports/message.js";
import type { Model } from "../ports/model-provider.js";
import type { ContextPartName, SessionContext } from "../ports/session-context.js";
import type { ToolSpec } from "../ports/tool.js";
import type { Compaction } from "./compaction.js";
import { shortenPrefix } from "./prompt-prefix.js";
import { computeMaxOutputBytes, computeMaxPrefixBytes, computeWindowSize } from "./window-size.js";

/** The content of a prompt, before a small window shortens it. */
export interface PromptContent {
  readonly systemPrompt: string;
  /** Sections of `systemPrompt` from instruction files and skills. */
  readonly instructionTexts: readonly string[];
  readonly tools: readonly ToolSpec[];
  /** The messages that the model sees. */
  readonly messages: readonly Message[];
}

/** Tokens of the prefix and the first `count` messages, as counted by the provider. */
export interface CountedTokens {
  readonly tokens: number;
  readonly count: number;
}

type PartSizes = Record<ContextPartName, number>;

/**
 * Measures a prompt with the estimates that the compaction uses. `counted`: the provider's count; undefined if none is
 * valid.
 */
export function measureParts(
  { options }: Pick<Compaction, "options">,
  model: Pick<Model, "contextWindow" | "maxOutput">,
  content: PromptContent,
  counted: CountedTokens | undefined,
): SessionContext {
  const { size, limit } = computeWindowSize(options, model);
  const prefix = measurePrefix(content, options.enabled ? computeMaxPrefixBytes(limit) : Infinity);
  const prefixTokens = (prefix.system + prefix.instructions + prefix.tools) / BYTES_PER_TOKEN;
  const maxOutputBytes = options.enabled ? computeMaxOutputBytes(limit, prefixTokens) : Infinity;
  const measureRange = (start: number, end?: number): Pick<PartSizes, "messages" | "tool_outputs"> => {
    const messages = content.messages.slice(start, end);
    const results = messages.filter(({ role }) => role === "tool");
    const resultBytes = results.reduce((sum, result) => sum + Math.min(cachedBytesOf(result), maxOutputBytes), 0);
    return { messages: bytesOfAll(messages) - bytesOfAll(results), tool_outputs: resultBytes };
  };
  const countedParts: PartSizes = { ...prefix, ...measureRange(0, counted?.count) };
  const newParts = counted ? measureRange(counted.count) : { messages: 0, tool_outputs: 0 };
  const countedBytes = Object.values(countedParts).reduce((sum, bytes) => sum + bytes, 0);
  const tokensPerByte = counted ? counted.tokens / countedBytes : 1 / BYTES_PER_TOKEN;
  const toTokens = (name: ContextPartName, newBytes = 0): number =>
    countedParts[name] * tokensPerByte + newBytes / BYTES_PER_TOKEN;
  const parts = roundParts({
    system: toTokens("system"),
    instructions: toTokens("instructions"),
    tools: toTokens("tools"),
    messages: toTokens("messages", newParts.messages),
    tool_outputs: toTokens("tool_outputs", newParts.tool_outputs),
  });
  return {
    window: size,
    used: parts.reduce((sum, { tokens }) => sum + tokens, 0),
    compactionAt: options.enabled ? limit : null,
    estimated: counted === undefined,
    parts,
  };
}

/** Measures system prompt and tools, in bytes. They are shortened to `maxBytes` like those of a request. */
function measurePrefix(
  { systemPrompt, instructionTexts, tools }: PromptContent,
  maxBytes: number,
): Pick<PartSizes, "system" | "instructions" | "tools"> {
  const isShortened = bytesOfPrefix({ system: systemPrompt, tools }) > maxBytes;
  const prefix = isShortened
    ? shortenPrefix(systemPrompt, tools, maxBytes, silentLogger)
    : { system: systemPrompt, tools };
  const systemBytes = bytesOfPrefix({ system: prefix.system, tools: [] });
  const fullSystemBytes = bytesOfPrefix({ system: systemPrompt, tools: [] });
  const instructionBytes = instructionTexts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  // A shortened system prompt loses its middle; the share of the instructions is unknown then.
  const instructions = Math.round((instructionBytes * systemBytes) / fullSystemBytes);
  const toolBytes = prefix.tools.reduce((sum, tool) => sum + bytesOfTool(tool), 0);
  return { system: systemBytes - instructions, instructions, tools: toolBytes };
}

/** Rounds the parts so that their sum is the rounded sum. */
function roundParts(sizes: PartSizes): { name: ContextPartName; tokens: number }[] {
  let exactSum = 0;
  let roundedSum = 0;
  return (Object.keys(sizes) as ContextPartName[]).map((name) => {
    exactSum += sizes[name];
    const tokens = Math.round(exactSum) - roundedSum;
    roundedSum += tokens;
    return { name, tokens };
  });
}
