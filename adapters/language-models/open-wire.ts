import { readErrorBody } from "./bodies.js";
import { RejectedRequest, toProviderError } from "./errors.js";
import type { Host, HostContext } from "./hosts/host.js";
import type { HttpResponse } from "./connections.js";
import type { ModelCallOptions } from "./language-model.js";
import type { WireName } from "./presets.js";
import { AnswerBody, type PartSource } from "./reading/answer-body.js";
import type { BuiltInWire, OpenWire, WireRequest } from "./wires/wire.js";

/** Loads the code for the host of the preset. Undefined for presets that need none. */
export async function loadHost(context: HostContext): Promise<Host | undefined> {
  switch (context.settings.preset?.host) {
    case "vertex":
      return (await import("./hosts/vertex.js")).createVertexHost(context);
    case "copilot":
      return (await import("./hosts/copilot.js")).createCopilotHost(context);
    default:
      return undefined;
  }
}

/** Reads a successful response. `options`: the options of its request. */
export type ReadAnswer = (
  response: HttpResponse,
  wireRequest: WireRequest,
  options: ModelCallOptions,
  signal: AbortSignal,
) => Promise<PartSource>;

/**
 * Loads the wire of a provider, and the code for the host of its preset. Rejects with `ProviderError`. `readAnswer`
 * replaces the wire's reader.
 */
export async function openWire(
  context: HostContext,
  loadPresetHost: () => Promise<Host | undefined>,
  readAnswer?: ReadAnswer,
): Promise<OpenWire> {
  const { settings, network, faultContext } = context;
  try {
    if (settings.preset?.host === "bedrock") return await (await import("./hosts/bedrock.js")).openBedrockWire(context);
    const host = await loadPresetHost();
    const wire = await loadWire(settings.wire);
    const buildRequest = await wire.createRequestBuilder(settings);
    return {
      wire,
      async send(wireRequest, options, signal) {
        const request = await buildRequest(wireRequest, options);
        const { url, headers, body } = (await host?.convert(request, wireRequest, signal)) ?? request;
        await wireRequest.request.startAfter;
        const response = await network.send(url, { method: "POST", headers, body }, signal);
        if (!response.ok) throw new RejectedRequest(response, await readErrorBody(response.body));
        if (readAnswer) return await readAnswer(response, wireRequest, options, signal);
        return new AnswerBody(response.body, url, wire.createReader(), faultContext);
      },
    };
  } catch (error) {
    // Example: a package is not installed.
    throw toProviderError(error, faultContext);
  }
}

async function loadWire(name: WireName): Promise<BuiltInWire> {
  switch (name) {
    case "openai":
      return (await import("./wires/openai.js")).wire;
    case "openai-responses":
      return (await import("./wires/openai-responses.js")).wire;
    case "anthropic":
      return (await import("./wires/anthropic.js")).wire;
    case "google":
      return (await import("./wires/google.js")).wire;
  }
}
