import type { BusEvents, Logger } from "gantry";
import type { HookSet } from "gantry/plugin";

/** Maximum events that wait. Handling them takes about 2 ms. */
const MAX_EVENTS = 200;
/** Maximum time that an event waits, in ms. */
const MAX_DELAY_MS = 1_000;
/** Difference from the system clock at which times follow it again: the clock was set, or the machine slept. */
const MAX_CLOCK_DRIFT_MS = 100;

/** Functions for events of the agent. `timeMs` is the time of the event in ms since the epoch, with fractions. */
export type EventHandlers = { [E in keyof BusEvents]?: (payload: BusEvents[E], timeMs: number) => void };

interface BatchedEvent {
  readonly handle: (payload: unknown, timeMs: number) => void;
  readonly payload: unknown;
  readonly timeMs: number;
}

/**
 * Handles events later, many at once, in their order. A turn has only a few events, and its other work displaces their
 * code from the caches of the CPU: handled at once, each event takes several times as long.
 */
export class EventBatcher {
  readonly #logger: Logger;
  #events: BatchedEvent[] = [];
  #timer: NodeJS.Timeout | undefined;
  #clockOffsetMs = Date.now() - performance.now();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Returns listeners that keep the events for `handlers`. */
  createListeners(handlers: EventHandlers): NonNullable<HookSet["listeners"]> {
    const listeners = Object.entries(handlers).map(([event, handle]) => [
      event,
      (payload: unknown) => this.add(handle as BatchedEvent["handle"], payload),
    ]);
    return Object.fromEntries(listeners) as NonNullable<HookSet["listeners"]>;
  }

  /** Keeps an event. `handle` is called later, with the present time. */
  add<T>(handle: (payload: T, timeMs: number) => void, payload: T): void {
    this.#events.push({ handle: handle as BatchedEvent["handle"], payload, timeMs: this.#now() });
    if (this.#events.length >= MAX_EVENTS) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), MAX_DELAY_MS).unref();
  }

  /** Handles all events that wait. An error of a handler is logged. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const events = this.#events;
    this.#events = [];
    for (const { handle, payload, timeMs } of events)
      try {
        handle(payload, timeMs);
      } catch (error) {
        this.#logger.warn("event not recorded in traces", { error });
      }
  }

  /** The time of the system clock, but with fractions of a millisecond and without small steps back. */
  #now(): number {
    const timeMs = performance.now() + this.#clockOffsetMs;
    const driftMs = Date.now() - timeMs;
    if (Math.abs(driftMs) <= MAX_CLOCK_DRIFT_MS) return timeMs;
    this.#clockOffsetMs += driftMs;
    return timeMs + driftMs;
  }
}
