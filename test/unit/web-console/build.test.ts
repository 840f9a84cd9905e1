import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { before, describe, it, after } from "node:test";
import { buildConsole } from "../../../.ci/console.mjs";
import { makeTempDir, type TempDir } from "../../helpers/temp-dir.js";

/** Maximum compressed size of all files that a browser loads before the first paint. */
const MAX_FIRST_PAINT_BYTES = 100_000;

describe("the built web console", () => {
  let folder: TempDir;
  let page: string;

  before(async () => {
    folder = await makeTempDir();
    await buildConsole(folder.path);
    page = await folder.read("index.html");
  });
  after(() => folder.remove());

  const readCompressedSize = async (name: string) => (await readFile(folder.at(`${name}.gz`))).length;

  it("loads less than 100 kB compressed before the first paint", async () => {
    const linkedAssets = [...page.matchAll(/(?:src|href)="\/console\/(assets\/[^"]+)"/g)].map(([, name = ""]) => name);
    const firstPaintFiles = new Set(linkedAssets);
    for (const name of firstPaintFiles) {
      const text = name.endsWith(".js") ? await folder.read(name) : "";
      for (const [, importedFile = ""] of text.matchAll(/(?:\bfrom|\bimport)"\.\/([^"]+)"/g))
        assert.ok(
          firstPaintFiles.has(`assets/${importedFile}`),
          `${importedFile} is loaded together with its importer`,
        );
    }
    assert.ok(
      [...firstPaintFiles].some((name) => /^assets\/main-[A-Z0-9]{8}\.js$/.test(name)),
      page,
    );
    let totalBytes = await readCompressedSize("index.html");
    for (const name of firstPaintFiles) totalBytes += await readCompressedSize(name);
    assert.ok(
      totalBytes < MAX_FIRST_PAINT_BYTES,
      `${totalBytes} bytes, less than ${MAX_FIRST_PAINT_BYTES}: load later content by import()`,
    );
    const scripts = (await readdir(folder.at("assets"))).filter((name) => name.endsWith(".js"));
    assert.ok(
      scripts.length > linkedAssets.filter((name) => name.endsWith(".js")).length,
      "some scripts are loaded on demand",
    );
  });

  it("has a content hash in each asset name, and a .gz file for each script, style and icon", async () => {
    const files = await readdir(folder.at("assets"));
    for (const name of files) {
      assert.match(name, /^[\w.]+(-[a-z]+)*-[A-Z0-9]{8}\.\w+(\.gz)?$/);
      if (!name.endsWith(".gz")) assert.ok(files.includes(`${name}.gz`) || !/\.(js|css|svg)$/.test(name), name);
    }
    assert.deepEqual((await readdir(folder.path)).sort(), ["assets", "index.html", "index.html.gz"]);
  });

  it("has no inline scripts or styles, no eval, and no URL of another host", async () => {
    assert.doesNotMatch(page, /<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc="\/console\/assets\/)/i);
    const urls = [...page.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, url = ""]) => url);
    assert.deepEqual(
      urls.filter((url) => !/^(\/console\/assets\/|data:)/.test(url)),
      [],
    );
    for (const name of await readdir(folder.at("assets"))) {
      if (!/\.(js|css)$/.test(name)) continue;
      const text = await folder.read(path.join("assets", name));
      assert.doesNotMatch(text, /\bnew Function\(|\beval\(|sourceMappingURL|@import|\burl\(\s*["']?https?:/, name);
    }
  });
});
