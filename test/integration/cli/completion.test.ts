import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { before, describe, it, type TestContext } from "node:test";
import { promisify } from "node:util";
import { COMMAND_DESCRIPTIONS } from "../../../src/cli/descriptions/all.js";
import { runGantry } from "../../helpers/server.js";
import { makeTempDir } from "../../helpers/temp.js";

const run = promisify(execFile);
const SHELLS = ["bash", "zsh", "fish"] as const;
type Shell = (typeof SHELLS)[number];

function isInstalled(shell: Shell): boolean {
  try {
    execFileSync(shell, ["-c", "exit"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** The completions of each shell for a line whose last word is incomplete. */
const OFFERED: Readonly<Record<Shell, (script: string, line: string, folder: string) => Promise<string[]>>> = {
  bash: async (script, line, folder) => {
    // The arguments that bash passes. Bash also splits words at `=`.
    const words = line.split(/ |(?<==)|(?==)/).map((word) => `'${word}'`);
    const { stdout } = await run(
      "bash",
      [
        "--norc",
        "-c",
        `source ${script}; COMP_WORDS=(${words.join(" ")}) COMP_CWORD=${words.length - 1}; _gantry; printf '%s\\n' "\${COMPREPLY[@]}"`,
      ],
      { cwd: folder },
    );
    return stdout.trim().split("\n").filter(Boolean);
  },
  // Uses a real line editor on a pseudo-terminal: presses Tab and runs the resulting command.
  zsh: async (script, line, folder) => {
    const inner = `autoload -U compinit; compinit -u -D; setopt no_beep no_list_beep; gantry() { print -r -- "MADE""<$*>" }; source ${script}`;
    const outer = `zmodload zsh/zpty; zpty z zsh -f -i
zpty -w z ${JSON.stringify("PS1=")}
zpty -w z '${inner}; print READ""Y'
zpty -r z out '*READY*'
zpty -w z '${line}'$'\\t'
zpty -r z out '*MADE<*>*'; print -r -- $out; zpty -d z`;
    const { stdout } = await run("zsh", ["-f", "-c", outer], { cwd: folder, env: { ...process.env, HOME: folder } });
    return [...stdout.matchAll(/MADE<(.*?)>/g)].map(([, made = ""]) => made.trim().split(/ |=/).at(-1) ?? "");
  },
  fish: async (script, line, folder) => {
    const env = { ...process.env, HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder };
    const { stdout } = await run("fish", ["--no-config", "-c", `source ${script}; complete -C '${line}'`], {
      cwd: folder,
      env,
    });
    return stdout
      .trim()
      .split("\n")
      .filter(Boolean)
      .map((entry) => entry.split("\t")[0]?.replace(/^--[\w-]+=/, "") ?? "");
  },
};

describe("gantry completion", () => {
  for (const shell of SHELLS) {
    const skip = !isInstalled(shell) && `${shell} is not installed (apt-get install ${shell})`;
    describe(shell, { skip }, () => {
      let script: string;
      before(async () => void (script = await scriptOf(shell)));

      const offers = async (t: TestContext, line: string, expected: string): Promise<void> => {
        await using folder = await makeTempDir();
        await folder.write({ "completion.sh": script, "some-file.json": "{}", "a-folder/x": "" });
        const offered = await OFFERED[shell](folder.at("completion.sh"), line, folder.path);
        assert.ok(
          offered.some((word) => word.replace(/\/$/, "") === expected),
          `${line}: ${offered.join(" ")}`,
        );
        t.diagnostic(`${line} -> ${expected}`);
      };

      for (const [line, expected] of [
        ["gantry comple", "completion"],
        ["gantry sessions expo", "export"],
        ["gantry run --budget-tok", "--budget-tokens"],
        ["gantry run --mode pl", "plan"],
        ["gantry sessions list --sea", "--search"],
        ["gantry completion fi", "fish"],
        ["gantry run --schema some-", "some-file.json"],
        ["gantry sessions list --folder a-fo", "a-folder"],
        ["gantry run --json --quiet --eff", "--effort"],
      ] as const)
        it(`completes "${line}" with ${expected}`, (t) => offers(t, line, expected));

      if (shell === "bash")
        it("completes a file name with spaces or special characters as one word", async () => {
          await using folder = await makeTempDir();
          const names = ["two words.txt", "two *", "two;x"];
          await folder.write({ "completion.sh": script, ...Object.fromEntries(names.map((name) => [name, ""])) });
          await folder.write({ "a folder/x": "" });
          const offered = (line: string) => OFFERED[shell](folder.at("completion.sh"), line, folder.path);
          assert.deepEqual((await offered("gantry run --file tw")).sort(), names.sort());
          assert.deepEqual(await offered("gantry run --file=two"), await offered("gantry run --file two"));
          assert.deepEqual(await offered("gantry sessions list --folder a"), ["a folder"]);
        });
    });
  }

  it("rejects an unknown shell, and each script contains all commands", async (t) => {
    const wrong = await runGantry(t, ["completion", "tcsh"]);
    assert.deepEqual([wrong.code, wrong.stdout], [1, ""]);
    assert.equal(wrong.stderr, "gantry: completion: expected one of bash, zsh, fish\n");
    for (const shell of SHELLS) {
      const script = await scriptOf(shell);
      for (const { name } of COMMAND_DESCRIPTIONS) assert.match(script, new RegExp(`\\b${name}\\b`));
    }
  });
});

async function scriptOf(shell: Shell): Promise<string> {
  const { run } = await import("../../../src/cli/completion.js");
  let text = "";
  const output = { write: (part: string) => Promise.resolve(void (text += part)) };
  assert.equal(await run({ args: [shell], output } as never), 0);
  return text;
}
