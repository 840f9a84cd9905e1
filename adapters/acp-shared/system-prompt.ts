import { isRecord, type PromptUse } from "gantry/plugin";
import { toParamsError } from "./errors.js";

type Params = Readonly<Record<string, unknown>>;

/** Instructions of a client for a session's model. */
export interface ClientInstructions {
  text: string;
  /** `replace`: instead of gantry's built-in instructions. The operator's and the project's instructions stay. */
  use: PromptUse;
}

/**
 * Reads `systemPrompt` of the ACP schema, or `_meta.systemPrompt` of claude-agent-acp: a string, which replaces, or
 * `{ append }`. Undefined without instructions. Throws `RpcError` for invalid values.
 */
export function readSystemPrompt({ systemPrompt, _meta }: Params): ClientInstructions | undefined {
  const instructions = isSet(systemPrompt)
    ? readSchemaPrompt(systemPrompt)
    : isRecord(_meta) && isSet(_meta.systemPrompt)
      ? readMetaPrompt(_meta.systemPrompt)
      : undefined;
  return instructions?.text.trim() === "" ? undefined : instructions;
}

const isSet = (value: unknown): boolean => value !== undefined && value !== null;

function readSchemaPrompt(value: unknown): ClientInstructions {
  if (!isRecord(value)) throw toParamsError("systemPrompt", "an object");
  const { mode, content } = value;
  if (mode !== "append" && mode !== "override") throw toParamsError("systemPrompt.mode", "append or override");
  if (!Array.isArray(content)) throw toParamsError("systemPrompt.content", "an array of text blocks");
  const texts = content.map((block: unknown, index) => {
    if (!isRecord(block) || block.type !== "text" || typeof block.text !== "string")
      throw toParamsError(`systemPrompt.content[${index}]`, "a text block");
    return block.text;
  });
  return { text: texts.join("\n"), use: mode === "append" ? "extend" : "replace" };
}

function readMetaPrompt(value: unknown): ClientInstructions | undefined {
  if (typeof value === "string") return { text: value, use: "replace" };
  if (!isRecord(value) || (isSet(value.append) && typeof value.append !== "string"))
    throw toParamsError("_meta.systemPrompt", "a string or { append: string }");
  return typeof value.append === "string" ? { text: value.append, use: "extend" } : undefined;
}
