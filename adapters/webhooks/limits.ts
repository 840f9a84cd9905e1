/** Limits of each receiver. */
export const WEBHOOK_LIMITS = {
  /** Waiting events, with those being sent. Further events are dropped. */
  events: 1_000,
  /** Bytes of the bodies of those events. */
  bytes: 4_000_000,
  /** Requests at the same time. Node warns about more listeners of one signal. */
  requests: 10,
  /** Time for an answer, from the start of the request. */
  requestTimeoutMs: 15_000,
  /** Delay after the first failed attempt. It doubles with each further attempt. */
  retryDelayMs: 1_000,
  maxRetryDelayMs: 300_000,
  /**
   * Attempts whose content the receiver rejects before the event is dropped. More than one, because a receiver may also
   * reject valid requests while it is deployed.
   */
  rejections: 5,
  /** Age at which an event is dropped after a failed attempt. */
  maxAgeMs: 86_400_000,
  /** Minimum time for the waiting events at the stop. Less than the server grants its hooks. */
  closeTimeoutMs: 250,
};
export type WebhookLimits = typeof WEBHOOK_LIMITS;
