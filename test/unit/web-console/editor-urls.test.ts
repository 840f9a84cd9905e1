import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { toEditorUrl } from "../../../adapters/web-console/app/preview/editor-urls.js";

describe("URLs of editors", () => {
  it("name the file and the line, and escape the path", () => {
    assert.equal(toEditorUrl("vscode", "/a b/c#1.ts", 12), "vscode://file/a%20b/c%231.ts:12");
    assert.equal(toEditorUrl("zed", "C:\\work\\x.ts"), "zed://file/C%3A/work/x.ts:1");
    assert.equal(toEditorUrl("idea", "/a&b.ts", 3), "idea://open?file=/a%26b.ts&line=3");
  });
});
