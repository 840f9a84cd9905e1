import { abortable } from "../base/abort.js";
import { now } from "../base/ids.js";
import type { AskChoice, AskReply } from "../ports/ask.js";
import type { Leave } from "../ports/session.js";
import { askPeople, isAttended } from "./asks.js";
import { currentMode, refusedInMode } from "./modes.js";
import type { AskRequest, Tool, ToolCall, ToolContext } from "../ports/tool.js";
import type { RunContext } from "./run-context.js";

/** Asks the person at the client. */
export type Asker = ToolContext["ask"];

/** Given to a model for a call that a cancel was faster than. */
export const NOT_RUN = "[cancelled before it ran]";

const NOBODY =
  "This call needs leave, and nobody could be asked, so it did not run. It was not refused: go on without it, or say what you need it for.";

/** What came of judging a call: it runs, it does not and why, or a person is asked and why. */
export type Verdict = "allow" | { readonly refused: string } | { readonly askedBecause: string };

/** Have the agent's policy judge a call. Never rejects: whatever goes wrong refuses. */
export async function judged(call: ToolCall, run: RunContext): Promise<Verdict> {
  const { signal, logger } = run;
  const { permissions } = run.agent;
  try {
    const mode = await currentMode(run);
    const refused = refusedInMode(mode, call.tool);
    if (refused !== undefined) return { refused };
    const judging = (async () => permissions.judge({ ...call, mode, canAsk: canAsk(run) }, signal))();
    const { action, reason = "" } = await abortable(judging, signal);
    if (action === "allow") return "allow";
    if (action === "deny") return { refused: `This call is not allowed: ${reason || "go on without it."}` };
    if ((action as string) !== "ask") throw new Error("it said neither allow, deny nor ask");
    if (canAsk(run) || run.agent.asking.unattended === "wait") return { askedBecause: reason };
    return run.agent.asking.unattended === "allow" ? "allow" : { refused: NOBODY };
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

/** Whether a person is there who answers: at the run's own door, and where the session's mode wants one, at any. */
export function canAsk(run: RunContext): boolean {
  return run.ask !== undefined || (run.conversation.session.mode !== "auto" && isAttended(run));
}

/** What a person may say of a call. */
const CHOICES: readonly AskChoice[] = [
  { id: "allow", label: "Allow" },
  { id: "allow_always", label: "Always allow this" },
  { id: "reject", label: "Reject" },
];

/** The `ask` of one call. Only an exact yes is one: whatever else comes back refuses. Rejects where nobody could be asked. */
export function asker(callId: string, tool: Tool, run: RunContext): Asker {
  return async (request) => {
    const { locations, input, title, diff = [], reason = "" } = request;
    const what = lastingKey(tool, request, run.projectDir);
    const given = run.conversation.session.leave;
    if (given.some((leave) => leave.tool === tool.name && leave.what === what)) return "allow";
    if (!isAttended(run) && run.agent.asking.unattended !== "wait") {
      if (run.agent.asking.unattended === "allow") return "allow";
      throw new Error("nobody is there");
    }
    const names = { callId, tool: tool.name, kind: tool.kind };
    const here = run.ask;
    const asked = { callId, kind: "permission", tool: tool.name, toolKind: tool.kind, title, input } as const;
    const ask = await askPeople(
      run,
      { ...asked, locations, diff, reason, choices: CHOICES, freeText: false },
      here && (async (signal) => replyOf(await here({ ...request, ...names }, signal))),
    );
    if (!ask) throw new Error("nobody answered");
    const choice = ask.reply?.choice;
    if (choice === "allow_always")
      await giveLeave(run, { tool: tool.name, what, title, by: ask.answeredBy, at: now() });
    return choice === "allow" || choice === "allow_always" ? choice : "reject";
  };
}

/** The `question` of one call. */
export function questioner(callId: string, tool: Tool, input: unknown, run: RunContext): ToolContext["question"] {
  return async ({ title, choices: labels = [], freeText = labels.length === 0 }) => {
    if (!isAttended(run) && run.agent.asking.unattended !== "wait") return undefined;
    const choices = labels.map((label, i) => ({ id: String(i + 1), label }));
    const shown = { title, input, locations: [] };
    const here = run.ask;
    const ask = await askPeople(
      run,
      {
        ...shown,
        callId,
        kind: "question",
        tool: tool.name,
        toolKind: tool.kind,
        diff: [],
        reason: "",
        choices,
        freeText,
      },
      here &&
        (async (signal) => {
          const question = { choices, freeText };
          const reply = replyOf(await here({ ...shown, callId, tool: tool.name, kind: tool.kind, question }, signal));
          if (!choices.some(({ id }) => id === reply.choice) && !(freeText && reply.text !== ""))
            throw new Error("the person chose nothing");
          return reply;
        }),
    );
    return ask?.reply ? (choices.find(({ id }) => id === ask.reply?.choice)?.label ?? ask.reply.text) : undefined;
  };
}

function replyOf(answer: unknown): AskReply {
  const { choice, text } = (typeof answer === "object" ? (answer ?? {}) : { choice: answer }) as Record<
    string,
    unknown
  >;
  return { choice: typeof choice === "string" ? choice : "", text: typeof text === "string" ? text : "" };
}

/** Stored with the session, so that it holds in any process. */
async function giveLeave({ conversation, recorder }: RunContext, leave: Leave): Promise<void> {
  const all = [...conversation.session.leave, leave];
  conversation.session = { ...conversation.session, leave: all };
  await recorder.write({ sync: true, set: { leave: all } });
}

/** What a lasting permission is for. Whoever allows one command has not allowed the next one. */
function lastingKey(tool: Tool, { input, locations }: Pick<AskRequest, "input" | "locations">, projectDir: string) {
  const what =
    tool.kind === "edit" && locations.length > 0 ? locations.map(({ path }) => path).sort() : { projectDir, input };
  return JSON.stringify(what);
}
