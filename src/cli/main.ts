#!/usr/bin/env node
import type { Terminal } from "./dispatch.js";

/** Digest of all inputs of the build, which defines this name. Undefined for a process that runs from the sources. */
declare const BUILD_ID: string | undefined;

// This check must come first and use only syntax of old Node versions. The modules imported below need newer syntax.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 20 || (major === 20 && minor < 19) || major === 21 || (major === 22 && minor < 3)) {
  const minimumVersion = major > 20 ? "22.3" : "20.19";
  console.error(`gantry: needs Node ${minimumVersion} or later; this is ${process.version} (${process.execPath})`);
  process.exit(1);
}

setUpCompileCache();

// The module loads in parallel with the creation of standard output, which takes the same time.
const dispatchModule = import("./dispatch.js");

let isStdoutClosed = false;
// A reader that closes stdout is no failure. All other errors are failures, for example a full disk.
process.stdout.on("error", (error: NodeJS.ErrnoException) => (isStdoutClosed = error.code === "EPIPE"));

const terminal: Terminal = {
  input: {
    [Symbol.asyncIterator]: () => process.stdin[Symbol.asyncIterator](),
    get fileBytes() {
      return sizeOfFile(0);
    },
    get isTerminal() {
      return process.stdin.isTTY;
    },
  },
  get columns() {
    return process.stderr.isTTY ? process.stderr.columns : undefined;
  },
  get isStdoutTerminal() {
    return process.stdout.isTTY;
  },
  draw: (text) => void process.stderr.write(text),
  handleInterrupts: () => {
    const controller = new AbortController();
    void import("./suspend.js").then(({ suspendSafely }) => suspendSafely());
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
      process.on(signal, () => {
        // The exit codes that shells use for a signal.
        if (controller.signal.aborted) process.exit({ SIGINT: 130, SIGTERM: 143, SIGHUP: 129 }[signal]);
        controller.abort(signal);
      });
    return controller.signal;
  },
  write: (text) =>
    new Promise((resolve, reject) => {
      if (sizeOfFile(1) === undefined)
        return void process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
      writeToFile(text);
      resolve();
    }),
  report: (line) => console.error(line),
  redirectConsoleToStderr: () => void (console.log = console.info = console.debug = console.error),
  fail: (line, code = 1) => {
    // A reader that closes stdout is no failure, for example in `gantry sessions export | head`.
    if (isStdoutClosed) process.exit(0);
    console.error(line);
    process.exit(code);
  },
  exit: (code) => process.exit(code),
};

/**
 * Stores compiled code in gantry's home folder. The next start reads this code instead of compiling: it takes 40 percent
 * less CPU, and so does a first turn.
 *
 * A folder of another user is not used, because gantry would run code that the other user wrote.
 */
function setUpCompileCache(): void {
  const { getBuiltinModule, env, geteuid } = process;
  const { enableCompileCache } = getBuiltinModule("node:module") as {
    enableCompileCache?: (folder: string) => unknown;
  };
  try {
    // Same rule as `getHomeFolder` in src/serve/config.ts. An import would load that module before the cache is
    // enabled.
    const home = env["GANTRY_HOME"] || `${getBuiltinModule("node:os").homedir()}/.gantry`;
    const ownerUid = getBuiltinModule("node:fs").statSync(home).uid;
    if (ownerUid !== (geteuid?.() ?? ownerUid)) return;
    if (enableCompileCache) enableCompileCache(`${home}/compiled`);
    else if (typeof BUILD_ID === "string") cacheChunks(`${home}/compiled`, BUILD_ID);
  } catch {
    // The home folder does not exist before the first start.
  }
}

/**
 * Replaces the compile cache, which Node 20 does not have, for the files of dist/chunks. A process that has loaded a
 * file without stored code stores the functions that it has compiled when it exits.
 *
 * V8 compares only the length of the source, and runs damaged code. A header with the id of the build excludes code of
 * other sources, and a checksum excludes files that a disk has damaged.
 */
