import type { ToolContext } from "gantry";
import { isRecord } from "gantry/plugin";
import { toLine, removeInvisible } from "./printable-text.js";
import type { ElicitResult } from "@modelcontextprotocol/client";

/** Limits of one form: fields, characters of a question, and choices of a field. */
const FORM_LIMITS = { fields: 32, characters: 1_000, choices: 32 };
/** Maximum number of questions for one field. */
const MAX_ATTEMPTS = 2;
const SKIP_CHOICE = "(skip)";
const [YES, NO] = ["yes", "no"];

type Answer = string | number | boolean | string[];
type AskUser = ToolContext["askUser"];

/**
 * Asks the user for the fields of a server's form, one question each.
 *
 * Returns `decline` if the user does not answer the first question, and `cancel` if the user does not answer a later
 * question.
 */
export async function elicitFields(
  server: string,
  params: Readonly<Record<string, unknown>>,
  askUser: AskUser,
): Promise<ElicitResult> {
  const { message = "", requestedSchema } = params;
  const heading = `${server} asks: ${typeof message === "string" ? removeInvisible(message) : ""}`.slice(
    0,
    FORM_LIMITS.characters,
  );
  const schema = isRecord(requestedSchema) ? requestedSchema : {};
  const fields = Object.entries(isRecord(schema["properties"]) ? schema["properties"] : {});
  if (fields.length > FORM_LIMITS.fields) return { action: "decline" };
  if (fields.length === 0) {
    const answer = await askUser({ title: heading, choices: [YES!, NO!] });
    return answer === YES ? { action: "accept", content: {} } : { action: "decline" };
  }
  const requiredNames = Array.isArray(schema["required"]) ? (schema["required"] as unknown[]) : [];
  const content: Record<string, Answer> = {};
  for (const [i, [name, rawField]] of fields.entries()) {
    const field = isRecord(rawField) ? rawField : {};
    const answer = await askField(
      `${heading}\n${formatLabel(name, field)}`,
      field,
      requiredNames.includes(name),
      askUser,
    );
    if (answer === undefined) return { action: i === 0 ? "decline" : "cancel" };
    if (answer !== SKIP_CHOICE) content[name] = answer;
  }
  return { action: "accept", content };
}

function formatLabel(name: string, { title, description }: Readonly<Record<string, unknown>>): string {
  const label = toLine(title) || toLine(name);
  return (toLine(description) === "" ? label : `${label}: ${toLine(description)}`).slice(0, FORM_LIMITS.characters);
}

/**
 * Returns `SKIP_CHOICE` for a skipped field. Returns undefined without an answer, or after `MAX_ATTEMPTS` invalid
 * answers.
 */
async function askField(
  title: string,
  field: Readonly<Record<string, unknown>>,
  isRequired: boolean,
  askUser: AskUser,
): Promise<Answer | undefined> {
  const skipChoices = isRequired ? [] : [SKIP_CHOICE];
  const valuesByChoice = readChoices(field);
  if (field["type"] === "boolean") {
    const answer = await askUser({ title, choices: [YES!, NO!, ...skipChoices] });
    return answer === undefined || answer === SKIP_CHOICE ? answer : answer === YES;
  }
  if (valuesByChoice !== undefined) {
    const answer = await askUser({ title, choices: [...valuesByChoice.keys(), ...skipChoices] });
    return answer === undefined || answer === SKIP_CHOICE ? answer : valuesByChoice.get(answer);
  }
  let hint = "";
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const choices = skipChoices.length > 0 ? { choices: skipChoices, freeText: true } : {};
    const answer = await askUser({ title: title + hint, ...choices });
    if (answer === undefined || (answer === SKIP_CHOICE && !isRequired)) return answer;
    const value = parseAnswer(answer, field);
    if (value !== undefined) return value;
    hint = `\n(${JSON.stringify(answer.slice(0, 100))} is not valid; expected ${field["type"] === "integer" ? "a whole number" : "a number"})`;
  }
  return undefined;
}

/** Maps the label of each choice to its value. Undefined if the field has no choices or too many choices. */
function readChoices({
  enum: values,
  enumNames,
  oneOf,
}: Readonly<Record<string, unknown>>): Map<string, string> | undefined {
  const labelValuePairs = Array.isArray(values)
    ? values.map((value, i): [unknown, unknown] => [
        Array.isArray(enumNames) ? (enumNames[i] as unknown) : value,
        value,
      ])
    : Array.isArray(oneOf)
      ? oneOf.map((option): [unknown, unknown] =>
          isRecord(option) ? [option["title"] ?? option["const"], option["const"]] : ["", ""],
        )
      : [];
  const textPairs = labelValuePairs.filter((pair): pair is [string, string] =>
    pair.every((text) => typeof text === "string" && text !== ""),
  );
  const labelledValues = textPairs.map(([label, value]): [string, string] => [toLine(label) || value, value]);
  return textPairs.length === 0 || textPairs.length > FORM_LIMITS.choices ? undefined : new Map(labelledValues);
}

function parseAnswer(answer: string, { type }: Readonly<Record<string, unknown>>): Answer | undefined {
  if (type === "array")
    return answer
      .split(",")
      .map((item) => item.trim())
      .filter((item) => item !== "");
  if (type !== "number" && type !== "integer") return answer;
  const number = Number(answer.trim());
  return answer.trim() === "" || !Number.isFinite(number) || (type === "integer" && !Number.isInteger(number))
    ? undefined
    : number;
}
