import type { Ask, AskRequest } from "gantry";
import type { AcpClient } from "./client.js";
import { RpcError } from "./errors.js";
import { toDiffContent, toTextBlock } from "./updates.js";
import { escapeInvisible } from "./printable-line.js";
import { ERROR_CODES, type PermissionOption, type ToolCallContent, type ToolCallFields } from "./wire.js";

/** A permission request or question for a user, from any run. */
export type PermissionQuestion = Pick<
  Ask,
  "callId" | "kind" | "toolKind" | "title" | "input" | "locations" | "diff" | "reason"
> &
  Pick<Ask, "choices" | "freeText">;

/** ACP options by the choice of a permission request. */
const OPTION_BY_CHOICE: ReadonlyMap<string, Pick<PermissionOption, "optionId" | "kind">> = new Map([
  ["allow", { optionId: "allow_once", kind: "allow_once" }],
  ["allow_always", { optionId: "allow_always", kind: "allow_always" }],
  ["reject", { optionId: "reject_once", kind: "reject_once" }],
]);
const LABEL_BY_CHOICE: ReadonlyMap<string, string> = new Map([
  ["allow", "Allow"],
  ["reject", "Reject"],
]);
const PERMISSION_CHOICES = [...OPTION_BY_CHOICE.keys()].map((id) => ({ id, label: "" }));

/** Option to leave a question unanswered. Its id differs from all ids of choices, which are numbers. */
const NO_ANSWER_OPTION: PermissionOption = { optionId: "no_answer", name: "No answer", kind: "reject_once" };
const CHOICES_ONLY_NOTE = "This client can only choose one of these options; free text requires the HTTP API.";

/** Converts a question of the client's own run to a `PermissionQuestion`. */
export function toPermissionQuestion({
  question,
  kind,
  diff = [],
  reason = "",
  ...request
}: AskRequest): PermissionQuestion {
  const kindFields = question ? { kind: "question" as const, ...question } : { kind: "permission" as const };
  return { choices: PERMISSION_CHOICES, freeText: false, ...request, ...kindFields, toolKind: kind, diff, reason };
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
  const alwaysLabel =
    toolKind === "edit" && locations.length > 0
      ? "Always allow for this file"
      : toolKind === "execute"
        ? "Always allow this command"
        : "Always allow exactly this";
  return choices.flatMap(({ id }) => {
    const option = OPTION_BY_CHOICE.get(id);
    return option ? [{ choice: id, option: { ...option, name: LABEL_BY_CHOICE.get(id) ?? alwaysLabel } }] : [];
  });
}

function toContent({ reason, diff, kind, freeText }: PermissionQuestion): ToolCallContent[] {
  const notes = [...(reason === "" ? [] : [reason]), ...(kind === "question" && freeText ? [CHOICES_ONLY_NOTE] : [])];
  return [
    ...notes.map((note) => ({ type: "content" as const, content: toTextBlock(escapeInvisible(note)) })),
    ...toDiffContent(diff),
  ];
}

/**
 * Asks the client's user. Resolves with the id of the choice, or with a text if the client shows forms. Rejects with
 * `RpcError` if the user gave no answer: the question then stays open. `kind`: the tool kind as shown to the client.
 */
export async function askClient(
  client: AcpClient,
  permissionQuestion: PermissionQuestion,
  kind: string,
  signal: AbortSignal,
): Promise<{ choice: string; text: string }> {
  if (permissionQuestion.kind === "question" && client.showsForms)
    return (await import("./elicitation.js")).askByForm(client, permissionQuestion, signal);
  const choiceOptions = toOptions(permissionQuestion);
  if (choiceOptions.length === 0)
    throw new RpcError(ERROR_CODES.internal, "this ACP client can choose an option but not enter text");
  const content = toContent(permissionQuestion);
  const toolCall: ToolCallFields = {
    toolCallId: permissionQuestion.callId,
    title: escapeInvisible(permissionQuestion.title),
    kind,
    status: "pending",
    ...(content.length > 0 ? { content } : {}),
    locations: permissionQuestion.locations.map((location) => ({ ...location })),
    rawInput: permissionQuestion.input,
  };
  const options = choiceOptions.map(({ option }) => option);
  if (permissionQuestion.kind === "question") options.push(NO_ANSWER_OPTION);
  const outcome = await client.requestPermission(toolCall, options, { signal });
  const choiceId =
    outcome.outcome === "selected"
      ? choiceOptions.find(({ option }) => option.optionId === outcome.optionId)?.choice
      : undefined;
  if (choiceId === undefined) throw new RpcError(ERROR_CODES.internal, "the user chose no option");
  return { choice: choiceId, text: "" };
}
