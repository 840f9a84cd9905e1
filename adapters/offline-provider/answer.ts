import type { FoundServer } from "./local-servers.js";
import type { Outcome, Step } from "./steps.js";

/** Information for the user on how to attach a model. */
export interface AttachHints {
  hints: readonly string[];
  foundServers: readonly FoundServer[];
  /** Path of the config file as shown to the user. */
  configFile: string;
}

// Maximum quoted lines and characters of one result.
const MAX_QUOTED_LINES = 60;
const MAX_QUOTED_CHARACTERS = 4000;
// Maximum lines of a summary, and characters of each line.
const MAX_SUMMARY_LINES = 60;
const MAX_SUMMARY_LINE_CHARACTERS = 300;
/** Requests for changes, commands or reasoning, which only a model can handle. */
const MODEL_REQUIRED_PATTERN =
  /\b(?:fix|change|edit|refactor|rewrite|implement|add|create|generate|delete|remove|rename|move|replace|update|upgrade|install|execute|commit|debug|optimi[sz]e|translate|review|explain|why|how (?:do|does|can|to|should|would)|improve|convert|migrate|write|summari[sz]e|compare|suggest|run (?:the|my|all|npm|a)|build (?:the|a|me|an))\b/i;
/** Questions about a manifest, and the field that answers them. */
const FIELD_PATTERNS: readonly [pattern: RegExp, field: string][] = [
  [/\bmain (?:entry|file|module|field)\b|\bentry ?-?(?:point|file)s?\b|["'`]main["'`]/i, "main"],
  [/\bscripts?\b|\bhow (?:do|can|to)\b[^.?!\n]{0,20}\b(?:run|build|test|start|lint)\b/i, "scripts"],
  [/\bdependenc(?:y|ies)\b/i, "dependencies"],
  [/\bdependenc(?:y|ies)\b/i, "devDependencies"],
  [/\blicen[cs]e\b/i, "license"],
  [/\bnode(?:\.js)? version|\bengines?\b|\bversion of node\b/i, "engines"],
  [/(?<!node |node\.js )\bversion\b(?! of node)/i, "version"],
];

/**
 * Returns the final text of a run: the quoted tool results, and the requests that need other tools or a model. Does not
 * contain the instructions for attaching a model.
 */
export function formatAnswer(
  prompt: string,
  results: [Step, Outcome][],
  missingTools: string[],
  attachmentCount: number,
): string {
  const parts = results.map(([step, outcome]) => quoteResult(step, outcome, prompt));
  if (missingTools.length > 0)
    parts.push(`This needs the tools ${joinNames(missingTools, ", ")}, which are not enabled here.`);
  else if (results.length === 0)
    parts.push(
      "This message names nothing that I can look up. I can list folders, read files that you name, find files by " +
        'pattern and search text: try "Which files are here?", "Read README.md", "Find all *.ts files" or "Search for TODO".',
    );
  const attachmentsText = attachmentCount === 1 ? "The attachment" : `The ${attachmentCount} attachments`;
  if (attachmentCount > 0) parts.push(`${attachmentsText} cannot be read without a model.`);
  if (MODEL_REQUIRED_PATTERN.test(prompt))
    parts.push("Changing files, running commands and explaining code need a model; I did none of that.");
  return parts.join("\n\n");
}

/** Describes the target of a call in Markdown, with a leading blank. `""` for the project folder. */
export function formatSubject({ input: { pattern, path } }: Step): string {
  const targets = [pattern, path].filter((name) => name !== undefined);
  return targets.length === 0 ? "" : ` ${joinNames(targets, " in ")}`;
}

function joinNames(names: readonly unknown[], separator: string): string {
  return names.map((name) => `\`${String(name)}\``).join(separator);
}

function quoteResult(step: Step, { output, failed }: Outcome, prompt: string): string {
  const { tool } = step;
  const name = formatSubject(step).trim() || "the project folder";
  if (failed) return `\`${tool}\` failed for ${name}:\n\n${formatCodeBlock(output)}`;
  if (tool === "list") return `Files in ${name}, as \`list\` returned them:\n\n${formatCodeBlock(output)}`;
  if (tool !== "read") return `\`${tool}\` ${name}:\n\n${formatCodeBlock(output)}`;
  const fieldsText = name.endsWith(".json`") ? quoteFields(output, prompt, name) : "";
  return fieldsText || `${name}, as \`read\` returned it:\n\n${formatCodeBlock(output)}`;
}

/** Quotes the requested fields of a JSON file. Returns `""` if no field is requested or the file is not JSON. */
function quoteFields(output: string, prompt: string, name: string): string {
  const requestedFields = FIELD_PATTERNS.flatMap(([pattern, field]) => (pattern.test(prompt) ? [field] : []));
  try {
    // Remove the line numbers that the tool adds.
    const file = JSON.parse(output.replace(/^ *\d+\t/gm, "")) as Record<string, unknown>;
    const presentFields = requestedFields.filter((field) => Object.hasOwn(file, field));
    const missingFields = requestedFields.filter((field) => !presentFields.includes(field));
    const missingNote = missingFields.length > 0 ? `${name} has no ${joinNames(missingFields, ", no ")} field. ` : "";
    const quotes = presentFields.map((field) => `"${field}": ${JSON.stringify(file[field], null, 2)}`).join("\n");
    return missingNote + (quotes ? `${name} contains:\n\n${formatCodeBlock(quotes, "json")}` : "");
  } catch {
    return "";
  }
}

/** Returns a code block whose fence does not occur in the text. Long texts are truncated. */
function formatCodeBlock(text: string, language = ""): string {
  const lines = text.trimEnd().split("\n");
  const quotedLines = lines.slice(0, MAX_QUOTED_LINES).join("\n");
  // Do not end with half a surrogate pair.
  const visibleText = quotedLines.slice(0, MAX_QUOTED_CHARACTERS).replace(/[\uD800-\uDBFF]$/, "");
  const fence = "`".repeat(Math.max(3, ...[...visibleText.matchAll(/`+/g)].map(([backticks]) => backticks.length + 1)));
  const visibleLineCount = visibleText.split("\n").length;
  const truncationNote =
    visibleText.length < lines.join("\n").length ? `\n(the first ${visibleLineCount} of ${lines.length} lines)` : "";
  return `${fence}${language}\n${visibleText}\n${fence}${truncationNote}`;
}

/** Explains the offline guide and the available ways to attach a model. */
export function explainAttachment({ hints, foundServers: [localServer], configFile }: AttachHints): string {
  const startCommand = "`OPENAI_API_KEY=... gantry serve` (in a clone: `OPENAI_API_KEY=... npm start`)";
  const intro =
    "**No language model is attached.** This answer comes from gantry's built-in offline guide, which follows fixed rules, calls the tools that a message names and quotes their results; it understands nothing.\n\n";
  const hintsText = hints.length > 0 ? `\n\nFound on this machine: ${hints.join(", ")}.` : "";
  if (localServer === undefined)
    return `${intro}To attach one, start the server with a key in its environment: ${startCommand}.

Or name a provider in \`${configFile}\`:

\`\`\`json
{ "providers": [{ "provider": "anthropic", "api_key": "\${ANTHROPIC_API_KEY}" }] }
\`\`\`${hintsText}`;
  const { name, provider, model } = localServer;
  return `${intro}${name} is running on this machine with the model \`${model}\`. To use it, put this into \`${configFile}\` and start the server again:

\`\`\`json
${JSON.stringify({ providers: [{ provider }], model: { provider, model } })}
\`\`\`

Or start it with a key of a hosted model: ${startCommand}.${hintsText}`;
}

/** Short title of a conversation: its first message up to the end of a sentence or word. */
export function createTitle(message: string): string {
  const text = message.replace(/\s+/g, " ").trim();
  const [words = ""] = /^.{12,49}?(?=[,;:.?!](?:\s|$))|^.{1,49}(?=\s|$)|^.{1,49}/su.exec(text) ?? [];
  return words.replace(/^./u, (first) => first.toLocaleUpperCase());
}

/** Lists the requests and calls of a transcript verbatim. */
export function createSummary(transcript: string): string {
  const lines = transcript.match(/^(?:user: |- |(?:assistant: )?\[calls ).+$/gm) ?? [];
  const lastLines = lines
    .slice(-MAX_SUMMARY_LINES)
    .map((line) => `- ${line.replace(/^- /, "").slice(0, MAX_SUMMARY_LINE_CHARACTERS)}`);
  return lastLines.join("\n");
}
