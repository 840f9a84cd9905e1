import { abortable } from "../base/abort.js";
import type { AskRequest, Tool, ToolContext } from "../ports/tool.js";
import type { RunContext } from "./run-context.js";
import { LEAVE } from "./tool-state.js";

/** Asks the person at the client. */
export type Asker = ToolContext["ask"];

/** Given to a model for a call that a cancel was faster than. */
export const NOT_RUN = "[cancelled before it ran]";

/** Ask whether a call may run; undefined, or why it may not, as its model is told. Never rejects. */
export async function refusal(
  toolName: string,
  request: Parameters<Asker>[0],
  ask: Asker,
  { signal, logger }: RunContext,
): Promise<string | undefined> {
  try {
    const answer = await ask(request);
    return answer === "reject" ? "The user refused this call. Ask what to do instead." : undefined;
  } catch (error) {
    if (signal.aborted) return NOT_RUN;
    logger.warn("nobody could be asked for leave; the tool does not run", { tool: toolName, error });
    return "This call needs leave, and nobody could be asked, so it did not run. It was not refused: go on without it, or say what you need it for.";
  }
}

/** The `ask` of one call. Only an exact yes is one: whatever else comes back refuses. */
export function asker(callId: string, tool: Tool, state: Map<string, unknown>, run: RunContext): Asker {
  return async (request) => {
    const key = lastingKey(tool, request, run.projectDir);
    if (!run.ask || state.get(key) === true) return "allow";
    const asked = run.ask({ ...request, callId, tool: tool.name, kind: tool.kind }, run.signal);
    // Raced, so that a client that ignores the signal cannot hold a run.
    const answer: unknown = await abortable(Promise.resolve(asked), run.signal);
    if (answer === "allow_always") state.set(key, true);
    return answer === "allow" || answer === "allow_always" ? answer : "reject";
  };
}

/** What a lasting permission is for. Whoever allows one command has not allowed the next one. */
function lastingKey(tool: Tool, { input, locations }: Pick<AskRequest, "input" | "locations">, projectDir: string) {
  const what =
    tool.kind === "edit" && locations.length > 0 ? locations.map(({ path }) => path).sort() : { projectDir, input };
  return `${LEAVE}${tool.name}:${JSON.stringify(what)}`;
}
