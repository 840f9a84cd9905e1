// The sources and tests as JavaScript, in a folder of their own: a process of Node that runs them needs no loader, whose
// thread and questions cost each of hundreds of processes half a second.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readlinkSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { transform } from "esbuild";
import { COMPILED, at, compiledFile, filesBelow } from "./project.mjs";

const FOLDERS = ["src", "adapters", "test", "examples", ".ci"];
/** What was compiled, by its digest: a file is compiled again when it is another. */
const STAMPS = path.join(COMPILED, "stamps.json");
/** Files at a time; more only wait in esbuild. */
const AT_ONCE = 64;

/** Compile what has changed, and take away what is no longer there. */
export async function compile() {
  const before = readJson(STAMPS);
  mkdirSync(COMPILED, { recursive: true });
  const stamps = {};
  const todo = [];
  const options = readJson(at("tsconfig.json")).compilerOptions;
  const all = `${readFileSync(at("tsconfig.json"))}${readFileSync(new URL(import.meta.url))}`;
  for (const file of FOLDERS.flatMap((folder) => filesBelow(folder))) {
    if (file.endsWith(".d.mts")) continue;
    const text = readFileSync(at(file), "utf8");
    const isSource = /\.tsx?$/.test(file);
    const stamp = createHash("sha256").update(`${all}\0${text}`).digest("hex");
    stamps[file] = stamp;
    if (before[file] === stamp) continue;
    mkdirSync(path.dirname(path.join(COMPILED, file)), { recursive: true });
    if (isSource) todo.push({ file, text });
    // The scripts work on the project's own folder, wherever they are called from; others find `gantry` beside themselves.
    else if (file.startsWith(".ci/")) link(file);
    else put(path.join(COMPILED, file), text);
  }
  for (const gone of Object.keys(before).filter((file) => !(file in stamps))) {
    rmSync(compiledFile(gone), { force: true });
    rmSync(`${compiledFile(gone)}.map`, { force: true });
  }
  // What they import by the package's own name is beside them too.
  const manifest = readFileSync(at("package.json"), "utf8");
  writeFileSync(
    path.join(COMPILED, "package.json"),
    manifest.replaceAll(/("@gantry\/source": "[^"]*)\.ts"/g, '$1.js"'),
  );
  for (const name of ["dist", "docs"]) link(name);
  // Until all are there none is believed to be.
  if (todo.length > 0) put(STAMPS, "{}");
  const workers = Array.from({ length: AT_ONCE }, async () => {
    for (let next = todo.pop(); next; next = todo.pop()) await compileFile(next, options);
  });
  await Promise.all(workers);
  put(STAMPS, JSON.stringify(stamps));
}

async function compileFile({ file, text }, compilerOptions) {
  const target = compiledFile(file);
  const isPage = file.startsWith("adapters/web-console/app/");
  const { code, map } = await transform(text, {
    loader: file.endsWith("x") ? "tsx" : "ts",
    format: "esm",
    target: `node${process.versions.node}`,
    sourcefile: path.relative(path.dirname(target), at(file)).split(path.sep).join("/"),
    sourcemap: "external",
    sourcesContent: false,
    keepNames: true,
    tsconfigRaw: { compilerOptions: { ...compilerOptions, ...(isPage && { jsxImportSource: "preact" }) } },
    // Tests and scripts work on the project from where they lie. What is tested finds its own beside itself.
    define: /^(test|examples|\.ci)\//.test(file)
      ? { "import.meta.url": JSON.stringify(pathToFileURL(at(file)).href) }
      : {},
  });
  put(`${target}.map`, map);
  put(target, `${code}//# sourceMappingURL=${path.basename(target)}.map\n`);
}

/** Whole at any moment: another run may read it. */
function put(file, text) {
  const part = `${file}.${process.pid}`;
  writeFileSync(part, text);
  renameSync(part, file);
}

/** One and the same file or folder here too. */
function link(name) {
  const place = path.join(COMPILED, name);
  try {
    if (readlinkSync(place) === at(name)) return;
  } catch {
    // There is none.
  }
  rmSync(place, { force: true, recursive: true });
  symlinkSync(at(name), place, "junction");
}

function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return {};
  }
}
