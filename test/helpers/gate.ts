import { defineTool, type Tool } from "gantry";

/** Blocks work until a test opens the gate. */
export interface Gate {
  /** Resolves when the gate is open. */
  wait(): Promise<void>;
  /** Resolves at the first call of `wait`. */
  readonly firstWait: Promise<void>;
  open(): void;
}

export function createGate(): Gate {
  let resolveOpen = () => {};
  let markWaiting = () => {};
  const openPromise = new Promise<void>((resolve) => (resolveOpen = resolve));
  const firstWait = new Promise<void>((resolve) => (markWaiting = resolve));
  return {
    wait: () => {
      markWaiting();
      return openPromise;
    },
    firstWait,
    open: () => resolveOpen(),
  };
}

/** A tool `wait` that ends when the gate is open, or when its run ends. */
export function createWaitTool(gate: Gate): Tool {
  return defineTool({
    name: "wait",
    description: "Waits.",
    run: async (_, { signal }) => {
      const abortEvent = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      await Promise.race([gate.wait(), abortEvent]);
      return "waited";
    },
  });
}
