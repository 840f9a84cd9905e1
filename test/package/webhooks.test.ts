import assert from "node:assert/strict";
import { it } from "node:test";
import { listLoadedModules } from "../helpers/loaded-files.js";
import { WEBHOOK_SECRET } from "../helpers/webhook-receiver.js";

it("a server loads the code of webhooks only with server.webhooks", async (t) => {
  const hasLoaded = async (server: Record<string, unknown>) => {
    const { files } = await listLoadedModules(t, {
      args: ["serve", "--port", "0"],
      readyPattern: /listening on/,
      config: { providers: [{ provider: "offline" }], server },
    });
    return files.has("chunks/webhooks-index.cjs");
  };
  assert.equal(await hasLoaded({}), false);
  assert.equal(await hasLoaded({ webhooks: [{ url: "http://127.0.0.1:9/", secret: WEBHOOK_SECRET }] }), true);
});
