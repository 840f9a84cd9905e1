import { InputError, type SlashCommand } from "gantry";
import { isRecord, type SlashPrompt } from "gantry/plugin";
import { toModelContent } from "./content.js";
import { toPromptName } from "./names.js";
import type { ListedPrompt, Listing } from "./listing.js";
import type { SharedServer } from "./shared-server.js";

const PROMPT_TIMEOUT_MS = 30_000;

/** Returns a server's prompts as slash commands. */
export function promptsOf(key: string, server: SharedServer, { prompts }: Listing): SlashCommand[] {
  return prompts.map((prompt) => ({
    name: toPromptName(key, prompt.name),
    description: prompt.description,
    hint: prompt.arguments.map(({ name, required }) => (required ? `<${name}>` : `[${name}]`)).join(" "),
    origin: `mcp:${key}`,
    prompt: async (argumentsText, signal) => {
      const promptArguments = parseArguments(argumentsText, prompt);
      const params = { name: prompt.name, arguments: promptArguments };
      return toSlashPrompt(await server.request("prompts/get", params, { signal, timeoutMs: PROMPT_TIMEOUT_MS }));
    },
  }));
}

/**
 * Assigns the typed words to a prompt's arguments. `name=words` sets an argument by name. Other words are assigned in
 * order, and the last argument gets all remaining words.
 *
 * Throws `InputError` if a required argument is missing.
 */
export function parseArguments(
  argumentsText: string,
  { arguments: expectedArguments, name: prompt }: ListedPrompt,
): Record<string, string> {
  const valuesByName: Record<string, string> = {};
  const freePieces: string[] = [];
  const pieces = argumentsText.match(/[^\s"']*(?:"[^"]*"|'[^']*')|\S+/g) ?? [];
  for (const piece of pieces) {
    const [, key = "", value = ""] = /^([^=\s]+)=([^]*)$/.exec(piece) ?? [];
    if (expectedArguments.some(({ name }) => name === key)) valuesByName[key] = unquote(value);
    else freePieces.push(piece);
  }
  const unsetArguments = expectedArguments.filter(({ name }) => !Object.hasOwn(valuesByName, name));
  unsetArguments.forEach(({ name }, i) => {
    const isLast = i === unsetArguments.length - 1;
    const piece = isLast && freePieces.length > i + 1 ? freePieces.slice(i).join(" ") : unquote(freePieces[i] ?? "");
    if (piece !== "") valuesByName[name] = piece;
  });
  const missingArgument = expectedArguments.find(
    ({ name, required }) => required && !Object.hasOwn(valuesByName, name),
  );
  if (missingArgument) throw new InputError(missingArgument.name, `a value after /${prompt}`);
  return valuesByName;
}

function unquote(piece: string): string {
  return /^(["'])([^]*)\1$/.exec(piece)?.[2] ?? piece;
}

function toSlashPrompt({ messages }: Readonly<Record<string, unknown>>): SlashPrompt {
  const promptMessages = Array.isArray(messages) ? (messages as unknown[]).filter(isRecord) : [];
  const parts: NonNullable<SlashPrompt["parts"]>[number][] = [];
  const texts = promptMessages.map(({ role, content }) => {
    const messageContent = toModelContent(Array.isArray(content) ? (content as unknown[]) : [content]);
    parts.push(...messageContent.parts);
    return role === "assistant" ? `(Example of an answer:)\n${messageContent.text}` : messageContent.text;
  });
  return { text: texts.filter((text) => text !== "").join("\n\n"), ...(parts.length > 0 && { parts }) };
}
