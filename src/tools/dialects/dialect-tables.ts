import { shellQuote } from "../../base/shell-quote.js";
import { isRecord } from "../../base/json.js";

// Names and arguments of other agents' tools, as their models write them. A rule converts an argument only if its
// meaning is certain; the tool itself rejects or reports every other argument. Sources, with versions:
// test/helpers/agent-dialects.ts.

type Input = Readonly<Record<string, unknown>>;
/**
 * How an argument of another agent is converted. A text: it is renamed. `""`: it is dropped, because the result is the
 * same without it. A function returns the arguments that replace it, or undefined if its meaning is not certain.
 */
export type ArgumentRule = string | ((value: unknown, input: Input) => Input | undefined);
export type ArgumentRules = Readonly<Record<string, ArgumentRule>>;

/** A tool of another agent, beyond the rules for the tool that does its work. */
export interface ForeignTool {
  /** Normalized name of the tool that does its work. Undefined: the same name. */
  readonly tool?: string;
  /** Rules that differ from those of the tool. They also apply to argument names that the tool knows. */
  readonly rules?: ArgumentRules;
  /** Arguments that the other agent assumes where the model omits them. */
  readonly defaults?: Input;
}

const MAX_COMMAND_SECONDS = 600;

/** Returns rules that rename arguments. `names` are separated by spaces. */
function rename<Name extends string>(name: Name, names: string): Readonly<Record<string, Name>> {
  return Object.fromEntries(names.split(" ").map((foreignName) => [foreignName, name]));
}

const milliseconds: ArgumentRule = (value) => {
  const number = Number(value);
  return number > 0 ? { timeout: Math.min(MAX_COMMAND_SECONDS, Math.ceil(number / 1000)) } : undefined;
};

/** Converts a program with its arguments to a shell line. `bash -lc <line>` is the line itself. */
const command: ArgumentRule = (value) => {
  if (!Array.isArray(value)) return { command: value };
  if (value.length === 0 || !value.every((word) => typeof word === "string")) return undefined;
  const [program, option, line] = value as string[];
  if (value.length === 3 && /^(?:\/(?:usr\/)?bin\/)?(?:ba|z)?sh$/.test(program!) && /^-l?c$/.test(option!))
    return { command: line };
  return { command: value.length === 1 ? program : value.map((word) => quoteWord(word as string)).join(" ") };
};

function quoteWord(word: string): string {
  return /^[\w./:=@%+,-]+$/.test(word) ? word : shellQuote(word);
}

/** Drops a value that equals one of the defaults of the tool. */
const unless =
  (...defaults: readonly unknown[]): ArgumentRule =>
  (value) =>
    defaults.includes(value) ? {} : undefined;

const ifTrue =
  (args: Input, otherwise: Input = {}): ArgumentRule =>
  (value) => {
    if (value === true || value === "true") return args;
    return value === false || value === "false" ? otherwise : undefined;
  };

/** Lines around a match, on both sides: as many as one of the sides asks for. */
const contextLines: ArgumentRule = (_, input) => {
  const counts = ["context", "-A", "-B", "-C", "after", "before"].flatMap((key) => {
    const count = input[key];
    return count === undefined || count === null ? [] : [Number(count)];
  });
  return counts.every((count) => Number.isSafeInteger(count) && count >= 0)
    ? { context: Math.min(20, Math.max(...counts)) }
    : undefined;
};

const ignoreFiles: ArgumentRule = (value) => {
  if (!isRecord(value)) return undefined;
  return value["respect_git_ignore"] === false ? { all: true } : {};
};

const lastLine: ArgumentRule = (value, input) => {
  const [first, last] = [Number(input["start_line"] ?? input["offset"] ?? 1), Number(value)];
  return Number.isSafeInteger(first) && Number.isSafeInteger(last) && last >= first
    ? { limit: last - first + 1 }
    : undefined;
};

/** Some agents count the first line as 0. One line more includes what both countings mean. */
const zeroBasedLine: ArgumentRule = (value) => {
  const line = Number(value);
  return Number.isSafeInteger(line) && line >= 0 ? { offset: Math.max(1, line) } : undefined;
};
const zeroBasedLimit: ArgumentRule = (value, input) =>
  Number(input["offset"] ?? 0) > 0 && Number(value) > 0 ? { limit: Number(value) + 1 } : { limit: value };

