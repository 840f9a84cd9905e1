import { resolve } from "node:path";
import { abortable } from "../../base/abort.js";
import { now } from "../../base/ids.js";
import type { Ask, AskChoice, AskReply } from "../../ports/ask.js";
import type { Permission } from "../../ports/permission-policy.js";
import type { PermissionGrant } from "../../ports/session.js";
import { requestAnswerFromParent } from "./subagent-requests.js";
import { MODE_POLICY, currentMode, rootRun, deniedByMode, isAttended } from "./modes.js";
import { appliesToCall, toReadCall } from "./rule-schema.js";
import type { RuleVerdict } from "./rules.js";
import type { ToolCall, ToolCallPreview, ToolContext, ToolSpec } from "../../ports/tool.js";
import type { PermissionRun } from "./permission-run.js";

/** Sends a permission request to the clients that can answer. */
export type RequestPermission = ToolContext["ask"];

/** Output of a call that a cancel prevented, for the model. */
export const NOT_RUN = "[cancelled before it ran]";

const NOT_REJECTED = "It was not rejected: continue without it, or say why you need it.";
const NO_RESPONDER = `This call needs permission and no client could answer, so it did not run. ${NOT_REJECTED}`;

/** Thrown when a request stays unanswered. `message` is for the model. */
class UnansweredError extends Error {}

/** The result of evaluating a call: it runs, it is denied with a reason, or a user is asked with a reason. */
export type Verdict =
  | "allow"
  | { readonly refused: string }
  /** `grantKey`: scope of a permanent permission grant. `preview`: the tool's preview of the call, for the user. */
  | { readonly askReason: string; readonly grantKey: string; readonly preview?: ToolCallPreview };

/**
 * Evaluates a call: first the session's mode, then the policies and rules in order until one does not pass. `args`: the
 * arguments as parsed by the tool. Never rejects: an error denies the call.
 */
export async function evaluate(call: ToolCall, args: unknown, run: PermissionRun): Promise<Verdict> {
  const { signal, logger, agent } = run;
  const { policy: unattended } = agent.unattended;
  let by = "mode";
  let doubtful = false;
  try {
    const mode = await currentMode(run);
    const refused = deniedByMode(mode, call.tool);
    if (refused !== undefined) return { refused };
    const request = { ...call, mode, canAsk: hasResponder(run) };
    let decision: { action: Action; reason: string } | undefined;
    for (const policy of agent.permissions) {
      by = policy.name;
      decision = readPermission(await abortable((async () => policy.judge(request, signal))(), signal));
      if (decision.action !== "pass") break;
    }
    if (decision === undefined || decision.action === "pass") {
      by = "rules";
      const { rule, mayBeDenied, ...ruled } = await evaluateByRules(call, args, run);
      doubtful = mayBeDenied;
      if (rule !== undefined) by = `permissions.rules[${rule}]`;
      decision = ruled;
    }
    if (decision.action === "pass") {
      by = MODE_POLICY.name;
      decision = readPermission(await MODE_POLICY.judge(request, signal));
    }
    if (by !== MODE_POLICY.name)
      logger.debug("permission decided", { tool: call.tool.name, call: call.callId, by, action: decision.action });
    const { action, reason } = decision;
    if (action === "deny") return { refused: `This call is not allowed: ${reason || "continue without it."}` };
    if (action === "allow") return "allow";
    if (isAttended(run) || unattended === "wait") return { askReason: reason, grantKey: await grantKeyOf(call) };
    return unattended === "allow" && !doubtful ? "allow" : { refused: NO_RESPONDER };
  } catch (error) {
    if (signal.aborted) return { refused: NOT_RUN };
    logger.error("permission could not be decided; tool call denied", { tool: call.tool.name, policy: by, error });
    return { refused: "The permission of this call could not be determined, so it did not run. Continue without it." };
  }
}

type Action = Permission["action"];
const ACTIONS: readonly unknown[] = ["allow", "deny", "ask", "pass"] satisfies Action[];

/** Reads the answer of a policy, each field once. Throws if it is invalid. */
function readPermission(answer: Permission): { action: Action; reason: string } {
  const { action, reason } = answer;
  if (!ACTIONS.includes(action)) throw new Error("the policy returned none of allow, deny, ask, pass");
  return { action, reason: typeof reason === "string" ? reason : "" };
}

