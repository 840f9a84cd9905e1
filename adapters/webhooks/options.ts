import { isLoopback } from "gantry/http";
import { option } from "gantry/plugin";

/** The events that a receiver can get. */
export const WEBHOOK_EVENTS = [
  "run.finished",
  "run.failed",
  "run.cancelled",
  "budget.spent",
  "ask.opened",
  "ask.closed",
] as const;
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number];

/** Prefix of a secret, and the sizes of the key after it, by the Standard Webhooks specification. */
const SECRET_PREFIX = "whsec_";
const MIN_KEY_BYTES = 24;
const MAX_KEY_BYTES = 64;

/** Returns the key of a secret: the decoded base64 after the prefix. Undefined if the secret is invalid. */
export function decodeSecret(secret: string): Buffer | undefined {
  const text = secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : "";
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return undefined;
  const key = Buffer.from(text, "base64");
  return key.length >= MIN_KEY_BYTES && key.length <= MAX_KEY_BYTES ? key : undefined;
}

function isHttpUrl(text: string): boolean {
  return /^https?:\/\//i.test(text) && URL.canParse(text);
}

const webhookOptions = option.section(
  {
    url: option.text("Address that receives the events, by `POST`. Redirects are not followed.", {
      required: true,
      // The path of an address can be a key.
      secret: true,
      expected: "an https URL",
      fits: isHttpUrl,
    }),
    secret: option.text(
      "Key of the signature: `whsec_` and base64 of 24 to 64 random bytes. `${NAME}` takes it from an environment variable.",
      {
        required: true,
        secret: true,
        expected: "whsec_ and base64 of 24 to 64 bytes",
        fits: (text: string) => decodeSecret(text) !== undefined,
      },
    ),
    events: option.list(option.oneOf(WEBHOOK_EVENTS, ""), "Events that are sent. Default: all of them.", {
      filled: "event",
      default: WEBHOOK_EVENTS,
    }),
    allow_http: option.flag("Accept an `http` address beyond loopback. The events are not encrypted then.", {
      default: false,
    }),
  },
  {
    rule: ({ url, allowHttp }) =>
      allowHttp || /^https:/i.test(url) || isLoopback(new URL(url).hostname)
        ? undefined
        : { key: "url", expected: "https, or http with allow_http: true" },
  },
);

/** The key `webhooks` of the config section `server`. */
export const webhooksOptions = option.section({
  webhooks: option.list(
    webhookOptions,
    "Receivers of [events](webhooks.md), such as the end of a run. The keys of an entry are below.",
    { default: [] },
  ),
});

export type WebhooksOptions = option.Value<typeof webhooksOptions>;
export type WebhookOptions = WebhooksOptions["webhooks"][number];
