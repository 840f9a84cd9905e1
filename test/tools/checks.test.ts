import { createServer, type Server } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { after, before, describe, it } from "node:test";
import { builtinTools } from "gantry";
import { toolChecks } from "gantry/testing";
import { callTool, toolContext } from "../helpers/tool-context.js";
import { makeTempDir, type TempDir } from "../helpers/temp.js";

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
const url = (path: string) => `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;

/** For each tool: what a model would send, and what keeps it busy. */
const INPUTS: Readonly<Record<string, { input: () => unknown; slow?: () => unknown }>> = {
  read: { input: () => ({ path: "a.txt" }) },
  write: { input: () => ({ path: "new.txt", content: "new" }) },
  edit: { input: () => ({ path: "a.txt", old_string: "one", new_string: "two" }) },
  multiedit: { input: () => ({ path: "a.txt", edits: [{ old_string: "one", new_string: "two" }] }) },
  delete: { input: () => ({ path: "a.txt" }) },
  list: { input: () => ({}) },
  glob: { input: () => ({ pattern: "**/*.txt" }) },
  grep: { input: () => ({ pattern: "one" }) },
  bash: { input: () => ({ command: "echo hello" }), slow: () => ({ command: "sleep 60" }) },
  webfetch: { input: () => ({ url: url("/") }), slow: () => ({ url: url("/slow") }) },
  todowrite: { input: () => ({ todos: [{ content: "look", status: "pending" }] }) },
  todoread: { input: () => ({}) },
  ask_user: { input: () => ({ question: "Which?", choices: ["a", "b"] }) },
  task: { input: () => ({ description: "Look", prompt: "Look at a.txt." }) },
};

for (const { name } of builtinTools()) {
  describe(`${name} keeps the contract`, () => {
    let folder: TempDir;
    const checks = toolChecks({
      create: async () => {
        folder = await makeTempDir();
        await folder.write({ "a.txt": "one\nline\n" });
        const tools = builtinTools({ webfetch: { allowPrivate: true } });
        const tool = tools.find((one) => one.name === name)!;
        const context = toolContext(folder.path);
        // Files are changed only when they were read.
        const read = tools.find((one) => one.name === "read")!;
        await callTool(read, { path: "a.txt" }, context);
        const { input, slow } = INPUTS[name]!;
        return { tool, projectDir: folder.path, input: input(), slow: slow?.(), state: context.state };
      },
      clean: () => folder.remove(),
    });
    for (const check of checks) it(check.name, () => check.run());
  });
}
