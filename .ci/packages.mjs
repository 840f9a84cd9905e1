// Special bundling for packages whose default bundling would cost a first run more than 10 ms of CPU. Their code stays
// unchanged. Times are medians of 20 paired runs: the CPU time (user and system) that the entry saves in a first run.
import { readFile } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { inRoot } from "./project.mjs";

/** Modules that packages rarely call. The first call loads them from dist/chunks. Only their functions are exported. */
const DEFERRED = [
  "mime-types/index", // 49 ms; koa and others
  "formidable/src/index", // 12 ms; koa-body
  "qs/lib/index", // 55 kB; koa-body, for forms
  "string-width/index", // 20 ms; the terminal's first frame
];
/** Like DEFERRED, for CommonJS modules whose export is a function or a class. */
const DEFERRED_FUNCTIONS = ["cookies/index", "http-assert/index"]; // 12 ms together; koa
/** Import statements to insert before a module's own imports. */
const PRELUDES = {
  // Without this line esbuild evaluates `reflect-metadata`, which is CommonJS in another file, too late for tsyringe.
  "tsyringe/dist/esm5/index.js": 'import "reflect-metadata/lite";',
  // The platform's `Headers` loads all of its fetch: 37 ms of a first run with Anthropic, Google or OpenAI responses.
  "@ai-sdk/provider-utils/dist/index.mjs": `import { Headers } from ${JSON.stringify(inRoot(".ci/stand-ins/headers.mjs"))};`,
};

const createFilter = (names) => new RegExp(`[\\\\/]node_modules[\\\\/](${names.join("|").replaceAll("/", "[\\\\/]")})`);

/** Returns an esbuild plugin and `files`: the deferred modules that it found, with their names in dist/chunks. */
export function createPackagesPlugin() {
  const files = new Map();
  const setup = (build) => {
    const isDeferred = createFilter([...DEFERRED, ...DEFERRED_FUNCTIONS].map((name) => `${name}\\.js$`));
    const isFunction = createFilter(DEFERRED_FUNCTIONS.map((name) => `${name}\\.js$`));
    build.onLoad({ filter: isDeferred }, async ({ path: file }) => {
      const pathParts = path
        .relative(inRoot("node_modules"), file)
        .replace(/\.js$/, "")
        .split(/[\\/]|node_modules/);
      const name = ["deferred", ...pathParts.filter(Boolean)].join("-");
      files.set(file, name);
      const load = `loaded ??= require("./${name}.cjs")`;
      return {
        contents: isFunction.test(file) ? lazyFunction(load) : lazyFunctions(load, await import(pathToFileURL(file))),
      };
    });
    build.onResolve({ filter: /^\.\/deferred-.+\.cjs$/ }, ({ path }) => ({ path, external: true }));
    // The driver passes the path of better-sqlite3's addon, so that no `bindings` find it, and defines no virtual tables.
    build.onResolve({ filter: /^(bindings|\.\/methods\/table)$/ }, ({ path }) => ({ path, namespace: "absent" }));
    build.onLoad({ filter: /.*/, namespace: "absent" }, () => ({ contents: "" }));
    // koa-body fills in default options with zod: 34 ms.
    build.onResolve({ filter: /^zod$/ }, ({ importer }) =>
      /[\\/]koa-body[\\/]/.test(importer) ? { path: inRoot(".ci/stand-ins/zod.mjs") } : undefined,
    );
    build.onResolve({ filter: /^\.\/dependencies\.js$/ }, ({ importer }) =>
      /[\\/]meow[\\/]build[\\/]/.test(importer) ? { path: inRoot(".ci/stand-ins/meow-dependencies.mjs") } : undefined,
    );
    // The program reads only the version of its package.json. The other fields are 5 kB of each chunk with that file.
    build.onLoad({ filter: /[\\/]package\.json$/ }, async ({ path: file }) => {
      const { name, version } = JSON.parse(await readFile(file, "utf8"));
      const contents = JSON.stringify({ name, version });
      return path.resolve(file) === inRoot("package.json") ? { contents, loader: "json" } : undefined;
    });
    // koa-body reads UTF-8 only. The tables of the other encodings are 490 kB.
    const encodings = { contents: 'module.exports = require("./internal");' };
    build.onLoad({ filter: createFilter(["iconv-lite/encodings/index\\.js$"]) }, () => encodings);
    for (const [name, statement] of Object.entries(PRELUDES))
      build.onLoad({ filter: createFilter([name]) }, async ({ path: file }) => ({
        contents: `${statement}\n${await readFile(file, "utf8")}`,
      }));
  };
  return { files, plugin: { name: "packages", setup } };
}

/** Returns the text of a module that exports one function. Its first call evaluates `load`. */
const lazyFunction = (load) =>
  `let loaded; module.exports = function (...args) { ${load}; return new.target ? new loaded(...args) : loaded(...args); };`;

/** Returns the text of a module with the functions of `module`. Their first call evaluates `load`. */
function lazyFunctions(load, module) {
  // The exports of a CommonJS module are its default export.
  const all = typeof module.default === "object" ? module.default : module;
  const names = Object.keys(all).filter((name) => typeof all[name] === "function" && /^[\w$]+$/.test(name));
  const lines = names.map(
    (name, i) => `const f${i} = (...args) => (${load}).${name}(...args); export { f${i} as ${name} };`,
  );
  return ["let loaded;", ...lines].join("\n");
}
