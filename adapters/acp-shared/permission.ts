import type { Ask, AskRequest } from "gantry";
import type { AcpClient } from "./client.js";
import { RpcError } from "./errors.js";
import { diffContent, textBlock } from "./updates.js";
import { escapeInvisible } from "./printable-line.js";
import { CODES, type PermissionOption, type ToolCallContent, type ToolCallFields } from "./wire.js";

/** A permission request or question for a user, from any run. */
export type PermissionQuestion = Pick<
  Ask,
  "callId" | "kind" | "toolKind" | "title" | "input" | "locations" | "diff" | "reason"
> &
  Pick<Ask, "choices" | "freeText">;

/** ACP options by the choice of a permission request. */
const PERMISSION: ReadonlyMap<string, Pick<PermissionOption, "optionId" | "kind">> = new Map([
  ["allow", { optionId: "allow_once", kind: "allow_once" }],
  ["allow_always", { optionId: "allow_always", kind: "allow_always" }],
  ["reject", { optionId: "reject_once", kind: "reject_once" }],
]);
const LABELS: ReadonlyMap<string, string> = new Map([
  ["allow", "Allow"],
  ["reject", "Reject"],
]);
const CHOICES = [...PERMISSION.keys()].map((id) => ({ id, label: "" }));

/** Option to leave a question unanswered. Its id cannot collide: ids of choices are numbers. */
const NO_ANSWER: PermissionOption = { optionId: "no_answer", name: "No answer", kind: "reject_once" };
const CHOICES_ONLY_NOTE = "This client can only choose one of these options; free text requires the HTTP API.";

/** Converts a request of the client's own run to the common form. */
export function toPermissionQuestion({
  question,
  kind,
  diff = [],
  reason = "",
  ...request
}: AskRequest): PermissionQuestion {
  const kindFields = question ? { kind: "question" as const, ...question } : { kind: "permission" as const };
  return { choices: CHOICES, freeText: false, ...request, ...kindFields, toolKind: kind, diff, reason };
}

/** The ACP options, each with its choice. */
function toOptions({
  kind,
  toolKind,
  locations,
  choices,
}: PermissionQuestion): { choice: string; option: PermissionOption }[] {
  if (kind === "question")
    return choices.map(({ id, label }) => ({
      choice: id,
      option: { optionId: id, name: escapeInvisible(label), kind: "allow_once" },
    }));
  // The label names the scope of a lasting permission.
  const always =
    toolKind === "edit" && locations.length > 0
      ? "Always allow for this file"
      : toolKind === "execute"
        ? "Always allow this command"
        : "Always allow exactly this";
  return choices.flatMap(({ id }) => {
    const option = PERMISSION.get(id);
    return option ? [{ choice: id, option: { ...option, name: LABELS.get(id) ?? always } }] : [];
  });
}

function toContent({ reason, diff, kind, freeText }: PermissionQuestion): ToolCallContent[] {
  const notes = [...(reason === "" ? [] : [reason]), ...(kind === "question" && freeText ? [CHOICES_ONLY_NOTE] : [])];
  return [
    ...notes.map((note) => ({ type: "content" as const, content: textBlock(escapeInvisible(note)) })),
    ...diffContent(diff),
  ];
}

/**
 * Asks the client's user. Resolves with the id of the choice. Rejects with `RpcError` if the user made no choice, which
 * neither allows nor denies. `kind`: the tool kind as shown to the client.
 */
export async function askClient(
  client: AcpClient,
  asking: PermissionQuestion,
  kind: string,
  signal: AbortSignal,
): Promise<{ choice: string; text: string }> {
  const offered = toOptions(asking);
  if (offered.length === 0) throw new RpcError(CODES.internal, "an ACP client can choose an option but not enter text");
  const content = toContent(asking);
  const toolCall: ToolCallFields = {
    toolCallId: asking.callId,
    title: escapeInvisible(asking.title),
    kind,
    status: "pending",
    ...(content.length > 0 ? { content } : {}),
    locations: asking.locations.map((location) => ({ ...location })),
    rawInput: asking.input,
  };
  const options = offered.map(({ option }) => option);
  if (asking.kind === "question") options.push(NO_ANSWER);
  const outcome = await client.requestPermission(toolCall, options, { signal });
  const chosen =
    outcome.outcome === "selected"
      ? offered.find(({ option }) => option.optionId === outcome.optionId)?.choice
      : undefined;
  if (chosen === undefined) throw new RpcError(CODES.internal, "the user chose no option");
  return { choice: chosen, text: "" };
}
