import type { Logger } from "gantry";
import type { WebhookLimits } from "./limits.js";
import type { SendResult } from "./sender.js";

/** An event as it is sent. */
export interface QueuedEvent {
  /** The same in all attempts. */
  readonly id: string;
  readonly type: string;
  readonly sessionId: string;
  readonly createdAt: Date;
  readonly body: string;
}

/** Makes one attempt. Never rejects. */
type Send = (event: QueuedEvent, signal: AbortSignal) => Promise<SendResult>;

/**
 * The events for one receiver. The events of a session are sent one after the other, in the order of `add`. Sessions do
 * not wait for each other, except for a free request.
 */
export class EventQueue {
  readonly #send: Send;
  readonly #limits: WebhookLimits;
  readonly #logger: Logger;
  readonly #eventsBySessionId = new Map<string, QueuedEvent[]>();
  /** The tasks that send the events of a session. */
  readonly #tasks = new Set<Promise<void>>();
  /** Ends the delays between attempts. */
  readonly #wakeCallbacks = new Set<() => void>();
  /** Starts the attempts that wait for a free request. */
  readonly #waitingAttempts: (() => void)[] = [];
  readonly #abortController = new AbortController();
  #activeRequests = 0;
  #queuedBytes = 0;
  #queuedEvents = 0;
  /** Events dropped since the queue became full. */
  #droppedEvents = 0;
  /** Failed attempts since the last delivery. */
  #failedAttempts = 0;
  #isClosing = false;
  /** Whether the receiver answered that it wants no more events. */
  #isDisabled = false;

  constructor(send: Send, limits: WebhookLimits, logger: Logger) {
    this.#send = send;
    this.#limits = limits;
    this.#logger = logger;
  }

  /** Queues an event, or drops it if the queue is full or the receiver is disabled. */
  add(event: QueuedEvent): void {
    if (this.#isDisabled || this.#isClosing) return;
    const bytes = Buffer.byteLength(event.body);
    if (this.#queuedEvents >= this.#limits.events || this.#queuedBytes + bytes > this.#limits.bytes) {
      if (this.#droppedEvents === 0) this.#logger.warn("queue full; new events are dropped");
      this.#droppedEvents += 1;
      return;
    }
    this.#reportDroppedEvents();
    this.#queuedEvents += 1;
    this.#queuedBytes += bytes;
    const waitingEvents = this.#eventsBySessionId.get(event.sessionId);
    if (waitingEvents) return void waitingEvents.push(event);
    const events = [event];
    this.#eventsBySessionId.set(event.sessionId, events);
    const task = this.#sendInOrder(event.sessionId, events);
    this.#tasks.add(task);
    void task.then(() => this.#tasks.delete(task));
  }

  /** Tries to send the waiting events once, until `limit` resolves. Logs the events that remain. Never rejects. */
  async close(limit: Promise<unknown>): Promise<void> {
    this.#isClosing = true;
    this.#wake();
    await Promise.race([Promise.all(this.#tasks), limit]);
    this.#abortController.abort();
    await Promise.all(this.#tasks);
    this.#reportDroppedEvents();
    const remainingEvents = [...this.#eventsBySessionId.values()].flat();
    if (remainingEvents.length === 0) return;
    const since = new Date(Math.min(...remainingEvents.map(({ createdAt }) => createdAt.getTime()))).toISOString();
    this.#logger.warn("events not delivered before the stop", { events: remainingEvents.length, since });
  }

  /** Sends the events of a session until there are none, or one fails while the queue closes. */
  async #sendInOrder(sessionId: string, events: QueuedEvent[]): Promise<void> {
    for (let [event] = events; event && !this.#isDisabled; [event] = events) {
      const isDone = await this.#deliver(event);
      if (!isDone && !this.#isDisabled) return;
      events.shift();
      this.#queuedEvents -= 1;
      this.#queuedBytes -= Buffer.byteLength(event.body);
    }
    this.#eventsBySessionId.delete(sessionId);
  }

  /** Makes attempts until the event is delivered or dropped. Resolves with false if the queue closes before. */
  async #deliver(event: QueuedEvent): Promise<boolean> {
    let rejections = 0;
    for (let attempt = 1; !this.#isDisabled; attempt += 1) {
      const result = await this.#withRequest(() => this.#send(event, this.#abortController.signal));
      if (result.outcome === "delivered") {
        if (this.#failedAttempts > 0) this.#logger.info("deliveries succeed again");
        this.#failedAttempts = 0;
        return true;
      }
      if (result.outcome === "gone") this.#disable();
      else if (this.#isClosing) return false;
      else {
        const { reason } = result;
        if (this.#failedAttempts === 0)
          this.#logger.warn("delivery failed; events wait and are sent again", { reason });
        this.#failedAttempts += 1;
        const delayMs = Math.max(result.retryAfterMs, this.#computeDelayMs(attempt));
        if (result.isRejected) rejections += 1;
        const isTooOld = Date.now() + delayMs - event.createdAt.getTime() > this.#limits.maxAgeMs;
        if (isTooOld || rejections >= this.#limits.rejections) {
          const { id, type, sessionId } = event;
          this.#logger.warn("event dropped; no attempt succeeded", { id, type, session: sessionId, reason });
          return true;
        }
        await this.#pause(delayMs);
      }
    }
    return false;
  }

  /** Exponential backoff. The random part separates the attempts of sessions and replicas. */
  #computeDelayMs(attempt: number): number {
    const { retryDelayMs, maxRetryDelayMs } = this.#limits;
    return Math.min(retryDelayMs * 2 ** (attempt - 1), maxRetryDelayMs) * (0.5 + Math.random() / 2);
  }

  /** Waits for a free request, then makes an attempt. */
  async #withRequest<T>(attempt: () => Promise<T>): Promise<T> {
    if (this.#activeRequests < this.#limits.requests) this.#activeRequests += 1;
    else await new Promise<void>((resolve) => this.#waitingAttempts.push(resolve));
    try {
      return await attempt();
    } finally {
      // The next attempt takes over the request.
      const startNext = this.#waitingAttempts.shift();
      if (startNext) startNext();
      else this.#activeRequests -= 1;
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#wakeCallbacks.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      this.#wakeCallbacks.add(wake);
    });
  }

  #wake(): void {
    for (const wake of [...this.#wakeCallbacks]) wake();
  }

  #disable(): void {
    if (this.#isDisabled) return;
    this.#isDisabled = true;
    this.#logger.warn("receiver disabled until the restart; it answered 410", { events: this.#queuedEvents });
    this.#wake();
  }

  #reportDroppedEvents(): void {
    if (this.#droppedEvents > 0)
      this.#logger.warn("events dropped; the queue was full", { events: this.#droppedEvents });
    this.#droppedEvents = 0;
  }
}
