import { withTimeout } from "../check.js";
import type { SessionDriver } from "../../ports/session-driver.js";

/** Wraps a driver. After `timeoutMs`, a call rejects with an assertion error that names the call and the check. */
export function withTimeouts(driver: SessionDriver, checkName: string, timeoutMs: number): SessionDriver {
  return new Proxy(driver, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        const result: unknown = Reflect.apply(value, target, args);
        return result instanceof Promise
          ? withTimeout(result, `${checkName}: ${String(key)}() hangs`, timeoutMs)
          : result;
      };
    },
  });
}
