import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { execFileSync } from "node:child_process";
import { describe, it } from "node:test";
import { SOURCE_FLAGS, sourcePath } from "../../helpers/source-paths.js";

/** Allocates 400 MB, most of it short-lived, and prints the size of the young generation in MB. */
const ALLOCATION_CODE = `
  import { getHeapSpaceStatistics } from "node:v8";
  let liveArrays = [];
  for (let n = 0; n < 400_000; n++) {
    liveArrays.push(Array.from({ length: 100 }, () => n));
    if (liveArrays.length > 2_000) liveArrays = liveArrays.slice(1_000);
  }
  const { space_size } = getHeapSpaceStatistics().find(({ space_name }) => space_name === "new_space");
  process.stdout.write(String(space_size / 1024 / 1024));
`;

function measureYoungGenerationMegabytes(setupCode: string): number {
  const nodeArgs = [...SOURCE_FLAGS, "--input-type=module", "--eval", setupCode + ALLOCATION_CODE];
  return Number(execFileSync(process.execPath, nodeArgs, { encoding: "utf8" }));
}

describe("limitHeapGrowth", () => {
  it("limits the young generation to 8 MB, below its default size", () => {
    const moduleUrl = JSON.stringify(pathToFileURL(sourcePath("src/base/limit-heap-growth.ts")).href);
    const limitedMegabytes = measureYoungGenerationMegabytes(
      `const { limitHeapGrowth } = await import(${moduleUrl}); limitHeapGrowth();`,
    );
    assert.ok(limitedMegabytes <= 8, `${limitedMegabytes} MB`);
    assert.ok(measureYoungGenerationMegabytes("") > limitedMegabytes);
  });
});
