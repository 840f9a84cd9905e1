import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { toModelContent, toResultContent } from "../../../adapters/mcp-tools/content.js";

const PNG = Buffer.from("\x89PNG\r\n\x1a\n and more", "latin1").toString("base64");
const readImage = (data: unknown, mimeType: unknown = "image/png") =>
  toModelContent([{ type: "image", mimeType, data }]);

describe("the content of an MCP tool result", () => {
  it("has an image part only for valid image data", () => {
    assert.deepEqual(readImage(PNG), { text: "", parts: [{ type: "image", mediaType: "image/png", data: PNG }] });
    for (const data of ["aGFsbG8=", "AAAA", "!!!!", `${PNG}<script>`, `${PNG.slice(0, -1)}é`, "", 5, null])
      assert.deepEqual(readImage(data), { text: "[an invalid image]", parts: [] });
    const [part] = toModelContent([
      { type: "resource", resource: { uri: "h://a", mimeType: "image/png", blob: "AAAA" } },
    ]).parts;
    assert.equal(part, undefined);
  });

  it("has the media type of the image data, not the declared one", () => {
    const jpeg = Buffer.from("\xff\xd8\xff\xe0 and more", "latin1").toString("base64");
    assert.deepEqual(readImage(jpeg).parts, [{ type: "image", mediaType: "image/jpeg", data: jpeg }]);
  });

  it("is limited to 1000 blocks, and structured content to less than 31,000 characters", () => {
    const { text } = toModelContent(Array.from({ length: 1_002 }, () => ({ type: "text", text: "a" })));
    assert.match(text, /^(a\n){1000}\[2 more content blocks omitted\]$/);
    let nested: unknown = Array.from({ length: 1_000_000 }, () => 1);
    for (let i = 0; i < 120; i++) nested = [nested];
    const resultText = toResultContent({ content: [], structuredContent: { nested } }).text;
    assert.match(resultText, /^\{"nested":\[{121}1,1,/);
    assert.ok(resultText.length < 31_000);
    assert.equal(toResultContent({ structuredContent: { a: 1 } }).text, '{\n  "a": 1\n}');
  });
});
