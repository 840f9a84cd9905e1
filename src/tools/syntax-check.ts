import { randomBytes } from "node:crypto";
import { basename } from "node:path";
import { gzipSync } from "node:zlib";
import { isRecord, parseJson } from "../base/json.js";
import { printable } from "../base/printable.js";
import { withThread } from "../hostile/threads.js";
import type { ToolContext } from "../ports/tool.js";
import { relativeTo } from "./files.js";
import type { QuickCommands } from "./quick-command.js";
import { quoted } from "./sandbox-starter.js";

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
  command(files: readonly Changed[], mark: string): string;
  faultsOf(output: string, count: number, mark: string): (Faults | undefined)[];
}

/** Texts of more bytes, packed, are not checked: Linux takes 128 KiB in one argument. */
const PACKED_BYTES = 96 * 1024;
const JSON_FILES = /\.(json|jsonc|code-workspace|code-snippets)$/i;
const MAX_FILES = 20;
const FAULTS_OF_FILE = 5;
const LINE_WIDTH = 120;

/** The project's own TypeScript reads what it can; without it Node reads JavaScript. */
const NODE_SCRIPT = `
const mark = process.argv[1], zlib = require("zlib"), vm = require("vm"), { createRequire } = require("module");
const files = JSON.parse(zlib.gunzipSync(Buffer.from(require("fs").readFileSync(0, "latin1"), "base64")));
const compiler = (path) => { try { const ts = createRequire(path)("typescript"); return ts.createSourceFile && ts; } catch {} };
const byCompiler = (ts, path, text) => {
  const source = ts.createSourceFile(path, text, 99, false);
  return source.parseDiagnostics.map((one) => ({
    line: source.getLineAndCharacterOfPosition(one.start).line + 1,
    message: ts.flattenDiagnosticMessageText(one.messageText, " "),
  }));
};
const failed = (work) => { try { work(); } catch (error) { return error; } };
const byNode = (path, text) => {
  const plain = text.replace(/^#!.*/, "");
  const script = (kind, body) => failed(() => new vm.Script("(" + kind + "(exports, require, module, __filename, __dirname) {" + body + "\\n})", { filename: "x" }));
  const common = script("function", plain);
  const module = failed(() => new vm.SourceTextModule(plain));
  if (!common && !/\\.mjs$/.test(path)) return [];
  if (!module && !/\\.cjs$/.test(path)) return [];
  const isCommon = /\\.cjs$/.test(path) || (!/\\.mjs$/.test(path) && !/^\\s*(import|export)\\b/m.test(plain));
  const error = isCommon ? common : module;
  if (!error || /token '<'/.test(error.message)) return undefined;
  // Of a module Node does not tell the line: what is left of it without imports and exports has the same fault, as a rule.
  const body = plain.replace(/^(\\s*)import\\b[^;(]*?from\\s*(["']).*?\\2/gm, (all) => all.replace(/[^\\n]/g, " ")).replace(/^(\\s*)export\\s+(default\\s+)?/gm, "$1");
  const alike = isCommon ? common : script("async function", body);
  const line = alike && alike.message === error.message && /^x:(\\d+)/.exec(alike.stack);
  return [{ line: line ? Number(line[1]) : 0, message: error.message }];
};
const done = files.map(({ path, was, is }) => {
  const ts = compiler(path);
  const faults = ts ? (text) => byCompiler(ts, path, text) : /\\.[cm]?js$/.test(path) ? (text) => byNode(path, text) : undefined;
  if (!faults) return null;
  const now = faults(is), before = was === null ? [] : faults(was);
  return now && before && (ts || before.length === 0) ? { is: now, was: before } : null;
});
console.log("\\n" + mark + JSON.stringify(done));
`;

const PYTHON_SCRIPT = `
import sys, json, base64, gzip, ast
files = json.loads(gzip.decompress(base64.b64decode(sys.stdin.read())))
def faults(text):
    try:
        ast.parse(text)
        return []
    except SyntaxError as error:
        return [{"line": error.lineno or 1, "message": "%s (Python %d.%d)" % (error.msg, *sys.version_info[:2])}]
    except Exception:
        return None
def both(file):
    now, before = faults(file["is"]), faults(file["was"] or "")
    return None if now is None or before is None or before else {"is": now, "was": before}
print("\\n" + sys.argv[1] + json.dumps([both(file) for file in files]))
`;

const LANGUAGES: readonly Language[] = [
  {
    files: /\.([cm]?[jt]s|[jt]sx)$/i,
    program: "node",
    command: (files, mark) =>
      `printf %s ${packed(files.map(toldOf))} | ${quoted(process.execPath)} --no-warnings --experimental-vm-modules -e ${quoted(NODE_SCRIPT)} ${mark}`,
    faultsOf: answered,
  },
  {
    files: /\.pyi?$/i,
    program: "python3",
    command: (files, mark) =>
      `p=python3; [ -x .venv/bin/python ] && p=.venv/bin/python; printf %s ${packed(files.map(toldOf))} | "$p" -I -W ignore -c ${quoted(PYTHON_SCRIPT)} ${mark}`,
    faultsOf: answered,
  },
  byLines(/\.(sh|bash)$/i, "bash", "bash -n", /^bash: line (\d+): (.*)$/),
  byLines(/\.php$/i, "php", "php -l", /^(?:PHP )?(?:Parse|Fatal) error: +(.*) in .* on line (\d+)$/, true),
  byLines(/\.rb$/i, "ruby", "ruby -c -", /^-:(\d+): (.*)$/),
  byLines(/\.go$/i, "gofmt", "gofmt -e -l", /^<standard input>:(\d+):\d+: (.*)$/),
];

/** The syntax errors that a change of files brought, a line each. Rejects with the signal's reason, or `WorkLimitError`. */
export async function newSyntaxFaults(
  changed: readonly Changed[],
  commands: QuickCommands | undefined,
  timeoutMs: number,
  context: ToolContext,
): Promise<string[]> {
  const files = changed.filter(({ newText }) => newText !== "").slice(0, MAX_FILES);
  const found = new Map<Changed, Fault[]>();
  const json = files.filter(({ path }) => JSON_FILES.test(path));
  const runs = LANGUAGES.map(async (language) => {
    const own = files.filter(({ path }) => language.files.test(path));
    if (own.length === 0 || !commands || !(await context.mayRun?.(`${language.program} .`))) return;
    const mark = `gantry-${randomBytes(9).toString("hex")}`;
    const command = language.command(own, mark);
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
  { signal }: ToolContext,
  found: Map<Changed, Fault[]>,
): Promise<void> {
  if (files.length === 0) return;
  const asked = files.map(({ path, oldText, newText }) => ({ name: basename(path), was: oldText, is: newText }));
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

/** A program that reads one text and prints a line for each fault. `last`: the number of the line stands behind what it says. */
function byLines(files: RegExp, program: string, check: string, shape: RegExp, last = false): Language {
  const faultOf = (line: string): Fault[] => {
    const [, one = "", two = ""] = shape.exec(line) ?? [];
    const [number, message] = last ? [two, one] : [one, two];
    return number === "" ? [] : [{ line: Number(number), message }];
  };
  return {
    files,
    program,
    command: (changed, mark) => {
      const texts = changed.flatMap(({ oldText, newText }) => [oldText ?? "", newText]);
      const each = texts.map(
        (text) => `echo; echo ${mark}; printf %s ${packed(text)} | base64 -d | gzip -dc | ${check} 2>&1`,
      );
      return `command -v ${program} >/dev/null || exit 0; ${each.join("; ")}; exit 0`;
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
