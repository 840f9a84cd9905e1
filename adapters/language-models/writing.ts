import { wellFormed } from "./require-event-stream.js";
import type { AiSdkModel } from "./language-model.js";
import type { Fetch } from "./network.js";
import type { Write, Written } from "./wires/wire.js";

/** Thrown through a package, which has no business with the answer. */
class Handed extends Error {
  readonly written: Written;
  constructor(written: Written) {
    super("the request is asked elsewhere");
    this.written = written;
  }
}

/** A `fetch` for packages that only write requests, and what takes the requests from their models. */
export const captureRequest: Fetch = (input, init) => {
  // As provider-utils of the AI SDK sends them all: a plain object of headers, and JSON as text.
  const [url, headers, body] = [input as string, init?.headers as Record<string, string>, init?.body as string];
  throw new Handed({ url, headers, body: wellFormed(body) });
};

/** What a package's models write, which were made with `handedOver`. */
export function writtenBy(modelOf: (modelId: string) => AiSdkModel): Write {
  return async ({ request }, options) => {
    try {
      await modelOf(request.model.id).doStream(options);
    } catch (error) {
      if (error instanceof Handed) return error.written;
      throw error;
    }
    throw new Error("the package asked nobody");
  };
}
