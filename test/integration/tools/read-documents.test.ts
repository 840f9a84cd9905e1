import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { deflateSync } from "node:zlib";
import { builtinTools, type FilePart } from "gantry";
import { readPdfText } from "../../../src/tools/files/read-pdf.js";
import { callTool, createTemporaryFolder, createToolContext } from "../../helpers/tool-context.js";

/** Returns a PDF whose pages have these content streams. */
function createPdf(contents: readonly Buffer[]): Buffer {
  const pageIds = contents.map((_, i) => 4 + 2 * i);
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    `<< /Type /Pages /Kids [${pageIds.map((id) => `${id} 0 R`).join(" ")}] /Count ${pageIds.length} >>`,
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ...contents.flatMap((content, i) => [
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 20000] /Contents ${pageIds[i]! + 1} 0 R /Resources << /Font << /F1 3 0 R >> >> >>`,
      `<< /Length ${content.length} /Filter /FlateDecode >>\nstream\n${content.toString("latin1")}\nendstream`,
    ]),
  ].map((object, i) => `${i + 1} 0 obj\n${object}\nendobj\n`);
  const header = "%PDF-1.4\n";
  let offset = header.length;
  const entries = objects.map((object) => {
    const entry = `${String(offset).padStart(10, "0")} 00000 n \n`;
    offset += object.length;
    return entry;
  });
  const trailer = `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${entries.join("")}trailer << /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${offset}\n%%EOF\n`;
  return Buffer.from(header + objects.join("") + trailer, "latin1");
}

const textPage = (...lines: readonly string[]): Buffer =>
  deflateSync(`BT /F1 12 Tf 72 19000 Td ${lines.map((line) => `(${line}) Tj 0 -20 Td`).join(" ")} ET`);

async function createWorkspace(files: Readonly<Record<string, string | Buffer>>) {
  const folder = await createTemporaryFolder();
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder.path, name), content);
  const context = createToolContext(folder.path);
  const tools = builtinTools({ webfetch: { allowPrivate: true } });
  return {
    call: (name: string, input: object) =>
      callTool(
        tools.find((tool) => tool.name === name)!,
        input,
        context,
      ),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

describe("read of a PDF", () => {
  it("returns the text by page, from the offset, and names the next page", async () => {
    const pdf = createPdf(["one", "two", "three"].map((text) => textPage(`Page ${text}`, "second line")));
    await using workspace = await createWorkspace({ "a.pdf": pdf });
    const read = async (input: object) => (await workspace.call("read", { path: "a.pdf", ...input })).text;
    const pageText = (number: number, text: string) => `[page ${number}]\nPage ${text}\nsecond line\n`;
    assert.equal(await read({}), `${pageText(1, "one")}${pageText(2, "two")}${pageText(3, "three")}[pages 1-3 of 3]`);
    assert.equal(await read({ offset: 2, limit: 1 }), `${pageText(2, "two")}[pages 2-2 of 3; continue with offset 3]`);
    assert.equal(await read({ pages: "2-3" }), `${pageText(2, "two")}${pageText(3, "three")}[pages 2-3 of 3]`);
    assert.equal(await read({ pages: "3" }), `${pageText(3, "three")}[pages 3-3 of 3]`);
    await assert.rejects(read({ offset: 4 }), /a\.pdf: has 3 pages; page 4 does not exist/);
    await assert.rejects(read({ pages: "all" }), /pages: expected a range such as "1-5", got "all"/);
  });

  it("stops before the page that exceeds 30 kB, and cuts only a page that is longer itself", async () => {
    const longPage = (length: number) => textPage(...Array.from({ length }, (_, i) => `line ${i} ${"x".repeat(90)}`));
    await using workspace = await createWorkspace({
      "a.pdf": createPdf([longPage(200), longPage(200), longPage(900)]),
    });
    const firstPage = (await workspace.call("read", { path: "a.pdf" })).text;
    assert.match(firstPage, /^\[page 1\]\nline 0 x+\n[^]*line 199 x+\n\[pages 1-1 of 3; continue with offset 2\]$/);
    const lastPage = (await workspace.call("read", { path: "a.pdf", offset: 3 })).text;
    assert.match(
      lastPage,
      /^\[page 3\]\n[^]*\n\[the rest of this page is too long and is omitted\]\n\[pages 3-3 of 3\]$/,
    );
    assert.ok(lastPage.length < 30_200, "about 30 kB");
  });

  it("attaches a file without text", async () => {
    const pdf = createPdf([deflateSync("0 0 m 100 100 l S")]);
    await using workspace = await createWorkspace({ "scan.pdf": pdf });
    const output = await workspace.call("read", { path: "scan.pdf" });
    assert.match(output.text, /^scan\.pdf: PDF, .*, 1 pages\. Pages 1-1 have no text, so the file is attached\.$/);
    const expectedPart: FilePart = {
      type: "file",
      mediaType: "application/pdf",
      filename: "scan.pdf",
      data: pdf.toString("base64"),
    };
    assert.deepEqual(output.parts, [expectedPart]);
  });

  it("rejects a damaged file, and a page that needs too much memory", async () => {
    await using workspace = await createWorkspace({ "damaged.pdf": "%PDF-1.7\nno objects" });
    await assert.rejects(
      workspace.call("read", { path: "damaged.pdf" }),
      /damaged\.pdf: is a PDF document \(.*\) and cannot be shown: Invalid PDF structure\. Use bash/,
    );
    const bomb = createPdf([deflateSync(Buffer.alloc(256 * 1024 * 1024, " "))]);
    await assert.rejects(
      readPdfText(bomb, "bomb.pdf", 1, 1, new AbortController().signal, 64 * 1024 * 1024),
      /bomb\.pdf: is a PDF document \(.*\) and cannot be shown: it needs too much memory\. Use bash/,
    );
  });

  it("works for a fetched PDF too", async (t) => {
    const pdf = createPdf([textPage("fetched")]);
    const server = createServer((_request, response) => response.end(pdf)).listen(0, "127.0.0.1");
    t.after(() => server.close());
    await new Promise((resolve) => server.once("listening", resolve));
    await using workspace = await createWorkspace({});
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/a.pdf`;
    assert.equal((await workspace.call("webfetch", { url })).text, "[page 1]\nfetched\n[pages 1-1 of 1]");
  });
});