/** Converts the entries of a list. Undefined if an entry is no object or has an unknown key. */
function convertEntries(
  value: unknown,
  names: Readonly<Record<string, string>>,
): Record<string, unknown>[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const entries: Record<string, unknown>[] = [];
  for (const entry of value as unknown[]) {
    if (!isRecord(entry) || Object.keys(entry).some((key) => names[key] === undefined)) return undefined;
    const pairs = Object.entries(entry).flatMap(([key, item]) => (names[key] ? [[names[key], item] as const] : []));
    // Two names of one value in an entry: the meaning is not certain.
    if (new Set(pairs.map(([key]) => key)).size !== pairs.length) return undefined;
    entries.push(Object.fromEntries(pairs));
  }
  return entries;
}

const TODO_NAMES = {
  ...{ content: "content", step: "content", description: "content", status: "status", priority: "priority" },
  // The list has no ids, and its order is that of the call.
  ...rename("", "id activeForm"),
};
const todos: ArgumentRule = (value) => {
  const entries = convertEntries(value, TODO_NAMES);
  return entries && { todos: entries };
};

const EDIT_NAMES: Readonly<Record<string, string>> = {
  ...rename("old_string", "old_string oldString old_text oldText old_str old"),
  ...rename("new_string", "new_string newString new_text newText new_str new"),
  ...rename("replace_all", "replace_all replaceAll allow_multiple"),
};
const edits: ArgumentRule = (value) => {
  const entries = convertEntries(value, EDIT_NAMES);
  return entries && { edits: entries };
};

/** One question with its choices. Several questions need several calls. */
const questions: ArgumentRule = (value) => {
  const list = Array.isArray(value) ? (value as unknown[]) : [];
  const [entry] = list;
  if (list.length !== 1 || !isRecord(entry) || entry["multiSelect"] === true || entry["multiple"] === true)
    return undefined;
  const { question, options = [], type } = entry;
  if (typeof question !== "string" || !Array.isArray(options)) return undefined;
  const choices = type === "yesno" ? ["Yes", "No"] : (options as unknown[]).map((o) => (isRecord(o) ? o["label"] : o));
  if (!choices.every((choice) => typeof choice === "string")) return undefined;
  return { question, ...(choices.length > 0 && { choices, free_text: true }) };
};

