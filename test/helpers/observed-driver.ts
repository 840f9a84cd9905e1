import type { SessionDriver } from "gantry/plugin";

type Method = Exclude<keyof SessionDriver, "notifier" | "name" | "clockOffsetMs" | "separatesUsers">;

export interface ObservedDriver {
  driver: SessionDriver;
  /**
   * Resolves when a call of the method has returned a result that `accepts` matches, and the caller has received it.
   */
  waitForResult<M extends Method>(
    method: M,
    accepts?: (result: Awaited<ReturnType<NonNullable<SessionDriver[M]>>>) => boolean,
  ): Promise<void>;
}

/** A driver whose results a test can wait for. */
export function observeDriver(wrappedDriver: SessionDriver): ObservedDriver {
  const listeners = new Set<(method: PropertyKey, returnedValue: unknown) => void>();
  const driver = new Proxy(wrappedDriver, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        const result: unknown = Reflect.apply(value, target, args);
        if (listeners.size > 0)
          void Promise.resolve(result).then(
            (returnedValue) => setImmediate(() => listeners.forEach((listener) => listener(name, returnedValue))),
            () => undefined,
          );
        return result;
      };
    },
  });
  const waitForResult: ObservedDriver["waitForResult"] = async (method, accepts = () => true) => {
    // Polling timers of stores do not keep the process alive.
    const keepAliveTimer = setInterval(() => undefined, 60_000);
    await new Promise<void>((resolve) => {
      const listener = (name: PropertyKey, returnedValue: unknown): void => {
        if (name !== method || !accepts(returnedValue as Parameters<typeof accepts>[0])) return;
        listeners.delete(listener);
        resolve();
      };
      listeners.add(listener);
    });
    clearInterval(keepAliveTimer);
  };
  return { driver, waitForResult };
}
