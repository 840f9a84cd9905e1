import { effect, type ReadonlySignal } from "@preact/signals";

/** Resolves as soon as the condition is true. */
export function waitUntilTrue(condition: ReadonlySignal<boolean>): Promise<void> {
  return new Promise((resolve) => {
    const dispose = effect(() => {
      if (condition.value) queueMicrotask(() => dispose());
      if (condition.value) resolve();
    });
  });
}
