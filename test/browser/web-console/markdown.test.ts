import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Lexer, Marked } from "marked";
import {
  parseBlocks,
  parseGrownText,
  renderHtml,
  parseSingleBlock,
} from "../../../adapters/web-console/app/content/blocks.js";
import { BoundedLexer } from "../../../adapters/web-console/app/content/bounded-lexer.js";
import { splitSections } from "../../../adapters/web-console/app/content/sections.js";
import { NO_BROWSER, openWindow, sessionUrl, shareBrowser, startConsole } from "../../helpers/console.js";
import { EXPENSIVE_MARKDOWN } from "../../helpers/expensive-markdown.js";
import { SOURCE_FLAGS, sourcePath } from "../../helpers/source-paths.js";
import { seedSessions } from "../../helpers/seeded-sessions.js";
import { makeTempDir } from "../../helpers/temp-dir.js";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const READER_PATH = sourcePath("test/helpers/markdown-parse-process.ts");

function renderText(text: string): string {
  return parseSingleBlock(text)
    .map((block) => (block.type === "plain" ? block.raw : renderHtml(block)))
    .join("");
}

describe("the Markdown renderer", () => {
  it("renders each expensive text with 1 GiB of memory, to fewer than 1,500,000 characters", async () => {
    // Without limits, these texts take many minutes and all memory, and block the thread.
    const args = ["--max-old-space-size=1024", ...SOURCE_FLAGS, READER_PATH];
    const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 600_000, cwd: ROOT });
    const lengths = JSON.parse(stdout) as Record<string, number>;
    assert.deepEqual(Object.keys(lengths), Object.keys(EXPENSIVE_MARKDOWN));
    for (const [name, length] of Object.entries(lengths))
      assert.ok(length > 0 && length < 1_500_000, `${name}: ${length}`);
  });

  it("tokenizes the documentation of this project as marked does", async () => {
    const documents = (await readdir(`${ROOT}docs`)).filter((name) => name.endsWith(".md"));
    const texts = documents.map((name) => readFile(`${ROOT}docs/${name}`, "utf8"));
    const documentation = (await Promise.all(texts)).join("\n\n");
    assert.ok(documentation.length > 200_000, "the documents have many sections");
    const { defaults } = new Marked();
    assert.deepEqual([...new BoundedLexer(defaults).lex(documentation)], [...new Lexer(defaults).lex(documentation)]);
  });

  it("tokenizes a block that is longer than a section as marked does", () => {
    const paragraph = "This is a sentence of some words that goes on for a while.\n\n";
    const rows = Array.from({ length: 600 }, (_, i) => `| row ${i} | with some words of its own ${i} |\n`).join("");
    const repeatItem = (count: number, item: string) => Array.from({ length: count }, () => item).join("");
    const { defaults } = new Marked();
    for (const text of [
      `- step:\n\n- \`\`\`js\n  code\n  \`\`\`\n\n${paragraph.repeat(300)}`,
      `${paragraph}| a | b |\n| --- | --- |\n${rows}\n${paragraph.repeat(100)}`,
      repeatItem(260, "1. Item with words\n\n    more of it\n\n    ```js\n    code();\n\n    more();\n    ```\n\n"),
      repeatItem(330, "- file in the folder\n    - nested one\n        - nested two\n"),
      repeatItem(900, "> Quoted words of somebody.\n> > And of another.\n"),
      `<details>\n${"<p>words of it</p>\n".repeat(900)}</details>\n\n${paragraph}`,
    ]) {
      assert.ok(text.length > 16_000);
      assert.deepEqual([...new BoundedLexer(defaults).lex(text)], [...new Lexer(defaults).lex(text)]);
    }
  });

  it("keeps the code and links of a long paragraph, and its emphasis except at cuts", () => {
    const sentence = "Some **bold words** and `code` and a link: https://a.example/x_y_z . ";
    for (const count of [30, 100, 1_000]) {
      const renderedHtml = renderText(sentence.repeat(count));
      const countParts = (part: string) => renderedHtml.split(part).length - 1;
      // A long paragraph is parsed in pieces of at least about 1,000 characters. At a cut between two pieces, emphasis stays
      // as plain text. 800 allows for pieces that end earlier, at a word.
      const cutCount = Math.floor((count * sentence.length) / 800);
      assert.ok(countParts("<strong>bold words</strong>") >= count - cutCount);
      assert.equal(countParts("<code>code</code>"), count);
      assert.equal(countParts('<a href="https://a.example/x_y_z">'), count);
    }
    assert.equal(renderText(`${"😀".repeat(3_000)}`), `<p>${"😀".repeat(3_000)}</p>\n`);
  });

  it("keeps a data URL picture of 100,000 characters", () => {
    const picture = `data:image/png;base64,${"iVBORw0K+/".repeat(10_000)}`;
    assert.ok(renderText(`See:\n\n![a plot](${picture})\n\nand so on`).includes(`<img src="${picture}" alt="a plot">`));
  });

  it("keeps a code block of 4,000 lines whole, and resolves a link by a later definition", () => {
    const code = Array.from({ length: 4_000 }, (_, i) => (i % 9 === 0 ? "" : `line ${i} *of* code`)).join("\n");
    const blocks = parseBlocks(
      `Before [it][1].\n\n\`\`\`js\n${code}\n\`\`\`\n\n${"More words.\n\n".repeat(900)}[1]: https://a.example/\n`,
    );
    assert.deepEqual(
      blocks.slice(0, 3).map(({ type }) => type),
      ["paragraph", "code", "paragraph"],
    );
    assert.ok(blocks[1]?.raw.includes("line 3999"));
    assert.ok(renderHtml(blocks[0]!).includes('<a href="https://a.example/">it</a>'));
  });

  it("splits long text into sections between blocks", () => {
    const text = `${"Some words\nof a paragraph.\n\n".repeat(300)}\`\`\`\n${"a\n\n".repeat(9_000)}\`\`\`\n${"End.\n".repeat(5_000)}`;
    const sections = splitSections(text, (piece) => new Lexer(new Marked().defaults).blockTokens(piece));
    assert.equal(sections.join(""), text);
    assert.ok(sections.length > 4, String(sections.length));
    assert.equal(sections.filter((section) => section.includes("```")).length, 1);
    for (const section of sections)
      assert.ok(section.length < 9_000 || section.startsWith("```"), section.slice(0, 80));
  });

  it("keeps tags that open and close in one paragraph, and shows all others as text", () => {
    for (const [text, expectedHtml] of [
      ["<b>a</b> <kbd>K</kbd><br>b", "<p><b>a</b> <kbd>K</kbd><br>b</p>\n"],
      ["<b>a\n\nb</b>", "<p>&lt;b&gt;a</p>\n<p>b&lt;/b&gt;</p>\n"],
      ["*a <u>b* c</u>", "<p><em>a &lt;u&gt;b</em> c&lt;/u&gt;</p>\n"],
      ["<i>a<b>b</i>c</b>", "<p><i>a&lt;b&gt;b</i>c&lt;/b&gt;</p>\n"],
      [
        "<details>\n<summary>More</summary>\n\nWords\n\n</details>",
        "<details>\n<summary>More</summary><p>Words</p>\n</details>",
      ],
      ["<details><b>\n\nWords", "<details>&lt;b&gt;<p>Words</p>\n"],
      ["a <script>x</script>", "<p>a &lt;script&gt;x&lt;/script&gt;</p>\n"],
    ] as const)
      assert.equal(renderText(text), expectedHtml);
  });

  it("renders text that grows in pieces as it renders the complete text", () => {
    const text =
      "# Title\n\nSome *words*.\n\n- one\n- two\n\n  more of two\n\n```js\ncode\n\ncode\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd.";
    let blocks = parseBlocks("");
    for (let endOffset = 0, previousText = ""; endOffset < text.length; previousText = text.slice(0, endOffset)) {
      // Pieces of seven characters, so that they end within Markdown syntax.
      endOffset = Math.min(text.length, endOffset + 7);
      blocks = [...parseGrownText(previousText, blocks, text.slice(0, endOffset))];
    }
    assert.equal(blocks.map(renderHtml).join(""), renderText(text));
  });
});

describe("a window with expensive Markdown", { skip: NO_BROWSER }, () => {
  const browser = shareBrowser({ after });

  it("renders the Markdown and can still navigate", async (t) => {
    const home = await makeTempDir();
    t.after(() => home.remove());
    const names = ["a word that may be emphasis", "a table that is wide and long", "tags that are left open"];
    const messages = names.map((name) => ({
      role: "assistant" as const,
      parts: [{ type: "text" as const, text: EXPENSIVE_MARKDOWN[name] ?? "" }],
    }));
    const ids = await seedSessions(
      home.path,
      messages.map((message) => ({ messages: [message] })),
    );
    const console = await startConsole(t, { home: home.path });
    const { page } = await openWindow(t, await browser(), console.url);
    for (const id of ids) {
      await page.goto(sessionUrl(console, id));
      await page.locator(".answer .markdown-block").first().waitFor();
      await page.evaluate('location.hash = "#/"');
      await page.getByRole("heading", { name: "What should the agent do?" }).waitFor();
    }
  });
});
