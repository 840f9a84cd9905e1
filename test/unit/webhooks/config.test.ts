import assert from "node:assert/strict";
import { it } from "node:test";
import { readConfigError } from "../../helpers/wrong-values.js";
import { WEBHOOK_SECRET } from "../../helpers/webhook-receiver.js";

const SHORT_SECRET = `whsec_${Buffer.from("short-key").toString("base64")}`;
const URL_KEY = "path-key-of-the-receiver";

it("an invalid webhook is a config error that names the key and contains no secret", async () => {
  const cases: [entry: object, expectedError: string | undefined][] = [
    [{}, undefined],
    [{ events: ["run.failed"] }, undefined],
    [{ url: "http://127.0.0.1:9000/" }, undefined],
    [{ url: "http://[::1]/" }, undefined],
    [{ url: "http://example.com/", allow_http: true }, undefined],
    [
      { url: `http://example.com/${URL_KEY}` },
      "server.webhooks[0].url: expected https, or http with allow_http: true, got string",
    ],
    [{ url: `ftp://example.com/${URL_KEY}` }, "server.webhooks[0].url: expected an https URL, got string"],
    [{ url: undefined }, "server.webhooks[0].url: expected an https URL, got nothing"],
    [{ secret: undefined }, "server.webhooks[0].secret: expected whsec_ and base64 of 24 to 64 bytes, got nothing"],
    [{ secret: SHORT_SECRET }, "server.webhooks[0].secret: expected whsec_ and base64 of 24 to 64 bytes, got string"],
    [{ secret: "a".repeat(40) }, "server.webhooks[0].secret: expected whsec_ and base64 of 24 to 64 bytes, got string"],
    [
      { secret: "${UNSET_TEST_VARIABLE}" },
      "server.webhooks[0].secret: expected the environment variable UNSET_TEST_VARIABLE to be set",
    ],
    [{ events: [] }, "server.webhooks[0].events: expected at least one event, got 0"],
  ];
  for (const [entry, expectedError] of cases) {
    const webhook = { url: `https://example.com/${URL_KEY}`, secret: WEBHOOK_SECRET, ...entry };
    const error = await readConfigError({ server: { webhooks: [webhook] } });
    assert.equal(error, expectedError && `config.json: ${expectedError}`);
  }
  const error = await readConfigError({
    server: { webhooks: [{ url: "https://a/", secret: WEBHOOK_SECRET, events: ["x"] }] },
  });
  assert.match(error ?? "", /^config\.json: server\.webhooks\[0\]\.events\[0\]: expected one of "run\.finished", /);
});
