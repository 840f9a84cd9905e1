import { abortable } from "../base/abort.js";
import type { PermissionPolicy } from "../ports/permission-policy.js";
import type { AskRequest, Tool, ToolCall, ToolContext } from "../ports/tool.js";
import type { RunContext } from "./run-context.js";
import { LEAVE } from "./tool-state.js";

/** Asks the person at the client. */
export type Asker = ToolContext["ask"];

/** Given to a model for a call that a cancel was faster than. */
export const NOT_RUN = "[cancelled before it ran]";

const NOBODY =
  "This call needs leave, and nobody could be asked, so it did not run. It was not refused: go on without it, or say what you need it for.";

/** Of an agent that was given no other: tools that need permission ask where somebody can be asked, and run where nobody can. */
export const ASK_WHERE_POSSIBLE: PermissionPolicy = {
  name: "ask where possible",
  judge: ({ tool, canAsk }) => ({ action: tool.needsPermission && canAsk ? "ask" : "allow" }),
};

/** What came of judging a call: it runs, it does not and why, or a person is asked and why. */
export type Verdict = "allow" | { readonly refused: string } | { readonly askedBecause: string };

/** Have the agent's policy judge a call. Never rejects: whatever goes wrong refuses. */
export async function judged(call: ToolCall, run: RunContext): Promise<Verdict> {
  const { signal, logger } = run;
  const { permissions } = run.agent;
  try {
    const judging = (async () => permissions.judge({ ...call, canAsk: run.ask !== undefined }, signal))();
    const { action, reason = "" } = await abortable(judging, signal);
    if (action === "allow") return "allow";
    if (action === "deny") return { refused: `This call is not allowed: ${reason || "go on without it."}` };
    if ((action as string) !== "ask") throw new Error("it said neither allow, deny nor ask");
    return run.ask ? { askedBecause: reason } : { refused: NOBODY };
  } catch (error) {
    if (signal.aborted) return { refused: NOT_RUN };
    const names = { tool: call.tool.name, policy: permissions.name };
    logger.error("the permission policy failed; the tool does not run", { ...names, error });
    return { refused: "Whether this call may run could not be found out, so it did not run. Go on without it." };
  }
}

/** Why a call may not run, as its model is told; undefined when it may. Asks at once where it asks. Never rejects. */
export async function refusal(
  call: ToolCall,
  verdict: Verdict,
  ask: Asker,
  { signal, logger }: RunContext,
): Promise<string | undefined> {
  if (verdict === "allow") return undefined;
  if ("refused" in verdict) return verdict.refused;
  const { title, input, locations, diff } = call;
  const reason = verdict.askedBecause;
  try {
    const told = { ...(diff.length > 0 && { diff }), ...(reason !== "" && { reason }) };
    const answer = await ask({ title, input, locations, ...told });
    return answer === "reject" ? "The user refused this call. Ask what to do instead." : undefined;
  } catch (error) {
    if (signal.aborted) return NOT_RUN;
    logger.warn("nobody could be asked for leave; the tool does not run", { tool: call.tool.name, error });
    return NOBODY;
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
