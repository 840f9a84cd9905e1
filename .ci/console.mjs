// Bundles adapters/web-console/app, the pages of the console, for browsers: file names with a hash of what is in them,
// and what only some pages need in files of their own. `node .ci/console.mjs` makes dist/console alone;
// `--serve` also serves it with an agent from the sources, and makes it anew with each change.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";
import { ROOT, at } from "./project.mjs";

/** Where the pages are. */
export const APP = "adapters/web-console/app";
const PAGE = "index.html";
/** Files that the page names; what they import is found by the bundler. */
const NAMED = /(?<=\s(?:src|href)=")(?:\.\/)?([\w.-]+\.(?:tsx?|css|svg|png|ico|webmanifest))(?=")/g;
/** Where the console is served; see adapters/web-console. */
const BASE = "/console";

const OPTIONS = {
  absWorkingDir: ROOT,
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "browser",
  // Two years of browsers.
  target: ["es2023", "chrome122", "firefox123", "safari17.4"],
  conditions: ["@gantry/source", "browser", "module", "import"],
  mainFields: ["browser", "module", "main"],
  tsconfig: `${APP}/tsconfig.json`,
  outbase: APP,
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  assetNames: "[name]-[hash]",
  loader: { ".svg": "copy", ".png": "copy", ".ico": "copy", ".webmanifest": "copy" },
  minify: true,
  legalComments: "none",
  define: { "process.env.NODE_ENV": '"production"' },
  logLevel: "warning",
  metafile: true,
};

/** Make the console into `outdir`; what was there goes. Resolves with the metafile, for the licences of what is in it. */
export async function buildConsole(outdir, options = {}) {
  const { build } = await import("esbuild");
  const { entries, assets } = await optionsFor(outdir);
  const { metafile } = await build({ ...OPTIONS, ...options, entryPoints: entries, outdir: assets });
  await finish(outdir, metafile);
  return metafile;
}

async function optionsFor(outdir) {
  const page = await readFile(at(APP, PAGE), "utf8");
  const entries = [...page.matchAll(NAMED)].map(([, name]) => `${APP}/${name}`);
  if (entries.length === 0) throw new Error(`${APP}/${PAGE} names no file of the console`);
  return { entries, assets: path.join(outdir, "assets") };
}

/** The page with the names that its files got, and everything that is text in a packed form as well. */
async function finish(outdir, { outputs }) {
  const made = new Map();
  const styles = new Set(Object.values(outputs).flatMap(({ cssBundle }) => cssBundle ?? []));
  for (const [file, { entryPoint, imports }] of Object.entries(outputs))
    if (entryPoint !== undefined && !styles.has(file))
      made.set(path.posix.relative(APP, entryPoint), { file, imports });
  const url = (file) => `${BASE}/assets/${path.basename(file)}`;
  const early = new Set();
  const page = (await readFile(at(APP, PAGE), "utf8")).replace(NAMED, (_all, name) => {
    const entry = made.get(name);
    if (!entry) throw new Error(`${APP}/${PAGE} names ${name}, which the bundle has not`);
    for (const file of staticImports(outputs, entry.file)) early.add(url(file));
    return url(entry.file);
  });
  // Else they are asked for one after the other, each when the one before was read.
  const links = [
    // Of what components import beside them.
    ...[...styles].map((file) => `<link rel="stylesheet" href="${url(file)}" />`),
    ...[...early].map((href) => `<link rel="modulepreload" href="${href}" />`),
  ].join("");
  const minified = page.replace("</head>", `${links}</head>`).replace(/>\s+</g, "><");
  await writeFile(path.join(outdir, PAGE), minified);
  const texts = Object.keys(outputs).filter((file) => /\.(js|css|svg)$/.test(file));
  await Promise.all([...texts.map((file) => at(file)), path.join(outdir, PAGE)].map(pack));
}

/** What a file imports without being asked, and what that imports. */
function staticImports(outputs, file, found = new Set()) {
  for (const { path: other, kind } of outputs[file].imports)
    if (kind === "import-statement" && !found.has(other)) {
      found.add(other);
      staticImports(outputs, other, found);
    }
  return found;
}

/** Once here, and not with each request. */
async function pack(file) {
  const packed = await promisify(gzip)(await readFile(file), { level: constants.Z_BEST_COMPRESSION });
  await writeFile(`${file}.gz`, packed);
}

/** dist/console alone, when the rest of dist is not asked for. */
async function refresh() {
  const fresh = at(`.dist-console-${process.pid}`);
  try {
    await rm(fresh, { recursive: true, force: true });
    await buildConsole(fresh);
    await mkdir(at("dist"), { recursive: true });
    await rm(at("dist/console"), { recursive: true, force: true });
    await rename(fresh, at("dist/console"));
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

async function main() {
  const args = process.argv.slice(2);
  const started = Date.now();
  await refresh();
  process.stderr.write(`built dist/console in ${Date.now() - started} ms\n`);
  if (!args.includes("--serve")) return;
  const { watch } = await import("node:fs");
  let again;
  const change = () => {
    clearTimeout(again);
    again = setTimeout(() => {
      refresh().then(
        () => process.stderr.write("built dist/console anew\n"),
        (error) => process.stderr.write(`${error.message}\n`),
      );
    }, 100);
  };
  for (const folder of [APP, "adapters/koa-http-api/client"])
    if (existsSync(at(folder))) watch(at(folder), { recursive: true }, change);
  const rest = args.filter((word) => word !== "--serve");
  const server = ["--import=tsx", "--conditions=@gantry/source", at(".ci/console-server.ts"), ...rest];
  const child = spawn(process.execPath, server, { stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  const [code] = await once(child, "close");
  process.exit(code ?? 0);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await main();
