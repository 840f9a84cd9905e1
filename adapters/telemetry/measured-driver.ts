import type { SessionDriver } from "gantry/plugin";
import type { Instrument } from "./instruments.js";

type Method = (...args: unknown[]) => unknown;

/**
 * Returns a driver that records the duration of each call of `driver` by the name of its method. It calls the current
 * methods of `driver`, because the server replaces `open` and `close` of some drivers.
 */
export function measureDriver(driver: SessionDriver, duration: Instrument): SessionDriver {
  const methods = driver as unknown as Record<string, Method>;
  const measuredDriver = {};
  for (const name of listMembers(driver)) {
    const descriptor: PropertyDescriptor =
      name !== "notifier" && typeof methods[name] === "function"
        ? { value: measure(methods, name, duration) }
        : { get: () => methods[name] };
    Object.defineProperty(measuredDriver, name, { ...descriptor, enumerable: true, configurable: true });
  }
  return measuredDriver as SessionDriver;
}

function measure(methods: Record<string, Method>, name: string, duration: Instrument): Method {
  const okSeries = duration.bind({ method: name, outcome: "ok" });
  const failedSeries = duration.bind({ method: name, outcome: "failed" });
  return (...args) => {
    const startedAtMs = performance.now();
    const result = methods[name]!(...args);
    if (result instanceof Promise)
      result.then(
        () => okSeries.record((performance.now() - startedAtMs) / 1_000),
        () => failedSeries.record((performance.now() - startedAtMs) / 1_000),
      );
    return result;
  };
}

/** Names of all members of an object, including those of its classes. */
function listMembers(object: object): Set<string> {
  const names = new Set<string>();
  for (let owner: object | null = object; owner && owner !== Object.prototype;) {
    for (const name of Object.getOwnPropertyNames(owner)) if (name !== "constructor") names.add(name);
    owner = Object.getPrototypeOf(owner) as object | null;
  }
  return names;
}
