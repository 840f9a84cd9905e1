import { createRequire } from "node:module";
import { isMainThread, workerData } from "node:worker_threads";
import type { WorkerData } from "./worker-data.js";

/** Returns a `require` that finds the package, also from a bundle. Throws an error that names the remedy. */
export function createPackageRequire(packageName: string): NodeJS.Require {
  const require = createRequire(isMainThread ? import.meta.url : (workerData as WorkerData).packageUrl);
  try {
    require.resolve(packageName);
  } catch (error) {
    throw new Error(`${packageName} is not installed beside this program; run npm install ${packageName} there`, {
      cause: error,
    });
  }
  return require;
}
