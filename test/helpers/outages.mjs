// A store with simulated outages: a SQLite driver that a test can cut off. As a session driver of a config it reads the
// file `away` in gantry's home. `fail`: calls fail; `hang`: calls never return; `slow`: calls are delayed.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { StoreError } from "gantry";
import { defineAdapter } from "gantry/plugin";
import { SqliteDriver } from "gantry/adapters/sqlite-driver";

/** Wraps a driver whose calls fail, hang or are delayed while `state` returns that word. */
export function withOutages(driver, state) {
  return new Proxy(driver, {
    get(target, name) {
      const value = Reflect.get(target, name, target);
      if (typeof value !== "function" || name === "close")
        return typeof value === "function" ? value.bind(target) : value;
      return async (...args) => {
        if (state() === "hang") await new Promise(() => undefined);
        // Delay of a slow store.
        if (state() === "slow") await new Promise((resolve) => setTimeout(resolve, 20));
        if (state() === "fail")
          throw new StoreError("session store postgres://ada@db.internal:5432/secret: connect ECONNREFUSED 10.1.2.3", {
            isUnavailable: true,
          });
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
    const state = () => (existsSync(statePath) ? readFileSync(statePath, "utf8") : "");
    return withOutages(new SqliteDriver({ path: join(home, "sessions.db"), durability: "normal" }, logger), state);
  },
});
