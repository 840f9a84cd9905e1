#!/usr/bin/env node
import type { Terminal } from "./dispatch.js";

// First of all, and in words that every Node knows: what is imported below is parsed only by one that is new enough.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 20 || (major === 20 && minor < 19) || major === 21 || (major === 22 && minor < 3)) {
  const needed = major > 20 ? "22.3" : "20.19";
  console.error(`gantry: needs Node ${needed} or later; this is ${process.version} (${process.execPath})`);
  process.exit(1);
}

keepCompiledCode();

// It is read while standard output is made, which takes as long.
const loading = import("./dispatch.js");

let readerLeft = false;
// Any other error, of a full disk, is a failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => (readerLeft = error.code === "EPIPE"));

const terminal: Terminal = {
  input: {
    [Symbol.asyncIterator]: () => process.stdin[Symbol.asyncIterator](),
    get bytes() {
      return sizeOfFile(0);
    },
    get isTerminal() {
      return process.stdin.isTTY;
    },
  },
  get columns() {
    return process.stderr.isTTY ? process.stderr.columns : undefined;
  },
  get isShown() {
    return process.stdout.isTTY;
  },
  draw: (text) => void process.stderr.write(text),
  interrupted: () => {
    const controller = new AbortController();
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
      process.on(signal, () => {
        // As a shell says it of one that a signal ended.
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
  tell: (line) => console.error(line),
  keepStdoutClean: () => void (console.log = console.info = console.debug = console.error),
  fail: (line, code = 1) => {
    // `gantry sessions export | head`
    if (readerLeft) process.exit(0);
    console.error(line);
    process.exit(code);
  },
  exit: (code) => process.exit(code),
};

/**
 * Let Node 22 and later keep the compiled code of the files that are loaded from here on in gantry's home folder. The next
 * start reads it in place of compiling. A folder of another user is not used, because its code would run.
 */
function keepCompiledCode(): void {
  const { getBuiltinModule, env, geteuid } = process;
  const { enableCompileCache } = getBuiltinModule("node:module") as {
    enableCompileCache?: (folder: string) => unknown;
  };
  if (!enableCompileCache) return;
  try {
    // As `homeFolder` of src/serve/config.ts, whose file is one of those to be kept.
    const home = env["GANTRY_HOME"] || `${getBuiltinModule("node:os").homedir()}/.gantry`;
    const owner = getBuiltinModule("node:fs").statSync(home).uid;
    if (owner === (geteuid?.() ?? owner)) enableCompileCache(`${home}/compiled`);
  } catch {
    // There is no home folder yet: this is the first start.
  }
}

/** Of standard input or output, where it is a file. */
function sizeOfFile(fd: number): number | undefined {
  const { fstatSync } = process.getBuiltinModule("node:fs");
  try {
    const stats = fstatSync(fd);
    return stats.isFile() ? stats.size : undefined;
  } catch {
    return undefined;
  }
}

/** All of it: the stream takes a disk that has room for the first half alone for success. */
function writeToFile(text: string): void {
  const { writeSync } = process.getBuiltinModule("node:fs");
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length;) at += writeSync(1, bytes, at);
}

loading
  .then(({ main }) => main(process.argv.slice(2), terminal))
  .catch((error: unknown) => {
    console.error(error);
    process.exit(1);
  });
