import type { LanguageModelV3ProviderTool } from "@ai-sdk/provider";
import { ProviderError } from "gantry";
import type { ModelChunk, WebSearchResult } from "gantry/plugin";
import { toBoundedResponse } from "./bodies.js";
import type { Host, HostContext } from "./hosts/host.js";
import { asCount, asList, asObject, asText } from "./json.js";
import type { AiSdkModel, StreamPart } from "./language-model.js";
import type { Fetch } from "./network.js";
import { openWire } from "./open-wire.js";
import { sendToPackage } from "./package-stream.js";
import type { WireName } from "./presets.js";
import type { OpenWire } from "./wires/wire.js";

/** Maximum searches of one request. */
const MAX_SEARCHES = 3;

interface Search {
  /** The search tool, which the AI SDK's package adds to the request. */
  readonly tool: LanguageModelV3ProviderTool;
  /** Loads the package's model, whose reader knows the results. Its own address and key are not used. */
  loadModels(): Promise<(modelId: string, fetch: Fetch) => AiSdkModel>;
  /** Results in a part of the answer. */
  findResults(part: StreamPart): readonly WebSearchResult[];
  /** Price in USD of the searches that a part reports; 0 for other parts. */
  findPrice(part: StreamPart, modelId: string): number;
}

const SEARCHES: Partial<Record<WireName, Search>> = {
  // https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool
  anthropic: {
    tool: {
      type: "provider",
      id: "anthropic.web_search_20250305",
      name: "web_search",
      args: { maxUses: MAX_SEARCHES },
    },
    async loadModels() {
      const { AnthropicMessagesLanguageModel } = await import("@ai-sdk/anthropic/internal");
      const config = { provider: "anthropic.messages", baseURL: "", headers: {} };
      return (modelId, fetch) => new AnthropicMessagesLanguageModel(modelId, { ...config, fetch });
    },
    findResults: (part) => findSources(part, asText(asObject(part.providerMetadata?.anthropic).citedText)),
    findPrice: (part) => 0.01 * (asCount(asObject(readRawUsage(part).server_tool_use).web_search_requests) ?? 0),
  },
  // https://developers.openai.com/api/docs/guides/tools-web-search
  "openai-responses": {
    tool: { type: "provider", id: "openai.web_search", name: "web_search", args: {} },
    async loadModels() {
      const { createOpenAI } = await import("@ai-sdk/openai");
      return (modelId, fetch) =>
        createOpenAI({ baseURL: "https://unused.invalid", apiKey: "", fetch }).responses(modelId);
    },
    findResults(part) {
      // The sources of a search have no titles. The sources that the answer cites follow with their titles.
      const urls = asList(asObject(readToolResult(part)).sources).map((source) => asText(asObject(source).url));
      return [...findSources(part), ...urls.filter((url) => url !== "").map((url) => ({ url, title: "", text: "" }))];
    },
    findPrice: (part) => (asObject(asObject(readToolResult(part)).action).type === "search" ? 0.01 : 0),
  },
  // https://ai.google.dev/gemini-api/docs/google-search
  google: {
    tool: { type: "provider", id: "google.google_search", name: "google_search", args: {} },
    async loadModels() {
      const { createGoogleGenerativeAI } = await import("@ai-sdk/google");
      return (modelId, fetch) =>
        createGoogleGenerativeAI({ baseURL: "https://unused.invalid", apiKey: "", fetch })(modelId);
    },
    findResults: (part) => [...findSources(part), ...findGroundedTexts(part)],
    // Gemini 3 is billed by query, earlier models by request: https://ai.google.dev/gemini-api/docs/pricing
    findPrice(part, modelId) {
      const queryCount = asList(readGrounding(part).webSearchQueries).length;
      return /gemini-[12]/.test(modelId) ? (queryCount > 0 ? 0.035 : 0) : 0.014 * queryCount;
    },
  },
};

/** A wire for searches, and a function that adds the price of the searches to the usage of an answer. */
interface OpenSearch {
  readonly openWire: OpenWire;
  addPrice(chunk: ModelChunk): ModelChunk;
}

/**
 * Opens the wire of a provider for one web search. Requests are those of the provider's wire with the search tool.
 * Answers are read by the AI SDK's package. Rejects with `ProviderError` if the provider has no web search.
 */
export async function openSearch(
  context: HostContext,
  loadPresetHost: () => Promise<Host | undefined>,
  onResult: (result: WebSearchResult) => void,
): Promise<OpenSearch> {
  const { wire: configuredWire, name, preset } = context.settings;
  // Only the Responses API of xAI has a web search: https://docs.x.ai/docs/guides/tools/search-tools
  const wireName = preset?.id === "xai" ? "openai-responses" : configuredWire;
  // Bedrock has no web search: https://platform.claude.com/docs/en/build-with-claude/claude-on-amazon-bedrock
  const search = preset?.host === "bedrock" ? undefined : SEARCHES[wireName];
  if (search === undefined) throw new ProviderError(name, "bad_request", "no web search is known for this provider");
  const searchContext = { ...context, settings: { ...context.settings, wire: wireName } };
  const createModel = await search.loadModels();
  let priceUsd = 0;
  const { wire, send } = await openWire(
    searchContext,
    loadPresetHost,
    async (response, { request }, options, signal) => {
      const model = createModel(request.model.id, async () => toBoundedResponse(response, name));
      const source = await sendToPackage(model, { ...options }, signal);
      priceUsd = 0;
      return {
        async next() {
          const parts = await source.next();
          for (const part of parts ?? []) {
            for (const result of search.findResults(part)) onResult(result);
            priceUsd += search.findPrice(part, request.model.id);
          }
          return parts;
        },
        release: (isComplete) => source.release(isComplete),
      };
    },
  );
  return {
    openWire: {
      wire: { ...wire, options: async (...args) => ({ ...(await wire.options(...args)), tools: [search.tool] }) },
      send,
    },
    addPrice(chunk) {
      // Without a price of the tokens the cost stays unknown. A reported cost includes the searches.
      if (chunk.type !== "finish" || chunk.usage.cost === undefined || chunk.usage.costReported === true) return chunk;
      return { ...chunk, usage: { ...chunk.usage, cost: chunk.usage.cost + priceUsd } };
    },
  };
}

function findSources(part: StreamPart, text = ""): WebSearchResult[] {
  const { url, title } = asObject(part);
  return part.type === "source" && typeof url === "string" ? [{ url, title: asText(title), text }] : [];
}

/** The sentences of Gemini's answer that each page supports. */
function findGroundedTexts(part: StreamPart): WebSearchResult[] {
  const { groundingChunks, groundingSupports } = readGrounding(part);
  const chunks = asList(groundingChunks);
  return asList(groundingSupports).flatMap((support) => {
    const { segment, groundingChunkIndices } = asObject(support);
    return asList(groundingChunkIndices).flatMap((index) => {
      const { uri, title } = asObject(asObject(chunks[Number(index)]).web);
      return typeof uri === "string" ? [{ url: uri, title: asText(title), text: asText(asObject(segment).text) }] : [];
    });
  });
}

function readGrounding(part: StreamPart): Record<string, unknown> {
  return part.type === "finish" ? asObject(asObject(part.providerMetadata?.google).groundingMetadata) : {};
}

function readToolResult(part: StreamPart): unknown {
  return part.type === "tool-result" ? asObject(part).result : undefined;
}

function readRawUsage(part: StreamPart): Record<string, unknown> {
  return part.type === "finish" ? asObject(asObject(part.usage).raw) : {};
}
