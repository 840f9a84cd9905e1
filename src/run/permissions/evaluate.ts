import { resolve } from "node:path";
import { abortable } from "../../base/abort.js";
import { now } from "../../base/ids.js";
import type { Ask, AskChoice, AskReply } from "../../ports/ask.js";
import type { Permission } from "../../ports/permission-policy.js";
import type { Leave } from "../../ports/session.js";
import { askFront } from "./subagent-requests.js";
import { BY_MODE, currentMode, frontOf, refusedInMode, isAttended } from "./modes.js";
import { isForCall, readingIn } from "./rule-schema.js";
import type { RuleVerdict } from "./rules.js";
import type { ToolCall, ToolCallPreview, ToolContext, ToolSpec } from "../../ports/tool.js";
import type { PermissionRun } from "./permission-run.js";

/** Asks whoever is there. */
export type Asker = ToolContext["ask"];

/** Given to a model for a call that a cancel was faster than. */
export const NOT_RUN = "[cancelled before it ran]";

const NOT_REFUSED = "It was not refused: go on without it, or say what you need it for.";
const NOBODY = `This call needs leave, and nobody could be asked, so it did not run. ${NOT_REFUSED}`;

/** Thrown where a question stays without an answer; `message` is for the model. */
class Unanswered extends Error {}

/** What came of judging a call: it runs, it does not and why, or a person is asked and why. */
export type Verdict =
  | "allow"
  | { readonly refused: string }
  /** `lasting`: what leave for good would be for. `preview`: what its tool shows them of it. */
  | { readonly askedBecause: string; readonly lasting: string; readonly preview?: ToolCallPreview };

/**
 * Have a call judged: by the session's mode, then by whoever is asked first and does not pass. `args`: its arguments as
 * its tool reads them. Never rejects: whatever goes wrong refuses.
 */
export async function judged(call: ToolCall, args: unknown, run: PermissionRun): Promise<Verdict> {
  const { signal, logger, agent } = run;
  const { unattended } = agent.asking;
  let by = "mode";
  let doubtful = false;
  try {
    const mode = await currentMode(run);
    const refused = refusedInMode(mode, call.tool);
    if (refused !== undefined) return { refused };
    const request = { ...call, mode, canAsk: canAsk(run) };
    let said: { action: Action; reason: string } | undefined;
    for (const policy of agent.permissions) {
      by = policy.name;
      said = permissionOf(await abortable((async () => policy.judge(request, signal))(), signal));
      if (said.action !== "pass") break;
    }
    if (said === undefined || said.action === "pass") {
      by = "rules";
      const { rule, mayBeDenied, ...ruled } = await byRules(call, args, run);
      doubtful = mayBeDenied;
      if (rule !== undefined) by = `permissions.rules[${rule}]`;
      said = ruled;
    }
    if (said.action === "pass") {
      by = BY_MODE.name;
      said = permissionOf(await BY_MODE.judge(request, signal));
    }
    if (by !== BY_MODE.name)
      logger.debug("leave for a call was judged", { tool: call.tool.name, call: call.callId, by, action: said.action });
    const { action, reason } = said;
    if (action === "deny") return { refused: `This call is not allowed: ${reason || "go on without it."}` };
    if (action === "allow") return "allow";
    if (isAttended(run) || unattended === "wait") return { askedBecause: reason, lasting: await lastingKey(call) };
    return unattended === "allow" && !doubtful ? "allow" : { refused: NOBODY };
  } catch (error) {
    if (signal.aborted) return { refused: NOT_RUN };
    logger.error("a call could not be judged; the tool does not run", { tool: call.tool.name, policy: by, error });
    return { refused: "Whether this call may run could not be found out, so it did not run. Go on without it." };
  }
}

type Action = Permission["action"];
const ACTIONS: readonly unknown[] = ["allow", "deny", "ask", "pass"] satisfies Action[];

/** An answer of a policy, each field looked at once. Throws for what is none. */
function permissionOf(answer: Permission): { action: Action; reason: string } {
  const { action, reason } = answer;
  if (!ACTIONS.includes(action)) throw new Error("it said neither allow, deny, ask nor pass");
  return { action, reason: typeof reason === "string" ? reason : "" };
}

