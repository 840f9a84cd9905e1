import type { AskAnswer, AskRequest } from "gantry";
import type { AcpClient } from "./client.js";
import { RpcError } from "./errors.js";
import { diffContent } from "./updates.js";
import { visible } from "./visible.js";
import { CODES, type PermissionOption, type ToolCallFields } from "./wire.js";

const ANSWERS: ReadonlyMap<string, AskAnswer> = new Map([
  ["allow_once", "allow"],
  ["allow_always", "allow_always"],
  ["reject_once", "reject"],
]);

/** What the person can choose. A lasting permission says what it is for. */
function choices(request: AskRequest): PermissionOption[] {
  const always =
    request.kind === "edit" && request.locations.length > 0
      ? "Always allow for this file"
      : request.kind === "execute"
        ? "Always allow this command"
        : "Always allow exactly this";
  return [
    { optionId: "allow_once", name: "Allow", kind: "allow_once" },
    { optionId: "allow_always", name: always, kind: "allow_always" },
    { optionId: "reject_once", name: "Reject", kind: "reject_once" },
  ];
}

/** Ask the person at the client whether a tool may run. Rejects with `RpcError` where they did not choose: nobody has refused then. */
export async function askClient(
  client: AcpClient,
  request: AskRequest,
  kind: string,
  signal: AbortSignal,
): Promise<AskAnswer> {
  const { diff = [] } = request;
  const toolCall: ToolCallFields = {
    toolCallId: request.callId,
    title: visible(request.title),
    kind,
    status: "pending",
    ...(diff.length > 0 ? { content: diffContent(diff) } : {}),
    locations: request.locations.map((location) => ({ ...location })),
    rawInput: request.input,
  };
  const outcome = await client.requestPermission(toolCall, choices(request), { signal });
  const answer = outcome.outcome === "selected" ? ANSWERS.get(outcome.optionId) : undefined;
  if (answer === undefined) throw new RpcError(CODES.internal, "the client's person chose none of the options");
  return answer;
}
