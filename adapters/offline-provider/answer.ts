import type { ModelMessage, ToolSpec } from "gantry";
import type { Result } from "./calls.js";
import { inputOf, pathOf } from "./follow-ups.js";
import type { FoundServer } from "./local-servers.js";
import type { Plan } from "./plan.js";
import { fieldsOf } from "./topics.js";

/** Ways to attach a model that are at hand. */
export interface Hints {
  hints: readonly string[];
  found: readonly FoundServer[];
  /** Where the configuration is, for people. */
  configFile: string;
}

interface Answer {
  prompt: string;
  plan: Plan;
  results: readonly Result[];
  attachments: number;
  tools: readonly ToolSpec[];
  hints: Hints;
}

/** Most of one result that is quoted. */
const LINES = 60;
const CHARACTERS = 4000;

/** The last text of a run: what the tools returned, quoted, and how to attach a model. */
export function answer({ plan, results, attachments, tools, hints }: Answer): string {
  const parts: string[] = [];
  for (const result of results) parts.push(describe(result, plan));
  if (results.length === 0) parts.push(nothingDone(plan, tools));
  if (attachments > 0) {
    parts.push(
      `${attachments === 1 ? "The attachment" : `The ${attachments} attachments`} reached me, but reading what is in there takes a model.`,
    );
  }
  if (plan.beyond) parts.push("Changing files, running commands and explaining code take a model; I did none of it.");
  parts.push(howToAttach(hints));
  return parts.join("\n\n");
}

function describe(result: Result, plan: Plan): string {
  const path = pathOf(result);
  const subject = path === undefined || path === "." ? "the project folder" : `\`${path}\``;
  if (result.failed) {
    return `\`${result.tool}\` failed for ${subjectOf(result, subject)}:\n\n${fenced(result.output)}`;
  }
  switch (result.tool) {
    case "list":
      return `Files in ${subject}, as \`list\` gave them:\n\n${fenced(result.output)}`;
    case "read":
      return describeRead(result, path ?? "", plan);
    default:
      return `\`${result.tool}\` ${subjectOf(result, subject)}:\n\n${fenced(result.output)}`;
  }
}

function subjectOf(result: Result, path: string): string {
  const { pattern, regex, query } = inputOf(result);
  const looked = [pattern, regex, query].find((value) => typeof value === "string");
  if (looked === undefined) return path;
  return `\`${String(looked)}\`${pathOf(result) === undefined ? "" : ` in ${path}`}`;
}

function describeRead(result: Result, path: string, plan: Plan): string {
  const text = withoutLineNumbers(result.output);
  const fields = plan.topics.length > 0 && path.endsWith(".json") ? fieldsOf(text, plan.topics) : undefined;
  if (fields && (fields.quotes.length > 0 || fields.missing.length > 0)) {
    const said: string[] = [];
    if (fields.missing.length > 0) {
      said.push(`\`${path}\` has no ${fields.missing.map((key) => `\`${key}\``).join(", no ")} field.`);
    }
    if (fields.quotes.length > 0) said.push(`\`${path}\` says:\n\n${fenced(fields.quotes.join("\n"), "json")}`);
    return said.join(" ");
  }
  return `\`${path}\`, as \`read\` gave it:\n\n${fenced(result.output)}`;
}

/** Tools number the lines; what is compared and parsed is the file's own text. */
export function withoutLineNumbers(output: string): string {
  const numbered = /^\s*\d+(?:\t|→|\s?[|│]\s?|:\s)/;
  return output
    .split("\n")
    .map((line) => line.replace(numbered, ""))
    .join("\n");
}

