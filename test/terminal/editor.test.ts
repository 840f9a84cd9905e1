import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import { startModelServer, createServerConfig } from "../helpers/server-runs.js";
import { NO_TMUX, openPane } from "../helpers/terminal-pane.js";

const EDITOR = `#!/bin/sh
stat -c %a "$2" > report
printf '%s\\n' "$1 $2" >> report
cat "$2" >> report
read -r line
case $line in fail) exit 3;; esac
printf 'edited %s\\nsecond line\\n' "$line" > "$2"
`;

describe("Ctrl+G", { skip: NO_TMUX }, () => {
  it("gives the prompt and the screen to the editor, and keeps the prompt if the editor fails", async (t) => {
    const pane = await openPane(t, {
      config: createServerConfig(await startModelServer(t)),
      files: { "edit.sh": EDITOR },
      env: { EDITOR: "sh edit.sh --flag" },
    });
    await pane.waitForScreen(/Type a prompt/);
    await pane.type("my words");
    await pane.waitForScreen(/❯ my words/);
    await pane.sendKeys("C-g");
    await pane.waitForScreen((screen) => !/my words/.test(screen));
    await pane.type("fail");
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/editor sh edit\.sh --flag failed \(exit code 3\)[^]*❯ my words/);
    await pane.sendKeys("C-g");
    await pane.waitForScreen((screen) => !/my words/.test(screen));
    await pane.type("by hand");
    await pane.sendKeys("Enter");
    await pane.waitForScreen(/❯ edited by hand\n {2}second line/);
    const [mode, call = "", text] = (await readFile(`${pane.projectDir}/report`, "utf8")).split("\n");
    assert.deepEqual([mode, text], ["600", "my words"]);
    assert.match(call, /^--flag \//);
    assert.equal(existsSync(call.slice("--flag ".length)), false);
  });

  it("ends the editor and restores the screen when the terminal is terminated", async (t) => {
    const pane = await openPane(t, {
      config: createServerConfig(await startModelServer(t)),
      files: { "wait.sh": "echo $$ > editor-pid; echo in the editor; exec sleep 600\n" },
      env: { EDITOR: "exec sh wait.sh" },
      shell: `sh -c 'echo $$ > pid; exec "$@"' gantry "$@"`,
      args: ["chat"],
    });
    const readPid = async (name: string) => Number(await readFile(`${pane.projectDir}/${name}`, "utf8"));
    await pane.waitForScreen(/Type a prompt/);
    await pane.sendKeys("C-g");
    await pane.waitForScreen(/in the editor/);
    process.kill(await readPid("pid"), "SIGTERM");
    const { code } = await pane.waitForExit();
    assert.equal(code, 0);
    assert.equal(await pane.readFormat("#{alternate_on} #{cursor_flag} #{mouse_any_flag}"), "0 1 0");
    const editorPid = await readPid("editor-pid");
    assert.throws(() => process.kill(editorPid, 0), { code: "ESRCH" });
  });
});
