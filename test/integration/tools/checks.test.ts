import { createServer, type Server } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { after, before, describe, it } from "node:test";
import { builtinTools, type Tool, type ToolContext } from "gantry";
import type { Skill } from "gantry/plugin";
import { toolChecks } from "gantry/testing";
import { callTool, createToolContext } from "../../helpers/tool-context.js";
import { makeTempDir, type TempDir } from "../../helpers/temp-dir.js";

let server: Server;
before(async () => {
  // `/slow` never answers.
  server = createServer((request, response) => void (request.url === "/slow" || response.end("plain text")));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});
after(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});
const createUrl = (path: string) => `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;

/**
 * A typical input of each tool, and an input that keeps the tool busy. `id`: id of a background command. Undefined
 * `slow`: no input keeps the tool busy.
 */
const INPUTS_BY_TOOL: Readonly<Record<string, { input: (id: string) => unknown; slow?: (id: string) => unknown }>> = {
  read: { input: () => ({ path: "a.txt" }) },
  write: { input: () => ({ path: "new.txt", content: "new" }) },
  edit: { input: () => ({ path: "a.txt", old_string: "one", new_string: "two" }) },
  multiedit: { input: () => ({ path: "a.txt", edits: [{ old_string: "one", new_string: "two" }] }) },
  apply_patch: { input: () => ({ input: "*** Begin Patch\n*** Update File: a.txt\n-one\n+two\n*** End Patch" }) },
  delete: { input: () => ({ path: "a.txt" }) },
  list: { input: () => ({}) },
  glob: { input: () => ({ pattern: "**/*.txt" }) },
  grep: { input: () => ({ pattern: "one" }) },
  bash: { input: () => ({ command: "echo hello" }), slow: () => ({ command: "sleep 60" }) },
  bash_output: { input: (id) => ({ id }), slow: (id) => ({ id, wait_end: true, timeout: 60 }) },
  bash_input: { input: (id) => ({ id, text: "hello" }) },
  bash_stop: { input: (id) => ({ id }) },
  webfetch: { input: () => ({ url: createUrl("/") }), slow: () => ({ url: createUrl("/slow") }) },
  todowrite: { input: () => ({ todos: [{ content: "look", status: "pending" }] }) },
  todoread: { input: () => ({}) },
  skill: { input: () => ({ name: "greet" }) },
  ask_user: { input: () => ({ question: "Which?", choices: ["a", "b"] }) },
  task: { input: () => ({ description: "Look", prompt: "Look at a.txt." }) },
};

async function startBackgroundCommand(tools: readonly Tool[], context: ToolContext): Promise<string> {
  const bash = tools.find(({ name }) => name === "bash")!;
  const { text } = await callTool(bash, { command: "cat; sleep 60", background: true }, context);
  return /bg-\w+/.exec(text)![0];
}

async function createGreetSkill(folder: TempDir): Promise<Skill> {
  await folder.write({ "skills/greet/SKILL.md": "---\nname: greet\n---\nSay hello." });
  return { name: "greet", description: "", origin: "project", folder: folder.at("skills/greet"), root: folder.path };
}

for (const { name } of builtinTools()) {
  describe(`contract of the tool ${name}`, () => {
    let folder: TempDir;
    let tools: Tool[] = [];
    let isRunCheck = false;
    const checks = toolChecks({
      create: async () => {
        folder = await makeTempDir();
        await folder.write({ "a.txt": "one\nline\n" });
        tools = builtinTools({ webfetch: { allowPrivate: true } });
        const builtinTool = tools.find((candidate) => candidate.name === name)!;
        const skills = [await createGreetSkill(folder)];
        const tool: Tool = {
          ...builtinTool,
          run: (args, callContext) => builtinTool.run(args, { ...callContext, skills }),
        };
        const context = createToolContext(folder.path);
        // A file can be changed only after it was read.
        const readTool = tools.find((candidate) => candidate.name === "read")!;
        await callTool(readTool, { path: "a.txt" }, context);
        const { input, slow } = INPUTS_BY_TOOL[name]!;
        // Only the run checks need an existing background command, whose start takes most of a second.
        const id = isRunCheck && name.startsWith("bash_") ? await startBackgroundCommand(tools, context) : "bg-none";
        return { tool, projectDir: folder.path, input: input(id), slow: slow?.(id), state: context.state };
      },
      clean: async () => {
        await Promise.all(tools.map(async (tool) => tool.close?.()));
        await folder.remove();
      },
    });
    for (const check of checks)
      it(check.name, () => {
        isRunCheck = check.name.startsWith("run:");
        return check.run();
      });
  });
}
