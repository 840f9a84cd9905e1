import { now } from "../../base/ids.js";
import type { Ask, AskChoice } from "../../ports/ask.js";
import type { PermissionGrant } from "../../ports/session.js";
import type { ToolCall, ToolContext, ToolSpec } from "../../ports/tool.js";
import { CANCELLED_TEXT, CONTINUE_TEXT, NO_RESPONDER_TEXT, type Verdict } from "./evaluate.js";
import { findRootRun, isAttended } from "./modes.js";
import type { PermissionRun } from "./permission-run.js";
import { requestAnswer } from "./request-answer.js";

export type PermissionRequester = ToolContext["ask"];

/** Thrown when a request stays unanswered. `message` is for the model. */
class UnansweredError extends Error {}

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
    const toolFields = { callId, tool: tool.name, toolKind: tool.kind };
    const askFields = { kind: "permission", choices: CHOICES, freeText: false } as const;
    const outcome = await requestAnswer(run, { ...shownCall, ...toolFields, ...askFields });
    if (outcome === "timeout")
      throw new UnansweredError(
        `This call needs permission and no client answered within ${timeoutMs / 1000} s, so it did not run. ${CONTINUE_TEXT}`,
      );
    if (outcome === "no_client") throw new UnansweredError(NO_RESPONDER_TEXT);
    const choice = outcome.reply?.choice;
    if (choice === "allow_always")
      await storeGrant(rootRun, {
        tool: tool.name,
        scope,
        title,
        grantedBy: outcome.answeredBy,
        grantedAt: now(rootRun.session.store),
      });
    return choice === "allow" || choice === "allow_always" ? choice : "reject";
  };
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

function copyAsJson(value: unknown): unknown {
  return value === undefined ? undefined : (JSON.parse(JSON.stringify(value) ?? "null") as unknown);
}

export function createAskUser(
  callId: string,
  tool: ToolSpec,
  input: unknown,
  run: PermissionRun,
): ToolContext["askUser"] {
  return async ({ title, choices: labels = [], freeText = labels.length === 0 }) => {
    if (!isAttended(run) && run.permissions.unattended.policy !== "wait") return undefined;
    const choices = labels.map((label, i) => ({ id: String(i + 1), label: String(label) }));
    const displayFields = { title: String(title), input: copyAsJson(input), locations: [], diff: [], reason: "" };
    const toolFields = { callId, tool: tool.name, toolKind: tool.kind };
    const outcome = await requestAnswer(run, { ...displayFields, ...toolFields, kind: "question", choices, freeText });
    if (typeof outcome === "string" || !outcome.reply) return undefined;
    const { choice, text } = outcome.reply;
    return choices.find(({ id }) => id === choice)?.label ?? text;
  };
}
