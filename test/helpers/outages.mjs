// A store with simulated outages: a SQLite driver that a test can make unavailable. As a session driver of a config,
// this module reads the state from the file `away` in gantry's home; no file means no outage.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { StoreError } from "gantry";
import { defineAdapter } from "gantry/plugin";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";

/**
 * Wraps a driver. While `getState` returns `fail`, calls fail; with `full`, they fail because of a full disk; with
 * `hang`, calls never return; with `slow`, calls are delayed by 20 ms; with "", calls are unchanged.
 */
export function withOutages(driver, getState) {
  return new Proxy(driver, {
    get(target, name) {
      const value = Reflect.get(target, name, target);
      if (typeof value !== "function" || name === "close")
        return typeof value === "function" ? value.bind(target) : value;
      return async (...args) => {
        if (getState() === "hang") await new Promise(() => undefined);

        if (getState() === "slow") await new Promise((resolve) => setTimeout(resolve, 20));
        if (getState() === "fail")
          throw new StoreError("session store postgres://ada@db.internal:5432/secret: connect ECONNREFUSED 10.1.2.3", {
            isUnavailable: true,
          });
        if (getState() === "full") throw new StoreError("session store: no space left", { isFull: true });
        return value.apply(target, args);
      };
    },
  });
}

export default defineAdapter({
  kind: "session-driver",
  name: "outages",
  parse: () => ({}),
  create: (_options, { home, logger }) => {
    const statePath = join(home, "away");
    const readState = () => (existsSync(statePath) ? readFileSync(statePath, "utf8") : "");
    return withOutages(new SqliteDriver({ path: join(home, "sessions.db"), durability: "normal" }, logger), readState);
  },
});