async function byRules(call: ToolCall, args: unknown, run: PermissionRun): Promise<RuleVerdict> {
  const { rules } = run.agent;
  const calls = [call, readingIn(call)];
  if (!rules.some((rule) => calls.some((one) => one && isForCall(rule, one))))
    return { action: "pass", reason: "", rule: undefined, mayBeDenied: false };
  const { judgedByRules } = await import("./rules.js");
  return judgedByRules(rules, call, args, run.signal);
}

/** Why a call that was allowed does not begin all the same: somebody changed the session's mode while it was judged. Never rejects. */
export async function refusedSince(
  { tool }: ToolCall,
  verdict: Verdict,
  run: PermissionRun,
): Promise<string | undefined> {
  const { permissions, rules } = run.agent;
  // Where nobody else has a word, it was read just now.
  const isFresh = permissions.length + rules.length === 0 && !run.hooks.beforeToolCall;
  if (verdict === "allow" && isFresh) return undefined;
  try {
    return refusedInMode(await currentMode(run), tool);
  } catch (error) {
    run.logger.error("a session's mode could not be read; the tool does not run", { tool: tool.name, error });
    return NOT_RUN;
  }
}

/** Why a call may not run, as its model is told; undefined when it may. Asks at once where it asks. Never rejects. */
export async function refusal(
  call: ToolCall,
  verdict: Verdict,
  ask: Asker,
  { signal, logger }: PermissionRun,
): Promise<string | undefined> {
  if (verdict === "allow") return undefined;
  if ("refused" in verdict) return verdict.refused;
  const { title, input, locations } = call;
  try {
    const { diff = call.diff, note = "" } = verdict.preview ?? {};
    const reason = [verdict.askedBecause, note].filter((one) => one !== "").join(" ");
    const told = { ...(diff.length > 0 && { diff }), ...(reason !== "" && { reason }) };
    const answer = await ask({ title, input, locations, ...told });
    return answer === "reject" ? "The user refused this call. Ask what to do instead." : undefined;
  } catch (error) {
    if (signal.aborted) return NOT_RUN;
    logger.warn("nobody could be asked for leave; the tool does not run", { tool: call.tool.name, error });
    return error instanceof Unanswered ? error.message : NOBODY;
  }
}

/** Whether a person is there who is asked for leave: where the session's mode wants one, at any door; else where the run's own does. */
export function canAsk(run: PermissionRun): boolean {
  const { ask, asksInAuto } = frontOf(run);
  return (ask !== undefined && asksInAuto) || (run.conversation.session.mode !== "auto" && isAttended(run));
}

/** What a person may say of a call. */
const CHOICES: readonly AskChoice[] = [
  { id: "allow", label: "Allow" },
  { id: "allow_always", label: "Always allow this" },
  { id: "reject", label: "Reject" },
];

/**
 * The `ask` of one call. Only an exact yes is one: whatever else comes back refuses. Rejects where nobody answers.
 * `lasting`: what leave for good is for. Left out, it is the tool itself that asks, in words that nobody has checked; leave
 * for these is leave for nothing else.
 */
export function asker(callId: string, tool: ToolSpec, run: PermissionRun, lasting?: string): Asker {
  return async (request) => {
    const shown = shownOf(request);
    const { title } = shown;
    const what = lasting ?? JSON.stringify({ asked: shown, projectDir: run.projectDir });
    const { unattended, timeoutMs } = run.agent.asking;
    const front = frontOf(run);
    const given = front.conversation.session.leave;
    if (given.some((leave) => leave.tool === tool.name && leave.what === what)) return "allow";
    if (!isAttended(run) && unattended !== "wait") {
      if (unattended === "allow") return "allow";
      throw new Unanswered(NOBODY);
    }
    const outcome = await askFront(
      run,
      { ...shown, callId, tool: tool.name, kind: "permission", toolKind: tool.kind, choices: CHOICES, freeText: false },
      (here) =>
        async ({ callId, title }, signal) =>
          replyOf(await here({ ...toldOf(shown), title, callId, tool: tool.name, kind: tool.kind }, signal)),
    );
    if (outcome === "late")
      throw new Unanswered(
        `This call needs leave, and nobody answered within ${timeoutMs / 1000} s, so it did not run. ${NOT_REFUSED}`,
      );
    if (outcome === "nobody") throw new Unanswered(NOBODY);
    const choice = outcome.reply?.choice;
    if (choice === "allow_always")
      await giveLeave(front, { tool: tool.name, what, title, by: outcome.answeredBy, at: now() });
    return choice === "allow" || choice === "allow_always" ? choice : "reject";
  };
}

