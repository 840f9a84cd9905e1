import assert from "node:assert/strict";
import { appendFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import type { Ask } from "gantry";
import { errorStep, textStep } from "../../helpers/fake-model-server.js";
import { countProcesses, pickUniqueSeconds, startStreamedRun, waitUntil } from "../../helpers/server-runs.js";
import { runGantry, spawnGantry, startServer } from "../../helpers/server.js";
import {
  createFailedTurn,
  createTestFile,
  createToolUse,
  createTurn,
  PACKAGE_JSON,
  readText,
  requireMatch,
  runTask,
} from "../../helpers/task-worker.js";

describe("a small task with a failure on the way", { concurrency: 2 }, () => {
  it("is solved although the provider is overloaded and limits requests in mid-task (529, 429)", async (t) => {
    const result = await runTask(t, {
      ...{ wire: "anthropic", model: "claude-sonnet-4-5" },
      files: {
        "package.json": PACKAGE_JSON,
        "src/clamp.js": "export const clamp = (value, low, high) => Math.max(high, Math.min(low, value));\n",
        "test/clamp.test.js": createTestFile(
          'import { clamp } from "../src/clamp.js";',
          'test("clamps", () => assert.deepEqual([clamp(5, 1, 3), clamp(0, 1, 3), clamp(2, 1, 3)], [3, 1, 2]));',
        ),
      },
      prompt: "clamp() returns nonsense. Mend it.",
      *worker() {
        const [fileResult] = yield createTurn(createToolUse("read", { path: "src/clamp.js" }));
        requireMatch(fileResult!.text, /Math\.max\(high, Math\.min\(low, value\)\)/);
        yield createFailedTurn(errorStep(529, { type: "overloaded_error", message: "Overloaded" }));
        const edit = {
          path: "src/clamp.js",
          old_string: "Math.max(high, Math.min(low",
          new_string: "Math.max(low, Math.min(high",
        };
        yield createTurn(createToolUse("edit", edit));
        yield createFailedTurn(
          errorStep(429, "Number of request tokens has exceeded your limit", { "retry-after": "0" }),
        );
        yield createFailedTurn(
          errorStep(429, "Number of request tokens has exceeded your limit", { "retry-after-ms": "5" }),
        );
        const [testResult] = yield createTurn(createToolUse("bash", { command: "node --test" }));
        requireMatch(testResult!.text, /^[#ℹ] fail 0$/m);
        return "low and high were mixed up.";
      },
    });
    assert.equal(result.requestCount, 7);
  });

  it("is solved although an answer breaks off in the middle of a call, which then does not run", async (t) => {
    const result = await runTask(t, {
      ...{ wire: "openai-responses", model: "gpt-5.1-codex" },
      files: {
        "package.json": PACKAGE_JSON,
        "src/queue.js": "export class Queue {\n  items = [];\n  push(item) {\n    this.items.push(item);\n  }\n}\n",
        "log.txt": "",
        "test/queue.test.js": createTestFile(
          'import { Queue } from "../src/queue.js";',
          'test("shift", () => {',
          "  const queue = new Queue();",
          "  queue.push(1);",
          "  queue.push(2);",
          "  assert.deepEqual([queue.shift(), queue.shift()], [1, 2]);",
          "});",
        ),
      },
      prompt: "Add shift() to the queue, and a line to log.txt.",
      *worker() {
        yield createTurn(createToolUse("read", { path: "src/queue.js" }));
        const input = [
          "*** Begin Patch",
          "*** Update File: src/queue.js",
          "@@",
          "   push(item) {",
          "     this.items.push(item);",
          "   }",
          "+  shift() {",
          "+    return this.items.shift();",
          "+  }",
          " }",
          "*** End Patch",
        ].join("\n");
        const calls = [
          createToolUse("bash", { command: "echo changed >> log.txt" }),
          createToolUse("apply_patch", { input }),
        ];
        yield { ...createFailedTurn({ breaks: { at: 0.8, by: "reset" } }, ...calls), text: "I add the function." };
        yield createFailedTurn({ breaks: { at: 0.3, by: "cut" } }, ...calls);
        const [, patchResult] = yield createTurn(...calls);
        requireMatch(patchResult!.text, /src\/queue\.js/);
        return "shift() is there.";
      },
    });
    assert.equal(await readText(result.folder, "log.txt"), "changed\n");
  });

  it("is solved after calls with malformed JSON and of an unknown tool", async (t) => {
    await runTask(t, {
      files: {
        "package.json": PACKAGE_JSON,
        "src/title.js": "export const title = (text) => text;\n",
        "test/title.test.js": createTestFile(
          'import { title } from "../src/title.js";',
          'test("title", () => assert.equal(title("a b"), "A B"));',
        ),
      },
      prompt: "title() must make the first letter of each word upper case.",
      *worker({ projectDir }) {
        const [unknownResult] = yield createTurn(createToolUse("query_codebase_index", { query: "title" }));
        requireMatch(unknownResult!.text, /query_codebase_index.*does not exist.*\bread\b/s);
        yield createTurn(createToolUse("read", { path: "src/title.js" }));
        const change = {
          path: "src/title.js",
          old_string: "=> text;",
          new_string: "=>\n  text.replace(/\\b\\w/g, (c) => c.toUpperCase());",
        };
        const json = JSON.stringify(change);
        const [brokenResult, testResult] = yield createTurn(
          createToolUse("edit", json.slice(0, json.indexOf("toUpper"))),
          createToolUse("bash", '{"command": node --test}'),
        );
        requireMatch(brokenResult!.text, /not valid JSON/);
        requireMatch(testResult!.text, /not valid JSON/);
        const [fileResult] = yield createTurn(
          createToolUse("bash", { command: "git status --short", workdir: projectDir }),
        );
        assert.doesNotMatch(fileResult!.text, /title/, "a call with invalid JSON changes nothing");
        yield createTurn(createToolUse("edit", json));
        return "Done.";
      },
    });
  });

  it("is solved after a command that hangs past its time limit", async (t) => {
    const marker = `jobs-${pickUniqueSeconds()}`;
    await runTask(t, {
      ...{ wire: "google", model: "gemini-2.5-pro" },
      files: {
        "package.json": PACKAGE_JSON,
        "src/main.js": [
          "const jobs = [1, 2, 3];",
          "const timer = setInterval(() => {",
          "  const job = jobs.shift();",
          "  if (job === undefined) console.log('all jobs are done');",
          "  else console.log(`job ${job} is done`);",
          "}, 20);",
          "timer.ref();",
          "",
        ].join("\n"),
        "test/main.test.js": createTestFile(
          'import { spawnSync } from "node:child_process";',
          'test("ends", () => assert.equal(spawnSync(process.execPath, ["src/main.js"], { timeout: 3000 }).status, 0));',
        ),
      },
      prompt: "node src/main.js never ends. Mend it.",
      *worker() {
        const [hangResult] = yield createTurn(
          createToolUse("bash", { command: `node src/main.js ${marker}`, timeout: 3 }),
        );
        requireMatch(hangResult!.text, /job 3 is done/);
        requireMatch(hangResult!.text, /stopped after 3 s/);
        const [processResult] = yield createTurn(
          createToolUse("bash", { command: `pgrep -fc '[j]obs-${marker.slice(5)}'` }),
          createToolUse("read", { path: "src/main.js" }),
        );
        requireMatch(processResult!.text, /^0$/m);
        yield createTurn(
          createToolUse("edit", {
            path: "src/main.js",
            old_string: "if (job === undefined) console.log('all jobs are done');",
            new_string: "if (job === undefined) clearInterval(timer);",
          }),
        );
        const [endResult] = yield createTurn(createToolUse("bash", { command: "node src/main.js", timeout: 20 }));
        requireMatch(endResult!.text, /job 3 is done\s*(\[|$)/);
        return "The timer was never cleared.";
      },
    });
    assert.equal(await countProcesses(marker), 0);
  });

  it("is solved after edits whose old text differs from the file", async (t) => {
    const result = await runTask(t, {
      files: {
        "package.json": PACKAGE_JSON,
        "src/retry.js": [
          "export async function retry(run, { limit = 3 } = {}) {",
          "\tfor (let attempt = 1; ; attempt++) {",
          "\t\ttry {",
          "\t\t\treturn await run(attempt);",
          "\t\t} catch (error) {",
          "\t\t\tif (attempt > limit) throw error;",
          "\t\t}",
          "\t}",
          "}",
          "",
        ].join("\n"),
        "test/retry.test.js": createTestFile(
          'import { retry } from "../src/retry.js";',
          'test("runs three times at most", async () => {',
          "  let count = 0;",
          '  await assert.rejects(retry(() => (count++, Promise.reject(new Error("no")))));',
          "  assert.equal(count, 3);",
          "});",
        ),
      },
      prompt: "retry() tries once too often.",
      *worker() {
        yield createTurn(createToolUse("read", { path: "src/retry.js" }));
        const [mismatchResult] = yield createTurn(
          createToolUse("edit", {
            path: "src/retry.js",
            old_string: "      if (attempts > maxAttempts) throw error;",
            new_string: "      if (attempts >= maxAttempts) throw error;",
          }),
        );
        requireMatch(mismatchResult!.text, /was not found/);
        const [fileResult] = yield createTurn(createToolUse("read", { path: "src/retry.js" }));
        requireMatch(fileResult!.text, /attempt > limit/);
        const [editResult] = yield createTurn(
          createToolUse("edit", {
            path: "src/retry.js",
            old_string: "    } catch (error) {\n      if (attempt > limit) throw error;\n    }",
            new_string: "    } catch (error) {\n      if (attempt >= limit) throw error;\n    }",
          }),
        );
        requireMatch(editResult!.text, /Edited src\/retry\.js/);
        return "The comparison was wrong.";
      },
    });
    assert.match(
      await readText(result.folder, "src/retry.js"),
      /\n\t\t\tif \(attempt >= limit\) throw error;\n\t\t\}\n/,
    );
  });

  it("is solved with the user's change that was made between a read and an edit", async (t) => {
    const result = await runTask(t, {
      ...{ wire: "anthropic", model: "claude-sonnet-4-5" },
      files: {
        "package.json": PACKAGE_JSON,
        "src/routes.js": 'export const routes = {\n  "/": "home",\n};\n',
        "test/routes.test.js": createTestFile(
          'import { routes } from "../src/routes.js";',
          'test("routes", () => assert.deepEqual(routes, { "/": "home", "/help": "help", "/news": "news" }));',
        ),
      },
      prompt: "Add the route /help. I add /news meanwhile.",
      *worker({ projectDir }) {
        yield createTurn(createToolUse("read", { path: "src/routes.js" }));
        const file = path.join(projectDir, "src/routes.js");
        appendFileSync(file, 'routes["/news"] = "news";\n');
        const content = 'export const routes = {\n  "/": "home",\n  "/help": "help",\n};\n';
        const [writeResult] = yield createTurn(createToolUse("write", { path: "src/routes.js", content }));
        requireMatch(writeResult!.text, /changed|modified/);
        const [fileResult] = yield createTurn(createToolUse("read", { path: "src/routes.js" }));
        const userLine = requireMatch(fileResult!.text, /routes\["\/news"\] = "news";/);
        yield createTurn(createToolUse("write", { path: "src/routes.js", content: `${content}${userLine}\n` }));
        return "Both routes are there.";
      },
    });
    assert.match(await readText(result.folder, "src/routes.js"), /^routes\["\/news"\]/m);
  });

  it("is solved with a fact from before a compaction", async (t) => {
    const moduleNames = Array.from({ length: 8 }, (_, i) => `part-${i}`);
    const createModule = (name: string, version: number): string =>
      `export const ${name.replace("-", "")} = ${version};\n${`// ${name}: a long explanation of how it came about.\n`.repeat(120)}`;
    let summaryCount = 0;
    await runTask(t, {
      contextWindow: 16_000,
      isCompacted: true,
      config: { agent: { max_iterations: 100 } },
      files: {
        "package.json": PACKAGE_JSON,
        "docs/seed.md": "# The seed\n\nThe checksum begins with the seed 7919, as agreed with the warehouse.\n",
        ...Object.fromEntries(moduleNames.map((name) => [`src/${name}.js`, createModule(name, 1)])),
        "test/parts.test.js": createTestFile(
          'test("the parts have version 2 and the seed is right", async () => {',
          "  for (let i = 0; i < 8; i++) {",
          "    const part = await import(`../src/part-${i}.js`);",
          "    assert.equal(part[`part${i}`], 2);",
          "  }",
          '  assert.equal((await import("../src/seed.js")).SEED, 7919);',
          "});",
        ),
      },
      prompt: "Read docs/seed.md once. Then set all parts to version 2. At the end write SEED to src/seed.js.",
      toolFreeAnswer: ({ body }) => {
        const request = JSON.stringify(body);
        const seed = /the seed (\d+)/.exec(request)?.[1];
        if (seed === undefined || !/part-0/.test(request)) return textStep("Parts and a seed");
        summaryCount++;
        return textStep(
          `The user wants all parts at version 2, and the seed in src/seed.js. docs/seed.md says: the seed ${seed}.`,
        );
      },
      *worker({ readRequest }) {
        const todos = [
          { content: "set the parts to version 2", status: "in_progress" },
          { content: "write the seed file last", status: "pending" },
        ];
        yield createTurn(createToolUse("read", { path: "docs/seed.md" }), createToolUse("todowrite", { todos }));
        for (const name of moduleNames) {
          const file = `src/${name}.js`;
          yield createTurn(createToolUse("read", { path: file }));
          const [editResult] = yield createTurn(
            createToolUse("edit", { path: file, old_string: " = 1;", new_string: " = 2;" }),
          );
          requireMatch(editResult!.text, /Edited/);
        }
        assert.ok(summaryCount > 0, "a compaction has happened");
        const request = readRequest();
        requireMatch(request, /write the seed file last/);
        for (const name of moduleNames) requireMatch(request, new RegExp(`src/${name}\\.js`));
        const seed = requireMatch(request, /the seed (\d+)/);
        yield createTurn(createToolUse("write", { path: "src/seed.js", content: `export const SEED = ${seed};\n` }));
        return "Done.";
      },
    });
  });

  it("is solved by a new process after the first process was killed during a command", async (t) => {
    const result = await runTask(t, {
      ...{ wire: "anthropic", model: "claude-sonnet-4-5" },
      files: {
        "package.json": PACKAGE_JSON,
        "migrate.js": [
          'import { existsSync, writeFileSync } from "node:fs";',
          'import { fields } from "./src/fields.js";',
          'if (existsSync("progress.txt")) writeFileSync("migrated.json", JSON.stringify(fields));',
          'else writeFileSync("progress.txt", "half"), setInterval(() => {}, 1000);',
          "",
        ].join("\n"),
        "src/fields.js": 'export const fields = ["name"];\n',
        "test/fields.test.js": createTestFile(
          'import { readFileSync } from "node:fs";',
          'test("is migrated", () => {',
          '  assert.equal(readFileSync("migrated.json", "utf8"), \'["name","email"]\');',
          '  assert.equal(readFileSync("src/fields.js", "utf8"), \'export const fields = ["name", "email"];\\n\');',
          "});",
        ),
      },
      prompt: "Add the field email, then run migrate.js.",
      async start({ folder, home, projectDir, config }) {
        const first = await spawnGantry(t, {
          args: ["run", "Add the field email, then run migrate.js."],
          home,
          projectDir,
          config,
        });
        first.child.stdin.end();
        await folder.readWhenWritten("progress.txt");
        await first.stop("SIGKILL");
        return runGantry(t, ["run", "--continue", "Go on."], { home, projectDir, config });
      },
      *worker({ readRequest }) {
        yield createTurn(createToolUse("read", { path: "src/fields.js" }));
        const edit = { path: "src/fields.js", old_string: '["name"]', new_string: '["name", "email"]' };
        yield createTurn(createToolUse("edit", edit));
        const [interruptedResult] = yield createTurn(createToolUse("bash", { command: "node migrate.js" }));
        requireMatch(interruptedResult!.text, /interrupted/i);
        requireMatch(readRequest(), /Go on\./);
        requireMatch(readRequest(), /Edited src\/fields\.js/);
        yield createTurn(createToolUse("bash", { command: "cat progress.txt src/fields.js" }));
        yield createTurn(createToolUse("bash", { command: "node migrate.js" }));
        return "Migrated.";
      },
    });
    assert.match(result.answer, /Migrated\./);
  });

  it("is solved after a denied edit by asking the user for another way", async (t) => {
    await runTask(t, {
      ...{ wire: "google", model: "gemini-2.5-pro" },
      config: {
        permissions: {
          rules: [
            ...["edit", "write"].map((tool) => ({
              ...{ tool, path: "generated/**", action: "deny", reason: "generated files" },
            })),
            { tool: "*", action: "allow" },
          ],
        },
      },
      files: {
        "package.json": PACKAGE_JSON,
        "generate.js": [
          'import { mkdirSync, writeFileSync } from "node:fs";',
          'const colors = ["red"];',
          'mkdirSync("generated", { recursive: true });',
          'writeFileSync("generated/colors.js", `export const colors = ${JSON.stringify(colors)};\\n`);',
          "",
        ].join("\n"),
        "generated/colors.js": 'export const colors = ["red"];\n',
        "test/colors.test.js": createTestFile(
          'import { spawnSync } from "node:child_process";',
          'test("colors", async () => {',
          '  spawnSync(process.execPath, ["generate.js"]);',
          '  assert.deepEqual((await import("../generated/colors.js")).colors, ["red", "blue"]);',
          "});",
        ),
      },
      prompt: "Add blue to generated/colors.js.",
      async start(options) {
        const server = await startServer(t, options);
        const body = { message: "Add blue to generated/colors.js.", can_answer: true };
        const run = await startStreamedRun(server, body);
        let ask: Ask | undefined;
        await waitUntil(async () => {
          const { asks } = (await (await server.fetch("/api/asks?state=open")).json()) as { asks: Ask[] };
          return (ask = asks[0]);
        });
        const answer = { method: "POST", headers: server.personHeaders, body: '{"choice":"1"}' };
        const response = await server.fetch(`/api/asks/${ask!.id}`, answer);
        assert.equal(response.status, 200, `${await response.text()} ${JSON.stringify(ask)}`);
        await run.ended;
        const stdout = run.pieces.map(({ text }) => text).join("");
        const code = run.latestEvent?.event === "done" ? 0 : 1;
        return { code, stdout, stderr: `${server.stderr}\n${JSON.stringify(run.latestEvent)}` };
      },
      *worker({ tools }) {
        assert.ok(tools.includes("ask_user"));
        yield createTurn(createToolUse("list", { path: "." }));
        const [deniedResult] = yield createTurn(
          createToolUse("edit", { path: "generated/colors.js", old_string: '["red"]', new_string: '["red", "blue"]' }),
        );
        requireMatch(deniedResult!.text, /not allowed: generated files/);
        const question = "generated/ is protected. Shall I change the generator instead?";
        const [answer] = yield createTurn(createToolUse("ask_user", { question, choices: ["Yes, generate.js", "No"] }));
        const file = requireMatch(answer!.text, /answered: Yes, (\S+)/);
        yield createTurn(createToolUse("read", { path: file }));
        yield createTurn(createToolUse("edit", { path: file, old_string: '["red"]', new_string: '["red", "blue"]' }));
        return "The generator knows blue now.";
      },
    });
  });

  it(
    "is solved in another folder after a write to a full disk",
    { skip: process.platform !== "linux" && "needs mount" },
    async (t) => {
      const table = `export const table = ${JSON.stringify(Array.from({ length: 20_000 }, (_, i) => i * i))};\n`;
      let isUnavailable = false;
      const files = {
        "package.json": PACKAGE_JSON,
        "data/README": "Large tables are here.\n",
        "test/squares.test.js": createTestFile(
          'test("squares", async () => {',
          '  const { table } = await import("../src/squares.js");',
          "  assert.deepEqual([table.length, table[141]], [20_000, 19_881]);",
          "});",
        ),
      };
      const prompt = "Write a table of 20,000 squares to data/squares.js and export it from src/squares.js.";
      const diskScript = `mount -t tmpfs -o size=32k none "$0" && cp -p "$0/../package.json" "$0/README" && exec "$@"`;
      await runTask(t, {
        ...{ wire: "anthropic", model: "claude-sonnet-4-5", files, prompt },
        async start(options) {
          const unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c", diskScript, options.folder.at("data")];
          const result = await runGantry(t, ["run", prompt], { ...options, commandPrefix: unshare });
          isUnavailable = /^(unshare|mount): /m.test(result.stderr);
          return result;
        },
        *worker() {
          const [fullResult] = yield createTurn(createToolUse("write", { path: "data/squares.js", content: table }));
          requireMatch(fullResult!.text, /ENOSPC|no space/i);
          const [listResult] = yield createTurn(createToolUse("list", { path: "data" }));
          assert.doesNotMatch(listResult!.text, /squares|tmp/, "no part of the file is left");
          const content = "export const table = Array.from({ length: 20_000 }, (_, i) => i * i);\n";
          yield createTurn(createToolUse("write", { path: "src/squares.js", content }));
          return "data/ is full, so src/squares.js computes the table.";
        },
      }).catch((error: unknown) => {
        if (!isUnavailable) throw error;
        t.skip("no user namespaces");
      });
    },
  );

  it("is solved after the result of a repeated call tells the model to do something else", async (t) => {
    await runTask(t, {
      wire: "openai-responses",
      files: {
        "package.json": PACKAGE_JSON,
        "src/settings.js": 'export const settings = { colour: "blue" };\n',
        "test/settings.test.js": createTestFile(
          'import { settings } from "../src/settings.js";',
          'test("theme", () => assert.equal(settings.theme, "dark"));',
        ),
      },
      prompt: "Set the theme to dark.",
      *worker() {
        let text = "";
        for (let times = 1; !/Do something else/.test(text); times++) {
          assert.ok(times < 10, "no warning after nine identical calls");
          const [grepResult] = yield createTurn(createToolUse("grep", { pattern: "theme", path: "src" }));
          text = grepResult!.text;
        }
        const [fileResult] = yield createTurn(createToolUse("read", { path: "src/settings.js" }));
        requireMatch(fileResult!.text, /colour/);
        const edit = { path: "src/settings.js", old_string: "{ ", new_string: '{ theme: "dark", ' };
        yield createTurn(createToolUse("edit", edit));
        return "There was no theme; now it is dark.";
      },
    });
  });
});
