// Bundles src and adapters into dist, one module instance for all entry points, and emits their declarations.
// `--js` leaves the declarations out: they are for those who compile against the package.
import { chmod, cp, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { CACHE, ROOT, at, buildStamp, filesBelow, install, run, sourceDigest } from "./project.mjs";

/** Left to be found in node_modules: what is native, or what looks for its own files beside itself. */
const EXTERNAL = ["better-sqlite3/package.json", "bindings"];

/** CommonJS packages call require for Node's own modules. */
const REQUIRE =
  'import { createRequire as gantryCreateRequire } from "node:module"; const require = gantryCreateRequire(import.meta.url);';

/** Files that run in a thread of their own (src/hostile): entry points, because nothing imports them. */
const WORKER = /-worker\.ts$/;
const WORKER_URL = /new URL\(\s*["']\.\/([\w-]+-worker)\.[jt]s["']\s*,\s*import\.meta\.url\s*,?\s*\)/g;

/**
 * `new URL("./x-worker.js", import.meta.url)` is true beside the source, but a bundle puts the line into whichever
 * chunk it likes. From the package's own root it is true everywhere.
 */
const workerUrls = {
  name: "worker-urls",
  setup(build) {
    build.onLoad({ filter: /\.ts$/, namespace: "file" }, async ({ path: file }) => {
      if (!file.startsWith(ROOT) || file.includes("node_modules")) return undefined;
      const text = await readFile(file, "utf8");
      if (!text.includes("-worker.")) return undefined;
      const folder = path.relative(ROOT, path.dirname(file)).split(path.sep).join("/");
      const contents = text.replace(
        WORKER_URL,
        (_line, name) => `new URL("./dist/${folder}/${name}.js", import.meta.resolve("gantry/package.json"))`,
      );
      return { contents, loader: "ts" };
    });
  },
};

/**
 * Parts of packages that cost milliseconds of every start and do nothing for us. A part that is no longer where it was
 * fails the build, so that nobody believes in a saving that is gone.
 */
const lighterPackages = {
  name: "lighter-packages",
  setup(build) {
    // meow normalises the package.json that it is given, with all of SPDX; ours is a constant and normal already.
    build.onLoad({ filter: /[\\/]meow[\\/]build[\\/]dependencies\.js$/ }, async ({ path: file }) => {
      let contents = await readFile(file, "utf8");
      for (const [from, to] of [
        ["var normalizeExports = requireNormalize();", "var normalizeExports = (data) => data;"],
        [
          "var libExports = requireLib$1();",
          "var libExports = { codeFrameColumns: (...args) => requireLib$1().codeFrameColumns(...args) };",
        ],
      ]) {
        if (!contents.includes(from)) throw new Error(`meow has changed: no "${from}"; see lighterPackages`);
        contents = contents.replace(from, () => to);
      }
      return { contents, loader: "js" };
    });
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
    // Koa asks for types by ending and for charsets; two thirds of the table have neither. Text is parsed faster than code.
    build.onLoad({ filter: /[\\/]mime-db[\\/]db\.json$/ }, async ({ path: file }) => {
      const types = Object.entries(JSON.parse(await readFile(file, "utf8")));
      const used = Object.fromEntries(types.filter(([, { extensions, charset }]) => extensions || charset));
      return { contents: `module.exports = JSON.parse(${JSON.stringify(JSON.stringify(used))});`, loader: "js" };
    });
  },
};

/** What the package exports beside adapters and kits. */
const FACES = ["src/index.ts", "src/http/index.ts"];

/**
 * The faces as one entry point, which `writeFaces` parts again: code goes into chunks by the entry points that reach it,
 * so that each face more would cut what every start loads into more files.
 */
const faces = {
  name: "faces",
  setup(build) {
    build.onResolve({ filter: /^(faces:all|gantry|gantry\/http)$/ }, () => ({
      path: "all",
      namespace: "faces",
      sideEffects: false,
    }));
    build.onLoad({ filter: /.*/, namespace: "faces" }, () => ({
      contents: FACES.map((file) => `export * from "./${file}";`).join("\n"),
      resolveDir: ROOT,
    }));
  },
};

async function writeFaces(outdir) {
  const { transform } = await import("esbuild");
  const tsconfigRaw = { compilerOptions: { verbatimModuleSyntax: true } };
  for (const file of FACES) {
    const { code } = await transform(await readFile(at(file), "utf8"), { loader: "ts", tsconfigRaw });
    const all = path.posix.relative(path.posix.dirname(file), "src/faces.js");
    const out = path.join(outdir, file.replace(/ts$/, "js"));
    await mkdir(path.dirname(out), { recursive: true });
    const named = code.replaceAll(/export \* as (\w+)/g, "export { $1 }");
    await writeFile(out, named.replaceAll(/(?<= from ")[^"]+/g, `./${all}`));
  }
}

function entryPoints() {
  const adapters = readdirSync(at("adapters"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => `adapters/${entry.name}/index.ts`);
  const workers = filesBelow("src").filter((file) => WORKER.test(file));
  const files = ["src/cli.ts", "src/testing/index.ts", ...adapters, ...workers];
  return [{ in: "faces:all", out: "src/faces" }, ...files.map((file) => ({ in: file, out: file.slice(0, -3) }))];
}

async function bundle(outdir) {
  const { build } = await import("esbuild");
  const { metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: entryPoints(),
    outbase: ".",
    outdir,
    bundle: true,
    splitting: true,
    chunkNames: "chunks/[name]-[hash]",
    format: "esm",
    platform: "node",
    target: "node20.19",
    conditions: ["@gantry/source", "module", "import"],
    mainFields: ["module", "main"],
    external: EXTERNAL,
    keepNames: true,
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: "none",
    sourcemap: "linked",
    // Lines of stack traces are enough; the sources themselves would double the package.
    sourcesContent: false,
    plugins: [faces, workerUrls, lighterPackages],
    banner: { js: REQUIRE },
    logLevel: "warning",
    metafile: true,
  });
  await Promise.all([...Object.keys(metafile.outputs).map((file) => withoutIdleRequire(at(file))), writeFaces(outdir)]);
  return metafile;
}

/** Only the file with esbuild's own helper calls it; in the others it would cost each start a fraction of a millisecond. */
async function withoutIdleRequire(file) {
  if (!file.endsWith(".js")) return;
  const text = await readFile(file, "utf8");
  // An empty line in its place, so that source maps stay true.
  if (!text.includes("typeof require")) await writeFile(file, text.replace(REQUIRE, ""));
}

/** The licence texts of every package whose code is in the bundle. */
async function licences(metafile) {
  const packages = new Map();
  for (const output of Object.values(metafile.outputs)) {
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
async function declarations(outdir) {
  const code = await run(process.execPath, [at("node_modules/typescript/bin/tsc"), "-p", ".ci/tsconfig.build.json"]);
  if (code !== 0) throw new Error("the declarations were not built: the type errors are above");
  for (const source of [...filesBelow("src"), ...filesBelow("adapters")].filter((file) => file.endsWith(".ts"))) {
    const file = source.replace(/\.ts$/, ".d.ts");
    const emitted = path.join(CACHE, "types", file);
    if (!existsSync(emitted)) {
      // The folder was emptied but not the record of what is in it: begin anew.
      await rm(path.join(CACHE, "types.tsbuildinfo"), { force: true });
      return declarations(outdir);
    }
    await mkdir(path.dirname(path.join(outdir, file)), { recursive: true });
    await cp(emitted, path.join(outdir, file));
  }
}

/** Make dist what the sources say. Nothing happens when it is that already. */
export async function build({ types = true } = {}) {
  const digest = sourceDigest();
  const stamp = buildStamp();
  if (stamp?.digest === digest && (stamp.types || !types)) return { built: false };

  // Beside dist, so that the change is two renames: whoever runs the old one keeps its open files.
  const fresh = at(`.dist-${process.pid}`);
  const old = at(`.dist-${process.pid}-old`);
  try {
    await rm(fresh, { recursive: true, force: true });
    const [metafile] = await Promise.all([bundle(fresh), types ? declarations(fresh) : undefined]);
    await chmod(path.join(fresh, "src/cli.js"), 0o755);
    await writeFile(path.join(fresh, "THIRD-PARTY-LICENSES.txt"), await licences(metafile));
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
    const { built } = await build({ types: !process.argv.includes("--js") });
    process.stderr.write(built ? `built dist in ${Date.now() - started} ms\n` : "dist is up to date\n");
  } catch (error) {
    process.stderr.write(`build failed: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}
