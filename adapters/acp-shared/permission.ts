import type { Ask, AskRequest } from "gantry";
import type { AcpClient } from "./client.js";
import { RpcError } from "./errors.js";
import { diffContent, textBlock } from "./updates.js";
import { visible } from "./printable-line.js";
import { CODES, type PermissionOption, type ToolCallContent, type ToolCallFields } from "./wire.js";

/** What a person is asked, whichever run asks it. */
export type Asking = Pick<Ask, "callId" | "kind" | "toolKind" | "title" | "input" | "locations" | "diff" | "reason"> &
  Pick<Ask, "choices" | "freeText">;

/** What may be chosen of a permission, and which option stands for it. */
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

/** The way out of a question. Ids of choices are numbers. */
const NO_ANSWER: PermissionOption = { optionId: "no_answer", name: "No answer", kind: "reject_once" };
const CHOICES_ALONE = "Only these can be chosen here; a text of one's own is given over the HTTP API.";

/** What a run asks at its own door, as every question is put. */
export function askingOf({ question, kind, diff = [], reason = "", ...request }: AskRequest): Asking {
  const asked = question ? { kind: "question" as const, ...question } : { kind: "permission" as const };
  return { choices: CHOICES, freeText: false, ...request, ...asked, toolKind: kind, diff, reason };
}

/** What the person can choose, with the choice that each stands for. */
function optionsOf({ kind, toolKind, locations, choices }: Asking): { choice: string; option: PermissionOption }[] {
  if (kind === "question")
    return choices.map(({ id, label }) => ({
      choice: id,
      option: { optionId: id, name: visible(label), kind: "allow_once" },
    }));
  // A lasting permission says what it is for.
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
 * Ask the person at the client. Resolves with the id of the choice; rejects with `RpcError` where they did not choose,
 * which refuses nothing and allows nothing. `kind`: of the tool, as the client is told of it.
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
