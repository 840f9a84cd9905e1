// Preloaded into a process by measured-process.ts. Records the work of the process: threads, child processes, loaded
// modules, file calls and SQL statements. Answers each message with a report, as soon as the process is idle.
const childProcess = require("node:child_process");
const { subscribe } = require("node:diagnostics_channel");
const fs = require("node:fs");
const { syncBuiltinESMExports } = require("node:module");
const timers = require("node:timers");
const timersPromises = require("node:timers/promises");
const { setFlagsFromString } = require("node:v8");
const { runInNewContext } = require("node:vm");
const workerThreads = require("node:worker_threads");

// Worker threads inherit the flags of Node. A thread counts as a whole, without its calls.
if (!workerThreads.isMainThread || process.send === undefined) return;

/** The product waits for some shorter timers before it answers. */
const MIN_STOPPED_TIMER_MS = 10;
const MAX_TIMER_MS = 2 ** 31 - 1;
/** Number of consecutive turns of the event loop without work after which the process is idle. */
const IDLE_TURNS = 20;
const MAX_ARGUMENT_CHARACTERS = 40;

/** Paths of open files, by descriptor and by `FileHandle`. */
const pathsByDescriptor = new Map();
const pathsByHandle = new WeakMap();
const pendingChildren = new Set();
/** Number of requests to other servers that have not ended. */
let pendingRequestCount = 0;
let recordCount = 0;
let report = createReport();
const reportedModules = new Set();

function createReport() {
  return { threads: [], processes: [], fileCalls: [], statements: [] };
}

function record(list, text) {
  recordCount++;
  report[list].push(text);
}

/** Replaces a method. `before` gets `this` and the arguments, which it may change; `after` also gets the result. */
function wrap(target, name, before, after) {
  const original = target[name];
  if (typeof original !== "function") return;
  const wrapFunction = (wrappedFunction) =>
    function (...args) {
      before?.(this, args);
      const result = Reflect.apply(wrappedFunction, this, args);
      after?.(this, args, result);
      return result;
    };
  // `realpath` has a second implementation in its property `native`, and `promisify` reads other properties.
  const native = original.native && { native: wrapFunction(original.native) };
  target[name] = Object.assign(wrapFunction(original), original, native);
}

/**
 * Paths of calls that are not counted: files of modules and their compiled code, which are reported as modules; random bytes, which are read for
 * many ids at a time; files of other processes, because searches of /proc depend on the machine.
 */
const EXCLUDED_PATHS = /\/dist\/|\/compiled\/|\/node_modules\/|^\/dev\/urandom$|^\/proc\/\d+\//;

function recordFileCall(name, file) {
  const path = typeof file === "number" ? pathsByDescriptor.get(file) : String(file);
  // Other descriptors are the standard streams. The number of writes to them varies.
  if (path !== undefined && !EXCLUDED_PATHS.test(path)) record("fileCalls", `${name} ${path}`);
}

function wrapFileCalls() {
  const isFileCall = (name) => /^[a-z]/.test(name) && !/^(create\w*Stream|watch\w*|unwatchFile)$/.test(name);
  for (const name of Object.keys(fs).filter((key) => isFileCall(key) && !["open", "openSync"].includes(key)))
    wrap(fs, name, (_self, [file]) => recordFileCall(name, file));
  wrap(
    fs,
    "openSync",
    (_self, [path]) => recordFileCall("openSync", path),
    (_self, [path], descriptor) => pathsByDescriptor.set(descriptor, String(path)),
  );
  wrap(fs, "open", (_self, args) => {
    const [path, callback] = [String(args[0]), args.at(-1)];
    recordFileCall("open", path);
    args[args.length - 1] = (error, descriptor) => {
      if (!error) pathsByDescriptor.set(descriptor, path);
      callback(error, descriptor);
    };
  });
  for (const name of Object.keys(fs.promises).filter((key) => isFileCall(key) && key !== "open"))
    wrap(fs.promises, name, (_self, [file]) => recordFileCall(`promises.${name}`, pathsByHandle.get(file) ?? file));
  let areHandlesWrapped = false;
  wrap(
    fs.promises,
    "open",
    (_self, [path]) => recordFileCall("promises.open", path),
    (_self, [path], openedHandle) => {
      const onOpen = (handle) => {
        pathsByHandle.set(handle, String(path));
        // The class of the handle has no public name.
        if (!areHandlesWrapped) wrapHandles(Object.getPrototypeOf(handle));
        areHandlesWrapped = true;
      };
      openedHandle.then(onOpen, () => undefined);
    },
  );
}

