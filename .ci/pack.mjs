// The second half of the build: modules into files. Each file costs a start a fraction of a millisecond, each line of
// code as well: what is loaded together is one file, and what a start does not need is in none of its files.
// They are CommonJS, because all that Node has for ES modules takes 6 ms of a start; who imports us gets ES modules
// that let out what those have.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { isBuiltin } from "node:module";
import path from "node:path";

/** Mark of names that leave a file, which are those of a module in it: `isRecord$m12`. */
const MARK = "$m";
const MARKED = /[\w$]+\$m\d+/g;
const LATER = /\bimport\("(\.[^"]+)"\)/g;
const LATER_OF_NODE = /\bimport\("(node:[^"]+)"\)/g;
/** The command's own file, which others know by its place. */
const COMMAND = { name: "command" };
/** In words that every Node knows: it says to an old one what is needed. */
const COMMAND_OPTIONS = { outExtension: {}, target: "node8" };
/** A file of `chunks`, by its name. */
const FILE = ":";

/** What `import.meta` is to modules in a file of `chunks`. */
const META = "import-meta";
const importMeta = `
  const { pathToFileURL } = process.getBuiltinModule("node:url");
  const resolve = (name) => pathToFileURL(require.resolve(name)).href;
  export const importMeta = { url: pathToFileURL(__filename).href, resolve };`;

/** What `import()` of a file of ours or a module of Node's becomes: the former would start all that Node has for ES modules. */
const required = (wanted, name = "") => `Promise.resolve().then(() => require("${wanted}")${name})`;

/**
 * The modules of a first build (`parts`, each module of ours a file, with its metafile) packed into `outdir`.
 * `files`: what is loaded together, by name: each has what its modules import, but for what an earlier one has. One with
 * `apart` has copies of its own. One that is `deferred` is loaded when something of it is first used, without an `import()`
 * in the source: for modules that nobody needs while others are evaluated. `faces`: modules that others import, by the
 * file they find them in. `command`: the file that is run. All else is left to esbuild, which shares code among what is
 * imported when it is needed.
 */
