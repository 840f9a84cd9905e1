// The scenarios that measure the rows, in the order of execution.
import type { Scenario } from "./bench.js";
import { manyRuns, serveStart, singleRuns } from "./http-rows.js";
import { postgresRuns } from "./postgres-rows.js";
import { postgresTraffic } from "./postgres-traffic.js";
import { searchRows } from "./search-rows.js";
import { silenceRows } from "./silence-rows.js";
import { stdioRows } from "./stdio-rows.js";
import { jsonDriver, longList, longSession, sessionSlope } from "./store-rows.js";
import { firstToken, healthDuringStreams, longStream, tokenCpu } from "./stream-rows.js";
import { terminalRows } from "./terminal-rows.js";
import { watchedStream } from "./watch-rows.js";

/** Together, these scenarios measure every row. */
export const SCENARIOS: readonly Scenario[] = [
  stdioRows,
  searchRows,
  silenceRows,
  terminalRows,
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
