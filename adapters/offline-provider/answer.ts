import type { FoundServer } from "./local-servers.js";
import type { Outcome, Step } from "./steps.js";

/** Information for the user on how to attach a model. */
export interface AttachHints {
  hints: readonly string[];
  foundServers: readonly FoundServer[];
  /** Path of the config file as shown to the user. */
  configFile: string;
}

/** Maximum lines quoted of one result; below, characters. */
const MAX_QUOTED_LINES = 60;
const MAX_QUOTED_CHARACTERS = 4000;
/** Requests for changes, commands or reasoning, which only a model can handle. */
const MODEL_REQUIRED =
  /\b(?:fix|change|edit|refactor|rewrite|implement|add|create|generate|delete|remove|rename|move|replace|update|upgrade|install|execute|commit|debug|optimi[sz]e|translate|review|explain|why|how (?:do|does|can|to|should|would)|improve|convert|migrate|write|summari[sz]e|compare|suggest|run (?:the|my|all|npm|a)|build (?:the|a|me|an))\b/i;
/** Questions about a manifest, and the field that answers them. */
const FIELDS: readonly [asked: RegExp, field: string][] = [
  [/\bmain (?:entry|file|module|field)\b|\bentry ?-?(?:point|file)s?\b|["'`]main["'`]/i, "main"],
  [/\bscripts?\b|\bhow (?:do|can|to)\b[^.?!\n]{0,20}\b(?:run|build|test|start|lint)\b/i, "scripts"],
  [/\bdependenc(?:y|ies)\b/i, "dependencies"],
  [/\bdependenc(?:y|ies)\b/i, "devDependencies"],
  [/\blicen[cs]e\b/i, "license"],
  [/\bnode(?:\.js)? version|\bengines?\b|\bversion of node\b/i, "engines"],
  [/(?<!node |node\.js )\bversion\b(?! of node)/i, "version"],
];

/**
 * Returns the final text of a run: the quoted tool results, and what was not done. The instructions for attaching a
 * model follow separately.
 */
export function answer(prompt: string, results: [Step, Outcome][], lacking: string[], attachments: number): string {
  const parts = results.map(([step, outcome]) => quoteResult(step, outcome, prompt));
  if (lacking.length > 0) parts.push(`This needs the tools ${list(lacking, ", ")}, which are not enabled here.`);
  else if (results.length === 0)
    parts.push(
      "This message names nothing that I can look up. I can list folders, read files that you name, find files by " +
        'pattern and search text: try "Which files are here?", "Read README.md", "Find all *.ts files" or "Search for TODO".',
    );
  const attached = attachments === 1 ? "The attachment" : `The ${attachments} attachments`;
  if (attachments > 0) parts.push(`${attached} cannot be read without a model.`);
  if (MODEL_REQUIRED.test(prompt))
    parts.push("Changing files, running commands and explaining code need a model; I did none of that.");
  return parts.join("\n\n");
}

/** Describes the target of a call in Markdown, with a leading blank. `""` for the project folder. */
export function subject({ input: { pattern, path } }: Step): string {
  const about = [pattern, path].filter((name) => name !== undefined);
  return about.length === 0 ? "" : ` ${list(about, " in ")}`;
}

function list(names: readonly unknown[], between: string): string {
  return names.map((name) => `\`${String(name)}\``).join(between);
}

function quoteResult(step: Step, { output, failed }: Outcome, prompt: string): string {
  const { tool } = step;
  const name = subject(step).trim() || "the project folder";
  if (failed) return `\`${tool}\` failed for ${name}:\n\n${fenced(output)}`;
  if (tool === "list") return `Files in ${name}, as \`list\` returned them:\n\n${fenced(output)}`;
  if (tool !== "read") return `\`${tool}\` ${name}:\n\n${fenced(output)}`;
  const fieldsText = name.endsWith(".json`") ? quoteFields(output, prompt, name) : "";
  return fieldsText || `${name}, as \`read\` returned it:\n\n${fenced(output)}`;
}

/** Quotes the requested fields of a JSON file. Returns `""` if none is requested or the file is not JSON. */
function quoteFields(output: string, prompt: string, name: string): string {
  const requestedFields = FIELDS.flatMap(([words, field]) => (words.test(prompt) ? [field] : []));
  try {
    // Remove the line numbers that the tool adds.
    const file = JSON.parse(output.replace(/^ *\d+\t/gm, "")) as Record<string, unknown>;
    const there = requestedFields.filter((field) => Object.hasOwn(file, field));
    const missing = requestedFields.filter((field) => !there.includes(field));
    const lack = missing.length > 0 ? `${name} has no ${list(missing, ", no ")} field. ` : "";
    const quotes = there.map((field) => `"${field}": ${JSON.stringify(file[field], null, 2)}`).join("\n");
    return lack + (quotes ? `${name} contains:\n\n${fenced(quotes, "json")}` : "");
  } catch {
    return "";
  }
}

/** Returns a code block whose fence does not occur in the text. Long texts are truncated. */
function fenced(text: string, language = ""): string {
  const lines = text.trimEnd().split("\n");
  const head = lines.slice(0, MAX_QUOTED_LINES).join("\n");
  // Do not end with half a surrogate pair.
  const visibleText = head.slice(0, MAX_QUOTED_CHARACTERS).replace(/[\uD800-\uDBFF]$/, "");
  const fence = "`".repeat(Math.max(3, ...[...visibleText.matchAll(/`+/g)].map(([run]) => run.length + 1)));
  const shown = visibleText.split("\n").length;
  const cut = visibleText.length < lines.join("\n").length ? `\n(the first ${shown} of ${lines.length} lines)` : "";
  return `${fence}${language}\n${visibleText}\n${fence}${cut}`;
}

/** Explains the offline guide and the available ways to attach a model. */
export function howToAttach({ hints, foundServers: [local], configFile }: AttachHints): string {
  const start = "`OPENAI_API_KEY=... gantry serve` (in a clone: `OPENAI_API_KEY=... npm start`)";
  const intro =
    "**No language model is attached.** This answer comes from gantry's built-in offline guide, which follows fixed rules, calls the tools that a message names and quotes their results; it understands nothing.\n\n";
  const also = hints.length > 0 ? `\n\nFound on this machine: ${hints.join(", ")}.` : "";
  if (local === undefined)
    return `${intro}To attach one, start the server with a key in its environment: ${start}.

Or name a provider in \`${configFile}\`:

\`\`\`json
{ "providers": [{ "provider": "anthropic", "api_key": "\${ANTHROPIC_API_KEY}" }] }
\`\`\`${also}`;
  const { name, provider, model } = local;
  return `${intro}${name} is running on this machine with the model \`${model}\`. To use it, put this into \`${configFile}\` and start the server again:

\`\`\`json
${JSON.stringify({ providers: [{ provider }], model: { provider, model } })}
\`\`\`

Or start it with a key of a hosted model: ${start}.${also}`;
}

/** Short title of a conversation: its first message up to the end of a sentence or word. */
export function title(message: string): string {
  const text = message.replace(/\s+/g, " ").trim();
  const [words = ""] = /^.{12,49}?(?=[,;:.?!](?:\s|$))|^.{1,49}(?=\s|$)|^.{1,49}/su.exec(text) ?? [];
  return words.replace(/^./u, (first) => first.toLocaleUpperCase());
}

/** Lists the requests and calls of a transcript verbatim. */
export function summary(transcript: string): string {
  const lines = transcript.match(/^(?:user: |- |(?:assistant: )?\[calls ).+$/gm) ?? [];
  const last = lines.slice(-60).map((line) => `- ${line.replace(/^- /, "").slice(0, 300)}`);
  return last.join("\n");
}
