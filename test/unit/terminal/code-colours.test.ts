import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CodeHighlighter, MarkdownRenderer } from "../../../adapters/terminal/markdown.js";
import { getLineText, span, type SpanStyle } from "../../../adapters/terminal/spans.js";
import { startApi } from "../../helpers/http-api.js";
import { startTerminal } from "../../helpers/terminal-screen.js";

const CODE = "// a <b> & c\nconst text = `x ${1 + 2}\nend`;";
const BLOCK = `Code:\n\`\`\`ts\n${CODE}\n\`\`\``;

/** Starts the highlighter with a block, and resolves when blocks can be coloured. */
async function loadHighlighter(): Promise<CodeHighlighter> {
  let highlighter: CodeHighlighter | undefined;
  await new Promise<void>((resolve) => {
    highlighter = new CodeHighlighter(resolve);
    assert.equal(highlighter.highlight(["a"], "js"), undefined);
  });
  assert.ok(highlighter);
  return highlighter;
}

/** Renders the text at once, and piece by piece with the same result. */
function render(text: string, highlighter: CodeHighlighter | undefined, columns = 40) {
  const rows = new MarkdownRenderer([span("  ")], highlighter).renderRows(text, columns);
  const growingRenderer = new MarkdownRenderer([span("  ")], highlighter);
  for (let end = 0; end < text.length; end += 1) growingRenderer.renderRows(text.slice(0, end), columns);
  assert.deepEqual(growingRenderer.renderRows(text, columns), rows);
  return rows;
}

function findStyles(rows: ReturnType<typeof render>, text: string): SpanStyle[] {
  return rows
    .flat()
    .filter((part) => part.text.trim() === text)
    .map(({ style }) => style);
}

describe("colours of code blocks in the terminal", () => {
  it("keep the text of the block, also on several lines and in narrow windows", async () => {
    const highlighter = await loadHighlighter();
    for (const text of [BLOCK, `${BLOCK}\n\nend`, `${BLOCK}\n${BLOCK}`])
      for (const columns of [3, 12, 40])
        assert.deepEqual(
          render(text, highlighter, columns).map(getLineText),
          render(text, undefined, columns).map(getLineText),
        );
    const rows = render(BLOCK, highlighter);
    assert.deepEqual(findStyles(rows, "// a <b> & c"), ["dim"]);
    assert.deepEqual(findStyles(rows, "const"), ["keyword"]);
    assert.deepEqual([findStyles(rows, "`x"), findStyles(rows, "end`")], [["good"], ["good"]]);
  });

  it("mark added and removed lines of a diff, and know other names of languages", async () => {
    const highlighter = await loadHighlighter();
    const rows = render("```diff\n- a\n+ b\n c\n```", highlighter);
    assert.deepEqual(
      [findStyles(rows, "- a"), findStyles(rows, "+ b"), findStyles(rows, "c")],
      [["bad"], ["good"], ["plain"]],
    );
    const dockerRows = render("```Dockerfile\nRUN echo\n```", highlighter);
    assert.deepEqual(findStyles(dockerRows, "RUN"), ["keyword"]);
    assert.deepEqual(findStyles(render('```ts title="a"\nlet b\n```', highlighter), "let"), ["keyword"]);
  });

  it("are missing for unfinished blocks, unknown languages, plain text, and long blocks", async () => {
    const highlighter = await loadHighlighter();
    const texts = [
      BLOCK.slice(0, -4),
      BLOCK.replace("ts", "other"),
      BLOCK.replace("ts", ""),
      BLOCK.replace("ts", "text"),
      `\`\`\`ts\n${"let a;\n".repeat(3_000)}\`\`\``,
      `\`\`\`ts\nlet a;\n${"let a; ".repeat(1_000)}\n\`\`\``,
    ];
    for (const text of texts) {
      const rows = new MarkdownRenderer([], highlighter).renderRows(text, 40);
      assert.deepEqual(
        rows.flat().filter(({ style }) => style === "keyword"),
        [],
        text.slice(0, 20),
      );
    }
  });

  it("appear in the terminal, but not without colours", async (t) => {
    const api = await startApi(t, { steps: [BLOCK, BLOCK] });
    for (const hasColours of [true, false]) {
      const { screen, type, serve } = startTerminal(t, api.url, {}, hasColours);
      serve();
      type("go\r");
      await screen.waitFor(/│ end`;\n {2}└[^]*\/help/);
      const getCodeRow = () => screen.styledLines.find((line) => line.includes("text =")) ?? "";
      if (hasColours) await screen.waitUntil(() => getCodeRow().includes("\u001b[35mconst\u001b[0m"));
      else assert.match(getCodeRow(), /const text = /);
    }
  });
});
