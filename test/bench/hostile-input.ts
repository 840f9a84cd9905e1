// `npm run bench:hostile [NAME]`: time of the slowest known pages, ignore files and globs, and how long they block the
// server's event loop. Not part of the tests, because the result depends on the machine.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdir, writeFile } from "node:fs/promises";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { builtinTools } from "gantry";
import { makeTempDir, type TempDir } from "../helpers/temp-dir.js";
import { callTool, createToolContext } from "../helpers/tool-context.js";

const MIB = 1024 * 1024;
const NS_PER_MS = 1e6;
const PAGE_BYTES = 4.5 * MIB;
/** Only cases whose name contains this text are measured. */
const NAME_FILTER = process.argv[2] ?? "";
/** Time limit of a case. A slower case is aborted if possible. */
const CASE_LIMIT_MS = 150_000;

const tools = new Map(builtinTools({ webfetch: { allowPrivate: true } }).map((tool) => [tool.name, tool] as const));

/** Parts of pages: a head that occurs once, and a piece that is repeated up to PAGE_BYTES. */
const PAGES: Readonly<Record<string, [head: string, piece: string]>> = {
  "an ordinary page": [
    "<title>T</title>",
    "<div><p>Some <a href='/x'>words</a> and <b>more</b>.</p><ul><li>one</ul></div>",
  ],
  "nested div": ["", "<div>"],
  "nested div, then closing tags of nothing": ["<div>".repeat(100_000), "</x>"],
  "nested b, closed": ["<b>".repeat(300_000), "</b>"],
  "nested svg and title": ["", "<svg><title>"],
  "nested forms": ["", "<form><p>"],
  "nested lists": ["", "<ul><li>x"],
  "links to long addresses": [`<base href=/>`, "<a href=x?y>z</a>"],
  entities: ["", "&amp;&#x41;&bogus;"],
  "one tag with many attributes": ["<p ", "a1 b='c' "],
  "one attribute, long": ["<p title='", "abc "],
  "unclosed <": ["", "<"],
  "comments that never end": ["", "<!--"],
  declarations: ["", "<![CDATA[ <!x <?y "],
  "single letters": ["", "a "],
  blanks: ["<p>x", " \u200b"],
  titles: ["", "<title>abc"],
  "closing tags": ["", "</p>"],
};

interface Measurement {
  caseName: string;
  ms: number;
  /** Longest time that the event loop was blocked, in ms. */
  delayMs: number;
  output: string;
}

async function measure(caseName: string, runCase: () => Promise<{ text: string }>): Promise<void> {
  if (!caseName.includes(NAME_FILTER)) return;
  const delays = monitorEventLoopDelay({ resolution: 5 });
  await new Promise((resolve) => setTimeout(resolve, 50));
  delays.enable();
  const startMs = performance.now();
  const output = await runCase().then(
    ({ text }) => text,
    (error: unknown) => `! ${error instanceof Error ? error.message : String(error)}`,
  );
  const ms = performance.now() - startMs;
  await new Promise((resolve) => setTimeout(resolve, 20));
  delays.disable();
  print({ caseName, ms, delayMs: delays.max / NS_PER_MS, output });
}

function print({ caseName, ms, delayMs, output }: Measurement): void {
  const lastLine = output.trimEnd().split("\n").at(-1) ?? "";
  console.log(
    `${ms.toFixed(0).padStart(7)} ms  loop held ${delayMs.toFixed(0).padStart(6)} ms  ${caseName.padEnd(56)} ${lastLine.slice(0, 90)}`,
  );
}

