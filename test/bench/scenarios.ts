// The scenarios that measure the rows, in the order of execution.
import type { Scenario } from "./bench.js";
import { manyRuns, serveStart, singleRuns } from "./http-rows.js";
import { postgresRuns } from "./postgres-rows.js";
import { postgresTraffic } from "./postgres-traffic.js";
import { stdioRows } from "./stdio-rows.js";
import { jsonDriver, longList, longSession, sessionSlope } from "./store-rows.js";
import { firstToken, healthDuringStreams, longStream, tokenCpu } from "./stream-rows.js";
import { watchedStream } from "./watch-rows.js";

/** Together, these scenarios measure every row. */
export const SCENARIOS: readonly Scenario[] = [
  stdioRows,
  serveStart,
  singleRuns,
  sessionSlope,
  manyRuns,
  longStream,
  watchedStream,
  tokenCpu,
  firstToken,
  healthDuringStreams,
  longList,
  longSession,
  jsonDriver,
  postgresRuns,
  postgresTraffic,
];
