// Starts the processes that its arguments describe, reports their ids, and waits until this process is killed.
import { builtinTools } from "gantry";
import { startProcess } from "gantry/plugin";
import { callTool, toolContext } from "./tool-context.js";

const [how = "", command = "", cwd = "", keptPath = ""] = process.argv.slice(2);
const env = { PATH: process.env["PATH"] ?? "/usr/bin:/bin" };

if (how === "bash") {
  const bash = builtinTools({ env, bash: { sandbox: "off" } }).find(({ name }) => name === "bash")!;
  await callTool(bash, { command }, toolContext(cwd));
} else if (how === "kept") {
  const bash = builtinTools({ env, bash: { sandbox: "off", keptPath } }).find(({ name }) => name === "bash")!;
  await callTool(bash, { command, detached: true }, toolContext(cwd, { sessionId: "one" }));
  await new Promise((resolve) => setTimeout(resolve, 600_000));
} else {
  const child = await startProcess({ file: "/bin/sh", args: ["-c", command], cwd, env });
  child.stdout.pipe(process.stdout);
  if (how === "program") process.on("message", () => process.send?.("here"));
  if (how === "exit") child.stdout.once("data", () => process.exit(0));
  await child.ended;
}
