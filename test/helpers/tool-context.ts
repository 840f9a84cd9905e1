import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Tool, ToolContext, ToolOutput } from "gantry";

/** A temporary folder, removed by `await using`. */
export async function createTemporaryFolder(): Promise<{ path: string } & AsyncDisposable> {
  const path = await realpath(await mkdtemp(join(tmpdir(), "gantry-test-")));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** A tool context as from the kernel, for a session in `projectDir`. */
export function createToolContext(projectDir: string, overrides: Partial<ToolContext> = {}): ToolContext {
  return {
    runId: "run",
    sessionId: "session",
    callId: "call",
    projectDir,
    signal: new AbortController().signal,
    ask: () => Promise.resolve("allow"),
    askUser: () => Promise.resolve(undefined),
    progress: () => undefined,
    spawn: () => Promise.reject(new Error("subagents are not available")),
    state: new Map(),
    ...overrides,
  };
}

/** Calls a tool as the kernel does: `input` goes through `parse`. */
export async function callTool(tool: Tool, input: unknown, context: ToolContext): Promise<ToolOutput> {
  const args: unknown = tool.parse(input);
  tool.describe(args, context.projectDir);
  return tool.run(args, context);
}
