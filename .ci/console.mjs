// Builds the console's pages, adapters/web-console/app, for browsers. File names contain a hash of the content. Pages
// load code on demand if only some pages need it. `node .ci/console.mjs` builds dist/console alone.
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";
import { ROOT, inRoot, replaceFolder } from "./project.mjs";

export const APP = "adapters/web-console/app";
const PAGE = "index.html";
/** The script of the shared worker. Pages get its path as a constant. */
const WORKER = "worker.ts";
/** Files that the page references. esbuild finds their imports. */
const REFERENCED_FILES = /(?<=\s(?:src|href)=")(?:\.\/)?([\w.-]+\.(?:tsx?|css|svg|png|ico|webmanifest))(?=")/g;
/** URL path of the console; the same as in adapters/web-console. */
const BASE_PATH = "/console";
const createUrl = (file) => `${BASE_PATH}/assets/${path.basename(file)}`;

const OPTIONS = {
  absWorkingDir: ROOT,
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "browser",
  // Supports browsers of the last two years.
  target: ["es2023", "chrome123", "firefox123", "safari17.5"],
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

/** Builds the console in `outdir`. Resolves with esbuild's metafile, which names the packages in it. */
export async function buildConsole(outdir) {
  const { build } = await import("esbuild");
  const page = await readFile(inRoot(APP, PAGE), "utf8");
  const entryPoints = [...page.matchAll(REFERENCED_FILES)].map(([, name]) => `${APP}/${name}`);
  const outputOptions = { ...OPTIONS, outdir: path.join(outdir, "assets") };
  const workerOptions = { ...outputOptions, splitting: false, format: "iife", entryPoints: [`${APP}/${WORKER}`] };
  const { metafile: workerMetafile } = await build(workerOptions);
  const [workerFile] = Object.keys(workerMetafile.outputs);
  const define = { ...OPTIONS.define, EVENTS_WORKER_PATH: JSON.stringify(createUrl(workerFile)) };
  const { metafile } = await build({ ...outputOptions, define, entryPoints });
  await writeFile(path.join(outdir, PAGE), createPage(page, metafile.outputs));
  const texts = [workerFile, ...Object.keys(metafile.outputs)].filter((file) => /\.(js|css|svg)$/.test(file));
  await Promise.all([...texts.map((file) => inRoot(file)), path.join(outdir, PAGE)].map(compress));
  return metafile;
}

/** Returns the page with the names of the built files. */
function createPage(page, outputs) {
  const styles = [...new Set(Object.values(outputs).flatMap(({ cssBundle }) => cssBundle ?? []))];
  const builtFiles = Object.entries(outputs).filter(([file, { entryPoint }]) => entryPoint && !styles.includes(file));
  const files = new Map(builtFiles.map(([file, { entryPoint }]) => [path.posix.relative(APP, entryPoint), file]));
  const importedFiles = new Set();
  const pageWithNames = page.replace(REFERENCED_FILES, (_all, name) => {
    addImports(outputs, files.get(name), importedFiles);
    return createUrl(files.get(name));
  });
  const links = [
    ...styles.map((file) => `<link rel="stylesheet" href="${createUrl(file)}" />`),
    // Without preload, a browser requests a file only after it has read the importing file.
    ...[...importedFiles].map((file) => `<link rel="modulepreload" href="${createUrl(file)}" />`),
  ];
  return pageWithNames.replace("</head>", `${links.join("")}</head>`).replace(/>\s+</g, "><");
}

/** Adds the static imports of `file` to the set, recursively. */
function addImports(outputs, file, files) {
  for (const { path: importedFile, kind } of outputs[file].imports)
    if (kind === "import-statement" && !files.has(importedFile)) {
      files.add(importedFile);
      addImports(outputs, importedFile, files);
    }
}

/** Compresses at build time, so that no request waits for compression. */
async function compress(file) {
  await writeFile(`${file}.gz`, await promisify(gzip)(await readFile(file), { level: constants.Z_BEST_COMPRESSION }));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const startMs = Date.now();
  await replaceFolder(inRoot("dist/console"), buildConsole);
  process.stderr.write(`built dist/console in ${Date.now() - startMs} ms\n`);
}