async function evaluateByRules(call: ToolCall, args: unknown, run: PermissionRun): Promise<RuleVerdict> {
  const { rules } = run.agent;
  const calls = [call, toReadCall(call)];
  if (!rules.some((rule) => calls.some((candidate) => candidate && appliesToCall(rule, candidate))))
    return { action: "pass", reason: "", rule: undefined, mayBeDenied: false };
  const { evaluateRules } = await import("./rules.js");
  return evaluateRules(rules, call, args, run.signal);
}

/**
 * Why an allowed call must not start after all: the session's mode was changed during the evaluation. Undefined: it may
 * start. Never rejects.
 */
export async function recheckMode(
  { tool }: ToolCall,
  verdict: Verdict,
  run: PermissionRun,
): Promise<string | undefined> {
  const { permissions, rules } = run.agent;
  // Without policies, rules and hooks, the mode was read immediately before.
  const isFresh = permissions.length + rules.length === 0 && !run.hooks.beforeToolCall;
  if (verdict === "allow" && isFresh) return undefined;
  try {
    return deniedByMode(await currentMode(run), tool);
  } catch (error) {
    run.logger.error("session mode could not be read; tool call denied", { tool: tool.name, error });
    return NOT_RUN;
  }
}

/**
 * Why a call may not run, as text for the model; undefined if it may. Sends the permission request if one is needed.
 * Never rejects.
 */
export async function denialReason(
  call: ToolCall,
  verdict: Verdict,
  ask: RequestPermission,
  { signal, logger }: PermissionRun,
): Promise<string | undefined> {
  if (verdict === "allow") return undefined;
  if ("refused" in verdict) return verdict.refused;
  const { title, input, locations } = call;
  try {
    const { diff = call.diff, note = "" } = verdict.preview ?? {};
    const reason = [verdict.askReason, note].filter((text) => text !== "").join(" ");
    const details = { ...(diff.length > 0 && { diff }), ...(reason !== "" && { reason }) };
    const answer = await ask({ title, input, locations, ...details });
    return answer === "reject" ? "The user rejected this call. Ask what to do instead." : undefined;
  } catch (error) {
    if (signal.aborted) return NOT_RUN;
    logger.warn("permission request unanswered; tool call denied", { tool: call.tool.name, error });
    return error instanceof UnansweredError ? error.message : NO_RESPONDER;
  }
}

/**
 * Whether a client can answer permission requests. In mode `auto` only the client that started the run counts, and only
 * with `alwaysAsk`. In other modes any client counts.
 */
export function hasResponder(run: PermissionRun): boolean {
  const { ask, alwaysAsk } = rootRun(run);
  return (ask !== undefined && alwaysAsk) || (run.conversation.session.mode !== "auto" && isAttended(run));
}

/** Choices of a permission request. */
const CHOICES: readonly AskChoice[] = [
  { id: "allow", label: "Allow" },
  { id: "allow_always", label: "Always allow this" },
  { id: "reject", label: "Reject" },
];

/**
 * Creates the `ask` function of one call. Only an exact allow counts; any other reply denies. Rejects if no client
 * answers.
 *
 * `lasting`: scope of a permanent grant. Undefined: the tool itself asks, with an unchecked text. A grant then covers
 * only the identical request.
 */
export function createRequestPermission(
  callId: string,
  tool: ToolSpec,
  run: PermissionRun,
  lasting?: string,
): RequestPermission {
  return async (request) => {
    const shown = copyShownCall(request);
    const { title } = shown;
    const what = lasting ?? JSON.stringify({ asked: shown, projectDir: run.projectDir });
    const { policy: unattended, timeoutMs } = run.agent.unattended;
    const front = rootRun(run);
    const grants = front.conversation.session.permissionGrants;
    if (grants.some((leave) => leave.tool === tool.name && leave.scope === what)) return "allow";
    if (!isAttended(run) && unattended !== "wait") {
      if (unattended === "allow") return "allow";
      throw new UnansweredError(NO_RESPONDER);
    }
    const outcome = await requestAnswerFromParent(
      run,
      { ...shown, callId, tool: tool.name, kind: "permission", toolKind: tool.kind, choices: CHOICES, freeText: false },
      (askClient) =>
        async ({ callId, title }, signal) =>
          replyOf(await askClient({ ...toAskRequest(shown), title, callId, tool: tool.name, kind: tool.kind }, signal)),
    );
    if (outcome === "late")
      throw new UnansweredError(
        `This call needs permission and no client answered within ${timeoutMs / 1000} s, so it did not run. ${NOT_REJECTED}`,
      );
    if (outcome === "no_client") throw new UnansweredError(NO_RESPONDER);
    const choice = outcome.reply?.choice;
    if (choice === "allow_always")
      await storeGrant(front, { tool: tool.name, scope: what, title, grantedBy: outcome.answeredBy, grantedAt: now() });
    return choice === "allow" || choice === "allow_always" ? choice : "reject";
  };
}

