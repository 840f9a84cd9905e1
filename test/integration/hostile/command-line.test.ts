import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { chmod, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { NotUnderstood, type Command } from "../../../src/hostile/command.js";
import { commandsIn } from "../../../src/hostile/command-line.js";
import { CommandPattern } from "../../../src/hostile/command-pattern.js";
import { judgeCall, type JudgeJob, type RuleForCall } from "../../../src/hostile/judge-call.js";
import { randomOf } from "../../helpers/random.js";
import { tempDir } from "../../helpers/temp.js";

/** Its commands on one line: `^` only starts others, `>` has files, `<x>` is not known, with `*` perhaps several words. */
function read(text: string): string {
  try {
    return commandsIn(text).map(shown).join(" | ");
  } catch (error) {
    if (error instanceof NotUnderstood) return "?";
    throw error;
  }
}

function shown({ words, files, starter }: Command): string {
  const texts = words.map(({ text, known, many }) => (known ? text : `<${text}${many ? "*" : ""}>`));
  return `${starter ? "^" : ""}${files ? "> " : ""}${texts.join(" ")}`;
}

const READ: Readonly<Record<string, string>> = {
  "": "",
  "# git push": "",
  "git  push\torigin": "git push origin",
  "a; b && c || d | e |& f & g\nh": "a | b | c | d | e | f | g | h",
  "git\\\n push": "git push",
  "g'i't \"pu\"\\sh ''": "git push ",
  "\\git push": "git push",
  "a # b; c\nd": "a | d",
  "a#b": "a#b",
  "(cd x; rm y)": "cd x | rm y",
  "{ rm x; }": "rm x",
  "! rm x": "rm x",
  "time -p rm x": "rm x",
  "time { rm x; }": "rm x",
  "if [ -f x ]; then rm x; elif a; then b; else ls; fi": "[ -f x ] | rm x | a | b | ls",
  "while read l; do rm $l; done < f": "read l | rm <$l*> | > ",
  "for f in $(ls) b; do rm $f; done": "ls | rm <$f*>",
  "for f; do rm $f; done": "rm <$f*>",
  "echo $(git push) `rm x`": "git push | rm x | echo <$(git push)*> <`rm x`*>",
  'echo "$(git push)" "$HOME"': 'git push | echo <"$(git push)"> <"$HOME">',
  "diff <(git push) >(b)": "git push | b | diff <<(git push)> <>(b)>",
  "X=$(git push)": "git push | <X=$(git push)*>",
  "X=1 git push": "X=1 git push",
  "ls *.ts a?b {a,b} [ab]": "ls <*.ts*> <a?b*> <{a,b}*> <[ab]*>",
  "cmd {} { }": "cmd {} { }",
  "echo $((1+2)) ${HOME} ${X:-y}": "echo <$((1+2))*> <${HOME}*> <${X:-y}*>",
  "$'git' push": "<$'git'> push",
  "{rm,-rf,x}": "<{rm,-rf,x}*>",
  "ls 2>&1 >/dev/null <&- 1>&2": "ls",
  "ls > out": "> ls",
  "ls 2>> out": "> ls",
  "ls &> out": "> ls",
  "ls < in": "> ls",
  "> out": "> ",
  "(ls) > out": "ls | > ",
  "ls > $X": "> ls",
  "ls > /dev/tcp/h/1": "> ls",
  "cat <<< x": "cat",
  "cat <<'EOF' && b\n$(x)\nEOF\nc": "cat | b | c",
  "cat <<-EOF\n\tx\n\tEOF": "cat",
  "git commit -m \"$(cat <<'EOF'\na (b)\nEOF\n)\"": "cat | git commit -m <\"$(cat <<'EOF'\na (b)\nEOF\n)\">",
  // Programs that start others.
  "env A=1 git push": "^env A=1 git push | A=1 git push",
  "env 'A=1' git push": "^env A=1 git push | A=1 git push",
  "sudo -u root git push": "sudo -u root git push | git push",
  "/usr/bin/sudo git push": "/usr/bin/sudo git push | git push",
  "nice -n 5 timeout -k 1 5 git push": "^nice -n 5 timeout -k 1 5 git push | ^timeout -k 1 5 git push | git push",
  "ls | xargs -I{} rm {}": "ls | ^xargs -I{} rm {} | rm <{}> <*>",
  "find . -exec rm {} \\; -exec ls {} +": "find . -exec rm {} ; -exec ls {} + | rm <{}> <*> | ls <{}> <*>",
  "sh -c 'git push; rm x'": "^sh -c git push; rm x | git push | rm x",
  "bash -euo pipefail -c 'git push'": "?",
  "bash -o pipefail -lc 'git push'": "^bash -o pipefail -lc git push | git push",
  "bash x.sh": "bash x.sh",
  "eval -- git push": "^eval -- git push | git push",
  "trap -- 'git push' EXIT": "trap -- git push EXIT | git push",
  "rbash -c 'git push'": "^rbash -c git push | git push",
  "env =x git push": "^env =x git push | =x git push",
  "find . -name *.ts": "find . -name <*.ts*>",
  "set -eu; set -o pipefail; set -- $X": "set -eu | set -o pipefail | set -- <$X*>",
  "git -c user.name=x commit": "git -c user.name=x commit",
  'git -c user.name="$X" commit': 'git -c <user.name="$X"> commit',
  "ENV=test npm test": "ENV=test npm test",
  'read x; [ -f "$X" ]; printf "$X"': 'read x | [ -f <"$X"> ] | printf <"$X">',
  "bash scripts/dev/x.sh": "bash scripts/dev/x.sh",
  "eval 'git push' '; rm x'": "^eval git push ; rm x | git push | rm x",
  "trap 'git push' EXIT": "trap git push EXIT | git push",
  "exec git push": "exec git push | git push",
  "command git push": "^command git push | git push",
  "command -v git": "command -v git",
  "busybox rm x": "busybox rm x | rm x",
};

const NOT_READ = [
  "f() { git push; }; f",
  "function f { git push; }",
  "case x in a) rm;; esac",
  "coproc git push",
  "[[ -n $(x) ]]",
  "((x))",
  "echo $((X))",
  "echo $[1]",
  "echo ${X:=$(rm x)}",
  "echo ${X@P}",
  "echo ${!X}",
  "a=(b c)",
  "echo !(a)",
  ";; a",
  "a )",
  "( a",
  "echo 'a",
  'echo "a',
  "echo `a",
  "echo `a \\`b\\``",
  "a \\",
  "a > ",
  "a\0b",
  "cat <<EOF\n$(git push)\nEOF",
  "cat <<EOF\nx",
  "cat <<$X\nx",
  "alias x='git push'",
  "declare -i x='a[$(git push)]'",
  "let 'a[$(git push)]'",
  "printf -v 'a[$(git push)]' x",
  "test -v 'a[$(git push)]'",
  "enable -f x y",
  "hash -p ./git git",
  "shopt -s expand_aliases",
  "eval $X",
  ". <(echo git push)",
  'sh -c "$X"',
  "echo git push | sh",
  "bash -s",
  "echo git push | sh /dev/stdin",
  ". /proc/self/fd/0 <<< 'git push'",
  'echo "$\\\n(git push)"',
  "cat <<E $(\na\n)\nE",
  "tmux new 'git push'",
  "bash -i",
  "sudo -nu root git push",
  "sudo -i",
  "env -S 'git push'",
  'env "$X" git push',
  "xargs $X rm",
  "echo 'git push' | xargs -I X sh -c X",
  "echo 'git push' | xargs -IX sh -c X",
  "find . -exe? git push \\;",
  "find . ?exec git push \\;",
  "find . {-exec,git,push,\\;}",
  "eval -- $X",
  ". -- /dev/stdin <<< 'git push'",
  ". /tmp/../dev/stdin <<< 'git push'",
  "cd /dev; . fd/0 <<< 'git push'",
  "bash ../../dev/stdin <<< 'git push'",
  "bash -c +e 'git push'",
  "linux64 git push",
  "ssh-agent git push",
  "/lib64/ld-linux-x86-64.so.2 /bin/sh -c 'git push'",
  "jobs -x git push",
  "set -k",
  "set -o keyword",
  "set -H",
  "set -o history",
  "set $X",
  'test -v "$X"',
  '[ -v "$X" ]',
  'printf -v "$X" a',
  'read "$X"',
  "PS4='$(git push)'; set -x",
  "read PS4",
  "printf -v PS4 x",
  "for PS4 in '$(git push)'; do set -x; done",
  "RANDOM='a[$(git push)]'",
  "export BASH_ENV=x",
  "BASH_ENV=x bash y",
  "env 'BASH_FUNC_ls%%=() { git push; }' bash -c ls",
  "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0=push git x",
  "git -calias.x=push x",
  "git config $X.x push",
  "git config {alias.x,push}",
  'git -c "$X" x',
  'git -c"$X" x',
  "git submodule foreach git push",
  "git bisect run git push",
  "git rebase -x 'git push' HEAD~1",
  "git rebase --exec='git push' HEAD~1",
  "timeout $X git push",
  "find . $X",
  "fd -x rm",
  "zsh -c 'git push'",
  "su -c 'git push'",
  "git -c alias.x=push x",
  "sh -c 'sh -c \"$(x'",
  `${"sh -c 'a' ".repeat(5_000)}`,
  `${"$(".repeat(100)}a${")".repeat(100)}`,
  `${"a;".repeat(600)}`,
];

describe("what a shell would start", () => {
  for (const [text, wanted] of Object.entries(READ)) it(JSON.stringify(text), () => assert.equal(read(text), wanted));
  for (const text of NOT_READ)
    it(`is not guessed: ${JSON.stringify(text.slice(0, 60))}`, () => assert.equal(read(text), "?"));

  it(
    "is everything that bash then starts, whatever the text, or it says that it does not know",
    { timeout: 300_000 },
    async (t) => {
      const seed = Number(process.env["SEED"] ?? 11);
      const pick = randomOf(seed);
      const folder = await tempDir(t);
      const NAMES = ["git", "rm", "ls", "no", "cat"];
      await mkdir(folder.at("bin"));
      for (const name of NAMES) {
        const stub = `#!/bin/bash\nprintf -v args '\\037%s' "$@"\nprintf '%s\\036' "${name}$args" >> "$LOG"\n[ ${name} != no ]\n`;
        await writeFile(folder.at("bin", name), stub);
        await chmod(folder.at("bin", name), 0o755);
      }
      const one = <T>(list: readonly T[]): T => list[Math.floor(pick() * list.length)]!;
      const word = (): string =>
        one([
          "push",
          "-f",
          "'a b'",
          '"c d"',
          "$HOME",
          '"$X"',
          "x\\ y",
          "*",
          "{a,b}",
          "~",
          "${X:-d}",
          "-",
          "a=b",
          "2",
          "$'t'",
        ]);
      const simple = (): string =>
        [one([...NAMES, ...NAMES, "$C", "'git'", "\\rm", "gi''t", "X=1 git", "echo", ":"]), word(), word()].join(" ");
      const text = (depth: number): string => {
        if (depth > 3) return simple();
        const inner = () => text(depth + 1);
        const quoted = (of: string) => `'${of.replaceAll("'", "'\\''")}'`;
        return one([
          simple,
          simple,
          () => `${inner()} ${one([";", "&&", "||", "|", "\n", "&"])} ${inner()}`,
          () => `(${inner()})`,
          () => `{ ${inner()}; }`,
          () => `echo $(${inner()})`,
          () => `echo "$(${inner()})"`,
          () => `echo \`${simple()}\``,
          () => `cat <(${inner()})`,
          () => `if ${inner()}; then ${inner()}; fi`,
          () => `for X in ${word()} ${word()}; do ${inner()}; done`,
          () => `while no; do ${inner()}; done`,
          () => `eval ${quoted(inner())}`,
          () => `trap ${quoted(simple())} EXIT`,
          () => `exec ${simple()}`,
          () => `command ${simple()}`,
          () => `cat <<'E' ${one(["", "&& git a"])}\n${inner()}\nE\n${inner()}`,
          () => `cat <<E\n${simple()}\nE\n${inner()}`,
          () => `${simple()} ${one(["> out", "2>&1", ">/dev/null", "< out", "&> out", "<<< x"])}`,
          () => `case x in x) ${inner()};; esac`,
          () => `time ${inner()}`,
          () => `! ${inner()}`,
          () => `f() { ${inner()}; }; f`,
          () => `${simple()} # ${inner()}`,
        ])();
      };
      let [understood, started] = [0, 0];
      for (let i = 0; i < Number(process.env["TEXTS"] ?? 250); i += 1) {
        let line = text(0);
        for (let odd = Math.floor(pick() * 3); odd > 0; odd -= 1) {
          const at = Math.floor(pick() * line.length);
          line = line.slice(0, at) + one([..."'\"`$(){};&|<>\n\\# =!*["]) + line.slice(at + (pick() < 0.5 ? 1 : 0));
        }
        let commands: Command[];
        try {
          commands = commandsIn(line);
        } catch (error) {
          assert.ok(error instanceof NotUnderstood, `${JSON.stringify(line)}: ${String(error)}`);
          continue;
        }
        understood += 1;
        const log = folder.at(`log-${i}`);
        await mkdir(folder.at("work"));
        await promisify(execFile)("/bin/bash", ["-c", line], {
          cwd: folder.at("work"),
          env: { PATH: folder.at("bin"), HOME: "/home", LOG: log, C: "ls" },
          timeout: 5_000,
        }).catch(() => undefined);
        await rm(folder.at("work"), { recursive: true });
        for (const entry of (await readFile(log, "utf8").catch(() => "")).split("\x1e").filter((one) => one !== "")) {
          started += 1;
          const [program = "", ...args] = entry.split("\x1f");
          const pattern = new CommandPattern([program, ...args.filter((arg) => /^[\w-]+$/.test(arg)), ""].join(" * "));
          assert.ok(
            commands.some((command) => pattern.meets(command) !== "no"),
            `SEED=${seed}: bash started ${JSON.stringify(entry)}, of which nothing is told in ${JSON.stringify(line)}`,
          );
        }
      }
      assert.ok(understood > 50 && started > 50, `${understood} were understood, ${started} programs started`);
    },
  );
});

const rule = (action: RuleForCall["action"], match?: string): RuleForCall => ({
  action,
  exact: true,
  ...(match === undefined ? {} : { match }),
});

function judged(rules: readonly RuleForCall[], command: JudgeJob["command"]): string {
  const empty = { places: [], files: false, projectDir: "/p", realProjectDir: "/p", homeDir: "/h" };
  const { action, unread } = judgeCall({ rules, command, executes: true, ...empty });
  return unread ? `${action} (unread)` : action;
}

describe("rules for commands", () => {
  it("an allow is for each word and nothing beside", () => {
    for (const [match, command, wanted] of [
      ["git status", "git status", "allow"],
      ["git status", "git status -s", "pass"],
      ["git status*", "git status -s x", "allow"],
      ["git status *", "git status", "allow"],
      ["git status*", "git statusx", "allow"],
      ["git status", "/tmp/git status", "pass"],
      ["git status", "GIT status", "pass"],
      ["git * --stat", "git log -n 3 --stat", "allow"],
      ["git status*", "git -C x status", "pass"],
      ["git status*", "git status && rm x", "pass"],
      ["git status*", "git status; git status", "allow"],
      ["git status*", "git status $(rm x)", "pass"],
      ["git status*", "git status > x", "pass"],
      ["git status*", "git status 2>&1 >/dev/null", "allow"],
      ["git status*", "X=1 git status", "pass"],
      ["X=? git status*", "X=1 git status", "allow"],
      ["git status*", "git $X", "pass"],
      ["git status*", "git status $X *", "allow"],
      ["git status*", "timeout 5 git status", "allow"],
      ["git status*", "timeout 5 rm x", "pass"],
      ["git status*", "env X=1 git status", "pass"],
      ["git status*", "sudo git status", "pass"],
      ["git status*", "bash -c 'git status'", "allow"],
      ["git status*", "BASH_ENV=x bash -c 'git status'", "ask (unread)"],
      ["git status*", "bash -c 'git status; rm x'", "pass"],
      ["npm run [a-c]", "npm run b", "allow"],
      ["npm run [a-c]", "npm run d", "pass"],
      ["./x/*", "./x/y/z", "allow"],
      ["*", "rm -rf x", "allow"],
      ["*", "rm -rf x > y", "pass"],
      ["git status*", "f() { git status; }; f", "ask (unread)"],
    ] as const)
      assert.equal(judged([rule("allow", match)], command), wanted, `${match}: ${command}`);
  });

  it("a deny is for whatever comes to the same, and what may be that is asked", () => {
    for (const [command, wanted] of [
      ["git push", "deny"],
      ["git push origin", "deny"],
      ["git pushx", "deny"],
      ["git pull", "pass"],
      ["git -C x push", "deny"],
      ["git --no-pager -c a=b push", "deny"],
      ["git log --grep push", "pass"],
      ["GIT Push", "deny"],
      ["/usr/bin/git push", "deny"],
      ["X=1 git push", "deny"],
      ["env X=1 git push", "deny"],
      ["env 'X=1' git push", "deny"],
      ["sudo -u x git push", "deny"],
      ["ls | xargs git push", "deny"],
      ["ls | xargs git", "ask"],
      ["sh -c 'ls; git push'", "deny"],
      ["a && b; (c | git push)", "deny"],
      ["echo `git push`", "deny"],
      ["git push > x", "deny"],
      ["git $X", "ask"],
      ["$X push", "ask"],
      ["$X", "ask"],
      ["{git,push}", "ask"],
      ["rm $X", "pass"],
      ["\"$X\" 'git push'", "ask"],
      ['"$X" git push', "ask"],
      ["ls | xargs -I X git X", "ask"],
      ["ls | xargs -IX git X", "ask"],
      ["ls | xargs -I X rm X", "pass"],
      ["echo git push", "pass"],
      ["echo 'git push'", "pass"],
      ["eval $X", "ask (unread)"],
      ["case x in x) git push;; esac", "ask (unread)"],
    ] as const)
      assert.equal(judged([rule("deny", "git push*")], command), wanted, command);
  });

  it("the first that fits decides for each command, and of these the strictest for the call", () => {
    const rules = [rule("allow", "npm test*"), rule("ask", "npm*"), rule("deny", "rm*"), rule("allow", "cd *")];
    for (const [command, wanted] of [
      ["npm test", "allow"],
      ["cd x && npm test", "allow"],
      ["npm install && npm test", "ask"],
      ["npm install; rm x", "deny"],
      ["npm test; ls", "pass"],
      ["npm $X; rm x", "deny"],
    ] as const)
      assert.equal(judged(rules, command), wanted, command);
    const strict = [rule("allow", "npm test*"), rule("deny")];
    assert.equal(judged(strict, "npm test"), "allow");
    assert.equal(judged(strict, "timeout 5 npm test"), "allow");
    assert.equal(judged(strict, "npm test > x"), "deny");
    assert.equal(judged(strict, "case"), "deny");
    assert.equal(judged([rule("ask", "x"), rule("allow")], "case"), "ask (unread)");
    assert.equal(judged([rule("deny"), rule("allow", "x")], "case"), "deny");
    assert.equal(judged([rule("allow"), rule("deny", "x")], "case"), "allow");
    // It may be the one that is denied, or the one that is allowed.
    assert.equal(judged([rule("deny", "git push"), rule("allow")], "git $X"), "ask");
  });

  it("are for what docs/permissions.md says", () => {
    const page = readFileSync(new URL("../../../docs/permissions.md", import.meta.url), "utf8");
    const said = { allow: "allowed", deny: "refused", ask: "asked", "ask (unread)": "asked", pass: "no rule" };
    let rows = 0;
    for (const [, action = "", match, table = ""] of page.matchAll(/<!-- commands: (\w+) (.+?) -->\n\n(.*?)\n\n/gs))
      for (const [, command = "", wanted] of table.matchAll(/^\| `(.+)` +\| (.+?) +\|$/gm)) {
        const became = judged([rule(action as RuleForCall["action"], match)], command.replaceAll("\\|", "|"));
        assert.equal(said[became as keyof typeof said], wanted, command);
        rows += 1;
      }
    assert.equal(rows, 21);
  });

  it("a program's words are judged without a shell, and a tool that says none is asked about", () => {
    assert.equal(judged([rule("allow", "git *")], ["git", "a; rm x"]), "allow");
    assert.equal(judged([rule("deny", "git push")], ["git", "push"]), "deny");
    assert.equal(judged([rule("allow", "git *")], undefined), "ask (unread)");
  });

  it("takes no more time than the text is long", () => {
    const long = "git ".repeat(8_000);
    assert.equal(judged([rule("deny", "* * * * * x * y")], long), "pass");
    assert.equal(judged([rule("deny", "git *a*a*a*a*b")], `git ${"a".repeat(30_000)}`), "pass");
    assert.equal(judged([rule("allow", "x")], `${long}${"x".repeat(32_768)}`), "ask (unread)");
  });
});
