// Bundles src and adapters into dist, one module instance for all entry points, and emits their declarations.
// `--js` leaves the declarations out: they are for those who compile against the package. `--unchecked` makes them without
// a look for errors of type, which is half of the work: for who looks anyway.
import { chmod, cp, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { APP, buildConsole } from "./console.mjs";
import { pack } from "./pack.mjs";
import { CACHE, ROOT, at, buildStamp, filesBelow, install, run, sourceDigest } from "./project.mjs";

/** Left to be found in node_modules: what is native, or what looks for its own files beside itself. */
const EXTERNAL = ["better-sqlite3/package.json", "bindings", "pg"];

/** A person's door, an ES module of its own: ink waits while it is loaded, which CommonJS cannot. */
const TERMINAL = "adapters/terminal";
const TERMINAL_NAME = `gantry/${TERMINAL}`;

/** CommonJS packages call require for Node's own modules. */
const REQUIRE =
  'import { createRequire as gantryCreateRequire } from "node:module"; const require = /* @__PURE__ */ gantryCreateRequire(import.meta.url);';

/** Files that run in a thread of their own (src/hostile): entry points, because nothing imports them. */
const WORKER = /-worker\.ts$/;
/** The pages of the console, from where the sources are; in the bundle they lie beside its chunks. */
const CONSOLE_URL = /new URL\(\s*["']\.\.\/\.\.\/dist\/console\/["']\s*,\s*import\.meta\.url\s*,?\s*\)/g;
const WORKER_URL = /new URL\(\s*["']\.\/([\w-]+-worker)\.[jt]s["']\s*,\s*import\.meta\.url\s*,?\s*\)/g;

/**
 * `new URL("./x-worker.js", import.meta.url)` is true beside the source, but a bundle puts the line into whichever
 * chunk it likes: all of them are beside the worker's own room.
 */
const workerUrls = {
  name: "worker-urls",
  setup(build) {
    build.onLoad({ filter: /\.ts$/, namespace: "file" }, async ({ path: file }) => {
      if (!file.startsWith(ROOT) || file.includes("node_modules")) return undefined;
      const text = await readFile(file, "utf8");
      if (!text.includes("-worker.") && !text.includes("dist/console")) return undefined;
      const folder = path.relative(ROOT, path.dirname(file)).split(path.sep).join("/");
      const contents = text
        .replace(WORKER_URL, (_line, name) => `new URL("../${ES}/${folder}/${name}.js", import.meta.url)`)
        .replace(CONSOLE_URL, 'new URL("../console/", import.meta.url)');
      return { contents, loader: "ts" };
    });
  },
};

/** To make a shape does nothing else: where one is not used it need not be there. Their package says so, but only to those who have it beside them. */
const pureShapes = {
  name: "pure-shapes",
  setup(build) {
    build.onLoad({ filter: /[\\/]koa-http-api[\\/]shapes\.ts$/ }, async ({ path: file }) => {
      const text = await readFile(file, "utf8");
      return {
        contents: text.replace(/\b(?:v\.\w+|oneOf|optional|told|text|time|more)\(/g, "/* @__PURE__ */ $&"),
        loader: "ts",
      };
    });
  },
};

/** For files of packages, by the ends of their paths: what is in them, and what stands in its place. */
const LINES = {
  "meow/build/options.js": [
    [
      "import { a as readPackageUpSync, n as normalizePackageData } from './dependencies.js';",
      "const readPackageUpSync = () => undefined; const normalizePackageData = () => undefined;",
    ],
  ],
  // It looks for a package.json and normalises it, with all of SPDX; ours is a constant and normal already.
  "meow/build/dependencies.js": [
    ["var normalizeExports = requireNormalize();", "var normalizeExports = undefined;"],
    ["var libExports = requireLib$1();", "var libExports = undefined;"],
    ["promisify(execFile);", ""],
  ],
  // What the store never calls.
  "better-sqlite3/lib/database.js": ["backup", "aggregate", "table"].map((name) => [
    `Database.prototype.${name} = require('./methods/${name}');`,
    "",
  ]),
  // No form is read here, and our options are right: a parser of uploads, with a hash of its own, and zod, 40 ms of a first run.
  "koa-body/dist/esm/index.js": [
    ["import parseWithFormidable from './utils/parse-with-formidable.js';", "const parseWithFormidable = undefined;"],
  ],
  "koa-body/dist/esm/types.js": [
    ["import { z } from 'zod';", ""],
    [/const HttpMethod = z[^]*$/, "export const KoaBodyMiddlewareOptionsSchema = { parse: (options) => options };"],
  ],
  // Bodies are read as they come, and as text alone.
  "co-body/index.js": [[/exports = module.exports = [^]*(?=exports\.text)/, ""]],
  "inflation/index.js": [["var zlib = require('zlib')", ""]],
  "raw-body/index.js": [
    ["var iconv = require('iconv-lite')", ""],
    // Our limit is a number.
    ["var bytes = require('bytes')", "var bytes = { parse: (limit) => limit }"],
  ],
  // Of Koa, what the API never asks it for, with the packages and modules behind it: 20 ms of a first run.
  "koa/lib/application.js": [["const v8 = require('node:v8')", "const v8 = {}"]],
  "koa/lib/context.js": [
    ["const httpAssert = require('http-assert')", "const httpAssert = undefined"],
    ["const Cookies = require('cookies')", ""],
  ],
  "koa/lib/request.js": [
    ["const accepts = require('accepts')", ""],
    ["const contentType = require('content-type')", ""],
    ["const fresh = require('fresh')", ""],
    ["const sp = require('./search-params.js')", ""],
  ],
  "koa/lib/response.js": [
    ["const assert = require('node:assert')", "const assert = (holds, why) => { if (!holds) throw new Error(why) }"],
    ["const contentDisposition = require('content-disposition')", ""],
    ["const escape = require('escape-html')", ""],
    ["const destroy = require('destroy')", ""],
    ["const encodeUrl = require('encodeurl')", ""],
    ["const vary = require('vary')", ""],
    // They would need what was left out above.
    ...["vary", "redirect", "back", "attachment"].map((name) => [new RegExp(`\n  ${name} \\([^]*?\n  \\},\n`), "\n"]),
    // The one type that Koa gives by itself, to what our own handler of errors failed for.
    ["const getType = require('mime-types').contentType", "const getType = () => 'text/plain; charset=utf-8'"],
  ],
  // It is given another one: schemas of servers are not made programs of.
  "@modelcontextprotocol/sdk/dist/esm/client/index.js": [
    ["import { AjvJsonSchemaValidator } from '../validation/ajv-provider.js';", ""],
    ["options?.jsonSchemaValidator ?? new AjvJsonSchemaValidator()", "options?.jsonSchemaValidator"],
  ],
  // Tools for who develops ink, which asks for a package that is not there.
  "ink/build/devtools.js": [[/^[^]*$/, ""]],
  "type-is/index.js": [["var mime = require('mime-types')", ""]],
  // Errors are told by their status; a class for each status takes a millisecond to make.
  "http-errors/index.js": [
    ["var deprecate = require('depd')('http-errors')", "var deprecate = () => {}"],
    ["populateConstructorExports(module.exports, statuses.codes, module.exports.HttpError)", ""],
  ],
  "@koa/router/dist/index.mjs": [
    ['import debugModule from "debug";', ""],
    ['var debug = debugModule("koa-router");', "const debug = () => {};"],
  ],
  // The platform's Headers bring all of its fetch with them, 20 ms of a first turn; what is made of these is a plain object.
  "@ai-sdk/provider-utils/dist/index.mjs": [
    ["if (headers instanceof Headers) {", 'if (headers.constructor?.name === "Headers") {'],
    [
      "const normalizedHeaders = new Headers(normalizeHeaders(headers));",
      "const normalizedHeaders = new Map(Object.entries(normalizeHeaders(headers)));",
    ],
  ],
};

/**
 * Parts of packages that cost milliseconds of every start and do nothing for us. A part that is no longer where it was
 * fails the build, so that nobody believes in a saving that is gone.
 */
const lighterPackages = {
  name: "lighter-packages",
  setup(build) {
    const ends = Object.keys(LINES).map((end) => end.replaceAll(".", "\\.").replaceAll("/", "[\\\\/]"));
    const filter = new RegExp(`[\\\\/]node_modules[\\\\/](${ends.join("|")})$`);
    build.onLoad({ filter }, async ({ path: file }) => {
      const name = Object.keys(LINES).find((end) => file.replaceAll(path.sep, "/").endsWith(`/node_modules/${end}`));
      if (name === undefined) return undefined;
      let contents = await readFile(file, "utf8");
      for (const [from, to] of LINES[name]) {
        const lighter = contents.replace(from, () => to);
        if (lighter === contents) throw new Error(`${name} has changed: no "${from}"; see LINES`);
        contents = lighter;
      }
      return { contents, loader: "js" };
    });
    // Faults of schemas are told in English; all languages are a third of what is loaded with a schema.
    build.onLoad({ filter: /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, () => ({
      contents: 'export { default as en } from "./en.js";',
      loader: "js",
    }));
    // It looks for this when it is loaded; what is CommonJS would come behind it, since it lies in another file.
    build.onLoad({ filter: /[\\/]tsyringe[\\/]dist[\\/]esm5[\\/]index\.js$/ }, async ({ path: file }) => ({
      contents: `import "reflect-metadata";\n${await readFile(file, "utf8")}`,
    }));
    // Of our own manifest only the version is asked for.
    build.onLoad({ filter: /[\\/]package\.json$/ }, async ({ path: file }) => {
      if (file !== at("package.json")) return undefined;
      const { version } = JSON.parse(await readFile(file, "utf8"));
      return { contents: JSON.stringify({ version }), loader: "json" };
    });
    // As a module, node:process has its exports read, and with them the three standard streams opened.
    build.onResolve({ filter: /^node:process$/ }, () => ({ path: "process", namespace: "global-process" }));
    build.onLoad({ filter: /.*/, namespace: "global-process" }, () => ({
      contents: "export default process;",
      loader: "js",
    }));
  },
};

/** Where ES modules and declarations are. The rest of `dist` is CommonJS, the command too, whose place people have in the settings of their editors. */
const ES = "es";

/** What others import, by the file they find it in: `gantry`, its rooms, and each adapter. */
function faces() {
  const adapters = readdirSync(at("adapters"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const own = adapters.map(({ name }) => `adapters/${name}`).filter((folder) => folder !== TERMINAL);
  const folders = ["src", "src/http", "src/testing", ...own];
  return Object.fromEntries(folders.map((folder) => [`${ES}/${folder}/index`, `${folder}/index.ts`]));
}

/** `gantry/client`, as browsers and Node import it: an ES module of its own, which shares nothing. */
const CLIENT = "adapters/koa-http-api/client/index";

/** What is loaded together, in the order in which it is; see pack.mjs. */
const FILES = [
  // Whoever imports `gantry` has no use for a command line: it shares nothing.
  { name: "main", modules: ["src/commands/main.ts"], apart: true },
  {
    name: "serve",
    needs: [],
    modules: [
      "src/commands/serve.ts",
      "adapters/sqlite-driver/index.ts",
      // Few do without it.
      "adapters/ai-sdk-provider/index.ts",
      "adapters/ai-sdk-provider/presets.ts",
      "node_modules/better-sqlite3/lib/index.js",
      // Small, and shared by several of those below.
      "src/models/estimate.ts",
      "src/models/usage.ts",
      "src/plugin/serving.ts",
    ],
  },
  {
    name: "http",
    needs: ["serve"],
    modules: ["src/http/http-host.ts", "adapters/koa-http-api/index.ts", "adapters/web-console/index.ts"],
  },
  { name: "stdio", needs: ["serve"], modules: ["adapters/acp-stdio/index.ts"] },
  {
    name: "prompt",
    needs: ["serve", "stdio"],
    deferred: true,
    modules: [
      "permission",
      "plan",
      "printed",
      "prompt",
      "prompt-input",
      "session-list",
      "shown",
      "spent",
      "updates",
    ].map((name) => `adapters/acp-shared/${name}.ts`),
  },
  {
    name: "run",
    needs: ["serve"],
    deferred: true,
    modules: [
      // What else a first turn needs of the provider is in serve: it would wait here for what the start saves.
      ...["active-run", "execution", "runs-here", "start"].map((name) => `src/run/${name}.ts`),
      ...["messages", "stored-state"].map((name) => `src/conversation/${name}.ts`),
      ...["git-head", "instructions", "skills"].map((name) => `src/project/${name}.ts`),
      ...["live", "tail"].map((name) => `src/live/${name}.ts`),
      "src/sessions/holder.ts",
      "src/sessions/lease.ts",
      "src/tools/all.ts",
      ...[
        "answer",
        "catalogue-entry",
        "claude",
        "efforts",
        "guard",
        "limits",
        "listing",
        "local-catalogue",
        "price-list",
        "price-updates",
        "prices",
        "specification",
        "unreadable",
      ]
        // The wire that nearly all speak: a file of its own would cost every first turn more than it saves any.
        .concat(["wires/openai", "writing"])
        .map((name) => `adapters/ai-sdk-provider/${name}.ts`),
    ],
  },
  // Their packages share schemas with one another.
  ...["google", "anthropic", "openai-responses"].map((wire) => ({
    name: wire,
    needs: ["serve", "run"],
    modules: [`adapters/ai-sdk-provider/wires/${wire}.ts`],
  })),
  { name: "offline", needs: ["serve"], modules: ["adapters/offline-provider/index.ts"] },
  {
    name: "tools",
    needs: ["serve", "run"],
    deferred: true,
    modules: [
      ...["describe-call", "nested-instructions", "tool-calls"].map((name) => `src/run/${name}.ts`),
      ...[
        "delete-path",
        "edit-file",
        "files",
        "keep-file",
        "grep-search",
        "patch-files",
        "patch-plan",
        "patch-text",
        "read-file",
        "replace-file",
        "search-folder",
        "shell-output",
        "web-page",
        "write-file",
      ].map((name) => `src/tools/${name}.ts`),
      ...["by-handle", "by-name", "names", "opened-folder", "path-guard", "reach"].map(
        (name) => `src/files/${name}.ts`,
      ),
      "src/files/attachments.ts",
      "src/hostile/threads.ts",
      "src/base/cut-text.ts",
      ...["clean-stream", "output-file", "outputs"].map((name) => `src/processes/${name}.ts`),
    ],
  },
  {
    name: "live",
    needs: ["serve", "run"],
    deferred: true,
    modules: [
      ...[
        "asks",
        "asks-of-helpers",
        "budget-check",
        "queue",
        "rule-check",
        "rules",
        "runs",
        "spawn",
        "spending",
        "structured",
      ].map((name) => `src/run/${name}.ts`),
      ...["plan", "watch"].map((name) => `src/live/${name}.ts`),
      "adapters/sqlite-driver/asks.ts",
    ],
  },
  {
    name: "seldom",
    needs: ["serve", "run"],
    deferred: true,
    modules: [
      ...["fit", "follow-up", "summary"].map((name) => `src/compaction/${name}.ts`),
      ...["fork", "helpers", "revert", "undo"].map((name) => `src/sessions/${name}.ts`),
      ...["plan", "restore"].map((name) => `src/history/${name}.ts`),
      ...["errors", "fault", "files", "from-ai-sdk", "module", "package-source"].map(
        (name) => `adapters/ai-sdk-provider/${name}.ts`,
      ),
      "adapters/sqlite-driver/dump.ts",
      "src/tools/bash-jobs.ts",
      ...["job", "keeper", "kept-job"].map((name) => `src/processes/${name}.ts`),
      "src/serve/strangers.ts",
      "src/serve/tool-servers.ts",
      "src/run/server-check.ts",
    ],
  },
  { name: "sandbox", needs: ["serve"], modules: ["src/tools/sandbox.ts", "src/processes/child.ts"] },
  { name: "api", needs: ["serve", "http"], modules: ["adapters/koa-http-api/app.ts"] },
  // It takes far more of what shapes are made of than all the rest: that is in no file that something else needs.
  { name: "openapi", modules: ["adapters/koa-http-api/openapi.ts"], apart: true },
  { name: "console", needs: ["serve", "http"], modules: ["adapters/web-console/pages.ts"] },
  // Bodies are read as those of the API are, which has begun by then.
  { name: "login", needs: ["serve", "http", "api", "console"], modules: ["adapters/web-console/one-time-links.ts"] },
];
const COMMAND = "src/cli.ts";

const OPTIONS = {
  absWorkingDir: ROOT,
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20.19",
  // As literals, which cost nothing where nobody uses them.
  supported: { "regexp-unicode-property-escapes": true },
  minifySyntax: true,
  legalComments: "none",
  sourcemap: "linked",
  // Lines of stack traces are enough; the sources themselves would double the package.
  sourcesContent: false,
  logLevel: "warning",
  metafile: true,
};

/** Everything but the pages for browsers, which .ci/console.mjs makes. */
function ownSources() {
  const sources = [...filesBelow("src"), ...filesBelow("adapters")];
  return sources.filter((file) => /\.tsx?$/.test(file) && !file.startsWith(`${APP}/`));
}

/** As it is: the streams are open where a terminal is. */
const wholeProcess = {
  name: "whole-process",
  setup: (build) => build.onResolve({ filter: /^node:process$/ }, ({ path }) => ({ path, external: true })),
};

/** One file, in which React is the one that people get, not that which looks for faults in what is drawn. */
const TERMINAL_BUILD = {
  splitting: false,
  minifyWhitespace: true,
  plugins: [wholeProcess, lighterPackages],
  banner: { js: REQUIRE },
  jsx: "automatic",
  define: { "process.env.NODE_ENV": '"production"', "process.env.DEV": '"false"' },
};

async function bundle(outdir) {
  const { build } = await import("esbuild");
  const reading = {
    ...OPTIONS,
    outbase: ".",
    splitting: true,
    chunkNames: "chunks/[name]-[hash]",
    conditions: ["@gantry/source", "module", "import"],
    mainFields: ["module", "main"],
    external: [...EXTERNAL, TERMINAL_NAME],
    plugins: [pureShapes, workerUrls, lighterPackages],
  };
  const sources = ownSources().filter((file) => !file.startsWith(`${TERMINAL}/`));
  // Below it, so that no file tells where this build ran.
  const parts = path.join(outdir, "parts");
  try {
    const [{ metafile }, workers, terminal] = await Promise.all([
      build({ ...reading, entryPoints: sources.filter((file) => !WORKER.test(file)), outdir: parts }),
      // They share nothing with the process: a thread has what it needs and no more.
      build({
        ...reading,
        minifyWhitespace: true,
        banner: { js: REQUIRE },
        entryPoints: sources.filter((file) => WORKER.test(file)),
        outdir: path.join(outdir, ES),
      }),
      build({
        ...reading,
        ...TERMINAL_BUILD,
        entryPoints: [`${TERMINAL}/index.ts`],
        outdir: path.join(outdir, ES),
      }),
      build({
        ...OPTIONS,
        // Names stay, and lines too: who bundles it makes it small, and who looks into it reads it.
        platform: "neutral",
        target: "es2022",
        entryPoints: [{ in: `${CLIENT}.ts`, out: `${ES}/${CLIENT}` }],
        outdir,
      }),
    ]);
    await withoutIdleRequire([workers.metafile]);
    const logOverride = { "ignored-bare-import": "silent", "direct-eval": "silent" };
    const options = { ...OPTIONS, minifyWhitespace: true, chunkNames: "[name]-[hash]", logOverride };
    const packing = { root: ROOT, parts, metafile, outdir, faces: faces(), command: COMMAND, options };
    await pack({ ...packing, files: FILES });
    return [metafile, workers.metafile, terminal.metafile];
  } finally {
    await rm(parts, { recursive: true, force: true });
  }
}

/** Only the file with esbuild's own helper calls it; in the others it would cost each start a fraction of a millisecond. */
async function withoutIdleRequire(metafiles) {
  const files = metafiles.flatMap(({ outputs }) => Object.keys(outputs)).filter((file) => file.endsWith(".js"));
  await Promise.all(
    files.map(async (file) => {
      const text = await readFile(at(file), "utf8");
      // An empty line in its place, so that source maps stay true.
      if (!text.includes("typeof require")) await writeFile(at(file), text.replace(REQUIRE, ""));
    }),
  );
}

/** The licence texts of every package whose code is in the bundle. */
async function licences(metafiles) {
  const packages = new Map();
  for (const output of metafiles.flatMap(({ outputs }) => Object.values(outputs))) {
    for (const [input, { bytesInOutput }] of Object.entries(output.inputs)) {
      const match = /^(.*node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(input);
      if (match && bytesInOutput > 0) packages.set(match[1], match[2]);
    }
  }
  const sections = [];
  for (const [folder, name] of [...packages].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const { version, license } = JSON.parse(await readFile(at(folder, "package.json"), "utf8"));
    const file = readdirSync(at(folder)).find((entry) => /^(licen[cs]e|copying)(\.|-|$)/i.test(entry));
    const text = file ? (await readFile(at(folder, file), "utf8")).trim() : `License: ${license ?? "see the package"}`;
    sections.push(`${name} ${version} (${license ?? "see below"})\n\n${text}\n`);
  }
  const head = "The files of this folder contain code of the packages below, each under its own licence.\n";
  return [head, ...sections].join(`\n${"-".repeat(80)}\n\n`);
}

/** Declarations of src and adapters into `outdir`; kept between builds, so that only what changed is emitted again. */
async function declarations(outdir, checked) {
  const args = [at("node_modules/typescript/bin/tsc"), "-p", ".ci/tsconfig.build.json"];
  const code = await run(process.execPath, checked ? args : [...args, "--noCheck"]);
  if (code !== 0) throw new Error("the declarations were not built: the type errors are above");
  for (const source of ownSources()) {
    const file = source.replace(/\.tsx?$/, ".d.ts");
    const emitted = path.join(CACHE, "types", file);
    if (!existsSync(emitted)) {
      // The folder was emptied but not the record of what is in it: begin anew.
      await rm(path.join(CACHE, "types.tsbuildinfo"), { force: true });
      return declarations(outdir, checked);
    }
    await mkdir(path.dirname(path.join(outdir, file)), { recursive: true });
    await cp(emitted, path.join(outdir, file));
  }
}

/** Make dist what the sources say. Nothing happens when it is that already. */
export async function build({ types = true, checked = true } = {}) {
  const digest = sourceDigest();
  const stamp = buildStamp();
  if (stamp?.digest === digest && (stamp.types || !types)) return { built: false };

  // Beside dist, so that the change is two renames: whoever runs the old one keeps its open files.
  const fresh = at(`.dist-${process.pid}`);
  const old = at(`.dist-${process.pid}-old`);
  try {
    await rm(fresh, { recursive: true, force: true });
    const [metafiles, pages] = await Promise.all([
      bundle(fresh),
      buildConsole(path.join(fresh, "console")),
      types ? declarations(path.join(fresh, ES), checked) : undefined,
    ]);
    await writeFile(path.join(fresh, path.dirname(COMMAND), "package.json"), '{ "type": "commonjs" }\n');
    await chmod(path.join(fresh, "src/cli.js"), 0o755);
    await writeFile(path.join(fresh, "THIRD-PARTY-LICENSES.txt"), await licences([...metafiles, pages]));
    await writeFile(path.join(fresh, ".stamp.json"), JSON.stringify({ digest, types }));
    if (existsSync(at("dist"))) await rename(at("dist"), old);
    await rename(fresh, at("dist"));
  } finally {
    await Promise.all([fresh, old].map((folder) => rm(folder, { recursive: true, force: true })));
  }
  return { built: true };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  await install();
  const started = Date.now();
  try {
    const { built } = await build({
      types: !process.argv.includes("--js"),
      checked: !process.argv.includes("--unchecked"),
    });
    process.stderr.write(built ? `built dist in ${Date.now() - started} ms\n` : "dist is up to date\n");
  } catch (error) {
    process.stderr.write(`build failed: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}
