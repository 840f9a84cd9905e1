import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { before, describe, it, type TestContext } from "node:test";
import { promisify } from "node:util";
import { COMMAND_DESCRIPTIONS } from "../../../src/cli/descriptions/command-descriptions.js";
import { runGantry } from "../../helpers/server.js";
import { makeTempDir } from "../../helpers/temp-dir.js";

const execFileAsync = promisify(execFile);
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

/** For each shell, a function that returns its completions for a line whose last word is incomplete. */
const COMPLETERS: Readonly<Record<Shell, (script: string, line: string, folder: string) => Promise<string[]>>> = {
  bash: async (script, line, folder) => {
    // The words as bash passes them in COMP_WORDS. Bash also splits words at `=`.
    const words = line.split(/ |(?<==)|(?==)/).map((word) => `'${word}'`);
    const { stdout } = await execFileAsync(
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
  // The quotes in MADE""< and READ""Y keep the echo of the command from matching the patterns below.
  zsh: async (script, line, folder) => {
    const innerScript = `autoload -U compinit; compinit -u -D; setopt no_beep no_list_beep; gantry() { print -r -- "MADE""<$*>" }; source ${script}`;
    const outerScript = `zmodload zsh/zpty; zpty z zsh -f -i
zpty -w z ${JSON.stringify("PS1=")}
zpty -w z '${innerScript}; print READ""Y'
zpty -r z out '*READY*'
zpty -w z '${line}'$'\\t'
zpty -r z out '*MADE<*>*'; print -r -- $out; zpty -d z`;
    const { stdout } = await execFileAsync("zsh", ["-f", "-c", outerScript], {
      cwd: folder,
      env: { ...process.env, HOME: folder },
    });
    return [...stdout.matchAll(/MADE<(.*?)>/g)].map(
      ([, commandLine = ""]) => commandLine.trim().split(/ |=/).at(-1) ?? "",
    );
  },
  fish: async (script, line, folder) => {
    const env = { ...process.env, HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder };
    const { stdout } = await execFileAsync("fish", ["--no-config", "-c", `source ${script}; complete -C '${line}'`], {
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
      before(async () => void (script = await createScript(shell)));

      const assertCompletes = async (t: TestContext, line: string, expectedWord: string): Promise<void> => {
        await using folder = await makeTempDir();
        await folder.write({ "completion.sh": script, "some-file.json": "{}", "a-folder/x": "" });
        const completions = await COMPLETERS[shell](folder.at("completion.sh"), line, folder.path);
        assert.ok(
          completions.some((word) => word.replace(/\/$/, "") === expectedWord),
          `${line}: ${completions.join(" ")}`,
        );
        t.diagnostic(`${line} -> ${expectedWord}`);
      };

      for (const [line, expectedWord] of [
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
        it(`completes "${line}" with ${expectedWord}`, (t) => assertCompletes(t, line, expectedWord));

      if (shell === "bash")
        it("completes a file name with spaces or special characters as one word", async () => {
          await using folder = await makeTempDir();
          const fileNames = ["two words.txt", "two *", "two;x"];
          await folder.write({ "completion.sh": script, ...Object.fromEntries(fileNames.map((name) => [name, ""])) });
          await folder.write({ "a folder/x": "" });
          const complete = (line: string) => COMPLETERS[shell](folder.at("completion.sh"), line, folder.path);
          assert.deepEqual((await complete("gantry run --file tw")).sort(), fileNames.sort());
          assert.deepEqual(await complete("gantry run --file=two"), await complete("gantry run --file two"));
          assert.deepEqual(await complete("gantry sessions list --folder a"), ["a folder"]);
        });
    });
  }

  it("rejects an unknown shell, and prints scripts that contain all commands", async (t) => {
    const unknownShellRun = await runGantry(t, ["completion", "tcsh"]);
    assert.deepEqual([unknownShellRun.code, unknownShellRun.stdout], [1, ""]);
    assert.equal(unknownShellRun.stderr, "gantry: completion: expected one of bash, zsh, fish\n");
    for (const shell of SHELLS) {
      const script = await createScript(shell);
      for (const { name } of COMMAND_DESCRIPTIONS) assert.match(script, new RegExp(`\\b${name}\\b`));
    }
  });
});

async function createScript(shell: Shell): Promise<string> {
  const { run } = await import("../../../src/cli/completion.js");
  let text = "";
  const output = { write: (part: string) => Promise.resolve(void (text += part)) };
  assert.equal(await run({ args: [shell], output } as never), 0);
  return text;
}
