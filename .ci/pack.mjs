// Packs the parts of the first build stage into three outputs: the files of dist/chunks, the command, and the modules
// that other packages import. CONTRIBUTING.md ("The build") explains the stages and the fields of a chunk.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import path from "node:path";
import { settleAll } from "./project.mjs";

/** A chunk exports `isRecord` of part 12 as `isRecord$m12`. */
const PART_MARK = "$m";
// The lookbehind keeps the search linear: without it, each character of a long string is tried as the start of a name.
const MARKED_NAMES = /(?<![\w$])[\w$]+\$m\d+/g;
const IMPORT_CALL = /\bimport\("((?:\.|node:)[^"]+)"\)/g;
/** Prefix that names a chunk in code that is not bundled yet: `chunk:run`. */
const CHUNK_PREFIX = "chunk:";
/** The command is outside dist/chunks. Old versions of Node must parse it, to print the required version. */
const COMMAND = { outExtension: {}, target: "node8", banner: {} };

/** Shortens local names, a fifth of a chunk's bytes. Without a format, esbuild keeps top-level names such as error classes. */
const SHORT_NAMES = { minifyIdentifiers: true, minifyWhitespace: true, sourcemap: "linked", sourcesContent: false };

/** The helper with which esbuild replaces `require` in an ES module. Other bundlers do not recognize the helper. */
const REQUIRE_HELPER = /(?:\(0, ?[\w$.]+\.__require\d*\)|\b__require\d*)\("([^"]+)"\)/g;

/** Replaces `import.meta` in CommonJS. `__filename` is undefined if another bundler makes the chunk an ES module. */
const IMPORT_META =
  'const importMeta = { get url() { return typeof __filename === "string" ' +
  '? process.getBuiltinModule("url").pathToFileURL(__filename).href : require("./here.cjs").url; } };';

/** Returns code that loads a module of Node without `require`, which is missing if another bundler makes an ES module. */
const builtinCode = (name) => `process.getBuiltinModule("${name}")`;
/** Returns code that replaces `import()`, which would start Node's loader of ES modules: 6 ms. */
const deferredCode = (value) => `Promise.resolve().then(() => ${value})`;
const requireCode = (specifier, name = "") => deferredCode(`require("${specifier}")${name}`);
/** Returns the text of a part, or of a file of `writeUnlisted`, with `require` as in the source. */
const restoreRequire = (text) => text.replaceAll(REQUIRE_HELPER, 'require("$1")');

/**
 * Writes dist/chunks, the command and the entry modules.
 * - `parts` and `metafile`: folder and metafile of the first stage, in which each module of this project is a file.
 * - `chunks`: see chunks.mjs. `command`: the source of the program.
 * - `entryModules`: file of `outdir` to the source whose exports it re-exports.
 */
