import type { Model } from "gantry/plugin";
import type { AiSdkModel, ModelCallOptions } from "../language-model.js";
import { importOptionalPackage } from "../optional-package.js";
import { sendToPackage } from "../package-stream.js";
import { readPackageCost } from "../prices.js";
import { wire as anthropicWire } from "../wires/anthropic.js";
import type { OpenWire, Wire } from "../wires/wire.js";
import type { HostContext } from "./host.js";

type BedrockPackage = typeof import("@ai-sdk/amazon-bedrock");
type BedrockClaudePackage = typeof import("@ai-sdk/amazon-bedrock/anthropic");
type CredentialProviders = { fromNodeProviderChain(): NonNullable<BedrockSettings["credentialProvider"]> };
type BedrockSettings = NonNullable<Parameters<BedrockPackage["createAmazonBedrock"]>[0]>;

const PACKAGE = "@ai-sdk/amazon-bedrock";
const INSTALL_NAME = `${PACKAGE}@4`;
const CACHE_POINT = { bedrock: { cachePoint: { type: "default" } } } as const;
/** Claude and Nova accept cache points: https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html */
const CACHING_PATTERN = /amazon\.nova/;
const AWS_HOST_PATTERN = /\.(amazonaws\.com(\.cn)?|amazonaws\.eu|api\.aws)$/;

const isClaude = ({ id }: Pick<Model, "id">): boolean => /anthropic\.claude|claude-/.test(id);

/**
 * Amazon Bedrock through its AI SDK package, which signs the requests and decodes the binary answers. Claude uses
 * Anthropic's protocol with all its options, other models use Converse.
 */
export async function openBedrockWire(context: HostContext): Promise<OpenWire> {
  const { settings, configDir } = context;
  const load = <Module>(specifier: string) =>
    importOptionalPackage<Module>(specifier, INSTALL_NAME, settings.name, configDir);
  const { createBedrockAnthropic } = await load<BedrockClaudePackage>(`${PACKAGE}/anthropic`);
  const { createAmazonBedrock } = await load<BedrockPackage>(PACKAGE);
  const packageSettings = await createPackageSettings(context);
  const claude = createBedrockAnthropic(packageSettings);
  const converse = createAmazonBedrock(packageSettings);
  const modelsById = new Map<string, AiSdkModel>();
  return {
    wire,
    async send({ request: { model, startAfter } }, options, signal) {
      let packageModel = modelsById.get(model.id);
      if (packageModel === undefined)
        modelsById.set(model.id, (packageModel = isClaude(model) ? claude(model.id) : converse(model.id)));
      await startAfter;
      return sendToPackage(packageModel, { ...options }, signal);
    },
  };
}

async function createPackageSettings({ settings, network, configDir }: HostContext): Promise<BedrockSettings> {
  const { apiKey, baseUrl, headers, name } = settings;
  const { hostname } = new URL(baseUrl);
  const region = /^[a-z-]+\.([a-z]+-[a-z-]+-\d+)\./.exec(hostname)?.[1];
  // Without the package for profiles, single sign-on and roles, the variables `AWS_ACCESS_KEY_ID` and others are used.
  const credentialProviders =
    apiKey === undefined
      ? await importOptionalPackage<CredentialProviders>("@aws-sdk/credential-providers", "", name, configDir).catch(
          () => undefined,
        )
      : undefined;
  return {
    baseURL: baseUrl,
    headers: { ...headers },
    fetch: network.fetch,
    ...(region !== undefined && { region }),
    // Otherwise the package would send the token of the environment to any server.
    ...(apiKey !== undefined ? { apiKey } : AWS_HOST_PATTERN.test(hostname) ? {} : { apiKey: "" }),
    ...(credentialProviders && { credentialProvider: credentialProviders.fromNodeProviderChain() }),
  };
}

const wire: Wire = {
  readCost: readPackageCost,

  optionalParameters: (wireRequest) =>
    isClaude(wireRequest.request.model) ? (anthropicWire.optionalParameters?.(wireRequest) ?? []) : [],

  reasoningMark: () => ({ gantry: { echo: true } }),

  maxOutput: async (model, settings) =>
    isClaude(model) ? await anthropicWire.maxOutput?.(model, settings) : undefined,

  input: (model) => (isClaude(model) || CACHING_PATTERN.test(model.id) ? ["text", "image", "pdf"] : ["text"]),

  rules: () => ({ toolMedia: "inside", toolIds: "plain", toolNames: "plain", reasoningOnMessage: false }),

  async options(wireRequest, options): Promise<Partial<ModelCallOptions>> {
    const { request, rejectedParameters } = wireRequest;
    if (isClaude(request.model)) return await anthropicWire.options(wireRequest, options);
    const prompt = CACHING_PATTERN.test(request.model.id) ? markPrompt(options.prompt) : options.prompt;
    if (request.effort === "" || rejectedParameters.has("effort")) return { prompt };
    const maxReasoningEffort = request.effort === "minimal" ? "low" : request.effort;
    return { prompt, providerOptions: { bedrock: { reasoningConfig: { type: "enabled", maxReasoningEffort } } } };
  },
};

/** Marks the ends of cached prefixes: system and the last two turns. */
function markPrompt(prompt: ModelCallOptions["prompt"]): ModelCallOptions["prompt"] {
  const lastMessages = prompt.filter(({ role }) => role === "user" || role === "tool").slice(-2);
  return prompt.map((message) =>
    message.role === "system" || lastMessages.includes(message)
      ? { ...message, providerOptions: { ...message.providerOptions, ...CACHE_POINT } }
      : message,
  );
}
