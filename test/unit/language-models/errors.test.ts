import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RejectedRequest, toProviderError } from "../../../adapters/language-models/errors.js";

/** Returns the message for a rejected key. */
function describeRejection(
  keyVariables: readonly string[] | undefined,
  message = "Incorrect API key provided.",
): string {
  const body = JSON.stringify({ error: { message } });
  const rejection = new RejectedRequest({ status: 401, statusText: "Unauthorized", headers: {} }, body);
  const redact = (text: string) => text.replaceAll("sk-secret", "[redacted]");
  return toProviderError(rejection, { provider: "openai", redact, keyVariables }).message;
}

describe("the error of a rejected key", () => {
  it("names the config key, the variables and the command that set the key", () => {
    assert.equal(
      describeRejection(["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
      "openai: 401: Incorrect API key provided; check api_key of the provider in the config or GEMINI_API_KEY or GOOGLE_API_KEY (gantry init sets the key)",
    );
  });

  it("names only the config key if no variable contains the key, and nothing for other credentials", () => {
    assert.equal(
      describeRejection([]),
      "openai: 401: Incorrect API key provided; check api_key of the provider in the config",
    );
    assert.equal(describeRejection(undefined), "openai: 401: Incorrect API key provided.");
  });

  it("names them after a long message too, and never contains the key", () => {
    const message = describeRejection(["OPENAI_API_KEY"], `bad key sk-secret ${"x".repeat(2_000)}`);
    assert.match(message, /^openai: 401: bad key \[redacted\] x+; check api_key .* or OPENAI_API_KEY \(gantry init/);
    assert.ok(message.length < 500, String(message.length));
  });
});
