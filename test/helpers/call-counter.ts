import { Session, type Profiler } from "node:inspector";
import { fileURLToPath } from "node:url";
import { ROOT } from "./source-paths.js";

/** The functions of this repository that ran, and how often. Code at the top level of a module is not counted. */
export interface CallCount {
  /** Paths relative to the repository's root, sorted. */
  files: readonly string[];
  functions: number;
  calls: number;
}

/** Code at the top level of a module is reported as a function without a name that begins with the file. */
const isModule = ({ functionName, ranges }: Profiler.FunctionCoverage): boolean =>
  functionName === "" && ranges[0]?.startOffset === 0;

/** Counts the calls of functions in src and adapters, with V8's precise coverage. */
export class CallCounter {
  readonly #session = new Session();

  constructor() {
    this.#session.connect();
    this.#session.post("Profiler.enable");
    this.#session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  }

  /** Starts to count from zero. */
  reset(): void {
    this.#take();
  }

  /** Returns what ran since the last `reset` or `count`, and starts again from zero. */
  count(): CallCount {
    const files = new Map<string, { functions: number; calls: number }>();
    for (const { url, functions } of this.#take()) {
      const file = url.startsWith("file:") ? fileURLToPath(url).slice(ROOT.length) : "";
      if (!/^(src|adapters)\//.test(file)) continue;
      const counts = functions.filter((entry) => !isModule(entry)).map(({ ranges }) => ranges[0]?.count ?? 0);
      const called = counts.filter((count) => count > 0);
      if (called.length > 0)
        files.set(file, { functions: called.length, calls: called.reduce((sum, count) => sum + count, 0) });
    }
    const totals = [...files.values()];
    return {
      files: [...files.keys()].sort(),
      functions: totals.reduce((sum, { functions }) => sum + functions, 0),
      calls: totals.reduce((sum, { calls }) => sum + calls, 0),
    };
  }

  close(): void {
    this.#session.disconnect();
  }

  #take(): Profiler.ScriptCoverage[] {
    let coverage: Profiler.ScriptCoverage[] = [];
    // The callback of this method runs before `post` returns.
    this.#session.post("Profiler.takePreciseCoverage", (_error, { result }) => (coverage = result));
    return coverage;
  }
}
