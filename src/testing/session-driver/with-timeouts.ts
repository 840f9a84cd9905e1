import { soon } from "../check.js";
import type { SessionDriver } from "../../ports/session-driver.js";

/** The same driver, but a call that is not answered within so many milliseconds rejects with an assertion that names it and the check. */
export function patient(driver: SessionDriver, check: string, ms: number): SessionDriver {
  return new Proxy(driver, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        const answer: unknown = Reflect.apply(value, target, args);
        return answer instanceof Promise ? soon(answer, `${check}: ${String(key)}() hangs`, ms) : answer;
      };
    },
  });
}
