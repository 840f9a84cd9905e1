import { InputError, type SlashCommand } from "gantry";
import { isRecord, type SlashPrompt } from "gantry/plugin";
import { contentOf } from "./content.js";
import { promptName } from "./names.js";
import type { ListedPrompt, Listing } from "./listing.js";
import type { SharedServer } from "./shared-server.js";

const TIMEOUT_MS = 30_000;

/** Returns a server's prompts as slash commands. */
export function promptsOf(key: string, server: SharedServer, { prompts }: Listing): SlashCommand[] {
  return prompts.map((prompt) => ({
    name: promptName(key, prompt.name),
    description: prompt.description,
    hint: prompt.arguments.map(({ name, required }) => (required ? `<${name}>` : `[${name}]`)).join(" "),
    origin: `mcp:${key}`,
    prompt: async (words, signal) => {
      const promptArguments = parseArguments(words, prompt);
      const params = { name: prompt.name, arguments: promptArguments };
      return toSlashPrompt(await server.request("prompts/get", params, { signal, timeoutMs: TIMEOUT_MS }));
    },
  }));
}

/**
 * Assigns the typed words to a prompt's arguments. `name=words` sets an argument by name. Other words are assigned in
 * order, and the last argument gets all that remain.
 *
 * Throws `InputError` if a required argument is missing.
 */
export function parseArguments(
  words: string,
  { arguments: names, name: prompt }: ListedPrompt,
): Record<string, string> {
  const valuesByName: Record<string, string> = {};
  const free: string[] = [];
  const pieces = words.match(/[^\s"']*(?:"[^"]*"|'[^']*')|\S+/g) ?? [];
  for (const piece of pieces) {
    const [, key = "", value = ""] = /^([^=\s]+)=([^]*)$/.exec(piece) ?? [];
    if (names.some(({ name }) => name === key)) valuesByName[key] = unquoted(value);
    else free.push(piece);
  }
  const open = names.filter(({ name }) => !Object.hasOwn(valuesByName, name));
  open.forEach(({ name }, i) => {
    const isLast = i === open.length - 1;
    const piece = isLast && free.length > i + 1 ? free.slice(i).join(" ") : unquoted(free[i] ?? "");
    if (piece !== "") valuesByName[name] = piece;
  });
  const missing = names.find(({ name, required }) => required && !Object.hasOwn(valuesByName, name));
  if (missing) throw new InputError(missing.name, `a value after /${prompt}`);
  return valuesByName;
}

function unquoted(piece: string): string {
  return /^(["'])([^]*)\1$/.exec(piece)?.[2] ?? piece;
}

function toSlashPrompt({ messages }: Readonly<Record<string, unknown>>): SlashPrompt {
  const all = Array.isArray(messages) ? (messages as unknown[]).filter(isRecord) : [];
  const parts: NonNullable<SlashPrompt["parts"]>[number][] = [];
  const texts = all.map(({ role, content }) => {
    const read = contentOf(Array.isArray(content) ? (content as unknown[]) : [content]);
    parts.push(...read.parts);
    return role === "assistant" ? `(Example of an answer:)\n${read.text}` : read.text;
  });
  return { text: texts.filter((text) => text !== "").join("\n\n"), ...(parts.length > 0 && { parts }) };
}