describe("read of a notebook", () => {
  it("returns the cells with their outputs, which are bounded, without escape sequences", async () => {
    const notebook = {
      nbformat: 4,
      cells: [
        { cell_type: "markdown", source: ["# Title\n", "text"] },
        {
          cell_type: "code",
          source: "1 / 0\n",
          outputs: [
            { output_type: "stream", name: "stdout", text: ["a\n", "b\n"] },
            { output_type: "error", ename: "E", evalue: "v", traceback: ["\u001b[31mZeroDivisionError\u001b[0m: x"] },
            { output_type: "display_data", data: { "image/png": "aGVsbG8=", "text/plain": ["<Figure>"] } },
          ],
        },
        { cell_type: "code", source: [], outputs: [{ output_type: "stream", text: "y\n".repeat(100_000) }] },
      ],
    };
    await using workspace = await createWorkspace({ "a.ipynb": JSON.stringify(notebook), "bad.ipynb": "{ no JSON" });
    const { text } = await workspace.call("read", { path: "a.ipynb", limit: 12 });
    const expectedLines = [
      ...["[cell 1: markdown]", "# Title", "text", "[cell 2: code]", "1 / 0"],
      ...["[output of cell 2]", "a", "b", "[output of cell 2]", "ZeroDivisionError: x", "[output of cell 2]"],
      "[image/png, 8 bytes]",
    ];
    assert.deepEqual(
      text.split("\n").slice(0, expectedLines.length),
      expectedLines.map((line, i) => `${i + 1}\t${line}`),
    );
    assert.match(text, /\n\[a view of the 3 cells, [^\n]*\]\n\[lines 1-12 of \d+; continue with offset 13\]$/);
    assert.match((await workspace.call("read", { path: "a.ipynb", offset: 13 })).text, /bytes cut from the middle/);
    assert.equal((await workspace.call("read", { path: "bad.ipynb" })).text, "1\t{ no JSON");
    await workspace.call("edit", { path: "a.ipynb", old_string: "1 / 0", new_string: "1 / 2" });
    assert.match((await workspace.call("read", { path: "a.ipynb" })).text, /\n5\t1 \/ 2\n/);
  });
});
