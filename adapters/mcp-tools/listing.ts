import { isRecord, type JsonSchema } from "gantry/plugin";
import { toArgumentsSchema, SchemaError } from "./input-schema.js";
import { toLine, removeInvisible } from "./printable-text.js";

/**
 * Limits of one server. `scannedEntries`: list entries that are read; `bytes`: all tools together;
 * `pages`: pages of a list.
 */
export const LISTING_LIMITS = {
  scannedEntries: 10_240,
  tools: 2_048,
  prompts: 256,
  descriptionCharacters: 2_048,
  bytes: 2 * 1024 * 1024,
  pages: 64,
};

const MAX_NAME_CHARACTERS = 1_000;
const MAX_PROMPT_DESCRIPTION_CHARACTERS = 200;
const MAX_PROMPT_ARGUMENTS = 32;
const MAX_ARGUMENT_NAME_CHARACTERS = 64;
/** Limits of a log line with rejected entries. */
const SUMMARY_LIMITS = { reasons: 5, reasonCharacters: 200 };

/** A validated tool of a server's list. */
export interface ListedTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  /** Whether the server declares that the tool changes nothing. */
  readonly readOnly: boolean;
  /** Whether the server declares that the tool destroys nothing and reaches nothing outside the server's own domain. */
  readonly harmless: boolean;
}

/** A validated prompt of a server's list. */
export interface ListedPrompt {
  readonly name: string;
  readonly description: string;
  readonly arguments: readonly { readonly name: string; readonly required: boolean }[];
}

export interface Listing {
  readonly tools: readonly ListedTool[];
  readonly prompts: readonly ListedPrompt[];
  readonly hasResources: boolean;
  /** How the server wants its tools to be used; `""` if it sent nothing. */
  readonly instructions: string;
  /** Entries that cannot be used, each with the reason. */
  readonly rejected: readonly string[];
}

/** Returns the usable tools of a list. Appends each rejected entry, with the reason, to `rejected`. */
export function parseTools(rawTools: readonly unknown[], rejected: string[]): ListedTool[] {
  const tools = new Map<string, ListedTool>();
  let bytes = 0;
  for (const entry of rawTools) {
    try {
      const tool = parseTool(entry);
      if (tools.has(tool.name)) throw new SchemaError("duplicate tool name");
      if (tools.size >= LISTING_LIMITS.tools)
        throw new SchemaError(`the server has more tools than the limit of ${LISTING_LIMITS.tools}`);
      const toolBytes = Buffer.byteLength(JSON.stringify([tool.name, tool.description, tool.inputSchema]));
      if (bytes + toolBytes > LISTING_LIMITS.bytes)
        throw new SchemaError(`the tools together are larger than ${LISTING_LIMITS.bytes / 1024} kB`);
      bytes += toolBytes;
      tools.set(tool.name, tool);
    } catch (error) {
      if (!(error instanceof SchemaError)) throw error;
      rejected.push(`${formatName(entry)}: ${error.message}`);
    }
  }
  return [...tools.values()];
}

/** Returns the usable prompts of a list. Appends each rejected entry, with the reason, to `rejected`. */
export function parsePrompts(rawPrompts: readonly unknown[], rejected: string[]): ListedPrompt[] {
  const prompts = new Map<string, ListedPrompt>();
  for (const entry of rawPrompts) {
    const name = isRecord(entry) ? entry["name"] : undefined;
    if (
      !isRecord(entry) ||
      typeof name !== "string" ||
      name === "" ||
      prompts.has(name) ||
      prompts.size >= LISTING_LIMITS.prompts
    ) {
      rejected.push(
        `prompt ${formatName(entry)}: no unique name, or more prompts than the limit of ${LISTING_LIMITS.prompts}`,
      );
      continue;
    }
    const rawArguments = Array.isArray(entry["arguments"]) ? (entry["arguments"] as unknown[]) : [];
    prompts.set(name, {
      name,
      description: toLine(entry["description"] ?? entry["title"]).slice(0, MAX_PROMPT_DESCRIPTION_CHARACTERS),
      arguments: rawArguments.slice(0, MAX_PROMPT_ARGUMENTS).flatMap((rawArgument) => {
        const { name: argument, required } = isRecord(rawArgument) ? rawArgument : {};
        if (
          typeof argument !== "string" ||
          toLine(argument) !== argument ||
          argument.length > MAX_ARGUMENT_NAME_CHARACTERS
        )
          return [];
        return [{ name: argument, required: required === true }];
      }),
    });
  }
  return [...prompts.values()];
}

/** Summarizes rejected entries on one line: the first entries and the number of the other entries. */
export function summarizeRejected(rejected: readonly string[]): string {
  const shownReasons = rejected
    .slice(0, SUMMARY_LIMITS.reasons)
    .map((reason) => toLine(reason).slice(0, SUMMARY_LIMITS.reasonCharacters));
  const omittedCount = rejected.length - shownReasons.length;
  return shownReasons.join("; ") + (omittedCount > 0 ? `; and ${omittedCount} more` : "");
}

function parseTool(entry: unknown): ListedTool {
  if (!isRecord(entry)) throw new SchemaError("not an object");
  const { name, title, description, inputSchema } = entry;
  const annotations = isRecord(entry["annotations"]) ? entry["annotations"] : {};
  if (typeof name !== "string" || name === "" || name.length > MAX_NAME_CHARACTERS)
    throw new SchemaError("invalid tool name");
  const fullDescription =
    typeof description === "string" && description.trim() !== "" ? removeInvisible(description) : toLine(title) || name;
  return {
    name,
    description:
      fullDescription.length > LISTING_LIMITS.descriptionCharacters
        ? `${fullDescription.slice(0, LISTING_LIMITS.descriptionCharacters - 1).replace(/[\uD800-\uDBFF]$/, "")}…`
        : fullDescription,
    inputSchema: toArgumentsSchema(inputSchema),
    // As in codex (core/src/mcp_tool_call.rs, 2026-10): missing hints count as harmful, and `destructiveHint` as stronger.
    readOnly: annotations["readOnlyHint"] === true && annotations["destructiveHint"] !== true,
    harmless: annotations["destructiveHint"] === false && annotations["openWorldHint"] === false,
  };
}

function formatName(entry: unknown): string {
  const name = isRecord(entry) ? entry["name"] : undefined;
  return typeof name === "string" ? JSON.stringify(name.slice(0, 64)) : "unnamed entry";
}
