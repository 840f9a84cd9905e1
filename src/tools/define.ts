import type { Tool, ToolSpec } from "../ports/tool.js";
import type { Arguments } from "./arguments.js";

interface Definition<Args> extends Omit<ToolSpec, "inputSchema">, Pick<Tool<Args>, "describe" | "run"> {
  readonly args: Arguments<Args>;
}

/** A tool whose schema and check come from one description of its arguments. */
export function defineTool<Args>(definition: Definition<Args>): Tool<Args> {
  const { args, ...rest } = definition;
  return { ...rest, inputSchema: args.schema, parse: (input) => args.parse(input) };
}
