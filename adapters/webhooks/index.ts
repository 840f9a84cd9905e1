import { defineAdapter } from "gantry/plugin";
import { webhooksOptions, type WebhooksOptions } from "./options.js";
import { Webhooks } from "./webhooks.js";

/** Sends events to HTTP receivers. The config key `server.webhooks` selects this adapter. */
export default defineAdapter<"hooks", WebhooksOptions>({
  kind: "hooks",
  name: "webhooks",
  schema: webhooksOptions,
  create: (options, { logger }) => new Webhooks(options, logger),
});
