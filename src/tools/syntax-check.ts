import { randomBytes } from "node:crypto";
import { gzipSync } from "node:zlib";
import { isRecord, parseJson } from "../base/json.js";
import { printable } from "../base/printable.js";
import { withThread } from "../hostile/threads.js";
import type { ToolContext } from "../ports/tool.js";
import { relativeTo } from "./files.js";
import type { OuterPrograms } from "../processes/outer-programs.js";
import type { QuickCommands } from "./quick-command.js";
import { quoted } from "./sandbox-starter.js";
import { NODE_SCRIPT, PYTHON_SCRIPT } from "./syntax-scripts.js";

/** A file as it was, null for none, and as it is. */
export interface Changed {
  path: string;
  oldText: string | null;
  newText: string;
}

interface Fault {
  line: number;
  message: string;
}

/** What a parser says of both texts. Undefined: it cannot tell. */
interface Faults {
  was: Fault[];
  is: Fault[];
}

/** Languages that a program of the machine, or of the project, knows. */
interface Language {
  readonly files: RegExp;
  /** What runs, as a rule for commands may name it. */
  readonly program: string;
  /** A command that runs beside it, and without which it goes as well. */
  readonly also?: string;
  /** Of which files it can tell; default all. */
  canTell?(file: Changed): boolean;
  /** `path`: of the program. `also`: whether that may run. */
  command(files: readonly Changed[], mark: string, path: string, also: boolean): string;
  faultsOf(output: string, count: number, mark: string): (Faults | undefined)[];
}

/** Texts of more bytes, packed, are not checked: Linux takes 128 KiB in one argument. */
const PACKED_BYTES = 96 * 1024;
const JSON_FILES = /\.(json|jsonc|code-workspace|code-snippets)$/i;
const MAX_FILES = 20;
const FAULTS_OF_FILE = 5;
const LINE_WIDTH = 120;

const LANGUAGES: readonly Language[] = [
  {
    files: /\.([cm]?[jt]s|[jt]sx)$/i,
    program: "node",
    // The project's own runs only where the model might run it.
    also: "node node_modules/typescript/lib/typescript.js",
    command: (files, mark, _node, also) =>
      `printf %s ${packed(files.map(toldOf))} | ${quoted(process.execPath)} --no-warnings --experimental-vm-modules -e ${quoted(NODE_SCRIPT)} ${mark} ${also ? "compiler" : "none"}`,
    faultsOf: answered,
  },
  {
    files: /\.pyi?$/i,
    program: "python3",
    command: (files, mark, python) =>
      `printf %s ${packed(files.map(toldOf))} | ${quoted(python)} -I -S -W ignore -c ${quoted(PYTHON_SCRIPT)} ${mark}`,
    faultsOf: answered,
  },
  byLines(/\.(sh|bash)$/i, "bash", shellChecks, /^\S*bash: line (\d+): (?!warning:)(.*)$/),
  byLines(
    /(?<!\.blade)\.php$/i,
    "php",
    () => ["-l"],
    /^(?:PHP )?(?:Parse|Fatal) error: +(.*) in .* on line (\d+)$/,
    true,
  ),
  byLines(/\.rb$/i, "ruby", () => ["--disable=gems,rubyopt -c -"], /^(?:-: )?-:(\d+): (?!warning:)(.*)$/),
  byLines(/\.go$/i, "gofmt", () => ["-e -l"], /^<standard input>:(\d+):\d+: (.*)$/),
];

/** How shells may read a script: it is wrong where none can. Undefined: it may be for another one. */
function shellChecks({ path, oldText, newText }: Changed): string[] | undefined {
  const [first = ""] = newText.split("\n");
  const [, shell] = /^#!.*?\b(\w*sh)\b/.exec(first) ?? [];
  if (first.startsWith("#!") && !["bash", "sh", "dash", "ash"].includes(shell ?? "")) return undefined;
  if (/\b(?:setopt|zstyle|autoload|zmodload|compdef|emulate)\b|\$\{\([^)]*\)|shell=(?:zsh|ksh)/.test(newText))
    return undefined;
  const isNamed = shell !== undefined || /\.bash$/i.test(path);
  if (!isNamed && (oldText ?? "").trim() === "") return undefined;
  return ["-n", "-O extglob -n", "--posix -n"];
}

