import { defineTool, type Tool } from "gantry";

/** An event that a test triggers. */
export interface Gate {
  /** Resolves when the gate is open. */
  wait(): Promise<void>;
  /** Resolves when something waits at the gate. */
  readonly firstWait: Promise<void>;
  open(): void;
}

export function createGate(): Gate {
  let open = () => {};
  let markWaiting = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  const firstWait = new Promise<void>((resolve) => (markWaiting = resolve));
  return {
    wait: () => {
      markWaiting();
      return opened;
    },
    firstWait,
    open: () => open(),
  };
}

/** A tool `wait` that ends when the gate is open, or when its run ends. */
export function createWaitTool(gate: Gate): Tool {
  return defineTool({
    name: "wait",
    description: "Waits.",
    run: async (_, { signal }) => {
      const aborted = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      await Promise.race([gate.wait(), aborted]);
      return "waited";
    },
  });
}