/** A code block that its content cannot break out of, cut at a size that people read. */
function fenced(text: string, language = ""): string {
  const lines = text.replace(/\s+$/, "").split("\n");
  let kept = lines.slice(0, LINES).join("\n");
  if (kept.length > CHARACTERS) {
    kept = kept.slice(0, CHARACTERS);
    if (/[\uD800-\uDBFF]$/.test(kept)) kept = kept.slice(0, -1);
  }
  const longest = Math.max(2, ...[...kept.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  const shown = kept.split("\n").length;
  const cut =
    shown < lines.length
      ? `\n(the first ${shown} of ${lines.length} lines)`
      : kept.length < text.trimEnd().length
        ? `\n(the first ${kept.length} characters)`
        : "";
  return `${fence}${language}\n${kept}\n${fence}${cut}`;
}

function nothingDone(plan: Plan, tools: readonly ToolSpec[]): string {
  const offered = new Set(tools.map(({ name }) => name));
  const lacking = [...new Set(plan.steps.map(({ tool }) => tool))].filter((tool) => !offered.has(tool));
  if (lacking.length > 0) {
    return `This takes the tools ${lacking.map((tool) => `\`${tool}\``).join(", ")}, which are not switched on here.`;
  }
  return (
    "Nothing in this message names something that I can look up. I can list folders, read files that you name, find files by " +
    'pattern and search text: try "Which files are here?", "Read README.md", "Find all *.ts files" or "Search for TODO".'
  );
}

function howToAttach({ hints, found, configFile }: Hints): string {
  const parts = [
    "**No language model is attached.** This answer comes from gantry's built-in offline guide, which follows fixed rules, calls the tools that a message names and quotes what they return; it understands nothing.",
  ];
  const [local] = found;
  if (local) {
    const config = {
      providers: [{ provider: local.provider }],
      model: { provider: local.provider, model: local.model },
    };
    parts.push(
      `${local.name} is running on this machine with the model \`${local.model}\`. To use it, put this into \`${configFile}\` and start the server again:`,
      `\`\`\`json\n${JSON.stringify(config)}\n\`\`\``,
      "Or start it with a key of a hosted model: `OPENAI_API_KEY=... gantry serve` (in a clone: `OPENAI_API_KEY=... npm start`).",
    );
  } else {
    parts.push(
      "To attach one, start the server with a key in its environment: `OPENAI_API_KEY=... gantry serve` (in a clone: `OPENAI_API_KEY=... npm start`).",
      `Or name a provider in \`${configFile}\`:`,
      '```json\n{ "providers": [{ "provider": "anthropic", "api_key": "${ANTHROPIC_API_KEY}" }] }\n```',
    );
  }
  if (hints.length > 0) parts.push(`Found on this machine: ${hints.join(", ")}.`);
  return parts.join("\n\n");
}

/** A short name for a conversation: the beginning of its first message. */
export function title(message: string): string {
  const text = message
    .replace(/\s+/g, " ")
    .trim()
    .replace(/^(?:(?:please|hey|hi|hello)[,!]? |(?:can|could|would) you (?:please )?)+/i, "");
  const sentence = /^.{12,}?(?=[,;:.?!](?:\s|$))/u.exec(text)?.[0] ?? text;
  const words = sentence.replace(/[?!.,;:]+$/, "");
  let short = words;
  if (words.length > 50) {
    const space = words.lastIndexOf(" ", 50);
    short = words.slice(0, space > 20 ? space : 50);
    if (/[\uD800-\uDBFF]$/.test(short)) short = short.slice(0, -1);
  }
  return short.charAt(0).toLocaleUpperCase() + short.slice(1);
}

/** What was asked so far, word for word: the one summary that needs no understanding. */
export function summary(messages: readonly ModelMessage[]): string {
  const asked: string[] = [];
  const used = new Set<string>();
  for (const { role, parts } of messages) {
    for (const part of parts) {
      if (role === "user" && part.type === "text")
        asked.push(`- ${part.text.replace(/\s+/g, " ").trim().slice(0, 300)}`);
      if (role === "assistant" && part.type === "tool_call") used.add(`${part.name} ${part.arguments.slice(0, 200)}`);
    }
  }
  const calls = [...used].slice(-30).map((call) => `- ${call}`);
  return `The user asked:\n${asked.slice(-30).join("\n")}${calls.length > 0 ? `\n\nTools called:\n${calls.join("\n")}` : ""}`;
}