export async function pack({ root, parts, metafile, outdir, chunks, entryModules, command, options }) {
  const { build } = await import("esbuild");
  const modules = await readParts(metafile, parts, root);
  const findEntryPart = (source) => {
    const part = [...modules].find(([, module]) => module.entry === source)?.[0];
    if (part === undefined) throw new Error(`${source} is not among the parts; see .ci/chunks.mjs`);
    return part;
  };
  const { homes, members } = assignParts(modules, chunks, findEntryPart);
  const mark = (name, part) => `${name}${PART_MARK}${modules.get(part).number}`;
  const getChunkName = (part) => part.replace(/^(src|adapters|chunks)\/|\.js$/g, "").replaceAll("/", "-");
  const getPart = (file) => path.relative(parts, file).split(path.sep).join("/");

  /** Resolves imports of the parts. `target` is the chunk, the command, or undefined for files without a list. */
  const createPackingPlugin = (target, toChunks, exports) => ({
    name: "packing",
    setup(build) {
      const isOwn = (part) => homes.get(part) === target || (target?.isSeparate && members.get(target).has(part));
      const load = (part, importer) => {
        const sideEffects = modules.get(part).isPackage && importer?.isPackage === true;
        return { path: path.join(parts, part), sideEffects };
      };
      build.onResolve({ filter: /.*/ }, ({ path: specifier, kind, resolveDir, importer }) => {
        if (specifier === "exports") return { path: specifier, namespace: specifier };
        if (kind === "entry-point") return load(specifier.replace(/^\.\//, ""));
        if (specifier.startsWith(CHUNK_PREFIX))
          return { path: `${toChunks}${specifier.slice(CHUNK_PREFIX.length)}.cjs`, external: true };
        const namespace = kind === "import-statement" ? "builtin" : "required";
        if (isBuiltin(specifier)) return { path: specifier, namespace, sideEffects: false };
        if (!specifier.startsWith(".") || specifier.endsWith(".cjs"))
          return { path: specifier, external: true, sideEffects: false };
        const part = getPart(path.resolve(resolveDir, specifier));
        if (!homes.has(part) || isOwn(part)) return load(part, modules.get(getPart(importer)));
        const isDeferred = homes.get(part).isDeferred && !target?.needs?.includes(homes.get(part).name);
        return { path: part, namespace: isDeferred ? "deferred" : "elsewhere", sideEffects: false };
      });
      const onLoad = (namespace, contents) =>
        build.onLoad({ filter: /.*/, namespace }, ({ path }) => ({ contents: contents(path), resolveDir: parts }));
      onLoad("builtin", createBuiltinModule);
      builtins.setup(build);
      onLoad("exports", () => exports);
      onLoad("elsewhere", (part) => {
        const names = modules.get(part).exports.map((name) => `${mark(name, part)} as ${name}`);
        return `export { ${names.join(", ")} } from "${CHUNK_PREFIX}${homes.get(part).name}";`;
      });
      onLoad("deferred", (part) => {
        const names = modules.get(part).exports.map((name) => `get ${name}() { return all().${mark(name, part)}; }`);
        const loadCode = `let chunk; const all = () => (chunk ??= require("${CHUNK_PREFIX}${homes.get(part).name}"));`;
        return `${loadCode} module.exports = { __esModule: true, ${names.join(", ")} };`;
      });
      build.onLoad({ filter: /\.js$/ }, async ({ path: file }) => {
        const text = restoreRequire(await readFile(file, "utf8"));
        const contents = text.replaceAll(IMPORT_CALL, (call, specifier) => {
          if (specifier.startsWith("node:")) return deferredCode(builtinCode(specifier));
          const part = getPart(path.resolve(path.dirname(file), specifier));
          if (homes.has(part)) return requireCode(`${CHUNK_PREFIX}${homes.get(part).name}`, `.${mark("all", part)}`);
          return target ? requireCode(`${CHUNK_PREFIX}${getChunkName(part)}`) : call;
        });
        return { contents, loader: "js" };
      });
    },
  });

  /** Runs one esbuild call. Resolves with the texts of the files that it writes. */
  const writeFiles = async (entryPoints, target, overrides, exports) => {
    const { metafile } = await build({
      ...options,
      absWorkingDir: parts,
      entryPoints,
      outdir: path.join(outdir, "chunks"),
      outExtension: { ".js": ".cjs" },
      format: "cjs",
      banner: { js: IMPORT_META },
      define: { ...options.define, "import.meta": "importMeta" },
      // The plugin decides what esbuild bundles.
      external: [],
      plugins: [createPackingPlugin(target, target === COMMAND ? "../chunks/" : "./", exports)],
      ...overrides,
    });
    const files = Object.keys(metafile.outputs).filter((file) => /\.c?js$/.test(file));
    return Promise.all(files.map(async (file) => ({ file, text: await readFile(path.join(parts, file), "utf8") })));
  };
  const writeCommand = () => {
    const overrides = { ...COMMAND, outdir: path.join(outdir, "src") };
    return writeFiles([{ in: findEntryPart(command), out: "cli" }], COMMAND, overrides);
  };
  /** esbuild splits only ES modules. This writes ES modules first and then converts each to CommonJS. */
  const writeUnlisted = async (unlistedParts) => {
    const entryPoints = unlistedParts.map((part) => ({ in: part, out: getChunkName(part) }));
    const esm = { format: "esm", splitting: true, chunkNames: "[name]-[hash]", outdir: path.join(parts, "split") };
    const files = (await writeFiles(entryPoints, undefined, { ...esm, banner: {} })).map(({ file }) => file);
    return writeFiles(files, undefined, { bundle: false, plugins: [requirePlugin] });
  };
  const writeEntryModule = async (out, part) => {
    const home = homes.get(part);
    const chunk = path.posix.relative(path.posix.dirname(out), `chunks/${home?.name ?? getChunkName(part)}.cjs`);
    const names = modules.get(part).exports.map((name, i) => [home ? mark(name, part) : name, `name${i}`, name]);
    const text = [
      `import chunk from "${chunk}";`,
      `import here from "${path.posix.join(chunk, "../here.cjs")}";`,
      // See IMPORT_META. If another bundler turns this module into CommonJS, it has no URL, but `__filename`.
      "here.url = import.meta.url;",
      `const { ${names.map(([exported, local]) => `${exported}: ${local}`).join(", ")} } = chunk;`,
      `export { ${names.map(([, local, name]) => `${local} as ${name}`).join(", ")} };\n`,
    ].join("\n");
    await mkdir(path.dirname(path.join(outdir, out)), { recursive: true });
    await writeFile(path.join(outdir, `${out}.js`), text);
    return [{ text }];
  };
  /** Returns the text that exports the names that other chunks use. */
  const createExports = (chunk, requestedNames) => {
    const lines = [];
    const exportedNames = [];
    for (const part of members.get(chunk)) {
      // A separate chunk has copies of parts that other chunks get from the home of the part.
      if (homes.get(part) !== chunk) continue;
      const { exports, sources, uses } = modules.get(part);
      // Earlier chunks are not written yet. They may use any export of a deferred chunk.
      const isAny = chunk.isDeferred && sources.some((source) => chunk.modules.includes(source));
      // An export may come from a deferred chunk, which is loaded at the first use.
      const isLate = uses.some((used) => homes.get(used) !== chunk && homes.get(used)?.isDeferred);
      for (const name of exports) {
        const markedName = mark(name, part);
        if (!isAny && !requestedNames.has(markedName)) continue;
        lines.push(`import { ${name} as ${markedName} } from "./${part}";`);
        exportedNames.push(isLate ? `get ${markedName}() { return ${markedName}; }` : markedName);
      }
      if (!called.has(part)) continue;
      lines.push(`import * as ${mark("all", part)} from "./${part}";`);
      exportedNames.push(mark("all", part));
    }
    // Exports values instead of esbuild's getters, because no part reassigns an export.
    return `${lines.join("\n")}\nmodule.exports = { ${exportedNames.join(", ")} };`;
  };

  /** Parts that an `import()` references. */
  const called = new Set([...modules.values()].flatMap(({ calls }) => calls).filter((part) => modules.has(part)));
  const entries = Object.entries(entryModules).map(([out, source]) => [out, findEntryPart(source)]);
  const unlistedParts = new Set([...entries.map(([, part]) => part), ...called].filter((part) => !homes.has(part)));
  await mkdir(path.join(outdir, "chunks"), { recursive: true });
  await writeFile(path.join(outdir, "chunks/here.cjs"), "exports.url = undefined;\n");
  const writtenFiles = await settleAll({
    ...Object.fromEntries(entries.map(([out, part]) => [out, writeEntryModule(out, part)])),
    command: writeCommand(),
    "chunks without a list": writeUnlisted([...unlistedParts]),
  });
  // A chunk uses earlier chunks. Writing the last chunk first makes all uses of a chunk known before it is written.
  const texts = writtenFiles.flat().map(({ text }) => text);
  for (const chunk of [...chunks].reverse()) {
    const requestedNames = new Set(texts.flatMap((text) => text.match(MARKED_NAMES) ?? []));
    const contents = createExports(chunk, requestedNames);
    const [{ file, text }] = await writeFiles([{ in: "exports", out: chunk.name }], chunk, {}, contents);
    const inPlace = { absWorkingDir: parts, entryPoints: [file], outfile: file, allowOverwrite: true };
    await build({ ...SHORT_NAMES, ...inPlace, target: options.target });
    texts.push(text);
  }
}

/** esbuild plugin for ES modules that are converted to CommonJS. */
const requirePlugin = {
  name: "requiring",
  setup(build) {
    build.onLoad({ filter: /\.cjs$/ }, async ({ path: file }) => {
      const text = restoreRequire(await readFile(file, "utf8"));
      return { contents: text.replaceAll(IMPORT_CALL, (_call, specifier) => requireCode(specifier)), loader: "js" };
    });
  },
};

/** esbuild plugin for packages that are converted to CommonJS without packing. */
export const builtins = {
  name: "builtins",
  setup(build) {
    build.onResolve({ filter: /.*/ }, ({ path }) => (isBuiltin(path) ? { path, namespace: "required" } : undefined));
    const contents = (name) => `module.exports = ${builtinCode(name)};`;
    build.onLoad({ filter: /.*/, namespace: "required" }, ({ path }) => ({ contents: contents(path) }));
  },
};

/** Modules of Node whose functions are loaded at the first call. Each takes milliseconds to load, and a start calls none. */
const LATE_MODULES = new Set(["node:crypto", "node:dns/promises", "node:http"]);

/** Returns a module that reads exports of a Node module at first use: reading all of `node:crypto` loads web crypto. */
function createBuiltinModule(name) {
  const moduleExports = process.getBuiltinModule(name);
  const isLate = (key) => LATE_MODULES.has(name) && typeof moduleExports[key] === "function" && /^[a-z]/.test(key);
  const createValue = (key) =>
    isLate(key) ? `(...args) => all().${key}(...args)` : `/* @__PURE__ */ (() => all().${key})()`;
  const names = Object.keys(moduleExports).filter((key) => key !== "default" && /^[\w$]+$/.test(key));
  return [
    "let loaded;",
    `const all = () => (loaded ??= process.getBuiltinModule(${JSON.stringify(name)}));`,
    "const whole = /* @__PURE__ */ all();",
    "export default whole;",
    ...names.map((key, i) => `const name${i} = ${createValue(key)}; export { name${i} as ${key} };`),
  ].join("\n");
}

/** Reads the files of the first stage, by their paths in `parts`. */
async function readParts(metafile, parts, root) {
  const modules = new Map();
  for (const [file, { exports, entryPoint, inputs }] of Object.entries(metafile.outputs)) {
    if (!file.endsWith(".js")) continue;
    const part = path.relative(parts, path.join(root, file)).split(path.sep).join("/");
    const text = await readFile(path.join(root, file), "utf8");
    const findTargets = (pattern) => [...text.matchAll(pattern)].map(([, to]) => path.posix.join(part, "..", to));
    const sources = Object.keys(inputs);
    modules.set(part, {
      number: modules.size,
      entry: entryPoint,
      sources,
      exports,
      // Read from the text, because the metafile also lists indirect imports.
      uses: findTargets(/^import [^"]*?from "(\.[^"]+)";$/gm),
      calls: findTargets(IMPORT_CALL),
      isPackage: sources.some((name) => name.includes("node_modules")),
      // A file of helpers of esbuild. Each chunk gets the helpers that it uses.
      isHelper: sources.length === 0 && entryPoint === undefined,
    });
  }
  return modules;
}

/** Assigns parts to chunks. `homes`: chunk by part. `members`: parts by chunk. */
function assignParts(modules, chunks, findEntryPart) {
  const homes = new Map();
  const members = new Map();
  for (const chunk of chunks.filter(({ isDeferred }) => isDeferred))
    for (const [part, { sources }] of modules)
      if (sources.some((source) => chunk.modules.includes(source))) homes.set(part, chunk);
  for (const chunk of chunks) {
    const parts = new Set();
    const addPart = (part) => {
      const { isHelper, uses } = modules.get(part);
      const isElsewhere = !chunk.isSeparate && homes.has(part) && homes.get(part) !== chunk;
      if (parts.has(part) || isHelper || isElsewhere) return;
      parts.add(part);
      uses.forEach(addPart);
    };
    const listedParts = chunk.modules.map(findEntryPart);
    listedParts.forEach(addPart);
    members.set(chunk, parts);
    for (const part of chunk.isSeparate ? listedParts : parts) homes.set(part, chunk);
    if (chunk.isSeparate) continue;
    for (const part of parts) for (const used of modules.get(part).uses) checkUse(chunk, part, homes.get(used), used);
  }
  return { homes, members };

  /** Throws if `chunk` uses a part of a chunk that it does not need: loading one would load the other. */
  function checkUse(chunk, part, home, used) {
    if (home === undefined || home === chunk || home.isDeferred || chunk.needs?.includes(home.name)) return;
    const [neededSources, importer] = [used, part].map((name) => modules.get(name).sources.join(", "));
    throw new Error(
      `chunk "${chunk.name}" needs ${neededSources} of chunk "${home.name}" (for ${importer}): ` +
        "list it in a chunk that both need, or import it later; see .ci/chunks.mjs",
    );
  }
}
