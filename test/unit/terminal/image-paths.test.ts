import assert from "node:assert/strict";
import { homedir } from "node:os";
import { describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { findImages } from "../../../adapters/terminal/image-paths.js";
import { tempDir } from "../../helpers/temp-dir.js";

describe("images that a prompt names", { skip: process.platform === "win32" }, () => {
  it("are found by absolute path, quoted, with escaped spaces, and as a URL", async (t) => {
    const folder = await tempDir(t, { "a.png": "x", "b c.JPG": "x", "it's.webp": "x", "d.gif": "x", "e.txt": "x" });
    const at = (name: string) => folder.at(name);
    const text = [
      `don't miss ${at("a.png")}, "${at("b c.JPG")}" and ${at("it's.webp").replace("'", "\\'")}`,
      `${at("b c.JPG").replace(" ", "\\ ")} '${at("a.png")}' ${pathToFileURL(at("d.gif")).href}`,
      `${at("e.txt")} ${at("missing.png")} a.png x${at("d.gif")} file:///%00.png`,
    ].join("\n");
    assert.deepEqual(await findImages(text), ["a.png", "b c.JPG", "it's.webp", "d.gif"].map(at));
    assert.deepEqual(await findImages(`~/${"no".repeat(20)}.png ${homedir()}`), []);
    assert.deepEqual(await findImages(`${"/\\".repeat(50_000)}.png ${"'a ".repeat(50_000)}`), []);
  });
});
