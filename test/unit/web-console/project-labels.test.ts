import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { labelProjects } from "../../../adapters/web-console/app/projects/project-labels.js";

const labelsOf = (...folders: string[]) => [...labelProjects(folders).values()];

describe("labels of projects", () => {
  it("are the names of the folders, with as many parent folders as make them unique", () => {
    assert.deepEqual(labelsOf("/srv/shop", "/srv/site"), ["shop", "site"]);
    assert.deepEqual(labelsOf("/srv/a/web", "/srv/b/web", "/srv/c/b/web"), ["a/web", "srv/b/web", "c/b/web"]);
    assert.deepEqual(labelsOf("/web", "/a/web"), ["web", "a/web"]);
  });

  it("of unusual folders are never empty and hide no characters", () => {
    assert.deepEqual(labelsOf("/", "C:\\work\\shop", "/a/x\u202Ey"), ["/", "shop", "x\\u202ey"]);
  });
});