/** The displayed data of a call. A copy, so that the tool cannot change it later. */
type ShownCall = Pick<Ask, "title" | "input" | "locations" | "diff" | "reason">;

/** Reads each field once and copies it. */
function copyShownCall({
  title,
  input,
  locations,
  diff = [],
  reason = "",
}: Parameters<RequestPermission>[0]): ShownCall {
  const places = locations.map(({ path, line }) => ({ path: String(path), ...(line === undefined ? {} : { line }) }));
  const changes = diff.map(({ path, oldText, newText }) => ({ path, oldText, newText }));
  return { title: String(title), input: plainCopy(input), locations: places, diff: changes, reason: String(reason) };
}

/** Converts to the form that a client receives, without empty fields. */
function toAskRequest({ diff, reason, ...shown }: ShownCall): Parameters<RequestPermission>[0] {
  return { ...shown, ...(diff.length > 0 && { diff }), ...(reason !== "" && { reason }) };
}

function plainCopy(value: unknown): unknown {
  return value === undefined ? undefined : (JSON.parse(JSON.stringify(value) ?? "null") as unknown);
}

/** Creates the `askUser` function of one call. */
export function createAskUser(
  callId: string,
  tool: ToolSpec,
  input: unknown,
  run: PermissionRun,
): ToolContext["askUser"] {
  return async ({ title, choices: labels = [], freeText = labels.length === 0 }) => {
    if (!isAttended(run) && run.agent.unattended.policy !== "wait") return undefined;
    const choices = labels.map((label, i) => ({ id: String(i + 1), label: String(label) }));
    const shown = { title: String(title), input: plainCopy(input), locations: [] };
    const about = { tool: tool.name, toolKind: tool.kind, diff: [], reason: "", choices, freeText };
    const outcome = await requestAnswerFromParent(
      run,
      { ...shown, ...about, callId, kind: "question" },
      (askClient) =>
        async ({ callId, title }, signal) => {
          const question = { choices, freeText };
          const request = { ...shown, title, callId, tool: tool.name, kind: tool.kind, question };
          const reply = replyOf(await askClient(request, signal));
          if (!choices.some(({ id }) => id === reply.choice) && !(freeText && reply.text !== ""))
            throw new Error("the reply of the client has no valid choice");
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

/**
 * Stores a grant with the session, so that it applies in every process. Grants that were revoked in the meantime stay
 * revoked.
 */
async function storeGrant(
  { conversation, recorder, store, sessionId }: PermissionRun,
  leave: PermissionGrant,
): Promise<void> {
  const { permissionGrants } = (await store.get(sessionId)) ?? conversation.session;
  const all = [...permissionGrants, leave];
  conversation.session = { ...conversation.session, permissionGrants: all };
  await recorder.write({ sync: true, set: { permissionGrants: all } });
}

/**
 * The scope of a permanent grant. For edits: the files. For other tools: the exact input, because one allowed command
 * does not allow the next.
 */
async function grantKeyOf({ tool, input, locations, projectDir }: ToolCall): Promise<string> {
  if (tool.kind !== "edit" || locations.length === 0) return JSON.stringify({ projectDir, input });
  const paths = locations.map(({ path }) => path).sort();
  return JSON.stringify(await Promise.all(paths.map((path) => fileOf(path, projectDir))));
}

/** A path, together with its real path if that differs: a link could be put in its place later. */
async function fileOf(path: string, projectDir: string): Promise<string | [string, string]> {
  const { PathGuard } = await import("../../files/path-guard.js");
  const real = async () => {
    const guard = await PathGuard.create({ roots: "anywhere", denied: [] });
    return (await guard.resolve(resolve(projectDir, path))).path;
  };
  const realPath = await real().catch(() => "");
  return realPath === path ? path : [path, realPath];
}
