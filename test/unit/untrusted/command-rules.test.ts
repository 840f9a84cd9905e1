import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import {
  evaluateCall,
  type CallEvaluationJob,
  type RuleForCall,
} from "../../../src/untrusted/shell-rules/evaluate-call.js";

const createRule = (action: RuleForCall["action"], match?: string): RuleForCall => ({
  action,
  isExact: true,
  ...(match === undefined ? {} : { match }),
});

async function getDecision(rules: readonly RuleForCall[], command: CallEvaluationJob["command"]): Promise<string> {
  const call = {
    locations: [],
    isFileTool: false,
    projectDir: "/p",
    realProjectDir: "/p",
    homeDir: "/h",
    startsPrograms: true,
  };
  const { action, isUnparsed } = await evaluateCall({ rules, command, ...call });
  return isUnparsed ? `${action} (unread)` : action;
}

/** Each case is the match of a rule, a command and the expected decision. */
async function assertDecisions(
  createRules: (match: string) => RuleForCall[],
  cases: readonly (readonly string[])[],
): Promise<void> {
  for (const [match = "", command = "", expectedDecision] of cases)
    assert.equal(
      await getDecision(createRules(match), command),
      expectedDecision,
      `${match}: ${JSON.stringify(command)}`,
    );
}

describe("an allow rule for commands", () => {
  const createAllowRules = (match: string): RuleForCall[] => [createRule("allow", match), createRule("deny")];

  it("matches the words of a simple command", () =>
    assertDecisions(createAllowRules, [
      ["git status", "git status", "allow"],
      ["git status", "git status -s", "deny"],
      ["git status*", "git status -s x", "allow"],
      ["git status *", "git status", "allow"],
      ["git status*", "git statusx", "allow"],
      ["git status", "/tmp/git status", "deny"],
      ["git status", "GIT status", "deny"],
      ["git * --stat", "git log -n 3 --stat", "allow"],
      ["git status*", "git -C x status", "deny"],
      ["git status*", "'git' \"status\" \\-s", "allow"],
      ["git status*", "git status 'a;b' \"c && d\" 'e$(f)'", "allow"],
      ["git status*", 'git status "a \\"b\\" \\$c \\d$"', "allow"],
      ["git status*", "git \\\n  status", "allow"],
      ["git log*", 'git log "$X" *.ts $Y', "allow"],
      ["npm run [a-c]", "npm run b", "allow"],
      ["npm run [a-c]", "npm run d", "deny"],
      ["*", "rm -rf x", "allow"],
    ]));

  it("must match every command of a line", () =>
    assertDecisions(createAllowRules, [
      ["git status*", "git status; git status && git status | git status &\ngit status # git", "allow"],
      ["git status*", "git status && rm x", "deny"],
      ["git status*", "git status\nrm x", "deny"],
      ["git status*", "git status & rm x", "deny"],
      ["git status*", "git status | rm x", "deny"],
      ["git status*", "git status # x\nrm x", "deny"],
    ]));

  it("permits redirections only to /dev/null and the standard streams, after the words", () =>
    assertDecisions(createAllowRules, [
      ["git status*", "git status 2>&1 >/dev/null < /dev/null", "allow"],
      ["git status*", "git status &>/dev/null", "allow"],
      ["git status*", "git status > x", "deny"],
      ["git status*", "git status < x", "deny"],
      ["git status*", "git status 2>&1 x", "deny"],
      ["git status*", "2>/dev/null git status", "deny"],
      ["git status*", "git status > $X", "deny"],
      ["git status*", "git status > ~/x", "deny"],
      ["git status*", "git status <<< x", "deny"],
      ["*", "rm -rf x > y", "deny"],
    ]));

  it("does not match a line that a shell can parse differently", () =>
    assertDecisions(createAllowRules, [
      ["ls*", "ls=1 touch X", "deny"],
      ["npm*", "npm_x=1 touch X", "deny"],
      ["git*", "git= touch X", "deny"],
      ["npm test*", "npm test <<E\\\nOF\n$(touch X)\nEOF", "deny"],
      ["*", "echo $(cat <<E\nx\nE)\ntouch X\nE\n)", "deny"],
      ["git status*", "X=1 git status", "deny"],
      ["X=? git status*", "X=1 git status", "deny"],
      ["git status*", "git status $(rm x)", "deny"],
      ["git status*", "git status `rm x`", "deny"],
      ["git status*", 'git status "$(rm x)"', "deny"],
      ["git status*", 'git status "${X}"', "deny"],
      ["git status*", "git status $'a'", "deny"],
      ["git status*", "git status $((1))", "deny"],
      ["git status*", "git status <(rm x)", "deny"],
      ["git status*", "git st\\\natus", "deny"],
      ["git status*", "(git status)", "deny"],
      ["git status*", "! git status", "deny"],
      ["git status*", "if git status; then git status; fi", "deny"],
      ["git status*", "f() { git status; }; f", "deny"],
      ["git status*", "git status\r", "deny"],
      ["git status*", "git status\u00a0x", "deny"],
      ["git*", "git $X", "deny"],
      ["git*", "git ~", "deny"],
      ["git*", "git a ~/x", "deny"],
      ["*", "$X a", "deny"],
      ["*", "~ a", "deny"],
    ]));

  it("with a wildcard does not match a program that runs another program or code", () =>
    assertDecisions(createAllowRules, [
      ["timeout*", "timeout 60 npm test", "deny"],
      ["timeout 60 npm test", "timeout 60 npm test", "allow"],
      ["timeout 60 npm test*", "timeout 60 npm test -- x", "deny"],
      ["*", "eval ls", "deny"],
      ["*", "env ls", "deny"],
      ["*", "export A=1", "deny"],
      ["*", "printf -v 'a[$(x)]' y", "deny"],
      ["sh*", "sh -c ls", "deny"],
      ["sh*", "sh x.sh", "deny"],
      ["sh x.sh*", "sh x.sh a", "allow"],
      ["node*", "node server.js", "deny"],
      ["node server.js*", "node server.js --port 1", "allow"],
      ["node server.js*", "node --require ./x server.js", "deny"],
      ["python3 -m pytest*", "python3 -m pytest -x", "allow"],
      ["python3 *", "python3 -c x", "deny"],
      ["npx tsc*", "npx tsc --noEmit", "allow"],
      ["npx*", "npx -c 'rm x'", "deny"],
      ["npm*", "npm exec -c 'rm x'", "deny"],
      ["npm test*", "npm test -- -c x", "allow"],
      ["find*", "find . -name '*.ts'", "allow"],
      ["find*", "find . -exec rm {} +", "deny"],
      ["find*", "find . *", "deny"],
      ["rg*", "rg x src", "allow"],
      ["rg*", "rg --pre ./x y", "deny"],
      ["rg*", "rg x *", "deny"],
      ["git*", "git -c alias.x=!rm x", "deny"],
      ["git*", "git switch -c x", "allow"],
      ["git*", "git submodule foreach rm x", "deny"],
      ["git*", "git grep -O./x y", "deny"],
    ]));

  it("with a wildcard does not match a shell or interpreter that reads code from its input", () =>
    assertDecisions(createAllowRules, [
      ["bash*", "bash", "deny"],
      ["node *", "node", "deny"],
      ["bash", "bash", "allow"],
      ["node --version", "node --version", "allow"],
    ]));

  it("detects abbreviated and combined options that start a program", () =>
    assertDecisions(createAllowRules, [
      ["git*", "git *", "deny"],
      ["git*", "git rebase -ix 'rm x' HEAD~1", "deny"],
      ["git*", "git rebase --ex='rm x' HEAD~1", "deny"],
      ["git*", "git clone -u 'rm x' . y", "deny"],
      ["git*", "git clone -c core.sshCommand='rm x' ssh://x/y", "deny"],
      ["git*", "git clone --te=x . y", "deny"],
      ["git*", "git clone --depth 1 https://x/y", "allow"],
      ["git*", "git fetch --upl='rm x' .", "deny"],
      ["git*", "git push --rece='rm x' .", "deny"],
      ["git*", "git ls-files -o --exclude-standard", "allow"],
      ["git*", "git grep -nO./x y", "deny"],
      ["git*", "git grep --op=./x y", "deny"],
      ["git*", "git --attr-source HEAD -c alias.x='!rm y' x", "deny"],
      ["npm test*", "npm test --script-s=./x", "deny"],
      ["tar*", "tar --use=./x -xf a", "deny"],
      ["tar*", "tar -xf a --checkpoint=1 --checkpoint-=exec=x", "deny"],
      ["tar*", "tar -xzf a.tgz --strip-components=1 -C lib", "allow"],
      ["sort*", "sort --co=./x a", "deny"],
      ["split*", "split --filter='rm x' a", "deny"],
      ["sed*", "sed '1e rm x' a", "deny"],
      ["sed*", "sed '2,3erm x' a", "deny"],
      ["sed*", "sed 's/a/rm x/ge' a", "deny"],
      ["sed*", "sed -n -e 's/else/e/' -e '1,20p' src/e.ts error.log", "allow"],
      ["awk -F :*", "awk -F : 'BEGIN{system(\"rm x\")}'", "deny"],
      ["python3 -W ignore*", "python3 -W ignore -c x", "deny"],
      ["python3 -W ignore x.py*", "python3 -W ignore x.py a", "allow"],
      ["bash -o pipefail*", "bash -o pipefail x.sh", "deny"],
      ["npx -p x*", "npx -p x rm y", "deny"],
    ]));

  it("for paths does not match parent folders", () =>
    assertDecisions(createAllowRules, [
      ["cat src/*", "cat src/a src/b/c", "allow"],
      ["cat src/*", "cat src/../../etc/passwd", "deny"],
      ["cat src/*", "cat src/..", "deny"],
      ["cat src/*", "cat src/a /etc/passwd", "deny"],
      ["cat ../lib/*", "cat ../lib/x", "allow"],
      ["cat ../lib/*", "cat ../lib/../x", "deny"],
      ["./x/*", "./x/y/z", "allow"],
      ["./x/*", "./x/../y", "deny"],
    ]));
});

