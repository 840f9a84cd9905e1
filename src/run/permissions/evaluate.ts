import { resolve } from "node:path";
import { abortable } from "../../base/abort.js";
import { now } from "../../base/ids.js";
import type { Ask, AskChoice, AskReply } from "../../ports/ask.js";
import type { Permission, PermissionRule } from "../../ports/permission-policy.js";
import type { PermissionGrant } from "../../ports/session.js";
import { requestAnswerFromParent } from "./subagent-requests.js";
import { MODE_POLICY, refreshMode, findRootRun, findModeDenial, isAttended } from "./modes.js";
import { appliesToCall, toReadCall } from "./rule-schema.js";
import type { RuleVerdict } from "./rules.js";
import type { ToolCall, ToolCallPreview, ToolContext, ToolSpec } from "../../ports/tool.js";
import type { PermissionRun } from "./permission-run.js";

/** Sends a permission request to the clients that can answer. */
export type PermissionRequester = ToolContext["ask"];

/** Output of a call that a cancel prevented, for the model. */
export const CANCELLED_TEXT = "[cancelled before it ran]";

const CONTINUE_TEXT = "It was not rejected: continue without it, or say why you need it.";
const NO_RESPONDER_TEXT = `This call needs permission and no client could answer, so it did not run. ${CONTINUE_TEXT}`;

/** Thrown when a request stays unanswered. `message` is for the model. */
class UnansweredError extends Error {}

/** The result of evaluating a call: it runs, it is denied with a reason, or a user is asked with a reason. */
export type Verdict =
  | "allow"
  | { readonly denialReason: string }
  /** `grantScope`: scope of a permanent permission grant. `preview`: the tool's preview of the call, for the user. */
  | { readonly askReason: string; readonly grantScope: string; readonly preview?: ToolCallPreview };

/**
 * Evaluates a call: first the session's mode, then the policies and rules in order until one does not pass. `args`: the
 * arguments as parsed by the tool. Never rejects: an error denies the call.
 */