function cacheChunks(folder: string, buildId: string): void {
  const fs = process.getBuiltinModule("node:fs");
  const { basename, dirname, resolve, sep } = process.getBuiltinModule("node:path");
  const { Script } = process.getBuiltinModule("node:vm");
  const { _extensions: loaders } = process.getBuiltinModule("node:module") as unknown as {
    _extensions: NodeJS.RequireExtensions;
  };
  const chunksFolder = resolve(__dirname, "../chunks") + sep;
  const header = Buffer.alloc(124, `${buildId} ${process.version} ${process.arch} `);
  const { crc32 } = process.getBuiltinModule("node:zlib");
  /** Returns undefined for a file that is missing, damaged or of another build. */
  const readCode = (file: string): Buffer | undefined => {
    try {
      const content = fs.readFileSync(file);
      const code = content.subarray(header.length + 4);
      const isIntact = code.length > 0 && content.readUInt32LE(header.length) === crc32(code);
      return isIntact && content.subarray(0, header.length).equals(header) ? code : undefined;
    } catch {
      return undefined;
    }
  };
  const chunks: LoadedChunk[] = [];
  // Node calls this loader for `require` of a file with this extension.
  loaders[".cjs"] = (loadedModule, file) => {
    if (!file.startsWith(chunksFolder)) return void loaders[".js"](loadedModule, file);
    const source = fs.readFileSync(file, "utf8");
    // V8's stored code has no callback for `import()`, so such a file is compiled. Few processes load one.
    if (source.includes("import(")) return void loaders[".js"](loadedModule, file);
    const cacheFile = `${folder}/${basename(file)}.bin`;
    const cachedData = readCode(cacheFile);
    // The same names as in a module that Node compiles.
    const prefix = "(function (exports, require, module, __filename, __dirname) { ";
    const script = new Script(`${prefix}${source}\n})`, {
      filename: file,
      columnOffset: -prefix.length,
      ...(cachedData && { cachedData }),
    });
    chunks.push({ script, cacheFile, storedBytes: cachedData?.length ?? 0 });
    const run = script.runInThisContext() as (...values: unknown[]) => void;
    const exports = loadedModule.exports as unknown;
    const load = (id: string): unknown => loadedModule.require(id);
    Reflect.apply(run, exports, [exports, load, loadedModule, file, dirname(file)]);
  };
  process.on("exit", () => {
    if (chunks.some(({ storedBytes }) => storedBytes === 0)) storeChunks(chunks, folder, header);
  });
}

/** A file of dist/chunks, and where its compiled code is stored. */
interface LoadedChunk {
  readonly script: import("node:vm").Script;
  readonly cacheFile: string;
  /** Size of the stored code that was used; 0 without such code. */
  readonly storedBytes: number;
}

/** Stores the functions that the process has compiled, as an exit handler. */
function storeChunks(chunks: readonly LoadedChunk[], folder: string, header: Buffer): void {
  const fs = process.getBuiltinModule("node:fs");
  // V8 rejects code that was stored with other flags. These are the defaults of the flags in `limitHeapGrowth`.
  const { setFlagsFromString } = process.getBuiltinModule("node:v8");
  for (const flag of ["--semi-space-growth-factor=2", "--heap-growing-percent=0"]) setFlagsFromString(flag);
  try {
    // Without `recursive`: a home folder that was deleted meanwhile is not created again.
    if (!fs.existsSync(folder)) fs.mkdirSync(folder, { mode: 0o700 });
    for (const { script, cacheFile, storedBytes } of chunks) {
      const data = script.createCachedData();
      if (data.length <= storedBytes) continue;
      const checksum = Buffer.alloc(4);
      checksum.writeUInt32LE(process.getBuiltinModule("node:zlib").crc32(data));
      // Another process may read the file at the same time.
      const temporaryFile = `${cacheFile}.${process.pid}`;
      try {
        fs.writeFileSync(temporaryFile, Buffer.concat([header, checksum, data]));
        fs.renameSync(temporaryFile, cacheFile);
      } finally {
        fs.rmSync(temporaryFile, { force: true });
      }
    }
  } catch {
    // Without the files, for example on a full disk, the next start takes longer.
  }
}

/** Returns the size of an open file in bytes; undefined if `fd` is not a regular file. */
function sizeOfFile(fd: number): number | undefined {
  const { fstatSync } = process.getBuiltinModule("node:fs");
  try {
    const stats = fstatSync(fd);
    return stats.isFile() ? stats.size : undefined;
  } catch {
    return undefined;
  }
}

/** Writes the text to stdout synchronously. The stream would report success after a partial write to a full disk. */
function writeToFile(text: string): void {
  const { writeSync } = process.getBuiltinModule("node:fs");
  const bytes = Buffer.from(text);
  for (let offset = 0; offset < bytes.length;) offset += writeSync(1, bytes, offset);
}

dispatchModule
  .then(({ main }) => main(process.argv.slice(2), terminal))
  .catch((error: unknown) => {
    console.error(error);
    process.exit(1);
  });
