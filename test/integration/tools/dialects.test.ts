import assert from "node:assert/strict";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { Agent, builtinTools } from "gantry";
import type { AgentEvent } from "gantry";
import { callTools, ScriptedProvider } from "gantry/testing";
import { AGENT_DIALECTS, type AgentDialect, type DialectOutcome } from "../../helpers/agent-dialects.js";
import { createTemporaryFolder } from "../../helpers/tool-context.js";

const FILES = { "a.txt": "one\ntwo\nthree\n", "src/b.ts": "export {};\n", "src/c.txt": "one\ntwo\n" };
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

type Args = Readonly<Record<string, unknown>>;

/** Counts the calls of each tool in each dialect that were applied, and those that were reported. */
class DialectTable {
  readonly #cells = new Map<string, Map<string, { applied: number; reported: number }>>();

  add(agent: string, outcomes: readonly DialectOutcome[]): void {
    const tool = outcomes.flatMap((outcome) => ("tool" in outcome ? [outcome.tool] : []))[0] ?? "(no counterpart)";
    const row = this.#cells.get(tool) ?? new Map<string, { applied: number; reported: number }>();
    this.#cells.set(tool, row);
    const cell = row.get(agent) ?? { applied: 0, reported: 0 };
    row.set(agent, cell);
    for (const outcome of outcomes) cell["reported" in outcome ? "reported" : "applied"] += 1;
  }

  /** One line for each tool, with `applied/reported` for each dialect. */
  format(): string {
    const agents = AGENT_DIALECTS.map(({ agent }) => agent);
    const formatLine = (tool: string, cells: readonly string[]) =>
      tool.padEnd(18) + cells.map((cell, i) => cell.padEnd(agents[i]!.length + 2)).join("");
    const lines = [...this.#cells].map(([tool, row]) =>
      formatLine(
        tool,
        agents.map((agent) => {
          const cell = row.get(agent);
          return cell ? `${cell.applied}/${cell.reported}` : "-";
        }),
      ),
    );
    return [formatLine("applied/reported", agents), ...lines].join("\n");
  }
}

describe("a call in another agent's dialect", () => {
  const server = createServer(({ url }, response) => {
    const isSearch = url?.startsWith("/search") === true;
    response.setHeader("content-type", isSearch ? "application/json" : "text/html");
    const results = [{ title: "hello hit", url: "https://a.example/" }];
    response.end(isSearch ? JSON.stringify({ results }) : "<p>hello page</p>");
  });
  before(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)));
  after(() => server.close());

  const table = new DialectTable();
  after(() => process.stdout.write(`${table.format()}\n`));

  for (const dialect of AGENT_DIALECTS)
    for (const [name, { properties, calls }] of Object.entries(dialect.tools))
      it(`${dialect.agent}: ${name}`, async () => {
        const declaredNames = properties.split(" ").map((property) => property.replace("!", ""));
        const usedNames = new Set(calls.flatMap(([args]) => Object.keys(args)));
        assert.deepEqual(
          [...usedNames].sort(),
          [...declaredNames].sort(),
          "the calls use every argument of the schema",
        );
        const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
        for (const [args, outcome] of calls) await checkCall(dialect, name, args, outcome, url);
        table.add(
          dialect.agent,
          calls.map(([, outcome]) => outcome),
        );
      });
});

/** Runs the call in an agent. Fails if another call runs, or if an unclear call has an effect without a message. */
async function checkCall(
  { model, agent: agentName }: AgentDialect,
  name: string,
  args: Args,
  outcome: DialectOutcome,
  url: string,
) {
  const label = `${agentName} ${name} ${JSON.stringify(args)}`;
  await using folder = await createTemporaryFolder();
  await mkdir(join(folder.path, "src"));
  for (const [path, content] of Object.entries(FILES)) await writeFile(join(folder.path, path), content);
  await writeFile(join(folder.path, "a.png"), Buffer.from(PNG, "base64"));
  let jobId = "";
  const fill = <T>(value: T): T =>
    JSON.parse(JSON.stringify(value).replaceAll("$URL", url).replaceAll("$JOB", jobId)) as T;
  const needsJob = JSON.stringify(args).includes("$JOB");
  const provider = new ScriptedProvider(
    [
      ...(needsJob ? [callTools(["bash", { command: "cat", background: true }, "start"])] : []),
      ({ messages }) => {
        jobId = /\bbg-[\w-]+/.exec(JSON.stringify(messages))?.[0] ?? "";
        return callTools([name, fill(args), "call"]);
      },
    ],
    { models: [{ id: model, name: model, ownedBy: "lab", contextWindow: 128_000 }], fallback: "done" },
  );
  const agent = new Agent({
    providers: [provider],
    // The test has no skills. The tool then says which skill it looked for.
    tools: builtinTools({
      webfetch: { allowPrivate: true },
      webSearch: { provider: "searxng", baseUrl: `${url}/` },
      bash: { startMs: 50 },
    }).map((tool) => ({
      ...tool,
      needsSkills: false,
    })),
    projectDir: folder.path,
  });
  try {
    const run = await agent.run({
      message: "go",
      ask: ({ question }) =>
        Promise.resolve(question ? { choice: question.choices?.[0]?.id ?? "", text: "" } : "allow"),
    });
    const events: AgentEvent[] = [];
    for await (const event of run) events.push(event);
    await run.result;
    const called = events.find((event) => event.type === "tool_call" && event.callId === "call");
    const result = events.find((event) => event.type === "tool_result" && event.callId === "call");
    assert.ok(called?.type === "tool_call" && result?.type === "tool_result", label);
    if ("reported" in outcome) {
      assert.match(result.output, outcome.reported, label);
      if (result.failed) assert.deepEqual(await readFiles(folder.path), FILES, `${label}: nothing changed`);
      return;
    }
    assert.deepEqual(
      { tool: called.name, input: called.input },
      fill({ tool: outcome.tool, input: outcome.input }),
      label,
    );
    if (outcome.result) assert.match(result.output, outcome.result, label);
    else assert.equal(result.failed, false, `${label}: ${result.output}`);
    assert.doesNotMatch(result.output, /unknown argument/, label);
    // The next request sends only names of offered tools.
    const lastRequest = provider.requests.at(-1)!;
    const sentNames = lastRequest.messages.flatMap(({ parts }) =>
      parts.flatMap((part) => (part.type === "tool_call" ? [part.name] : [])),
    );
    const offeredNames = lastRequest.tools.map((tool) => tool.name);
    assert.ok(
      sentNames.every((sentName) => offeredNames.includes(sentName)),
      label,
    );
  } finally {
    await agent.close();
  }
}

async function readFiles(path: string): Promise<Record<string, string>> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && entry.name !== "a.png");
  const contents = files.map(async (entry) => {
    const file = join(entry.parentPath, entry.name);
    return [file.slice(path.length + 1), await readFile(file, "utf8")] as const;
  });
  return Object.fromEntries((await Promise.all(contents)).sort(([left], [right]) => left.localeCompare(right)));
}
