#!/usr/bin/env node
import type { Terminal } from "./dispatch.js";

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
 * Enables the compile cache of Node 22 and later, in gantry's home folder. The next start reads compiled code instead
 * of compiling.
 *
 * A folder of another user is not used, because gantry would run code that the other user wrote.
 */
function setUpCompileCache(): void {
  const { getBuiltinModule, env, geteuid } = process;
  const { enableCompileCache } = getBuiltinModule("node:module") as {
    enableCompileCache?: (folder: string) => unknown;
  };
  if (!enableCompileCache) return;
  try {
    // Same rule as `getHomeFolder` in src/serve/config.ts. An import would load that module before the cache is
    // enabled.
    const home = env["GANTRY_HOME"] || `${getBuiltinModule("node:os").homedir()}/.gantry`;
    const ownerUid = getBuiltinModule("node:fs").statSync(home).uid;
    if (ownerUid === (geteuid?.() ?? ownerUid)) enableCompileCache(`${home}/compiled`);
  } catch {
    // The home folder does not exist before the first start.
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
