import type { HookSet } from "./hooks.js";
import type { HttpHost } from "./http-host.js";
import type { SessionDriver } from "./session-driver.js";
import type { AgentStatistics } from "./statistics.js";

/** The parts of a server that are measured besides the events of its agent. */
export interface TelemetrySources {
  readonly readStatistics: () => AgentStatistics;
  /** The HTTP listener; undefined if no transport uses it. */
  readonly host: HttpHost | undefined;
  /** Removes secrets from content of spans. */
  readonly redact: (text: string) => string;
}

/** Measures an agent and exports the measurements. The config section `telemetry` selects it. */
export interface Telemetry extends HookSet {
  /** Returns a driver that measures the calls of `driver`. Called before `start`. */
  measureDriver(driver: SessionDriver): SessionDriver;
  /** Begins to export. Resolves when the path of the metrics is served. Rejects with `ListenError`. */
  start(sources: TelemetrySources): Promise<void>;
}