describe("a deny rule for commands", () => {
  const createDenyRules = (match: string): RuleForCall[] => [createRule("deny", match)];
  const assertPushDecisions = (cases: readonly (readonly [string, string])[]): Promise<void> =>
    assertDecisions(
      createDenyRules,
      cases.map(([command, expectedDecision]) => ["git push*", command, expectedDecision]),
    );

  it("ignores options, letter case and the program's folder", () =>
    assertPushDecisions([
      ["git push", "deny"],
      ["git push origin", "deny"],
      ["git pushx", "deny"],
      ["git pull", "pass"],
      ["git -C x push", "deny"],
      ["git --no-pager push", "deny"],
      ["git log --grep push", "pass"],
      ["GIT Push", "deny"],
      ["/usr/bin/git push", "deny"],
      ["git push > x", "deny"],
      ["echo git push", "pass"],
      ["git commit -m 'ready for git push'", "pass"],
      ["npm test 2>&1 | tail -5", "pass"],
      ["set -euo pipefail; cd x && ls # git push\nls", "pass"],
    ]));

  it("asks if a variable or a pattern determines the command", () =>
    assertPushDecisions([
      ["git $X", "ask"],
      ["$X push", "ask"],
      ["$X", "ask"],
      ["rm $X", "pass"],
      ["~+ push", "ask"],
      ['git -c "$X" x', "ask"],
    ]));

  it("finds the command that another program starts, or asks", () =>
    assertPushDecisions([
      ["env X=1 git push", "deny"],
      ["sudo -u x git push", "deny"],
      ["ls | xargs git push", "deny"],
      ["ls | xargs git", "ask"],
      ["timeout 60 npm test", "pass"],
      ["faketime 1 git push", "deny"],
      ["perf stat git push", "deny"],
      ["npx -c 'git push'", "ask"],
      ["npm exec -c 'git push'", "ask"],
      ["run-parts x", "ask"],
      ["sh -c 'git push'", "ask"],
      ["bash x.sh", "ask"],
      ["echo git push | sh", "ask"],
      ["eval git push", "deny"],
      ["find . -exec git push +", "deny"],
      ["git -c alias.x=push x", "ask"],
      ["git config alias.x push", "ask"],
      ["node x.js", "pass"],
      ["node -e x", "ask"],
      ["alias x='git push'", "ask"],
      ["set -k", "ask"],
      [". x.sh", "ask"],
      ["env git -c alias.x=push x", "ask"],
      ["sudo bash x.sh", "ask"],
      ["busybox sh x.sh", "ask"],
      ["timeout 5 python3 -c x", "ask"],
      ["command eval $X", "ask"],
      ["command . x.sh", "ask"],
      ["timeout 5 node x.js", "pass"],
      ["sudo systemctl enable x", "pass"],
      ["python3 -W ignore -c x", "ask"],
      ["node -C x -e y", "ask"],
      ["awk 'BEGIN{system(\"git push\")}'", "ask"],
      ["awk -F: '$1 == 2 || NR > 3 {print $2}' x", "pass"],
      ["/usr/lib/git-core/git-push", "deny"],
      ["ssh localhost git push", "deny"],
      ["ssh localhost 'git push'", "ask"],
      ["uv run git push", "deny"],
      ["uv run pytest", "pass"],
    ]));

  it("denies, or asks about, a line that the parser cannot read", async () => {
    await assertPushDecisions([
      ["X=1 git push", "deny"],
      ["(c | git push)", "deny"],
      ["echo `git push`", "deny"],
      ["case x in x) git push;; esac", "deny"],
      ["f() { git push; }; f", "deny"],
    ]);
    for (const command of [
      "i\\\nf git push; then :; fi",
      "func\\\ntion f { git push; }; f",
      "A\\\n=1 git push",
      "git 0000000000002>/dev/null push",
      "HOME=git; ~ push",
      "OLDPWD=git; ~- push",
      "{git,push}",
      "cat <<E\\\nOF\n$(git push)\nEOF",
      "git 2>&1 push",
      "git &>/dev/null push",
      "case",
      "echo 'a",
      "a\0b",
      `${"a;".repeat(600)}`,
      `${"(".repeat(5_000)}`,
      "x".repeat(40_000),
      // Without a limit, the parser takes 12 s for this line.
      "<a>".repeat(10_000),
    ])
      assert.match(
        await getDecision(createDenyRules("git push*"), command),
        /^(deny|ask \(unread\))$/,
        JSON.stringify(command),
      );
  });

  it("evaluates commands of 30,000 characters", async () => {
    const longCommand = "git ".repeat(8_000);
    assert.equal(await getDecision(createDenyRules("* * * * * x * y"), longCommand), "pass");
    assert.equal(await getDecision(createDenyRules("git *a*a*a*a*b"), `git ${"a".repeat(30_000)}`), "pass");
    assert.equal(await getDecision(createDenyRules("git push*"), `env ${"a ".repeat(15_000)}`), "ask");
    assert.equal(await getDecision(createDenyRules("git push*"), `env ${"env ".repeat(60)}ls`), "pass");
  });
});