/** The only address in a prompt. */
const addressInPrompt: ArgumentRule = (value, input) => {
  if (input["url"] !== undefined) return {};
  const [url, ...furtherUrls] = String(value).match(/https?:\/\/[^\s"'<>`)\]]+/g) ?? [];
  return url !== undefined && furtherUrls.every((furtherUrl) => furtherUrl === url)
    ? { url: url.replace(/[.,;:!?]+$/, "") }
    : undefined;
};

const path = rename("path", "file_path filePath filename file absolute_path");
const searchRules = {
  ...rename("path", "dir_path directory dir folder"),
  ...{ file_filtering_options: ignoreFiles, respect_git_ignore: ifTrue({}, { all: true }) },
  ...{ no_ignore: ifTrue({ all: true }), respect_gemini_ignore: "", respect_qwen_ignore: "" },
};
const editRules = { ...path, ...EDIT_NAMES, edits, instruction: "", expected_replacements: unless(1, "1") };
const id = rename("id", "bash_id shell_id task_id process_id session_id");

/** Rules by the name of the tool that runs. */
export const ARGUMENT_RULES: Readonly<Record<string, ArgumentRules>> = {
  read: {
    ...path,
    start_line: "offset",
    end_line: lastLine,
    mode: unless("slice"),
    detail: "",
    // The first and the last line, where -1 is the end of the file (Anthropic's text editor tools).
    view_range: (value) => {
      const [first, last] = Array.isArray(value) && value.length === 2 ? value.map(Number) : [];
      if (!Number.isSafeInteger(first) || !Number.isSafeInteger(last)) return undefined;
      return { offset: Math.max(1, first!), ...(last! >= first! && { limit: last! - first! + 1 }) };
    },
  },
  write: { ...path, ...rename("content", "contents text file_text") },
  edit: editRules,
  multiedit: editRules,
  apply_patch: rename("input", "patch patchText patch_text diff"),
  list: { ...searchRules, recursive: ifTrue({ depth: 20 }) },
  glob: { ...searchRules, glob_pattern: "pattern", case_sensitive: unless(true) },
  grep: {
    ...searchRules,
    ...rename("pattern", "regex query"),
    ...rename("glob", "include include_pattern"),
    ...{ "-i": "ignore_case", ignoreCase: "ignore_case", case_sensitive: ifTrue({}, { ignore_case: true }) },
    ...{ fixed_strings: "literal", head_limit: (value) => (value === 0 ? {} : { limit: value }) },
    ...{ total_max_matches: "limit", names_only: ifTrue({ output: "files" }), "-n": "" },
    ...{ "-A": contextLines, "-B": contextLines, "-C": contextLines, after: contextLines, before: contextLines },
    output_mode: (value) => {
      const output = { content: "lines", files_with_matches: "files", count: "count" }[String(value)];
      return output === undefined ? undefined : { output };
    },
  },
  bash: {
    ...{ command, cmd: command, script: command },
    ...rename("workdir", "cwd working_directory workingDirectory dir_path directory"),
    ...rename("background", "run_in_background is_background isBackground"),
    ...{ timeout_ms: milliseconds, sandbox_permissions: unless("use_default"), shell: unless("bash", "/bin/bash") },
    // The output is bounded anyway. The tool reports an expired `yield_time_ms`, because the call waits for its command.
    max_output_tokens: "",
    // Commands of other agents run in a login shell unless the model says false.
    login: unless(true),
  },
  bash_output: { ...id, block: ifTrue({ wait_end: true }) },
  bash_input: id,
  bash_stop: id,
  webfetch: {
    ...rename("url", "uri link"),
    // The whole page contains the answer.
    prompt: addressInPrompt,
    format: (value) => (value === "html" ? { raw: true } : {}),
  },
  todowrite: { todos, plan: todos },
  ask_user: { questions, options: "choices" },
  task: {
    subagent_type: (value) => {
      if (/^(?:general|general-purpose)$/.test(String(value))) return {};
      return /^explore$/i.test(String(value)) ? { read_only: true } : undefined;
    },
  },
  skill: { skill: "name" },
};

const inMilliseconds = { timeout: milliseconds };
const caseInsensitiveGrep: ForeignTool = {
  tool: "grep",
  rules: { case_sensitive: ifTrue({ ignore_case: false }, { ignore_case: true }) },
  defaults: { ignore_case: true },
};
/** Other agents' tools by normalized name: lower case, without separators. */
export const FOREIGN_TOOLS: Readonly<Record<string, ForeignTool>> = {
  readfile: { tool: "read", rules: { offset: zeroBasedLine, limit: zeroBasedLimit } },
  viewimage: { tool: "read" },
  writefile: { tool: "write" },
  replace: { tool: "edit" },
  bash: { rules: inMilliseconds },
  shell: { tool: "bash", rules: inMilliseconds },
  shellcommand: { tool: "bash" },
  execcommand: { tool: "bash" },
  runshellcommand: { tool: "bash", rules: inMilliseconds },
  taskoutput: { tool: "bashoutput", rules: inMilliseconds },
  killshell: { tool: "bashstop" },
  taskstop: { tool: "bashstop" },
  ls: { tool: "list" },
  listdirectory: { tool: "list" },
  listdir: { tool: "list", defaults: { depth: 2 } },
  find: { tool: "glob" },
  grep: { defaults: { output: "files" } },
  grepfiles: { tool: "grep", defaults: { output: "files" } },
  grepsearch: caseInsensitiveGrep,
  searchfilecontent: caseInsensitiveGrep,
  updateplan: { tool: "todowrite" },
  writetodos: { tool: "todowrite" },
  askuserquestion: { tool: "askuser" },
  question: { tool: "askuser" },
  requestuserinput: { tool: "askuser" },
  agent: { tool: "task" },
  activateskill: { tool: "skill" },
  googlewebsearch: { tool: "websearch" },
};

/** Foreign tools that do the work of several tools here. Each returns the call, or why there is none. */
export const SPLIT_TOOLS: Readonly<Record<string, (input: Input) => { tool: string; input: Input } | string>> = {
  strreplaceeditor: splitTextEditor,
  strreplacebasededittool: splitTextEditor,
  // An empty text only reads the output.
  writestdin: ({ chars = "", yield_time_ms: waitMs, max_output_tokens: _, ...args }) => {
    if (chars !== "") return { tool: "bashinput", input: { ...args, text: chars, newline: false } };
    const timeout = Math.max(1, Math.ceil(Number(waitMs ?? 5000) / 1000));
    return { tool: "bashoutput", input: { ...args, wait_end: true, timeout } };
  },
  readmanyfiles: () => "call read once for each file",
  notebookedit: () => "change the JSON of the notebook",
  taskcreate: () => "send all steps with todowrite",
  taskupdate: () => "send all steps with todowrite",
  exitplanmode: () => "describe your plan; the user ends plan mode",
};

/** Splits Anthropic's text editor tool by its `command`. */
function splitTextEditor({ command: action, ...input }: Input): { tool: string; input: Input } | string {
  const tools: Readonly<Record<string, string>> = { view: "read", create: "write", str_replace: "edit" };
  const tool = tools[String(action)];
  return tool === undefined
    ? `command ${JSON.stringify(action)?.slice(0, 40)} has no counterpart. Use read, write or edit`
    : { tool, input };
}
