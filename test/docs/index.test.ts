import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, it } from "node:test";
import { ROOT } from "../helpers/source-paths.js";

const readPage = (file: string): string => readFileSync(path.join(ROOT, file), "utf8");

/** Returns the link targets of a page, except links to other hosts. */
function listLinks(file: string): string[] {
  const text = readPage(file).replace(/^(`{3,})[^]*?^\1$/gm, "");
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target = ""]) => target)
    .filter((target) => !/^\w+:/.test(target));
}

/** Returns the anchors of the headings of a page, as GitHub creates them. */
function listAnchors(file: string): Set<string> {
  const text = readPage(file).replace(/^(`{3,})[^]*?^\1$/gm, "");
  const countsBySlug = new Map<string, number>();
  const slugs = new Set<string>();
  for (const [, heading = ""] of text.matchAll(/^#+ (.+)$/gm)) {
    const headingText = heading.replace(/\[([^\]]+)\]\([^)]*\)/g, "$1");
    const slug = headingText
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .replace(/\s/g, "-");
    const count = countsBySlug.get(slug) ?? 0;
    countsBySlug.set(slug, count + 1);
    slugs.add(count === 0 ? slug : `${slug}-${count}`);
  }
  return slugs;
}

describe("docs/README.md", () => {
  it("lists every page of the folder, once", () => {
    const pages = readdirSync(path.join(ROOT, "docs")).filter((name) => name.endsWith(".md") && name !== "README.md");
    const [, ...groups] = readPage("docs/README.md").split(/^## /m);
    assert.deepEqual(
      groups.map((group) => group.slice(0, group.indexOf("\n"))),
      ["Tutorial", "Guides", "Reference", "Background"],
    );
    const linkedPages = [...groups.join("").matchAll(/^- \[[^\]]+\]\(([\w-]+\.md)\)/gm)].map(([, name]) => name);
    for (const page of pages) assert.equal(linkedPages.filter((name) => name === page).length, 1, page);
  });
});

for (const page of [
  "README.md",
  ...["tutorial", "concepts", "troubleshooting", "comparison", "ports", "watching"].map(
    (pageName) => `docs/${pageName}.md`,
  ),
])
  describe(page, () => {
    it("links only to existing files and headings", () => {
      for (const link of listLinks(page)) {
        const [file = "", anchor] = link.split("#");
        const target = file === "" ? page : path.join(path.dirname(page), decodeURI(file));
        assert.ok(existsSync(path.join(ROOT, target)), `${page} links to ${link}`);
        if (anchor !== undefined && target.endsWith(".md"))
          assert.ok(listAnchors(target).has(anchor), `${page} links to ${link}`);
      }
    });
  });

it("docs/threat-model.md names a test that exists for each attack", () => {
  const tests = [...readPage("docs/threat-model.md").matchAll(/`(test\/[^`]+)`/g)].map(([, file = ""]) => file);
  assert.ok(tests.length > 10);
  for (const file of tests) assert.ok(existsSync(path.join(ROOT, file)), file);
});