describe("rules for commands", () => {
  it("the first matching rule decides for each command, and the strictest decision for the call", async () => {
    const rules = [
      createRule("allow", "npm test*"),
      createRule("ask", "npm*"),
      createRule("deny", "rm*"),
      createRule("allow", "cd *"),
    ];
    for (const [command, expectedDecision] of [
      ["npm test", "allow"],
      ["cd x && npm test", "allow"],
      ["npm install && npm test", "ask"],
      ["npm install; rm x", "deny"],
      ["npm test; ls", "pass"],
      ["npm $X; rm x", "deny"],
    ] as const)
      assert.equal(await getDecision(rules, command), expectedDecision, command);
    assert.equal(await getDecision([createRule("ask", "x"), createRule("allow")], "case"), "ask (unread)");
    assert.equal(await getDecision([createRule("deny"), createRule("allow", "x")], "case"), "deny");
    assert.equal(await getDecision([createRule("allow"), createRule("deny", "x")], "case"), "allow");
    assert.equal(await getDecision([createRule("deny", "git push"), createRule("allow")], "git $X"), "ask");
  });

  it("decide as the tables in docs/permissions.md state", async () => {
    const page = readFileSync(new URL("../../../docs/permissions.md", import.meta.url), "utf8");
    const resultsByDecision = {
      allow: "allowed",
      deny: "refused",
      ask: "asked",
      "ask (unread)": "asked",
      pass: "no rule",
    };
    let rowCount = 0;
    for (const [, action = "", match, table = ""] of page.matchAll(/<!-- commands: (\w+) (.+?) -->\n\n(.*?)\n\n/gs))
      for (const [, command = "", expectedResult] of table.matchAll(/^\| `(.+)` +\| (.+?) +\|$/gm)) {
        const result = await getDecision(
          [createRule(action as RuleForCall["action"], match)],
          command.replaceAll("\\|", "|"),
        );
        assert.equal(resultsByDecision[result as keyof typeof resultsByDecision], expectedResult, command);
        rowCount += 1;
      }
    assert.equal(rowCount, 24);
  });

  it("allow 161 of 300 everyday commands: those that start only allowed programs", async () => {
    const file = new URL("./everyday-commands.txt", import.meta.url);
    const commands = readFileSync(file, "utf8").trimEnd().split("\n");
    const rules = ["git*", "npm test*", "ls*", "cat*", "rg*"].map((match) => createRule("allow", match));
    const allowedCommands: string[] = [];
    for (const command of commands) if ((await getDecision(rules, command)) === "allow") allowedCommands.push(command);
    const expectedCommands = commands.filter((command) => {
      const unquotedCommand = command
        .replaceAll(/'[^']*'|"[^"]*"/g, "x")
        .replaceAll(/ ?(?:2>&1|[12]? ?> ?\/dev\/null)/g, "");
      // These commands contain a substitution, a redirection or a home folder, or set a program that git starts.
      if (/\$[?(]|[<>]|(?:^| )~|^git config/.test(unquotedCommand)) return false;
      return unquotedCommand.split(/\|\||&&|[|;]/).every((part) => /^ *(?:git|npm test|ls|cat|rg)/.test(part));
    });
    assert.deepEqual(allowedCommands, expectedCommands);
    assert.deepEqual([commands.length, allowedCommands.length], [300, 161]);
  });

  it("match an argument list without a shell, and ask about a call without a command", async () => {
    assert.equal(await getDecision([createRule("allow", "git *")], ["git", "a; rm x"]), "allow");
    assert.equal(await getDecision([createRule("deny", "git push")], ["git", "push"]), "deny");
    assert.equal(await getDecision([createRule("allow", "git *")], undefined), "ask (unread)");
  });
});
