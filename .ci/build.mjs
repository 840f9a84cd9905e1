// Builds dist in the stages of CONTRIBUTING.md ("The build"). `--js` omits the declarations. `--unchecked` writes
// them without checking types, which takes half of the time.
import { readdirSync, readFileSync } from "node:fs";
import { chmod, cp, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { CHUNKS } from "./chunks.mjs";
import { APP, buildConsole } from "./console.mjs";
import { builtins, pack } from "./pack.mjs";
import { createPackagesPlugin } from "./packages.mjs";
import { inRoot, install, isBuilt, listFiles, replaceFolder, ROOT, run, settleAll, sourceDigest } from "./project.mjs";

/** Folder of the ES modules and declarations in dist. All other files are CommonJS. */
const ES_FOLDER = "es";
/** The program. It becomes dist/src/cli.js, a path that editors have in their settings. */
const COMMAND_SOURCE = "src/cli/main.ts";
/** `gantry/client`, for browsers and Node: an ES module that shares no file with other modules. */
const CLIENT_SOURCE = "adapters/koa-http-api/client/index";
/** Entry points of the worker thread, which the build embeds as strings: file names to folders below src/untrusted. */
const WORKER_ENTRIES = { worker: "", "schema-check": "", "flat-parser": "html/" };

const OPTIONS = {
  absWorkingDir: ROOT,
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20.19",
  conditions: ["@gantry/source", "module", "import"],
  mainFields: ["module", "main"],
  // Keeps the paths of packages below node_modules if that folder is a link.
  preserveSymlinks: true,
  // Native packages, and packages that look for files in their own folder.
  external: ["pg", "@vscode/*"],
  // Keeps these expressions as literals, which the engine compiles at their first use.
  supported: { "regexp-unicode-property-escapes": true },
  minifySyntax: true,
  legalComments: "none",
  sourcemap: "linked",
  // Embedded sources would double the size of the package. Stack traces need only line numbers.
  sourcesContent: false,
  logLevel: "warning",
  metafile: true,
};
/** Returns the worker's files as JSON, because other bundlers would not find files. Appends to `metafiles`. */
async function buildWorkerFiles(build, metafiles) {
  const supported = { ...OPTIONS.supported, "dynamic-import": false };
  const external = Object.keys(WORKER_ENTRIES).map((name) => `./${name}.js`);
  const entryPoints = Object.entries(WORKER_ENTRIES).map(([name, folder]) => `src/untrusted/${folder}${name}.ts`);
  const overrides = { format: "cjs", minify: true, sourcemap: false, write: false, define: { "import.meta.url": "0" } };
  const options = { ...OPTIONS, ...overrides, supported, external, entryPoints, outdir: "." };
  const { outputFiles, metafile } = await build(options);
  metafiles.push(metafile);
  return JSON.stringify(Object.fromEntries(outputFiles.map((file) => [`./${path.basename(file.path)}`, file.text])));
}

const threads = (metafiles) => ({
  name: "threads",
  setup({ esbuild, onLoad }) {
    onLoad({ filter: /[\\/]untrusted[\\/]worker-code\.ts$/ }, async ({ path: file }) => {
      const [text, files] = [await readFile(file, "utf8"), await buildWorkerFiles(esbuild.build, metafiles)];
      return { contents: text.replace(/(?<=workerFiles\b.* = )\{\}/, () => files), loader: "ts" };
    });
    onLoad({ filter: /[\\/]postgres-driver[\\/]functions\.ts$/ }, async ({ path: file }) => {
      const readAsLiteral = (_, name) => JSON.stringify(readFileSync(path.join(file, "..", name), "utf8"));
      return { contents: (await readFile(file, "utf8")).replace(/\bread\("(.+?)"\)/g, readAsLiteral), loader: "ts" };
    });
  },
});

/** All sources except the console's pages. */
function listSources() {
  return ["src", "adapters"].flatMap(listFiles).filter((file) => /\.tsx?$/.test(file) && !file.startsWith(`${APP}/`));
}

/** Modules that other packages import, by their file in dist: `gantry`, its subpaths and each adapter. */
function listEntryModules() {
  const adapters = readdirSync(inRoot("adapters"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const folders = ["src", "src/http", "src/plugin", "src/testing", ...adapters.map(({ name }) => `adapters/${name}`)];
  return Object.fromEntries(folders.map((folder) => [`${ES_FOLDER}/${folder}/index`, `${folder}/index.ts`]));
}

/** Builds all modules except the client: esbuild bundles each into a part, then pack.mjs combines parts into files. */
async function buildModules(outdir, sources, buildId) {
  const { build } = await import("esbuild");
  // Inside outdir, so that no source map names a folder outside the project.
  const parts = path.join(outdir, "parts");
  const { files: deferredFiles, plugin } = createPackagesPlugin();
  const metafiles = [];
  const chunkNames = "chunks/[name]-[hash]";
  try {
    const options = { ...OPTIONS, outbase: ".", splitting: true, chunkNames, plugins: [threads(metafiles), plugin] };
    const { metafile } = await build({ ...options, entryPoints: sources, outdir: parts });
    const packing = { root: ROOT, parts, metafile, outdir, chunks: CHUNKS, entryModules: listEntryModules() };
    // Packing marks all modules of this project as free of side effects. The package depd calls `eval`.
    const logOverride = { "ignored-bare-import": "silent", "direct-eval": "silent" };
    const entryPoints = [...deferredFiles].map(([file, name]) => ({ in: file, out: name }));
    const minifiedOptions = { ...OPTIONS, minifyWhitespace: true, define: { BUILD_ID: JSON.stringify(buildId) } };
    const cjsOptions = { ...minifiedOptions, format: "cjs", plugins: [builtins], outExtension: { ".js": ".cjs" } };
    const [, deferredBuild] = await settleAll({
      packing: pack({ ...packing, command: COMMAND_SOURCE, options: { ...minifiedOptions, logOverride } }),
      "deferred packages": build({ ...cjsOptions, entryPoints, outdir: path.join(outdir, "chunks") }),
    });
    return [...metafiles, metafile, deferredBuild.metafile];
  } finally {
    await rm(parts, { recursive: true, force: true });
  }
}

/** Runs all stages at the same time. Resolves with the metafiles of the outputs that contain code of packages. */
async function bundle(outdir, { types, checked, digest }) {
  const { build } = await import("esbuild");
  const esOptions = { ...OPTIONS, outbase: ".", outdir: path.join(outdir, ES_FOLDER) };
  const [moduleMetafiles, consoleMetafile] = await settleAll({
    modules: buildModules(outdir, listSources(), digest),
    console: buildConsole(path.join(outdir, "console")),
    // Not minified: programs that bundle the client minify it.
    client: build({ ...esOptions, platform: "neutral", target: "es2022", entryPoints: [`${CLIENT_SOURCE}.ts`] }),
    declarations: types && writeDeclarations(path.join(outdir, ES_FOLDER), checked),
  });
  return [...moduleMetafiles, consoleMetafile];
}

/** Returns the licence texts of all packages whose code is in dist. */
async function readLicences(metafiles) {
  const folders = new Map();
  for (const { inputs } of metafiles.flatMap(({ outputs }) => Object.values(outputs)))
    for (const [input, { bytesInOutput }] of Object.entries(inputs)) {
      const match = /^(.*node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(input);
      if (match && bytesInOutput > 0) folders.set(match[1], match[2]);
    }
  const sections = [];
  for (const [folder, name] of [...folders].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const { version, license } = JSON.parse(await readFile(inRoot(folder, "package.json"), "utf8"));
    const file = readdirSync(inRoot(folder)).find((entry) => /^(licen[cs]e|copying)(\.|-|$)/i.test(entry));
    const text = file ? (await readFile(inRoot(folder, file), "utf8")).trim() : `License: ${license ?? "unknown"}`;
    sections.push(`${name} ${version} (${license ?? "see below"})\n\n${text}\n`);
  }
  const header = "The files of this folder contain code of the packages below, each under its own licence.\n";
  return [header, ...sections].join(`\n${"-".repeat(80)}\n\n`);
}

/** Writes the declarations of src and adapters to `outdir`. tsc keeps a cache and emits only changed declarations. */
async function writeDeclarations(outdir, isChecked) {
  const args = [inRoot("node_modules/typescript/bin/tsc"), "-p", ".ci/tsconfig.build.json"];
  const code = await run(process.execPath, isChecked ? args : [...args, "--noCheck"]);
  if (code !== 0) throw new Error("tsc failed; its errors are above");
  const files = listSources().map((source) => source.replace(/\.tsx?$/, ".d.ts"));
  // The cache folder is set in tsconfig.build.json.
  await Promise.all(files.map((file) => cp(inRoot("node_modules/.cache/gantry/types", file), path.join(outdir, file))));
}

/** Builds dist, unless it is up to date. Resolves with `built`: whether a build was made. */
export async function build({ types = true, checked = true } = {}) {
  if (isBuilt(types)) return { built: false };
  const digest = sourceDigest();
  await replaceFolder(inRoot("dist"), async (outdir) => {
    const metafiles = await bundle(outdir, { types, checked, digest });
    await writeFile(path.join(outdir, "src/package.json"), '{ "type": "commonjs" }\n');
    await chmod(path.join(outdir, "src/cli.js"), 0o755);
    await writeFile(path.join(outdir, "THIRD-PARTY-LICENSES.txt"), await readLicences(metafiles));
    await writeFile(path.join(outdir, ".stamp.json"), JSON.stringify({ digest, types }));
  });
  return { built: true };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  await install();
  const startMs = Date.now();
  const hasFlag = (flag) => process.argv.includes(flag);
  try {
    const { built } = await build({ types: !hasFlag("--js"), checked: !hasFlag("--unchecked") });
    process.stderr.write(built ? `built dist in ${Date.now() - startMs} ms\n` : "dist is up to date\n");
  } catch (error) {
    process.stderr.write(`build failed\n${error.message}\n`);
    process.exitCode = 1;
  }
}