export async function pack({ root, parts, metafile, outdir, files, faces, command, options }) {
  const { build } = await import("esbuild");
  const modules = await readModules(metafile, parts, root);
  const chunks = path.join(outdir, "chunks");
  const mark = (name, file) => `${name}${MARK}${modules.get(file).number}`;
  const entry = (file) => {
    const found = [...modules].find(([, module]) => module.entry === file)?.[0];
    if (found === undefined) throw new Error(`${file} is not there to be packed; see .ci/build.mjs`);
    return found;
  };
  const { homes, members } = settle(modules, files, entry);
  const nameOf = (file) =>
    file
      .replace(/^(src|adapters|chunks)\//, "")
      .replace(/\.js$/, "")
      .replaceAll("/", "-");

  /** How modules of the first build find each other in the file `own`, which lies where `chunks` is `toChunks`. */
  const packing = (own, toChunks) => ({
    name: "packing",
    setup(build) {
      const isOwn = (file) => homes.get(file) === own || (own?.apart && members.get(own).has(file));
      const placeOf = (file) => path.relative(parts, file).split(path.sep).join("/");
      const load = (file, importer) => {
        const sideEffects = modules.get(file).isForeign && importer?.isForeign === true;
        return { path: path.join(parts, file), sideEffects };
      };
      build.onResolve({ filter: /.*/ }, ({ path: wanted, kind, resolveDir, importer }) => {
        if (wanted === META) return { path: META, namespace: META, sideEffects: false };
        if (kind === "entry-point")
          return wanted === "file" ? { path: "file", namespace: "file-of" } : load(wanted.replace(/^\.\//, ""));
        if (wanted.startsWith(FILE)) return { path: `${toChunks}${wanted.slice(FILE.length)}.cjs`, external: true };
        if (isBuiltin(wanted) && kind === "import-statement")
          return { path: wanted, namespace: "builtin", sideEffects: false };
        if (!wanted.startsWith(".")) return { path: wanted, external: true, sideEffects: false };
        const file = placeOf(path.resolve(resolveDir, wanted));
        if (!homes.has(file) || isOwn(file)) return load(file, modules.get(placeOf(importer)));
        const isDeferred = homes.get(file).deferred && !own?.needs?.includes(homes.get(file).name);
        return { path: file, namespace: isDeferred ? "deferred" : "elsewhere", sideEffects: false };
      });
      build.onLoad({ filter: /.*/, namespace: "elsewhere" }, ({ path: file }) => {
        const names = modules.get(file).exports.map((name) => `${mark(name, file)} as ${name}`);
        return { contents: `export { ${names.join(", ")} } from "${FILE}${homes.get(file).name}";` };
      });
      build.onLoad({ filter: /.*/, namespace: "deferred" }, ({ path: file }) => {
        const names = modules.get(file).exports.map((name) => `get ${name}() { return all().${mark(name, file)}; }`);
        const all = `let file; const all = () => (file ??= require("${FILE}${homes.get(file).name}"));`;
        return { contents: `${all} module.exports = { __esModule: true, ${names.join(", ")} };` };
      });
      build.onLoad({ filter: /.*/, namespace: "builtin" }, ({ path: name }) => ({ contents: builtin(name) }));
      build.onLoad({ filter: /.*/, namespace: META }, () => ({ contents: importMeta }));
      build.onLoad({ filter: /.*/, namespace: "file-of" }, () => ({ contents: own.contents, resolveDir: parts }));
      build.onLoad({ filter: /\.js$/ }, async ({ path: file }) => {
        const here = new Set();
        const text = (await readFile(file, "utf8")).replaceAll(LATER_OF_NODE, (_import, name) => required(name));
        // What is in a file that is loaded needs no file of its own to be imported from.
        const contents = text.replaceAll(LATER, (whole, wanted) => {
          const target = placeOf(path.resolve(path.dirname(file), wanted));
          const home = homes.get(target);
          if (home === undefined) return own ? required(`${FILE}${nameOf(target)}`) : whole;
          const name = mark("all", target);
          if (home !== own) return required(`${FILE}${home.name}`, `.${name}`);
          here.add(`import * as ${name} from "${wanted}";`);
          return `Promise.resolve(${name})`;
        });
        return { contents: [contents, ...here].join("\n"), loader: "js" };
      });
    },
  });
  const meta = { inject: [META], define: { "import.meta": "importMeta" } };
  const written = async (given) => {
    const { metafile } = await build({ ...options, absWorkingDir: parts, outExtension: { ".js": ".cjs" }, ...given });
    const files = Object.keys(metafile.outputs).filter((file) => /\.c?js$/.test(file));
    return files.map((file) => path.join(parts, file));
  };
  const textsOf = (files) => Promise.all(files.map((file) => readFile(file, "utf8")));
  const write = async (entryPoints, folder, own) => {
    const plugins = [packing(own, folder === "chunks" ? "./" : "../chunks/")];
    const place = { outdir: path.join(outdir, folder), ...(own === COMMAND ? COMMAND_OPTIONS : {}) };
    return textsOf(await written({ ...meta, format: "cjs", ...place, entryPoints, plugins }));
  };
  /** esbuild cuts out what files share of ES modules alone: these are made first. */
  const writeShared = async (entryPoints) => {
    const outdir = path.join(parts, "shared");
    const plugins = [packing(undefined, "./")];
    const files = await written({ ...meta, format: "esm", splitting: true, outdir, entryPoints, plugins });
    // What they name and do not use is gone from these.
    return textsOf(
      await written({ format: "cjs", bundle: false, outdir: chunks, entryPoints: files, plugins: [requiring] }),
    );
  };

  const doors = Object.entries(faces).map(([out, file]) => [out, entry(file)]);
  const later = new Set([...modules.values()].flatMap((module) => module.later));
  const rest = new Set([...doors.map(([, file]) => file), ...later].filter((file) => !homes.has(file)));
  const asked = await Promise.all([
    ...doors.map(([out, file]) => writeFace(path.join(outdir, out), file, out)),
    write([{ in: entry(command), out: path.basename(command, ".ts") }], path.dirname(command), COMMAND),
    writeShared([...rest].map((file) => ({ in: file, out: nameOf(file) }))),
  ]);
  // Only now it is known what each must let out; later files take from earlier ones.
  for (const file of [...files].reverse()) {
    const names = new Set(asked.flat().flatMap((text) => text.match(MARKED) ?? []));
    const given = [...members.get(file)].flatMap((module) => givenBy(module, names, file));
    const lines = given.map(({ line }) => line);
    const all = given.map(({ name, isLate }) => (isLate ? `get ${name}() { return ${name}; }` : name));
    // As they are when all is evaluated, in place of a getter each: nothing of these is ever assigned anew.
    file.contents = `${lines.join("\n")}\nmodule.exports = { ${all.join(", ")} };`;
    asked.push(await write([{ in: "file", out: file.name }], "chunks", file));
  }

  function givenBy(file, names, own) {
    const { exports, sources, uses } = modules.get(file);
    // Of a deferred file it is not known yet what is asked for.
    const isAsked = own.deferred && sources.some((one) => own.modules.includes(one));
    const given = exports.filter((name) => isAsked || names.has(mark(name, file)));
    // What it lets out can be another's, which shall not be loaded for that.
    const isLate = uses.some((one) => homes.get(one) !== own && homes.get(one)?.deferred);
    const all = mark("all", file);
    return [
      ...given
        .map((name) => ({ name: mark(name, file), found: name }))
        .map(({ name, found }) => ({ name, isLate, line: `import { ${found} as ${name} } from "./${file}";` })),
      ...(later.has(file) ? [{ name: all, line: `import * as ${all} from "./${file}";` }] : []),
    ];
  }

  async function writeFace(base, file, out) {
    const home = homes.get(file);
    const up = path.posix.relative(path.posix.dirname(out), `chunks/${home?.name ?? nameOf(file)}.cjs`);
    const { exports } = modules.get(file);
    const names = exports.map((name, i) => ({ found: home ? mark(name, file) : name, own: `name${i}`, name }));
    const text = [
      `import file from "${up}";`,
      `const { ${names.map(({ found, own }) => `${found}: ${own}`).join(", ")} } = file;`,
      `export { ${names.map(({ own, name }) => `${own} as ${name}`).join(", ")} };\n`,
    ].join("\n");
    await mkdir(path.dirname(base), { recursive: true });
    await writeFile(`${base}.js`, text);
    return [text];
  }
}

/** Files that were made as ES modules, on their way to CommonJS. */
const requiring = {
  name: "requiring",
  setup(build) {
    build.onLoad({ filter: /\.cjs$/ }, async ({ path: file }) => {
      const text = await readFile(file, "utf8");
      return { contents: text.replaceAll(LATER, (_import, wanted) => required(wanted)), loader: "js" };
    });
  },
};

/** Modules of Node's that take milliseconds, and of which no start needs a function. */
const LATE = new Set(["node:crypto", "node:dns/promises", "node:http"]);

/**
 * A module of Node's as it is to `require`. To `import` it is another one, for which everything that the module has is
 * read first: `node:crypto` loads web crypto for that, `node:util` a parser of arguments.
 */
function builtin(name) {
  const all = process.getBuiltinModule(name);
  const isLate = (key) => LATE.has(name) && typeof all[key] === "function" && /^[a-z]/.test(key);
  const valueOf = (key) =>
    isLate(key) ? `(...given) => all().${key}(...given)` : `/* @__PURE__ */ (() => all().${key})()`;
  const names = Object.keys(all).filter((key) => key !== "default" && /^[\w$]+$/.test(key));
  return [
    "let found;",
    `const all = () => (found ??= process.getBuiltinModule(${JSON.stringify(name)}));`,
    "const whole = /* @__PURE__ */ all();",
    "export default whole;",
    ...names.map((key, i) => `const name${i} = ${valueOf(key)}; export { name${i} as ${key} };`),
  ].join("\n");
}

/** The first build's files by their place in `parts`. */
async function readModules(metafile, parts, root) {
  const modules = new Map();
  const outputs = Object.entries(metafile.outputs).filter(([file]) => file.endsWith(".js"));
  for (const [file, { exports, entryPoint, inputs }] of outputs) {
    const place = path.relative(parts, path.join(root, file)).split(path.sep).join("/");
    const text = await readFile(path.join(root, file), "utf8");
    const found = (pattern) =>
      [...text.matchAll(pattern)].map(([, to]) => path.posix.join(path.posix.dirname(place), to));
    const names = Object.keys(inputs);
    modules.set(place, {
      number: modules.size,
      entry: entryPoint,
      sources: names,
      exports,
      // By name: esbuild lists all that is below as well.
      uses: found(/^import [^"]*?from "(\.[^"]+)";$/gm),
      later: found(LATER),
      isForeign: names.some((name) => name.includes("node_modules")),
      // esbuild's own helpers: each file has those it uses.
      isHelper: names.length === 0 && entryPoint === undefined,
    });
  }
  return modules;
}

/** Which file each module is in, and which modules each file has. */
function settle(modules, files, entry) {
  const homes = new Map();
  const members = new Map();
  for (const file of files.filter(({ deferred }) => deferred))
    for (const [name, { sources }] of modules)
      if (sources.some((one) => file.modules.includes(one))) homes.set(name, file);
  for (const file of files) {
    const own = new Set();
    const visit = (name) => {
      const module = modules.get(name);
      const isTaken = !file.apart && homes.has(name) && homes.get(name) !== file;
      if (own.has(name) || module.isHelper || isTaken) return;
      own.add(name);
      module.uses.forEach(visit);
    };
    for (const wanted of file.modules) {
      visit(entry(wanted));
      homes.set(entry(wanted), file);
    }
    members.set(file, own);
    for (const name of file.apart ? [] : own) for (const used of modules.get(name).uses) checkNeed(file, name, used);
    if (!file.apart) for (const name of own) homes.set(name, file);
  }
  return { homes, members };

  /** Without it a module that two files share would be in one of them, and load that with the other. */
  function checkNeed(file, name, used) {
    const home = homes.get(used);
    if (home === undefined || home === file || home.deferred || file.needs.includes(home.name)) return;
    const { sources } = modules.get(used);
    throw new Error(
      `${file.name}.js needs ${sources.join(", ")} of ${home.name}.js (for ${modules.get(name).sources.join(", ")}): it must be in a file that both need, or be loaded later; see .ci/build.mjs`,
    );
  }
}
