/**
 * The bundled files of the worker, by their import names. The build inserts them, so that a program that bundles gantry
 * needs no separate worker file.
 */
export const workerFiles: Readonly<Record<string, string>> = {};

/**
 * Loads the files of `workerData`. Packages are never resolved from the working directory, because it belongs to a
 * project.
 */
const BUNDLE_LOADER_CODE = `
const { workerData: { files } } = require("node:worker_threads");
const { compileFunction } = require("node:vm");
const modules = {};
const load = (name) => {
  if (!Object.hasOwn(files, name)) return process.getBuiltinModule(name);
  if (modules[name]) return modules[name].exports;
  const module = (modules[name] = { exports: {} });
  compileFunction(files[name], ["require", "module", "exports"], { filename: "gantry:" + name })(load, module, module.exports);
  return module.exports;
};
load("./worker.js");`;

/**
 * Returns code that loads the worker from its source with tsx, which threads do not inherit in older versions of Node.
 */
function createSourceLoaderCode(): string {
  const file = JSON.stringify(new URL("./worker.ts", import.meta.url).href);
  const tsx = JSON.stringify(import.meta.resolve("tsx/esm/api"));
  return `import(${tsx}).then(({ register }) => (register(), import(${file})))`;
}

/** The code of a worker thread, for `new Worker(code, { eval: true })`. */
export const workerCode = Object.keys(workerFiles).length > 0 ? BUNDLE_LOADER_CODE : createSourceLoaderCode();