/** The syntax errors that a change of files brought, a line each. Rejects with the signal's reason, or `WorkLimitError`. */
export async function newSyntaxFaults(
  changed: readonly Changed[],
  commands: QuickCommands | undefined,
  timeoutMs: number,
  context: ToolContext,
): Promise<string[]> {
  // What was no UTF-8 is not what a parser would see.
  const told = changed.filter(({ newText }) => newText !== "" && !newText.includes("\uFFFD"));
  const files = told.slice(0, MAX_FILES).map(withoutMark);
  const found = new Map<Changed, Fault[]>();
  const json = files.filter(({ path }) => JSON_FILES.test(path));
  let outer: Promise<OuterPrograms> | undefined;
  const runs = LANGUAGES.map(async (language) => {
    const own = files.filter((file) => language.files.test(file.path) && language.canTell?.(file) !== false);
    if (own.length === 0 || !commands || !(await context.mayRun?.(`${language.program} .`))) return;
    const programs = await (outer ??= commands.programs(context));
    const path = language.program === "node" ? process.execPath : await programs.find(language.program);
    if (path === undefined) return;
    const also = language.also !== undefined && (await context.mayRun?.(language.also)) === true;
    const mark = `gantry-${randomBytes(9).toString("hex")}`;
    // In no folder of the project: what chooses a version there chooses what runs.
    const command = `PATH=${quoted(programs.path)}; export PATH; cd / || exit 0; ${language.command(own, mark, path, also)}`;
    if (command.length > PACKED_BYTES) return;
    const end = await commands.run(command, timeoutMs, context);
    if (!end || end.code === null) return;
    language.faultsOf(end.output, own.length, mark).forEach((faults, i) => {
      const file = own[i];
      if (file && faults) found.set(file, newOf(file, faults));
    });
  });
  await Promise.all([...runs, faultsOfJson(json, timeoutMs, context, found)]);
  return files.flatMap((file) =>
    (found.get(file) ?? []).slice(0, FAULTS_OF_FILE).map((fault) => lineOf(file, fault, context)),
  );
}

async function faultsOfJson(
  files: readonly Changed[],
  ms: number,
  { signal, projectDir }: ToolContext,
  found: Map<Changed, Fault[]>,
): Promise<void> {
  if (files.length === 0) return;
  const asked = files.map(({ path, oldText, newText }) => ({
    ...{ name: relativeTo(path, projectDir), was: oldText, is: newText },
  }));
  const faults = await withThread(signal, (thread) => thread.ask("json", { files: asked }, { ms }));
  files.forEach((file, i) => {
    const fault = faults[i];
    if (fault) found.set(file, [fault]);
  });
}

function newOf({ oldText, newText }: Changed, { was, is }: Faults): Fault[] {
  const lines = newText.split("\n");
  const before = (oldText ?? "").split("\n");
  const keyOf = (of: readonly string[], { line, message }: Fault): string =>
    `${message}\n${(of[line - 1] ?? "").trim()}`;
  const left = was.map((fault) => keyOf(before, fault));
  const seen = new Set<string>();
  return is.filter((fault) => {
    // Some say a thing twice, to people and to the log.
    const isTwice = seen.size === seen.add(`${fault.line} ${fault.message}`).size;
    if (isTwice) return false;
    const known = left.indexOf(keyOf(lines, fault));
    if (known !== -1) left.splice(known, 1);
    return known === -1;
  });
}

