import { isRecord, type JsonSchema } from "gantry/plugin";
import { argumentsSchema, SchemaFault } from "./input-schema.js";
import { line, plain } from "./printable-text.js";

/**
 * Limits of one server: list entries read, tools, prompts, characters of a description, bytes of all tools together in
 * a model request, and pages of a list.
 */
export const MOST = { looked: 10_240, tools: 256, prompts: 256, description: 2_048, bytes: 256 * 1024, pages: 64 };

/** A validated tool of a server's list. */
export interface ListedTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  /** Whether the server declares that the tool changes nothing. */
  readonly readOnly: boolean;
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
  /** Entries that cannot be used, each with the reason. */
  readonly left: readonly string[];
}

/** Returns the usable tools of a list. Appends the rejected ones, with reasons, to `left`. */
export function listedTools(given: readonly unknown[], left: string[]): ListedTool[] {
  const tools = new Map<string, ListedTool>();
  let bytes = 0;
  for (const one of given) {
    try {
      const tool = listedTool(one);
      if (tools.has(tool.name)) throw new SchemaFault("there are two of its name");
      if (tools.size >= MOST.tools) throw new SchemaFault(`it is one of more than ${MOST.tools}`);
      const own = Buffer.byteLength(JSON.stringify([tool.name, tool.description, tool.inputSchema]));
      if (bytes + own > MOST.bytes) throw new SchemaFault(`all of them are larger than ${MOST.bytes / 1024} kB`);
      bytes += own;
      tools.set(tool.name, tool);
    } catch (error) {
      if (!(error instanceof SchemaFault)) throw error;
      left.push(`${nameOf(one)}: ${error.message}`);
    }
  }
  return [...tools.values()];
}

/** Returns the usable prompts of a list. Appends the rejected ones, with reasons, to `left`. */
export function listedPrompts(given: readonly unknown[], left: string[]): ListedPrompt[] {
  const prompts = new Map<string, ListedPrompt>();
  for (const one of given) {
    const name = isRecord(one) ? one["name"] : undefined;
    if (
      !isRecord(one) ||
      typeof name !== "string" ||
      name === "" ||
      prompts.has(name) ||
      prompts.size >= MOST.prompts
    ) {
      left.push(`the prompt ${nameOf(one)}: it has no name of its own, or is one of more than ${MOST.prompts}`);
      continue;
    }
    const asked = Array.isArray(one["arguments"]) ? (one["arguments"] as unknown[]) : [];
    prompts.set(name, {
      name,
      description: line(one["description"] ?? one["title"]).slice(0, 200),
      arguments: asked.slice(0, 32).flatMap((each) => {
        const { name: argument, required } = isRecord(each) ? each : {};
        if (typeof argument !== "string" || line(argument) !== argument || argument.length > 64) return [];
        return [{ name: argument, required: required === true }];
      }),
    });
  }
  return [...prompts.values()];
}

/** Summarizes rejected entries on one line: the first five and the number of the others. */
export function inALine(left: readonly string[]): string {
  const shown = left.slice(0, 5).map((one) => line(one).slice(0, 200));
  const more = left.length - shown.length;
  return shown.join("; ") + (more > 0 ? `; and ${more} more` : "");
}

function listedTool(one: unknown): ListedTool {
  if (!isRecord(one)) throw new SchemaFault("it is no object");
  const { name, title, description, inputSchema, annotations } = one;
  if (typeof name !== "string" || name === "" || name.length > 1_000) throw new SchemaFault("its name is none");
  const about = typeof description === "string" && description.trim() !== "" ? plain(description) : line(title) || name;
  return {
    name,
    description:
      about.length > MOST.description
        ? `${about.slice(0, MOST.description - 1).replace(/[\uD800-\uDBFF]$/, "")}…`
        : about,
    inputSchema: argumentsSchema(inputSchema),
    readOnly: isRecord(annotations) && annotations["readOnlyHint"] === true,
  };
}

function nameOf(one: unknown): string {
  const name = isRecord(one) ? one["name"] : undefined;
  return typeof name === "string" ? JSON.stringify(name.slice(0, 64)) : "one without a name";
}
