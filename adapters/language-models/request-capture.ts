import { replaceLoneSurrogates } from "./json.js";
import type { AiSdkModel } from "./language-model.js";
import type { Fetch } from "./network.js";
import type { BuildRequest, HttpRequestData } from "./wires/wire.js";

/** Thrown to take a request out of a package that must not send it. */
class CapturedRequest extends Error {
  readonly request: HttpRequestData;
  constructor(request: HttpRequestData) {
    super("the request is sent by the caller");
    this.request = request;
  }
}

/** A `fetch` that captures the requests of packages instead of sending them. */
export const captureRequest: Fetch = (input, init) => {
  // `provider-utils` of the AI SDK always passes a plain object of headers and JSON text.
  const [url, headers, body] = [input as string, init?.headers as Record<string, string>, init?.body as string];
  throw new CapturedRequest({ url, headers, body: replaceLoneSurrogates(body) });
};

/** Returns a function that builds requests with the package's models, which must use `captureRequest` as `fetch`. */
export function createRequestBuilder(getModel: (modelId: string) => AiSdkModel): BuildRequest {
  return async ({ request }, options) => {
    try {
      await getModel(request.model.id).doStream(options);
    } catch (error) {
      if (error instanceof CapturedRequest) return error.request;
      throw error;
    }
    throw new Error("the package sent no request");
  };
}
