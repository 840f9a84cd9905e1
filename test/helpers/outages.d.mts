import type { SessionDriver } from "gantry/plugin";

/**
 * Wraps a driver. While `getState` returns `fail`, calls fail; with `full`, they fail because of a full disk; with
 * `hang`, calls never return; with `slow`, calls are delayed by 20 ms; with "", calls are unchanged.
 */
export function withOutages(
  driver: SessionDriver,
  getState: () => "" | "fail" | "full" | "hang" | "slow",
): SessionDriver;