export async function evaluate(call: ToolCall, args: unknown, run: PermissionRun): Promise<Verdict> {
  const { signal, permissions } = run;
  const { logger } = run.channels;
  const unattended = permissions.unattended.policy;
  let decidedBy = "mode";
  let isDenialPossible = false;
  try {
    const mode = await refreshMode(run);
    const denialReason = findModeDenial(mode, call.tool);
    if (denialReason !== undefined) return { denialReason };
    const request = { ...call, mode, canAsk: hasResponder(run) };
    let decision: { action: Action; reason: string } | undefined;
    for (const policy of permissions.policies) {
      decidedBy = policy.name;
      decision = readPermission(await abortable((async () => policy.judge(request, signal))(), signal));
      if (decision.action !== "pass") break;
    }
    if (decision === undefined || decision.action === "pass") {
      decidedBy = "rules";
      const { rule, mayBeDenied, ...ruleDecision } = await evaluateByRules(call, args, permissions.rules, signal);
      isDenialPossible = mayBeDenied;
      if (rule !== undefined) decidedBy = `permissions.rules[${rule}]`;
      decision = ruleDecision;
    }
    if (decision.action === "pass") {
      decidedBy = MODE_POLICY.name;
      decision = readPermission(await MODE_POLICY.judge(request, signal));
    }
    if (decidedBy !== MODE_POLICY.name)
      logger.debug("permission decided", {
        tool: call.tool.name,
        call: call.callId,
        by: decidedBy,
        action: decision.action,
      });
    const { action, reason } = decision;
    if (action === "deny") return { denialReason: `This call is not allowed: ${reason || "continue without it."}` };
    if (action === "allow") return "allow";
    if (isAttended(run) || unattended === "wait")
      return { askReason: reason, grantScope: await createGrantScope(call) };
    return unattended === "allow" && !isDenialPossible ? "allow" : { denialReason: NO_RESPONDER_TEXT };
  } catch (error) {
    if (signal.aborted) return { denialReason: CANCELLED_TEXT };
    logger.error("permission could not be decided; tool call denied", {
      tool: call.tool.name,
      policy: decidedBy,
      error,
    });
    return {
      denialReason: "The permission of this call could not be determined, so it did not run. Continue without it.",
    };
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

async function evaluateByRules(
  call: ToolCall,
  args: unknown,
  rules: readonly PermissionRule[],
  signal: AbortSignal,
): Promise<RuleVerdict> {
  const calls = [call, toReadCall(call)];
  if (!rules.some((rule) => calls.some((candidate) => candidate && appliesToCall(rule, candidate))))
    return { action: "pass", reason: "", rule: undefined, mayBeDenied: false };
  const { evaluateRules } = await import("./rules.js");
  return evaluateRules(rules, call, args, signal);
}

/**
 * Returns why an allowed call must not start: the session's mode was changed during the evaluation. Returns undefined
 * if the call may start. `hasHook`: whether a hook was called since. Never rejects.
 */
export async function recheckMode(
  { tool }: ToolCall,
  verdict: Verdict,
  run: PermissionRun,
  hasHook: boolean,
): Promise<string | undefined> {
  const { policies, rules } = run.permissions;
  // Without policies, rules and hooks, the mode was read immediately before.
  const isModeCurrent = policies.length + rules.length === 0 && !hasHook;
  if (verdict === "allow" && isModeCurrent) return undefined;
  try {
    return findModeDenial(await refreshMode(run), tool);
  } catch (error) {
    run.channels.logger.error("session mode could not be read; tool call denied", { tool: tool.name, error });
    return CANCELLED_TEXT;
  }
}

/**
 * Returns why a call may not run, as text for the model; undefined if it may run. Sends the permission request if one
 * is needed. Never rejects.
 */
export async function findDenialReason(
  call: ToolCall,
  verdict: Verdict,
  ask: PermissionRequester,
  { signal, channels: { logger } }: PermissionRun,
): Promise<string | undefined> {
  if (verdict === "allow") return undefined;
  if ("denialReason" in verdict) return verdict.denialReason;
  const { title, input, locations } = call;
  try {
    const { diff = call.diff, note = "" } = verdict.preview ?? {};
    const reason = [verdict.askReason, note].filter((text) => text !== "").join(" ");
    const details = { ...(diff.length > 0 && { diff }), ...(reason !== "" && { reason }) };
    const answer = await ask({ title, input, locations, ...details });
    return answer === "reject" ? "The user rejected this call. Ask what to do instead." : undefined;
  } catch (error) {
    if (signal.aborted) return CANCELLED_TEXT;
    logger.warn("permission request unanswered; tool call denied", { tool: call.tool.name, error });
    return error instanceof UnansweredError ? error.message : NO_RESPONDER_TEXT;
  }
}

/**
 * Whether a client can answer permission requests. In mode `auto` only the client that started the run counts, and only
 * with `alwaysAsk`. In other modes any client counts.
 */
export function hasResponder(run: PermissionRun): boolean {
  const { ask, alwaysAsk } = findRootRun(run).permissions;
  return (ask !== undefined && alwaysAsk) || (run.session.conversation.session.mode !== "auto" && isAttended(run));
}

/** Choices of a permission request. */
const CHOICES: readonly AskChoice[] = [
  { id: "allow", label: "Allow" },
  { id: "allow_always", label: "Always allow this" },
  { id: "reject", label: "Reject" },
];

/**
 * Creates the `ask` function of one call. Only the replies `allow` and `allow_always` allow the call. The function
 * rejects if no client answers.
 *
 * `grantScope`: scope of a permanent grant. Undefined: the tool itself asks, with an unchecked text. A grant then
 * covers only the identical request.
 */
export function createPermissionRequester(
  callId: string,
  tool: ToolSpec,
  run: PermissionRun,
  grantScope?: string,
): PermissionRequester {
  return async (request) => {
    const shownCall = copyShownCall(request);
    const { title } = shownCall;
    const scope = grantScope ?? JSON.stringify({ asked: shownCall, projectDir: run.info.projectDir });
    const { policy: unattended, timeoutMs } = run.permissions.unattended;
    const rootRun = findRootRun(run);
    const grants = rootRun.session.conversation.session.permissionGrants;
    if (grants.some((grant) => grant.tool === tool.name && grant.scope === scope)) return "allow";
    if (!isAttended(run) && unattended !== "wait") {
      if (unattended === "allow") return "allow";
      throw new UnansweredError(NO_RESPONDER_TEXT);
    }
    const outcome = await requestAnswerFromParent(
      run,
      {
        ...shownCall,
        callId,
        tool: tool.name,
        kind: "permission",
        toolKind: tool.kind,
        choices: CHOICES,
        freeText: false,
      },
      (askClient) =>
        async ({ callId, title }, signal) =>
          readReply(
            await askClient({ ...toAskRequest(shownCall), title, callId, tool: tool.name, kind: tool.kind }, signal),
          ),
    );
    if (outcome === "timeout")
      throw new UnansweredError(
        `This call needs permission and no client answered within ${timeoutMs / 1000} s, so it did not run. ${CONTINUE_TEXT}`,
      );
    if (outcome === "no_client") throw new UnansweredError(NO_RESPONDER_TEXT);
    const choice = outcome.reply?.choice;
    if (choice === "allow_always")
      await storeGrant(rootRun, { tool: tool.name, scope, title, grantedBy: outcome.answeredBy, grantedAt: now() });
    return choice === "allow" || choice === "allow_always" ? choice : "reject";
  };
}

/** A copy of the displayed data of a call, so that the tool cannot change it later. */
type ShownCall = Pick<Ask, "title" | "input" | "locations" | "diff" | "reason">;

/** Reads each field once, because a getter may return another value the second time. */
function copyShownCall({
  title,
  input,
  locations,
  diff = [],
  reason = "",
}: Parameters<PermissionRequester>[0]): ShownCall {
  const locationCopies = locations.map(({ path, line }) => ({
    path: String(path),
    ...(line === undefined ? {} : { line }),
  }));
  const diffCopies = diff.map(({ path, oldText, newText }) => ({ path, oldText, newText }));
  return {
    title: String(title),
    input: copyAsJson(input),
    locations: locationCopies,
    diff: diffCopies,
    reason: String(reason),
  };
}

/** Converts to the form that a client receives, without empty fields. */
function toAskRequest({ diff, reason, ...displayFields }: ShownCall): Parameters<PermissionRequester>[0] {
  return { ...displayFields, ...(diff.length > 0 && { diff }), ...(reason !== "" && { reason }) };
}

function copyAsJson(value: unknown): unknown {
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
    if (!isAttended(run) && run.permissions.unattended.policy !== "wait") return undefined;
    const choices = labels.map((label, i) => ({ id: String(i + 1), label: String(label) }));
    const displayFields = { title: String(title), input: copyAsJson(input), locations: [] };
    const askFields = { tool: tool.name, toolKind: tool.kind, diff: [], reason: "", choices, freeText };
    const outcome = await requestAnswerFromParent(
      run,
      { ...displayFields, ...askFields, callId, kind: "question" },
      (askClient) =>
        async ({ callId, title }, signal) => {
          const question = { choices, freeText };
          const request = { ...displayFields, title, callId, tool: tool.name, kind: tool.kind, question };
          const reply = readReply(await askClient(request, signal));
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

function readReply(answer: unknown): AskReply {
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
  { info: { sessionId }, session: { conversation, recorder, store } }: PermissionRun,
  grant: PermissionGrant,
): Promise<void> {
  const { permissionGrants } = (await store.get(sessionId)) ?? conversation.session;
  const allGrants = [...permissionGrants, grant];
  conversation.session = { ...conversation.session, permissionGrants: allGrants };
  await recorder.write({ sync: true, set: { permissionGrants: allGrants } });
}

/**
 * Returns the scope of a permanent grant: for edits the files, for other tools the exact input, because one allowed
 * command does not allow the next.
 */
async function createGrantScope({ tool, input, locations, projectDir }: ToolCall): Promise<string> {
  if (tool.kind !== "edit" || locations.length === 0) return JSON.stringify({ projectDir, input });
  const paths = locations.map(({ path }) => path).sort();
  return JSON.stringify(await Promise.all(paths.map((path) => toScopePath(path, projectDir))));
}

/** Returns a path, with its real path if that differs: the path could be replaced by a link later. */
async function toScopePath(path: string, projectDir: string): Promise<string | [string, string]> {
  const { PathGuard } = await import("../../files/path-guard.js");
  const findRealPath = async () => {
    const guard = await PathGuard.create({ roots: "anywhere", deniedPaths: [] });
    return (await guard.resolve(resolve(projectDir, path))).path;
  };
  const realPath = await findRealPath().catch(() => "");
  return realPath === path ? path : [path, realPath];
}
