import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { tempDir } from "../../helpers/temp-dir.js";
import { converse, createMessage, tools } from "./harness.js";

const hooks = { after };

async function createProject(files: Record<string, string> = {}): Promise<string> {
  const folder = await tempDir(hooks, {
    "package.json":
      '{\n  "name": "demo",\n  "version": "3.1.4",\n  "main": "./lib/start.js",\n  "scripts": { "test": "node --test" }\n}\n',
    "README.md": "# Demo\n\nThe demo project.\n",
    "lib/start.js": "export function launchRocket() {\n  return 42; // TODO: fuel\n}\n",
    "lib/other.ts": "import { launchRocket } from './start.js';\n",
    "test/start.test.js": "launchRocket();\n",
    ...files,
  });
  return folder.path;
}

describe("the rule-based answers of OfflineProvider", () => {
  it("lists the folder and quotes the main entry of package.json", async () => {
    const { calls, answer, rounds } = await converse(
      await createProject(),
      "Which files are here, and what does package.json say the main entry is?",
    );
    assert.deepEqual(calls, ["list {}", 'read {"path":"package.json"}']);
    assert.equal(rounds, 2);
    assert.match(answer, /README\.md/);
    assert.match(answer, /"main": "\.\/lib\/start\.js"/);
    assert.doesNotMatch(answer, /3\.1\.4/, "the answer quotes only the requested field");
    assert.match(answer, /No language model is attached/);
    assert.match(answer, /OPENAI_API_KEY=\.\.\. gantry serve/);
    assert.match(answer, /~\/\.gantry\/config\.json/);
  });

  it("reports that package.json has no main field", async () => {
    const folder = await createProject({ "package.json": '{ "name": "x", "bin": { "x": "cli.js" } }' });
    const { answer } = await converse(folder, "What does package.json say the main entry is?");
    assert.match(answer, /`package\.json` has no `main` field\./);
  });

  it("reads Cargo.toml if there is no package.json", async () => {
    const folder = await tempDir(hooks, { "Cargo.toml": '[dependencies]\nserde = "1"\n' });
    const { calls, answer } = await converse(folder.path, "Which dependencies does it have?");
    assert.deepEqual(calls, ['read {"path":"package.json"}', "list {}", 'read {"path":"Cargo.toml"}']);
    assert.match(answer, /serde = "1"/);
  });

  const prompts: [prompt: string, calls: string[], expectedText: RegExp][] = [
    ["Read README.md", ['read {"path":"README.md"}'], /The demo project\./],
    ["please show me `lib/start.js`.", ['read {"path":"lib/start.js"}'], /launchRocket/],
    ["what is in lines 2-3 of lib/start.js?", ['read {"path":"lib/start.js","offset":2,"limit":2}'], /return 42/],
    ["Look at lib/start.js:2", ['read {"path":"lib/start.js","offset":2,"limit":1}'], /return 42/],
    ["Where is launchRocket used?", [String.raw`grep {"pattern":"\\blaunchRocket\\b"}`], /lib\/other\.ts/],
    [
      "Search for 'launchRocket()' in lib/",
      [String.raw`grep {"pattern":"launchRocket\\(\\)","path":"lib"}`],
      /launchRocket\(\)/,
    ],
    ["Which files mention launchRocket?", [String.raw`grep {"pattern":"\\blaunchRocket\\b"}`], /test\/start\.test\.js/],
    ["Are there TODOs?", [String.raw`grep {"pattern":"\\b(TODO)\\b"}`], /fuel/],
    ["Find all *.md files", ['glob {"pattern":"*.md"}'], /README\.md/],
    ["List the .ts files", ['glob {"pattern":"**/*.ts"}'], /lib\/other\.ts/],
    ["which typescript files are there?", ['glob {"pattern":"**/*.ts"}'], /lib\/other\.ts/],
    ["What files are in the lib folder?", ['list {"path":"lib"}'], /start\.js/],
    ["list lib/ and test/", ['list {"path":"lib"}', 'list {"path":"test"}'], /start\.test\.js/],
    ["What version is in package.json?", ['read {"path":"package.json"}'], /"version": "3\.1\.4"/],
    ["How do I run the tests?", ['read {"path":"package.json"}'], /node --test/],
    [
      "What is this project?",
      ["list {}", 'read {"path":"README.md"}', 'read {"path":"package.json"}'],
      /The demo project/,
    ],
    [
      "read start.js",
      ['read {"path":"start.js"}', 'glob {"pattern":"**/start.js"}', 'read {"path":"lib/start.js"}'],
      /return 42/,
    ],
    ["read lib", ['list {"path":"lib"}'], /other\.ts/],
    ["Show me src", ['list {"path":"src"}'], /`list` failed for `src`/],
  ];
  for (const [prompt, expectedCalls, expectedText] of prompts) {
    it(`calls the matching tools for "${prompt}"`, async () => {
      const { calls, answer } = await converse(await createProject(), prompt);
      assert.deepEqual(calls, expectedCalls);
      assert.match(answer, expectedText);
      assert.match(answer, /No language model is attached/);
    });
  }

  it("reports a failed read as a failure", async () => {
    const { answer } = await converse(await createProject(), "Read ../../etc/hosts.txt and nothere.json");
    assert.match(answer, /`read` failed for `\.\.\/\.\.\/etc\/hosts\.txt`/);
    assert.match(answer, /`read` failed for `nothere\.json`/);
  });

  it("calls no tool if the prompt names no file, folder or search text, and reports this in the answer", async () => {
    for (const prompt of [
      "Hello",
      "Warum ist der Himmel blau?",
      "...",
      "👋",
      "https://example.com/a.js",
      "yes and/or no, e.g. Node.js",
    ]) {
      const { calls, answer } = await converse(await createProject(), prompt);
      assert.deepEqual(calls, [], prompt);
      assert.match(answer, /This message names nothing/);
    }
  });

  it("answers that a change needs a model, and only reads the named file", async () => {
    const { calls, answer } = await converse(await createProject(), "Fix the bug in lib/start.js");
    assert.deepEqual(calls, ['read {"path":"lib/start.js"}']);
    assert.match(answer, /need a model; I did none of that/);
  });

  it("uses only the last prompt after many turns, with unique tool call ids", async () => {
    const folder = await createProject();
    let history = (await converse(folder, "Which files are here?")).messages;
    for (let turn = 0; turn < 20; turn++) history = (await converse(folder, "Read README.md", { history })).messages;
    const lastTurn = await converse(folder, "Which files are here?", { history });
    assert.deepEqual(lastTurn.calls, ["list {}"]);
    assert.doesNotMatch(lastTurn.answer, /The demo project/);
    const ids = lastTurn.messages.flatMap(({ parts }) =>
      parts.flatMap((part) => (part.type === "tool_call" ? [part.id] : [])),
    );
    assert.equal(new Set(ids).size, ids.length, "ids of calls are unique within the conversation");
  });

  it("gives the same answer to the same prompt", async () => {
    const folder = await createProject();
    const getAnswer = async (): Promise<string> =>
      (await converse(folder, "Find launchRocket and list the files here")).answer;
    assert.equal(await getAnswer(), await getAnswer());
  });

  it("names the disabled tools that a prompt needs", async () => {
    const remainingTools = tools.filter(({ name }) => name !== "read");
    const { calls, answer } = await converse(await createProject(), "Read README.md", { tools: remainingTools });
    assert.deepEqual(calls, []);
    assert.match(answer, /needs the tools `read`, which are not enabled/);
  });

  it("stops after at most 6 rounds and 12 calls", async () => {
    const names = Array.from({ length: 60 }, (_, n) => `missing-${n}.ts`).join(" ");
    const { calls, rounds } = await converse(await createProject(), `Read ${names}`);
    assert.ok(rounds <= 6 && calls.length <= 12, `${rounds} rounds, ${calls.length} calls`);
  });

  it("quotes a file with code fences in a longer fence", async () => {
    const folder = await createProject({ "odd.md": "````\n```js\n1\n```\n````\n" });
    const { answer } = await converse(folder, "Read odd.md");
    assert.match(answer, /^`{5}\n/m);
  });

  it("limits a long result to 60 lines and reports the limit", async () => {
    const folder = await createProject({ "long.txt": Array.from({ length: 500 }, (_, n) => `line ${n}`).join("\n") });
    const { answer } = await converse(folder, "Read long.txt");
    assert.match(answer, /\(the first 60 of 50\d lines\)|\(the first 60 of 500 lines\)/);
  });

  it("answers that reading an attachment needs a model", async () => {
    const folder = await createProject();
    const fileMessage = createMessage("user", "What is this?");
    fileMessage.parts.push({ type: "file", mediaType: "application/octet-stream", filename: "x.bin", data: "AAAA" });
    const { createNextTurn } = await import("../../../adapters/offline-provider/guide.js");
    const { createRequest } = await import("./harness.js");
    const turn = createNextTurn(createRequest([fileMessage]), {
      hints: [],
      foundServers: [],
      configFile: `${folder}/config.json`,
    });
    assert.match(turn.text, /The attachment cannot be read without a model/);
  });
});