function wrapHandles(prototype) {
  for (const name of ["read", "readv", "readFile", "write", "writev", "writeFile", "stat", "sync", "datasync", "close"])
    wrap(prototype, name, (self) => {
      const path = pathsByHandle.get(self);
      // The number of reads depends on the connections of the machine.
      if (!path?.startsWith("/proc/net/")) recordFileCall(`handle.${name}`, path);
    });
}

function wrapProcesses() {
  const recordProcess = (file, args) => {
    const shortArguments = args.map((arg) => String(arg).split("\n")[0].slice(0, MAX_ARGUMENT_CHARACTERS));
    record("processes", [file, ...shortArguments].join(" "));
  };
  const { prototype } = childProcess.ChildProcess;
  wrap(
    prototype,
    "spawn",
    (_self, [{ file, args }]) => recordProcess(file, args.slice(1)),
    (self) => {
      if (self.pid === undefined) return;
      pendingChildren.add(self);
      self.once("exit", () => pendingChildren.delete(self));
    },
  );
  // Such a child may run as long as this process.
  wrap(prototype, "unref", (self) => pendingChildren.delete(self));
  for (const name of ["spawnSync", "execFileSync", "execSync"])
    wrap(childProcess, name, (_self, [file, args]) => recordProcess(file, Array.isArray(args) ? args : []));
}

function wrapThreads() {
  const { Worker } = workerThreads;
  workerThreads.Worker = class extends Worker {
    constructor(code, options) {
      record("threads", options?.eval ? `code of ${code.length} characters` : String(code));
      super(code, options);
    }
  };
}

function wrapSqlite() {
  wrap(process, "dlopen", undefined, (_self, [{ exports }]) => {
    const { Database, Statement } = exports;
    if (typeof Statement !== "function") return;
    for (const name of ["run", "get", "all", "iterate"])
      wrap(Statement.prototype, name, ({ source }) => record("statements", source));
    wrap(Database.prototype, "exec", (_self, [sql]) => record("statements", sql));
  });
}

function trackRequests() {
  subscribe("http.client.request.start", ({ request }) => {
    pendingRequestCount++;
    request.once("close", () => pendingRequestCount--);
  });
}

/**
 * Stops `performance.now` and all timers except short ones. Polls, throttled updates and expiring caches would otherwise
 * fall into a phase at random. `Date` continues, because leases and ids need it.
 */
function stopClock() {
  const nowMs = performance.now();
  performance.now = () => nowMs;
  const extendDelay = (ms) => (ms >= MIN_STOPPED_TIMER_MS ? MAX_TIMER_MS : ms);
  for (const name of ["setTimeout", "setInterval"]) {
    wrap(timers, name, (_self, args) => (args[1] = extendDelay(args[1])));
    globalThis[name] = timers[name];
  }
  wrap(timersPromises, "setTimeout", (_self, args) => (args[0] = extendDelay(args[0])));
}

/** Calls `onIdle` after some turns of the event loop without a recorded operation and without pending work. */
function waitUntilIdle(onIdle) {
  let idleTurns = 0;
  let previousCount = -1;
  const check = () => {
    const isBusy =
      recordCount !== previousCount ||
      pendingChildren.size + pendingRequestCount > 0 ||
      process.getActiveResourcesInfo().some((name) => /^(FSReq|GetAddrInfo|Worker)/.test(name));
    idleTurns = isBusy ? 0 : idleTurns + 1;
    previousCount = recordCount;
    if (idleTurns < IDLE_TURNS) setTimeout(check, 1);
    else onIdle();
  };
  check();
}

/** Returns the work since the last report. */
function takeReport(needsHeap) {
  const modules = Object.keys(require.cache).filter((file) => file !== __filename && !reportedModules.has(file));
  for (const file of modules) reportedModules.add(file);
  const takenReport = { ...report, modules, ...(needsHeap ? { heapBytes: measureHeap() } : {}) };
  report = createReport();
  return takenReport;
}

function measureHeap() {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc");
  // The finalizers of one collection release further objects.
  for (let n = 0; n < 3; n++) collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

stopClock();
wrapFileCalls();
wrapProcesses();
wrapThreads();
wrapSqlite();
trackRequests();
syncBuiltinESMExports();
process.on("message", ({ needsHeap }) => waitUntilIdle(() => process.send(takeReport(needsHeap))));
process.on("disconnect", () => process.exit());
