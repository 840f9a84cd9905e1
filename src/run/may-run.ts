import { describe } from "./describe-call.js";
import { judged } from "./permissions.js";
import type { RunContext } from "./run-context.js";

/** The tool whose leave it is. */
const COMMANDS = "bash";

/**
 * Whether a command of this form would run now, if the run's model asked for it, without that anybody is asked: what tools
 * do beside their work must not do more. Where a policy or a hook of the embedder's looks at each call, they are not
 * bothered with what nobody called, and it is refused.
 */
export async function mayRun(command: string, callId: string, run: RunContext): Promise<boolean> {
  const tool = run.tools.find(({ name }) => name === COMMANDS);
  if (!tool || run.agent.permissions.length > 0 || run.hooks.beforeToolCall) return false;
  const { id: runId, sessionId, projectDir } = run;
  try {
    const input = { command };
    const args: unknown = tool.parse(input);
    const call = { runId, sessionId, callId, projectDir, tool, input, ...describe(tool, args, projectDir) };
    return (await judged(call, args, run)) === "allow";
  } catch {
    return false;
  }
}
