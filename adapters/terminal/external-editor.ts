import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Screen } from "./screen.js";

/** Time after which an editor that ignores its termination is killed, in ms. */
const KILL_DELAY_MS = 2_000;

/**
 * Opens a text in an external editor, which receives the terminal, and returns the changed text. `command` may contain
 * arguments. Only the user can read the temporary file, which is removed at the end. The signal ends the editor.
 * Rejects if the editor fails, and if `command` is undefined because the user has set none.
 */
export async function editExternally(
  text: string,
  screen: Screen,
  command: string | undefined,
  signal: AbortSignal,
): Promise<string> {
  if (command === undefined) throw new Error("no editor; set VISUAL or EDITOR");
  return screen.lend(() => editInFolder(text, command, signal));
}

async function editInFolder(text: string, command: string, abortSignal: AbortSignal): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "gantry-prompt-"));
  try {
    const file = join(folder, "prompt.md");
    await writeFile(file, text, { mode: 0o600 });
    const editor =
      process.platform === "win32"
        ? spawn(`${command} "${file}"`, { stdio: "inherit", shell: true })
        : spawn("/bin/sh", ["-c", `${command} "$1"`, "sh", file], { stdio: "inherit" });
    let killTimer: NodeJS.Timeout | undefined;
    const endEditor = () => {
      editor.kill();
      killTimer = setTimeout(() => editor.kill("SIGKILL"), KILL_DELAY_MS);
    };
    if (abortSignal.aborted) endEditor();
    abortSignal.addEventListener("abort", endEditor, { once: true });
    const [exitCode, signal] = (await once(editor, "exit").finally(() => {
      abortSignal.removeEventListener("abort", endEditor);
      clearTimeout(killTimer);
    })) as [number | null, string | null];
    if (exitCode !== 0) throw new Error(`the editor ${command} failed (${signal ?? `exit code ${exitCode}`})`);
    return (await readFile(file, "utf8")).replace(/\r\n?/g, "\n").replace(/\n$/, "");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
