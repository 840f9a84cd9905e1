import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { chmod, mkdir, readFile, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { evaluateCall, type RuleForCall } from "../../../src/untrusted/shell-rules/evaluate-call.js";
import { createRandom, readSeed } from "../../helpers/random.js";
import { tempDir } from "../../helpers/temp-dir.js";

/**
 * Random shell lines, evaluated by rules and then run by real shells. Each program on the path only logs its arguments.
 * LINES is the number of generated lines. SEED determines the lines.
 */

const SHELLS = [["/bin/bash"], ["/bin/dash"], ["/bin/busybox", "sh"]].filter(([file]) => existsSync(file!));
/** Names in the working folder of the shells. */
const FILES = ["ls", "src"];
const PROGRAMS = ["git", "ls", "cat", "touch", "rm", "npm"];
/** Real programs that start other programs. */
const STARTERS = ["env", "xargs", "timeout", "nice", "find", "sh", "bash"];

const ALLOW_RULES: readonly RuleForCall[] = [
  { action: "allow", match: "git log*", isExact: true },
  { action: "allow", match: "ls*", isExact: true },
  { action: "allow", match: "cat src/*", isExact: true },
  { action: "deny", isExact: true },
];
const DENY_RULES: readonly RuleForCall[] = [{ action: "deny", match: "git push*", isExact: true }];

/** Generates random lines. Some are nearly plain, so that many are allowed. */
class LineGenerator {
  readonly #random: () => number;
  /** Probability of an unusual word, program or separator. */
  #oddity = 0;

  constructor(seed: number) {
    this.#random = createRandom(seed);
  }

  createLine(): string {
    this.#oddity = this.#chooseFrom([0, 0.03, 0.1, 0.3, 0.6]);
    let line = this.#createCommand();
    if (this.#random() < this.#oddity / 2) line = this.#chooseFrom(ASSIGNMENTS) + line;
    while (this.#random() < 0.4) line += this.#choose(SEPARATORS) + this.#createCommand();
    if (this.#random() < this.#oddity / 3)
      line = this.#chooseFrom([
        "(#)",
        "{ #; }",
        "$(#)",
        '"$(#)"',
        "f() { #; }; f",
        "ls $(#)",
        "! #",
        "if #; then #; fi",
      ]).replaceAll("#", () => line);
    while (this.#random() < this.#oddity) {
      const offset = Math.floor(this.#random() * (line.length + 1));
      line = line.slice(0, offset) + this.#chooseFrom(EDITS) + line.slice(offset + (this.#random() < 0.3 ? 1 : 0));
    }
    return line;
  }

  #createCommand(): string {
    const words = [this.#choose(PROGRAMS_OF_LINES)];
    while (this.#random() < 0.55) words.push(this.#choose(WORDS));
    if (this.#random() < 0.15) words.push(this.#choose(REDIRECTIONS));
    // A last word that moves to an earlier position can change the command.
    if (this.#random() < this.#oddity / 2) words.splice(Math.floor(this.#random() * words.length), 0, words.pop()!);
    return words.join(this.#choose(BLANKS));
  }

  #choose({ plain, unusual }: { plain: readonly string[]; unusual: readonly string[] }): string {
    return this.#chooseFrom(this.#random() < this.#oddity ? unusual : plain);
  }

  #chooseFrom<T>(list: readonly T[]): T {
    return list[Math.floor(this.#random() * list.length)]!;
  }
}

const PROGRAMS_OF_LINES = {
  plain: ["git", "git log", "git push", "ls", "ls", "cat src/a", "'git' log", '"ls"', "\\ls", "git log --", "touch"],
  unusual: [
    ...[
      "cat",
      "rm",
      "npm",
      "g\\it log",
      "./bin/ls",
      "$LS",
      "~",
      "~+",
      "~-",
      "[",
      "echo",
      ":",
      "cd",
      "true",
      "!",
      "{",
      "}",
    ],
    ...[
      "time",
      "exec",
      "command",
      "builtin",
      "eval",
      "export",
      "alias x=git;",
      "hash -p",
      "trap",
      "read",
      "set -k;",
      "set -e;",
    ],
    ...[
      ".",
      "X=1",
      "HOME=git;",
      "HOME=git",
      "git=1",
      "ls=",
      "PWD=git;",
      "OLDPWD=git;",
      "IFS=;",
      "PATH=.",
      "env",
      "env A=1",
    ],
    ...[
      "xargs",
      "timeout 5",
      "nice",
      "find . -exec",
      "sh -c",
      "bash -c",
      "if",
      "then",
      "for X in",
      "while",
      "case x in x)",
    ],
    ...[
      "function f",
      "f()",
      "select x in",
      "coproc",
      "[[",
      "((",
      "let",
      "A\\\n=1",
      "i\\\nf",
      "ls()",
      "git\\\n",
      "l\\\ns",
    ],
  ],
};
const WORDS = {
  plain: [
    "push",
    "log",
    "-f",
    "-n 1",
    "--",
    "src/a",
    "src/b",
    "'a b'",
    '"c d"',
    "''",
    "x\\ y",
    "1",
    '"$LS"',
    "*.ts",
    "é",
    "a=b",
    "a#b",
  ],
  unusual: [
    ...[
      "src/../x",
      "../x",
      "-",
      "$HOME",
      "${X:-d}",
      "$X",
      "*",
      "s*",
      "[a-z]",
      "{a,b}",
      "{push,log}",
      "~",
      "~/x",
      "a=~",
      "a\\\nb",
    ],
    ...[
      "\\\n",
      "#",
      "# c",
      "2",
      "$'t'",
      '$"t"',
      "$((1))",
      "$[1]",
      "a$",
      '"a$"',
      '"\\$(touch X)"',
      '"\\\\"',
      "'",
      '"',
      "`touch X`",
    ],
    ...[
      "$(touch X)",
      '"$(git push)"',
      "<(touch X)",
      "$(",
      ")",
      "!(a)",
      "@(a)",
      "if",
      "do",
      "done",
      "fi",
      "in",
      "x\u00a0y",
      "esac",
    ],
    ...[
      "'a\ntouch X'",
      '"a\ntouch X"',
      '"a\\\nb"',
      "'a'\\''b'",
      '"`touch X`"',
      '"${X}"',
      "\\$(touch X)",
      "\\`touch X\\`",
      "}",
      "{",
    ],
  ],
};
const REDIRECTIONS = {
  plain: [">/dev/null", "2>&1", "2>/dev/null", "2> /dev/null", ">&2", "</dev/null"],
  unusual: [
    ...[
      "0000000002>/dev/null",
      "&>/dev/null",
      "> out",
      "< src/a",
      "<<< x",
      ">|out",
      ">&-",
      "> $X",
      "> ~/x",
      ">/dev/null push",
    ],
    ...["<<E\ngit push\nE\n", "<<'E'\n$(touch X)\nE\n", "<<E\\\nOF\n$(touch X)\nEOF\n", "<<-E\n\t`touch X`\n\tE\n"],
    ...[
      "<<E\nx\nE)\ntouch X\nE\n",
      '<<"E"\nx\nE\n',
      "<<\\E\nx\nE\n",
      "{x}>/dev/null",
      "2>&1 push",
      "<>src/a",
      ">&2push",
      "2>&1\\\n",
    ],
  ],
};
const SEPARATORS = {
  plain: [";", " && ", " || ", " | ", "\n", " & ", "; ", " # c\n"],
  unusual: [";;", "|&", " ", "\r\n", "\f", "\\\n", "&&\n", "|\n\n", " \\\n;", ";#", "&#c\n", "\n#c\n", "#\n", " #\\\n"],
};
const ASSIGNMENTS = ["A=1 ", "ls=1 ", "PATH=. ", "PATH=.\\\n ", "A= PATH=. ", "PATH+=: PATH=./ "];
const BLANKS = {
  plain: [" ", " ", " ", "  ", "\t", " \\\n"],
  unusual: ["\\\n", "\v", "\u00a0", "\u3000", " \\\n#", "\\ "],
};
const EDITS = [..."'\"`$(){};&|<>\n\\# =!*[~\t", "\\\n", "\\\n"];

describe("command rules, compared with real shells", () => {
  it(
    "start only allowed programs for an allowed line, and never a denied program for a passed line",
    { timeout: 3_600_000 },
    async (t) => {
      const seed = readSeed();
      const generator = new LineGenerator(seed);
      const folder = await tempDir(t);
      const runners = await Promise.all(SHELLS.map((shell, i) => createRunner(folder.at(`${i}`), shell)));
      const lineCount = Number(process.env["LINES"] ?? 2_000);
      const counts = { allowed: 0, passed: 0, run: 0, started: 0 };
      for (let i = 0; i < lineCount; i++) {
        const line = generator.createLine();
        const isAllowed = (await evaluateLine(ALLOW_RULES, line)) === "allow";
        const isPassed = (await evaluateLine(DENY_RULES, line)) === "pass";
        if (isAllowed) counts.allowed++;
        if (isPassed) counts.passed++;
        if (!isAllowed && !isPassed) continue;
        counts.run++;
        for (const { shell, calls, files } of await Promise.all(runners.map((run) => run(line)))) {
          counts.started += calls.length;
          const situation = `SEED=${seed}, line ${i}, ${shell}: ${JSON.stringify(line)}`;
          for (const call of calls) {
            if (isAllowed) assert.ok(isPermitted(call), `${situation} was allowed and started ${JSON.stringify(call)}`);
            if (isPassed) assert.ok(!isPush(call), `${situation} passed a deny and started ${JSON.stringify(call)}`);
          }
          if (isAllowed) assert.deepEqual(files, FILES, `${situation} was allowed and wrote files`);
        }
      }
      const shells = SHELLS.map((shell) => shell[0]).join(", ");
      t.diagnostic(`SEED=${seed}, ${lineCount} lines, ${JSON.stringify(counts)}, lines run in each of ${shells}`);
      assert.ok(
        counts.allowed > lineCount / 20 && counts.passed > lineCount / 20 && counts.started > lineCount / 20,
        JSON.stringify(counts),
      );
    },
  );
});

async function evaluateLine(rules: readonly RuleForCall[], command: string): Promise<string> {
  const otherFields = { locations: [], isFileTool: false, projectDir: "/p", realProjectDir: "/p", homeDir: "/h" };
  return (await evaluateCall({ rules, command, startsPrograms: true, ...otherFields })).action;
}

function isPermitted([program, ...args]: readonly string[]): boolean {
  if (program === "ls") return true;
  if (program === "git") return args[0]?.startsWith("log") === true;
  return (
    program === "cat" && args.length > 0 && args.every((arg) => /^src\//.test(arg) && !arg.split("/").includes(".."))
  );
}

function isPush([program, ...args]: readonly string[]): boolean {
  return program === "git" && args.find((arg) => !arg.startsWith("-"))?.startsWith("push") === true;
}

interface ShellRun {
  readonly shell: string;
  /** Each call of a program: its name and arguments. */
  readonly calls: readonly (readonly string[])[];
  /** Names in the working folder after the run. */
  readonly files: readonly string[];
}

/** Returns a function that runs a line in a shell in its own folder. */
async function createRunner(folder: string, shell: readonly string[]): Promise<(line: string) => Promise<ShellRun>> {
  const [binFolder, workFolder, logFile] = [join(folder, "bin"), join(folder, "work"), join(folder, "log")];
  await mkdir(binFolder, { recursive: true });
  const writeProgram = async (path: string, name: string): Promise<void> => {
    const script = `#!/bin/dash\nline=${name}\nfor word; do line="$line\x1f$word"; done\nprintf '%s\x1e' "$line" >> '${logFile}'\n`;
    await writeFile(path, script);
    await chmod(path, 0o755);
  };
  for (const name of PROGRAMS) await writeProgram(join(binFolder, name), name);
  for (const name of STARTERS) {
    const realPath = [`/usr/bin/${name}`, `/bin/${name}`].find((file) => existsSync(file));
    if (realPath) await symlink(realPath, join(binFolder, name));
  }
  const createWorkFolder = async (): Promise<void> => {
    await rm(workFolder, { recursive: true, force: true });
    await mkdir(join(workFolder, "src"), { recursive: true });
    await writeFile(join(workFolder, "src", "a"), "git push\n");
    // A program of the repository that is found only through a changed PATH.
    await writeProgram(join(workFolder, "ls"), "./ls");
  };
  await createWorkFolder();
  const [file = "", ...args] = shell;
  return async (line) => {
    await new Promise<void>((resolve) => {
      const env = { PATH: binFolder, HOME: "/home", LS: "ls", X: "push" };
      execFile(file, [...args, "-c", line], { cwd: workFolder, env, timeout: 10_000 }, () => resolve()).stdin?.end();
    });
    const text = await readFile(logFile, "utf8").catch(() => "");
    const files = await readdir(workFolder);
    if (text !== "") await rm(logFile);
    if (files.join() !== FILES.join() || (await readdir(join(workFolder, "src"))).join() !== "a")
      await createWorkFolder();
    const calls = text.split("\x1e").slice(0, -1);
    return { shell: shell.join(" "), calls: calls.map((call) => call.split("\x1f")), files };
  };
}
