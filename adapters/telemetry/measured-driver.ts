import type { Histogram } from "@opentelemetry/api";
import type { SessionDriver } from "gantry/plugin";

/** Returns a driver that records the duration of each call of `driver` by the name of its method. */
export function measureDriver(driver: SessionDriver, duration: Histogram): SessionDriver {
  type Method = (...args: unknown[]) => unknown;
  const measuredMethods = new Map<string, { method: Method; measured: Method }>();
  const measure = (name: string, method: Method): Method => {
    const labels = { ok: { method: name, outcome: "ok" }, failed: { method: name, outcome: "failed" } };
    return (...args) => {
      const startedAtMs = performance.now();
      const record = (outcome: keyof typeof labels) =>
        duration.record((performance.now() - startedAtMs) / 1_000, labels[outcome]);
      const result = method.apply(driver, args);
      if (result instanceof Promise)
        result.then(
          () => record("ok"),
          () => record("failed"),
        );
      return result;
    };
  };
  return new Proxy(driver, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof name !== "string" || typeof value !== "function") return value;
      const method = value as Method;
      const entry = measuredMethods.get(name);
      // The server replaces `open` and `close` of some drivers.
      if (entry?.method === method) return entry.measured;
      const measured = measure(name, method);
      measuredMethods.set(name, { method, measured });
      return measured;
    },
  });
}