async function measurePages(): Promise<void> {
  const bodies = new Map<string, string>();
  for (const [name, [head, piece]] of Object.entries(PAGES))
    bodies.set(
      `/${encodeURIComponent(name)}`,
      head + piece.repeat(Math.floor((PAGE_BYTES - head.length) / Buffer.byteLength(piece))),
    );
  bodies.set("/small", "<div>".repeat(160_000));
  const server = createServer((request, response) => {
    response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end(bodies.get(request.url ?? ""));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const fetchPage = (path: string) => () =>
    callTool(
      tools.get("webfetch")!,
      { url: `http://127.0.0.1:${port}${path}` },
      createToolContext("/", { signal: AbortSignal.timeout(CASE_LIMIT_MS) }),
    );
  await measure("page: nested div, 0.8 MB", fetchPage("/small"));
  for (const name of Object.keys(PAGES)) await measure(`page: ${name}`, fetchPage(`/${encodeURIComponent(name)}`));
  server.closeAllConnections();
  server.close();
}

/** Rules as in the ignore file of a normal web project. */
const ORDINARY_RULES = Array.from({ length: 50 }, (_, n) => [
  `name${n}/`,
  `*.ext${n}`,
  `/build${n}/out`,
  `cache-${n}*`,
  `packages/*/dist${n}`,
])
  .flat()
  .join("\n");

async function writeEmptyFiles(folder: TempDir, count: number, createName: (n: number) => string): Promise<void> {
  await mkdir(folder.at("many"));
  for (let offset = 0; offset < count; offset += 500)
    await Promise.all(Array.from({ length: 500 }, (_, n) => writeFile(folder.at("many", createName(offset + n)), "")));
}

async function measureRules(): Promise<void> {
  const cases: [caseName: string, count: number, ignore: string][] = [
    ["250 ordinary rules, 100,000 files", 100_000, ORDINARY_RULES],
    ["1 MiB of *a*a*a*b, 300 files", 300, `${"*a".repeat(20)}*b\n`.repeat(MIB / 43)],
    ["1 MiB of **/a*/**/b*, 300 files", 300, `${"**/a*/".repeat(8)}b*\n`.repeat(Math.floor(MIB / 51))],
    ["1 MiB of [!b][!b]..., 300 files", 300, `*${"[!b-d]".repeat(60)}*x\n`.repeat(Math.floor(MIB / 364))],
    ["1 MiB of names, 300 files", 300, Array.from({ length: 90_000 }, (_, n) => `name${n}`).join("\n")],
    ["one rule of 1 MiB, 300 files", 300, "*a".repeat(MIB / 2)],
    ["1 MiB of trailing blanks, 300 files", 300, `x${" ".repeat(MIB - 10)}y${" ".repeat(3)}`.replace("y", " ")],
    ["1 MiB of slashes, 300 files", 300, "a/".repeat(MIB / 2 - 1)],
  ];
  for (const [caseName, count, ignoreText] of cases) {
    if (!caseName.includes(NAME_FILTER)) continue;
    await using folder = await makeTempDir();
    await folder.write({ ".gitignore": ignoreText, "many.txt": "" });
    await writeEmptyFiles(folder, count, (n) => (count > 1_000 ? `file-${n}.txt` : `${"a".repeat(240)}${n}`));
    const context = createToolContext(folder.path, { signal: AbortSignal.timeout(CASE_LIMIT_MS) });
    await measure(`list: ${caseName}`, () => callTool(tools.get("list")!, { path: "many" }, context));
    if (count < 1_000) continue;
    await measure(`glob: *.{ts,tsx,...}; ${caseName}`, () =>
      callTool(tools.get("glob")!, { pattern: "**/*.{ts,tsx,js,jsx,mjs,cjs,json,md}", all: true }, context),
    );
    await measure(`glob: 256 combinations of braces; ${caseName}`, () =>
      callTool(tools.get("glob")!, { pattern: `many/${"*{f,i}".repeat(8)}*x*`, all: true }, context),
    );
    await measure(`glob: everything; ${caseName}`, () => callTool(tools.get("glob")!, { pattern: "**" }, context));
    await measure(`grep: 256 combinations of braces; ${caseName}`, () =>
      callTool(tools.get("grep")!, { pattern: "x", glob: `many/${"*{f,i}".repeat(8)}*x*` }, context),
    );
  }
  await using deepFolder = await makeTempDir();
  await Promise.all(
    Array.from({ length: 40 }, (_, n) =>
      deepFolder.write({
        [`d${n}/.gitignore`]: `${"*a".repeat(20)}*b\n`.repeat(MIB / 43),
        [`d${n}/${"a".repeat(250)}`]: "",
      }),
    ),
  );
  await measure("list: 40 folders with 1 MiB of rules each", () =>
    callTool(
      tools.get("list")!,
      { depth: 5 },
      createToolContext(deepFolder.path, { signal: AbortSignal.timeout(CASE_LIMIT_MS) }),
    ),
  );
}

// Delay caused by the machine itself, for comparison with the other results.
await measure("nothing, for 3 s", async () => {
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  return { text: "" };
});
await measurePages();
await measureRules();