/** What people are shown of a call: as it is now, whatever its tool makes of it later. */
type ShownCall = Pick<Ask, "title" | "input" | "locations" | "diff" | "reason">;

/** Each field is looked at once, and copied. */
function shownOf({ title, input, locations, diff = [], reason = "" }: Parameters<Asker>[0]): ShownCall {
  const places = locations.map(({ path, line }) => ({ path: String(path), ...(line === undefined ? {} : { line }) }));
  const changes = diff.map(({ path, oldText, newText }) => ({ path, oldText, newText }));
  return { title: String(title), input: plainCopy(input), locations: places, diff: changes, reason: String(reason) };
}

/** In the form in which a door is asked, without what there is nothing of. */
function toldOf({ diff, reason, ...shown }: ShownCall): Parameters<Asker>[0] {
  return { ...shown, ...(diff.length > 0 && { diff }), ...(reason !== "" && { reason }) };
}

function plainCopy(value: unknown): unknown {
  return value === undefined ? undefined : (JSON.parse(JSON.stringify(value) ?? "null") as unknown);
}

/** The `question` of one call. */
export function questioner(
  callId: string,
  tool: ToolSpec,
  input: unknown,
  run: PermissionRun,
): ToolContext["question"] {
  return async ({ title, choices: labels = [], freeText = labels.length === 0 }) => {
    if (!isAttended(run) && run.agent.asking.unattended !== "wait") return undefined;
    const choices = labels.map((label, i) => ({ id: String(i + 1), label: String(label) }));
    const shown = { title: String(title), input: plainCopy(input), locations: [] };
    const about = { tool: tool.name, toolKind: tool.kind, diff: [], reason: "", choices, freeText };
    const outcome = await askFront(
      run,
      { ...shown, ...about, callId, kind: "question" },
      (here) =>
        async ({ callId, title }, signal) => {
          const question = { choices, freeText };
          const asked = { ...shown, title, callId, tool: tool.name, kind: tool.kind, question };
          const reply = replyOf(await here(asked, signal));
          if (!choices.some(({ id }) => id === reply.choice) && !(freeText && reply.text !== ""))
            throw new Error("the person chose nothing");
          return reply;
        },
    );
    if (typeof outcome === "string" || !outcome.reply) return undefined;
    const { choice, text } = outcome.reply;
    return choices.find(({ id }) => id === choice)?.label ?? text;
  };
}

function replyOf(answer: unknown): AskReply {
  const { choice, text } = (typeof answer === "object" ? (answer ?? {}) : { choice: answer }) as Record<
    string,
    unknown
  >;
  return { choice: typeof choice === "string" ? choice : "", text: typeof text === "string" ? text : "" };
}

/** Stored with the session, so that it holds in any process. What was taken back meanwhile stays so. */
async function giveLeave({ conversation, recorder, store, sessionId }: PermissionRun, leave: Leave): Promise<void> {
  const { leave: given } = (await store.get(sessionId)) ?? conversation.session;
  const all = [...given, leave];
  conversation.session = { ...conversation.session, leave: all };
  await recorder.write({ sync: true, set: { leave: all } });
}

/** What a lasting permission is for. Whoever allows one command has not allowed the next one. */
async function lastingKey({ tool, input, locations, projectDir }: ToolCall): Promise<string> {
  if (tool.kind !== "edit" || locations.length === 0) return JSON.stringify({ projectDir, input });
  const paths = locations.map(({ path }) => path).sort();
  return JSON.stringify(await Promise.all(paths.map((path) => fileOf(path, projectDir))));
}

/** A file, also by what it really is where that is another: somebody may put a link in its place. */
async function fileOf(path: string, projectDir: string): Promise<string | [string, string]> {
  const { PathGuard } = await import("../../files/path-guard.js");
  const real = async () => {
    const guard = await PathGuard.create({ roots: "anywhere", denied: [] });
    return (await guard.resolve(resolve(projectDir, path))).path;
  };
  const found = await real().catch(() => "");
  return found === path ? path : [path, found];
}
