import type { Logger } from "gantry";
import { createDeadline, createLoggerWithFields, newId, type HookSet } from "gantry/plugin";
import { EventQueue } from "./event-queue.js";
import { WEBHOOK_LIMITS, type WebhookLimits } from "./limits.js";
import { decodeSecret, type WebhookEvent, type WebhookOptions, type WebhooksOptions } from "./options.js";
import { toAskData, toRunData } from "./payload.js";
import { WebhookSender } from "./sender.js";

/** A receiver: the events that it gets, and its queue. */
interface Receiver {
  readonly events: readonly WebhookEvent[];
  readonly queue: EventQueue;
}

/**
 * Sends the events of the agent to receivers. The bus has an event only in the process of its run, so that each event is
 * sent by one process. Runs of subagents are part of their parent run and have no events.
 */
export class Webhooks implements HookSet {
  readonly listeners: HookSet["listeners"] = {
    "run.started": ({ runId, parent }) => void (parent && this.#subagentRunIds.add(runId)),
    "run.finished": ({ runId, run }) => {
      if (this.#subagentRunIds.delete(runId)) return;
      if (run.endedBy === "budget") this.#publish("budget.spent", run.sessionId, toRunData(run));
      this.#publish("run.finished", run.sessionId, toRunData(run));
    },
    "run.failed": ({ runId, run }) => {
      if (this.#subagentRunIds.delete(runId)) return;
      this.#publish(run.state === "cancelled" ? "run.cancelled" : "run.failed", run.sessionId, toRunData(run));
    },
    "ask.opened": ({ ask }) => this.#publish("ask.opened", ask.sessionId, toAskData(ask)),
    "ask.closed": ({ ask }) => this.#publish("ask.closed", ask.sessionId, toAskData(ask)),
  };
  readonly #limits: WebhookLimits;
  readonly #receivers: readonly Receiver[];
  readonly #subagentRunIds = new Set<string>();

  constructor({ webhooks }: WebhooksOptions, logger: Logger, limits = WEBHOOK_LIMITS) {
    this.#limits = limits;
    this.#receivers = webhooks.map((options, i) => createReceiver(options, i, logger, limits));
  }

  /** Sends the waiting events until `signal` aborts, but for at least `closeTimeoutMs`. */
  async close(signal: AbortSignal = AbortSignal.abort()): Promise<void> {
    const minimum = createDeadline(this.#limits.closeTimeoutMs);
    const limit = Promise.all([waitForAbort(signal), waitForAbort(minimum.signal)]);
    await Promise.all(this.#receivers.map(({ queue }) => queue.close(limit)));
    minimum.clear();
  }

  #publish(type: WebhookEvent, sessionId: string, data: object): void {
    const receivers = this.#receivers.filter(({ events }) => events.includes(type));
    const createdAt = new Date();
    const body = JSON.stringify({ type, timestamp: createdAt.toISOString(), data });
    const event = { id: `msg_${newId()}`, type, sessionId, createdAt, body };
    for (const { queue } of receivers) queue.add(event);
  }
}

function createReceiver(
  { url: address, secret, events }: WebhookOptions,
  index: number,
  logger: Logger,
  limits: WebhookLimits,
): Receiver {
  const url = new URL(address);
  const key = decodeSecret(secret);
  if (!key) throw new Error("invalid secret of a webhook");
  const sender = new WebhookSender(url, key, limits.requestTimeoutMs);
  // The path of the address can be a key.
  const fields = { webhook: `server.webhooks[${index}]`, receiver: url.origin };
  const send = ({ id, body }: { id: string; body: string }, signal: AbortSignal) => sender.send(id, body, signal);
  return {
    events,
    queue: new EventQueue(
      send,
      limits,
      createLoggerWithFields(logger, () => fields),
    ),
  };
}

function waitForAbort(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
