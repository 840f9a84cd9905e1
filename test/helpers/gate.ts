import { defineTool, type Tool } from "gantry";

/** An event that a test triggers. */
export interface Gate {
  /** Resolves when the gate is open. */
  wait(): Promise<void>;
  /** Resolves when something waits at the gate. */
  readonly reached: Promise<void>;
  open(): void;
}

export function gate(): Gate {
  let open = () => {};
  let reach = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  const reached = new Promise<void>((resolve) => (reach = resolve));
  return {
    wait: () => {
      reach();
      return opened;
    },
    reached,
    open: () => open(),
  };
}

/** A tool `wait` that ends when the gate is open, or when its run ends. */
export function waitTool(until: Gate): Tool {
  return defineTool({
    name: "wait",
    description: "Waits.",
    run: async (_, { signal }) => {
      const aborted = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      await Promise.race([until.wait(), aborted]);
      return "waited";
    },
  });
}
