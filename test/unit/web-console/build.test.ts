import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { before, describe, it, after } from "node:test";
import { buildConsole } from "../../../.ci/console.mjs";
import { makeTempDir, type TempDir } from "../../helpers/temp.js";

/** Maximum size, in bytes, of everything that a browser loads before the first paint. */
const FIRST_PAINT = 100_000;

describe("the console, as the build makes it", () => {
  let folder: TempDir;
  let page: string;

  before(async () => {
    folder = await makeTempDir();
    await buildConsole(folder.path);
    page = await folder.read("index.html");
  });
  after(() => folder.remove());

  const packed = async (name: string) => (await readFile(folder.at(`${name}.gz`))).length;

  it("is shown after less than 100 kB, packed", async () => {
    const named = [...page.matchAll(/(?:src|href)="\/console\/(assets\/[^"]+)"/g)].map(([, name = ""]) => name);
    const first = new Set(named);
    for (const name of first) {
      const text = name.endsWith(".js") ? await folder.read(name) : "";
      for (const [, importedFile = ""] of text.matchAll(/(?:\bfrom|\bimport)"\.\/([^"]+)"/g))
        assert.ok(first.has(`assets/${importedFile}`), `${importedFile} is asked for together with what imports it`);
    }
    assert.ok(
      [...first].some((name) => /^assets\/main-[A-Z0-9]{8}\.js$/.test(name)),
      page,
    );
    let bytes = await packed("index.html");
    for (const name of first) bytes += await packed(name);
    assert.ok(
      bytes < FIRST_PAINT,
      `${bytes} bytes, less than ${FIRST_PAINT}: load by import() what is not seen at once`,
    );
    const all = (await readdir(folder.at("assets"))).filter((name) => name.endsWith(".js"));
    assert.ok(all.length > named.filter((name) => name.endsWith(".js")).length, "what is seldom seen is loaded later");
  });

  it("has a name that changes with it for each file but the page, and each in a packed form", async () => {
    const files = await readdir(folder.at("assets"));
    for (const name of files) {
      assert.match(name, /^[\w.]+-[A-Z0-9]{8}\.\w+(\.gz)?$/);
      if (!name.endsWith(".gz")) assert.ok(files.includes(`${name}.gz`) || !/\.(js|css|svg)$/.test(name), name);
    }
    assert.deepEqual((await readdir(folder.path)).sort(), ["assets", "index.html", "index.html.gz"]);
  });

  it("holds nothing that its policy would stop, or of another host", async () => {
    assert.doesNotMatch(page, /<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc="\/console\/assets\/)/i);
    const places = [...page.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, place = ""]) => place);
    assert.deepEqual(
      places.filter((place) => !/^(\/console\/assets\/|data:)/.test(place)),
      [],
    );
    for (const name of await readdir(folder.at("assets"))) {
      if (!/\.(js|css)$/.test(name)) continue;
      const text = await folder.read(path.join("assets", name));
      assert.doesNotMatch(text, /\bnew Function\(|\beval\(|sourceMappingURL|@import|\burl\(\s*["']?https?:/, name);
    }
  });
});