function lineOf({ path, newText }: Changed, { line, message }: Fault, { projectDir }: ToolContext): string {
  const text = (newText.split("\n")[line - 1] ?? "").trim();
  const shown = text.length > LINE_WIDTH ? `${text.slice(0, LINE_WIDTH)}…` : text;
  const said = message.length > 300 ? `${message.slice(0, 300)}…` : message;
  return `${printable(relativeTo(path, projectDir))}${line > 0 ? `:${line}` : ""}: ${printable(said)}${shown === "" ? "" : ` | ${printable(shown)}`}`;
}

function withoutMark({ path, oldText, newText }: Changed): Changed {
  const plain = (text: string): string => text.replace(/^\uFEFF/, "");
  return { path, oldText: oldText === null ? null : plain(oldText), newText: plain(newText) };
}

function toldOf({ path, oldText, newText }: Changed): { path: string; was: string | null; is: string } {
  return { path, was: oldText, is: newText };
}

function packed(value: unknown): string {
  return gzipSync(typeof value === "string" ? value : JSON.stringify(value)).toString("base64");
}

/** Of a script of ours, which says it all in one line. What the project's own modules printed is passed over. */
function answered(output: string, count: number, mark: string): (Faults | undefined)[] {
  const line = output.split("\n").findLast((one) => one.startsWith(mark));
  if (line === undefined) return [];
  try {
    const told = parseJson(line.slice(mark.length));
    return Array.isArray(told) && told.length === count ? told.map(faultsIn) : [];
  } catch {
    return [];
  }
}

function faultsIn(told: unknown): Faults | undefined {
  if (!isRecord(told)) return undefined;
  const list = (value: unknown): Fault[] =>
    (Array.isArray(value) ? value : []).flatMap((one: unknown) =>
      isRecord(one) && typeof one["line"] === "number" && typeof one["message"] === "string"
        ? [{ line: one["line"], message: one["message"] }]
        : [],
    );
  return { was: list(told["was"]), is: list(told["is"]) };
}

/**
 * A program that reads one text and prints a line for each fault. `waysOf`: the arguments with which it may read a file, which is wrong
 * where it fails with all of them. `last`: the number of the line stands behind what it says.
 */
function byLines(
  files: RegExp,
  program: string,
  waysOf: (file: Changed) => string[] | undefined,
  shape: RegExp,
  last = false,
): Language {
  const faultOf = (line: string): Fault[] => {
    const [, one = "", two = ""] = shape.exec(line) ?? [];
    const [number, message] = last ? [two, one] : [one, two];
    return number === "" ? [] : [{ line: Number(number), message }];
  };
  return {
    files,
    program,
    canTell: (file) => waysOf(file) !== undefined && !/<%|\{%|\{\{\s*cookiecutter/.test(file.newText),
    command: (changed, mark, path) => {
      const each = changed.flatMap((file) => {
        const [first = "", ...others] = (waysOf(file) ?? []).map((args) => `t | ${quoted(path)} ${args}`);
        const rest = others.map((other) => `${other} >/dev/null 2>&1 || `).join("");
        return [file.oldText ?? "", file.newText].map(
          (text) =>
            `t() { printf %s ${packed(text.replaceAll("\r\n", "\n"))} | base64 -d | gzip -dc; }; echo; echo ${mark}; ` +
            `o=$(${first} 2>&1) || ${rest}printf '%s\\n' "$o"`,
        );
      });
      return `${each.join("; ")}; exit 0`;
    },
    faultsOf: (output, count, mark) => {
      const parts = output.split(`${mark}\n`).slice(1);
      if (parts.length !== 2 * count) return [];
      const faults = parts.map((part) => part.split("\n").flatMap(faultOf));
      return Array.from({ length: count }, (_, i) => ({ was: faults[2 * i] ?? [], is: faults[2 * i + 1] ?? [] })).map(
        // It stops somewhere behind the first: what it says then may have been there before.
        (both) => (both.was.length > 0 ? undefined : both),
      );
    },
  };
}
