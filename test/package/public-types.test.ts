import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { CLIENT_ENTRY_POINT, ENTRY_POINTS } from "../helpers/public-exports.js";
import {
  createEntryProgram,
  findFieldsWithoutUndefined,
  findUnexportedTypes,
  readEntryExports,
} from "../helpers/public-types.js";
import { ROOT } from "../helpers/source-paths.js";

describe("the types of the public API", () => {
  const entryPoints = [...Object.values(ENTRY_POINTS), ...Object.values(CLIENT_ENTRY_POINT)];
  const adapterFiles = readdirSync(path.join(ROOT, "adapters")).flatMap((adapter) =>
    readdirSync(path.join(ROOT, "adapters", adapter))
      .filter((name) => /^index\.tsx?$/.test(name))
      .map((name) => `adapters/${adapter}/${name}`),
  );
  const program = createEntryProgram(ROOT, [...entryPoints, ...adapterFiles]);

  it("include each type that an exported declaration refers to", () => {
    assert.deepEqual(findUnexportedTypes(readEntryExports(program, entryPoints)), []);
    assert.match(
      String(findUnexportedTypes(readEntryExports(program, ["src/http/index.ts"]))),
      /Logger .*, of (getLogFields|logRefusal)/,
    );
  });

  it("accept undefined for each optional field", () => {
    assert.deepEqual(findFieldsWithoutUndefined(readEntryExports(program, [...entryPoints, ...adapterFiles])), []);
  });
});
