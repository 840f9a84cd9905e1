// What measures the rows, in the order in which it is done.
import type { Scenario } from "./bench.js";
import { manyRuns, serveStart, singleRuns } from "./http-rows.js";
import { postgresRuns } from "./postgres-rows.js";
import { postgresTraffic } from "./postgres-traffic.js";
import { stdioRows } from "./stdio-rows.js";
import { jsonDriver, longList, longSession, slopes } from "./store-rows.js";
import { firstToken, healthBeside, longStream, tokenCpu } from "./stream-rows.js";
import { watchedStream } from "./watch-rows.js";

/** Every row is measured by one of these. */
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
