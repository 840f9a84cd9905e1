// The scenarios that measure the rows, in the order of execution.
import type { Scenario } from "./bench.js";
import { manyRuns, serveStart, singleRuns } from "./http-rows.js";
import { postgresRuns } from "./postgres-rows.js";
import { postgresTraffic } from "./postgres-traffic.js";
import { stdioRows } from "./stdio-rows.js";
import { jsonDriver, longList, longSession, slopes } from "./store-rows.js";
import { firstToken, healthBeside, longStream, tokenCpu } from "./stream-rows.js";
import { watchedStream } from "./watch-rows.js";

/** Together they measure every row. */
export const SCENARIOS: readonly Scenario[] = [
  stdioRows,
  serveStart,
  singleRuns,
  slopes,
  manyRuns,
  longStream,
  watchedStream,
  tokenCpu,
  firstToken,
  healthBeside,
  longList,
  longSession,
  jsonDriver,
  postgresRuns,
  postgresTraffic,
];
