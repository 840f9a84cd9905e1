// Starts a shell command for a test. Usage: MODE COMMAND FOLDER [KEPT_PATH]. `bash`: runs the command with the bash
// tool. `kept`: starts a detached command and waits until this process is killed. Other modes copy the command's
// stdout; `exit` then ends after the first output, and `program` answers messages.
import { builtinTools } from "gantry";
import { startProcess } from "gantry/plugin";
import { callTool, createToolContext } from "./tool-context.js";

const [mode = "", command = "", cwd = "", keptPath = ""] = process.argv.slice(2);
const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };

if (mode === "bash") {
  const bash = builtinTools({ env, bash: { sandbox: "off" } }).find(({ name }) => name === "bash")!;
  await callTool(bash, { command }, createToolContext(cwd));
} else if (mode === "kept") {
  const bash = builtinTools({ env, bash: { sandbox: "off", keptPath } }).find(({ name }) => name === "bash")!;
  await callTool(bash, { command, detached: true }, createToolContext(cwd, { sessionId: "one" }));
  // The test kills this process earlier.
  await new Promise((resolve) => setTimeout(resolve, 600_000));
} else {
  const child = await startProcess({ file: "/bin/sh", args: ["-c", command], cwd, env });
  child.stdout.pipe(process.stdout);
  if (mode === "program") process.on("message", () => process.send?.("here"));
  if (mode === "exit") child.stdout.once("data", () => process.exit(0));
  await child.ended;
}
