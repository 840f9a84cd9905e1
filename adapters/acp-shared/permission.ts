import type { Ask, AskRequest } from "gantry";
import type { AcpClient } from "./client.js";
import { RpcError } from "./errors.js";
import { diffContent, textBlock } from "./updates.js";
import { visible } from "./printable-line.js";
import { CODES, type PermissionOption, type ToolCallContent, type ToolCallFields } from "./wire.js";

/** A permission request or question for a user, from any run. */
export type Asking = Pick<Ask, "callId" | "kind" | "toolKind" | "title" | "input" | "locations" | "diff" | "reason"> &
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
const CHOICES_ALONE = "Only these can be chosen here; a text of one's own is given over the HTTP API.";

/** Converts a request of the client's own run to the common form. */
export function askingOf({ question, kind, diff = [], reason = "", ...request }: AskRequest): Asking {
  const asked = question ? { kind: "question" as const, ...question } : { kind: "permission" as const };
  return { choices: CHOICES, freeText: false, ...request, ...asked, toolKind: kind, diff, reason };
}

/** The ACP options, each with its choice. */
function optionsOf({ kind, toolKind, locations, choices }: Asking): { choice: string; option: PermissionOption }[] {
  if (kind === "question")
    return choices.map(({ id, label }) => ({
      choice: id,
      option: { optionId: id, name: visible(label), kind: "allow_once" },
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

function contentOf({ reason, diff, kind, freeText }: Asking): ToolCallContent[] {
  const notes = [...(reason === "" ? [] : [reason]), ...(kind === "question" && freeText ? [CHOICES_ALONE] : [])];
  return [
    ...notes.map((note) => ({ type: "content" as const, content: textBlock(visible(note)) })),
    ...diffContent(diff),
  ];
}

/**
 * Asks the client's user. Resolves with the id of the choice. Rejects with `RpcError` if the user made no choice, which
 * neither allows nor denies. `kind`: the tool kind as shown to the client.
 */
export async function askClient(
  client: AcpClient,
  asking: Asking,
  kind: string,
  signal: AbortSignal,
): Promise<{ choice: string; text: string }> {
  const offered = optionsOf(asking);
  if (offered.length === 0) throw new RpcError(CODES.internal, "a client's person can choose, not write");
  const content = contentOf(asking);
  const toolCall: ToolCallFields = {
    toolCallId: asking.callId,
    title: visible(asking.title),
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
  if (chosen === undefined) throw new RpcError(CODES.internal, "the client's person chose none of the options");
  return { choice: chosen, text: "" };
}
