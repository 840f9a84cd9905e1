import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { patchText, type PatchChunk } from "../../../../src/untrusted/edits/apply-chunks.js";
import { parsePatch } from "../../../../src/tools/files/patch-text.js";
import { fc } from "../../../helpers/fast-check.js";

const MAX_FILE_BYTES = 10 * 1024 * 1024;

function parseChunks(body: string): readonly PatchChunk[] {
  const [section] = parsePatch(`*** Begin Patch\n*** Update File: a\n${body}\n*** End Patch`);
  assert.ok(section?.action === "update");
  return section.chunks;
}

function applyPatch(file: string, body: string, name = "a"): string | { errorMessage: string } {
  const patchResult = patchText({
    content: new Uint8Array(Buffer.from(file)),
    chunks: parseChunks(body),
    name,
    maxBytes: MAX_FILE_BYTES,
  });
  return "errorMessage" in patchResult ? patchResult : Buffer.from(patchResult.content).toString();
}

const CLASSES = `class A:
    def run(self):
        one()
        return 1

    def stop(self):
        one()
        return 1

class B:
    def run(self):
        one()
        return 1
`;
/** Returns `CLASSES` with another text in one line. Lines are counted from 1. */
const replaceLine = (line: number, text: string): string =>
  CLASSES.split("\n")
    .with(line - 1, text)
    .join("\n");

/** Name, file, chunks of a patch, and the resulting text or the error. */
const CASES: readonly (readonly [name: string, file: string, body: string, expected: string | RegExp])[] = [
  ["one chunk", "a\nb\nc\n", " a\n-b\n+B\n c", "a\nB\nc\n"],
  [
    "several chunks",
    "line1\nline2\nline3\nline4\n",
    "@@\n-line2\n+changed2\n@@\n-line4\n+changed4",
    "line1\nchanged2\nline3\nchanged4\n",
  ],
  ["a chunk that only removes lines", "a\nb\nc\n", " a\n-b\n c", "a\nc\n"],
  ["a chunk that only adds lines", "a\nc\n", " a\n+b\n c", "a\nb\nc\n"],
  ["added lines without context, at the end of the file", "a\n", "@@\n+b\n+c", "a\nb\nc\n"],
  ["an added line in an empty file", "", "@@\n+b", "b\n"],
  ["a change of a last line without a line end", "no end", "-no end\n+first\n+second", "first\nsecond\n"],
  [
    "a change before a last line without a line end, which stays without one",
    "a\nno end",
    "-a\n+b\n no end",
    "b\nno end",
  ],
  ["a line added after a last line without a line end", "a\nno end", " no end\n+more", "a\nno end\nmore\n"],
  ["a chunk for the end of the file", "x\na\nx\na\n", "@@\n x\n-a\n+b\n*** End of File", "x\na\nx\nb\n"],
  ["a chunk for the end of the file that matches elsewhere", "a\nb\n", "-a\n+x\n*** End of File", /was not found/],
  [
    "a chunk in the named function",
    CLASSES,
    "@@     def stop(self):\n-        one()\n+        two()",
    replaceLine(7, "        two()"),
  ],
  [
    "a chunk in the named function of the named class",
    CLASSES,
    "@@ class B:\n@@     def run(self):\n         one()\n-        return 1\n+        return 2",
    replaceLine(13, "        return 2"),
  ],
  [
    "a header without indentation",
    CLASSES,
    "@@ def stop(self):\n-        one()\n+        two()",
    replaceLine(7, "        two()"),
  ],
  [
    "a header that is only the start of a line",
    CLASSES,
    "@@ def stop(\n-        one()\n+        two()",
    replaceLine(7, "        two()"),
  ],
  [
    "a header that is also the first context line",
    CLASSES,
    "@@ class B:\n class B:\n-    def run(self):\n+    def walk(self):",
    replaceLine(11, "    def walk(self):"),
  ],
  [
    "a header with line numbers",
    CLASSES,
    "@@ -10,3 +10,3 @@ class B:\n     def run(self):\n-        one()\n+        two()",
    replaceLine(12, "        two()"),
  ],
  [
    "a header between two markers",
    CLASSES,
    "@@ def stop(self): @@\n-        one()\n+        two()",
    replaceLine(7, "        two()"),
  ],
  ["a header of dots, which names nothing", "a\nb\n", "@@ ... @@\n-a\n+A\n@@ ...\n-b\n+B", "A\nB\n"],
  [
    "two chunks with the same header",
    CLASSES,
    "@@ def stop(self):\n-        one()\n+        two()\n@@ def stop(self):\n-        return 1\n+        return 2",
    replaceLine(7, "        two()").replace("two()\n        return 1", "two()\n        return 2"),
  ],
  [
    "lines that are in another class than the named one",
    "class A:\n    x = 1\n\nclass B:\n    y = 1\n",
    "@@ class A:\n-    y = 1\n+    y = 2",
    /its lines are at line 5, which is not in "class A:" \(lines 1 to 3\)/,
  ],
  [
    "lines that are in another class than the named one, with braces",
    "class A {\n  x = 1;\n#if X\n}\n\nclass B {\n  y = 1;\n}\n",
    "@@ class A {\n-  y = 1;\n+  y = 2;",
    /at line 7, which is not in "class A \{" \(lines 1 to 4\)/,
  ],
  [
    "a function that is in another class than the named one",
    CLASSES.replace("def stop", "def halt").replaceAll("B:\n    def run", "B:\n    def stop"),
    "@@ class A:\n@@     def stop(self):\n-        one()\n+        two()",
    /the line "def stop\(self\):" after @@ was not found in "class A:"/,
  ],
  [
    "a function name that two classes have, both with these lines",
    CLASSES,
    "@@ def run(self):\n-        one()\n+        two()",
    /occur 2 times \(from lines 3, 12\)/,
  ],
  [
    "a function name that two classes have, one of them with these lines",
    CLASSES.replace("one()", "zero()"),
    "@@ def run(self):\n-        one()\n+        two()",
    replaceLine(12, "        two()").replace("one()", "zero()"),
  ],
  [
    "a chunk in a function with multi-line arguments and a triple-quoted string",
    'def a(\n    x,\n):\n    """\nfree\n"""\n    y = 1\n\ndef b():\n    pass\n',
    "@@ def a(\n-    y = 1\n+    y = 2",
    'def a(\n    x,\n):\n    """\nfree\n"""\n    y = 2\n\ndef b():\n    pass\n',
  ],
  [
    "a chunk in the function of the named decorator",
    "@app.get(\n    '/a',\n)\ndef a():\n    x = 1\n\ndef b():\n    y = 1\n",
    "@@ @app.get(\n-    x = 1\n+    x = 2",
    "@app.get(\n    '/a',\n)\ndef a():\n    x = 2\n\ndef b():\n    y = 1\n",
  ],
  [
    "lines outside the function of the named decorator",
    "@app.get('/a')\ndef a():\n    x = 1\n\ndef b():\n    y = 1\n",
    "@@ @app.get('/a')\n-    y = 1\n+    y = 2",
    /not in "@app.get\('\/a'\)" \(lines 1 to 4\)/,
  ],
  [
    "a chunk in the named section",
    "[a]\nx = 1\n\n[b]\ny = 1\nx = 1\n",
    "@@ [b]\n-x = 1\n+x = 2",
    "[a]\nx = 1\n\n[b]\ny = 1\nx = 2\n",
  ],
  [
    "lines outside the named section",
    "[A]\nx = 1\n\n[B]\nx = 2\ny = 1\n",
    "@@ [A]\n-y = 1\n+y = 2",
    /not in "\[A\]" \(lines 1 to 3\)/,
  ],
  [
    "lines directly after the named line",
    "import a\nimport b\nimport c\n",
    "@@ import a\n import b\n-import c\n+import d",
    "import a\nimport b\nimport d\n",
  ],
  [
    "context that contains the named line",
    "@one\ndef a():\n    x = 1\n\n@one\ndef b():\n    x = 1\n",
    "@@ def b():\n-@one\n+@two\n def b():",
    "@one\ndef a():\n    x = 1\n\n@two\ndef b():\n    x = 1\n",
  ],
  [
    "lines in another branch of the named statement",
    "if (a) {\n  x();\n} else {\n  y();\n}\nif (b) {\n  y();\n}\n",
    "@@ if (a) {\n-  y();\n+  z();",
    "if (a) {\n  x();\n} else {\n  z();\n}\nif (b) {\n  y();\n}\n",
  ],
  [
    "the end of the named block and the lines after it",
    "class A {\n  x = 1;\n}\n\nclass B {\n}\n",
    "@@ class A {\n }\n \n-class B {\n+class C {",
    "class A {\n  x = 1;\n}\n\nclass C {\n}\n",
  ],
  [
    "lines outside the named rule of a style sheet",
    ".a {\n  x: 1;\n}\n.b {\n  y: 1;\n}\n",
    "@@ .a {\n-  y: 1;\n+  y: 2;",
    /not in "\.a \{" \(lines 1 to 3\)/,
  ],
  [
    "lines outside the named job of a workflow",
    "jobs:\n  a:\n    steps:\n    - run: x\n    - run: y\n  b:\n    steps:\n    - run: z\n",
    "@@   a:\n@@     steps:\n-    - run: z\n+    - run: w",
    /not in "steps:" \(lines 3 to 5\)/,
  ],
  [
    "a header that does not exist",
    CLASSES,
    "@@ class C:\n-        one()\n+        two()",
    /the line "class C:" after @@ was not found/,
  ],
  [
    "lines that occur several times, without a header",
    CLASSES,
    "         one()\n-        return 1\n+        return 2",
    /occur 3 times \(from lines 3, 7, 12\).*after @@/,
  ],
  [
    "chunks in the wrong order",
    "a\nb\nc\nd\n",
    "@@\n-c\n+C\n@@\n-a\n+A",
    /at line 1, before or within an earlier chunk/,
  ],
  ["chunks that share a context line", "a\nb\nc\nd\n", "@@\n-a\n+A\n b\n@@\n b\n-c\n+C", "A\nb\nC\nd\n"],
  ["blank lines between chunks", "a\nb\n\nc\n", "@@\n-a\n+A\n\n@@\n-c\n+C\n", "A\nb\n\nC\n"],
  ["an empty context line without its leading blank", "a\n\nb\n", " a\n\n-b\n+B", "a\n\nB\n"],
  ["lines with other trailing blanks", "a  \nb\t\nc\n", " a\n-b\n+B\n c", "a  \nB\t\nc\n"],
  [
    "lines with another indentation",
    "\tif a {\n\t\tb()\n\t}\n",
    "     if a {\n-        b()\n+        if c {\n+            d()\n+        }\n     }",
    "\tif a {\n\t\tif c {\n\t\t\td()\n\t\t}\n\t}\n",
  ],
  [
    "lines with typographic quotes and dashes",
    "# A – “note”\nimport a  # local\n",
    '-# A - "note"\n+# A - "word"\n import a  # local',
    "# A – “word”\nimport a  # local\n",
  ],
  ["context with other quotes, which stays unchanged", "say “a”\nb\n", ' say "a"\n-b\n+c', "say “a”\nc\n"],
  ["lines that match loosely in two places", "go( a )\nx\ngo( a )\ny\n", " go(  a  )\n+z", /occur 2 times/],
  ["lines that match exactly in one place and loosely in another", "one \none\n", "-one\n+two", "one \ntwo\n"],
  ["context that does not exist", "a\nb\n", " a\n-c\n+d", /Line 2 is most similar: "b", where the patch has "c"/],
  ["Windows line ends", "a\r\nb\r\n", " a\n-b\n+c\n+d", "a\r\nc\r\nd\r\n"],
  ["the removal of all lines", "a\nb\n", "-a\n-b", ""],
  ["an added line without context below a header", CLASSES, "@@ class B:\n+    x = 1", /adds lines without context/],
];

describe("patchText()", () => {
  it("limits a chunk to the Markdown section that it names", () => {
    const file = "# All\n\n## A\n\n```sh\n# run\n```\n\none\n\n## B\n\ntwo\n";
    const patchMarkdown = (body: string): string | { errorMessage: string } => applyPatch(file, body, "a.md");
    assert.equal(patchMarkdown("@@ ## A\n-one\n+1"), file.replace("one", "1"));
    assert.equal(patchMarkdown("@@ # All\n-two\n+2"), file.replace("two", "2"));
    assert.match(
      (patchMarkdown("@@ ## A\n-two\n+2") as { errorMessage: string }).errorMessage,
      /not in "## A" \(lines 3 to 10\)/,
    );
  });

  for (const [name, file, body, expected] of CASES)
    it(`${typeof expected === "string" ? "applies" : "rejects"} ${name}`, () => {
      const result = applyPatch(file, body);
      if (typeof expected === "string") assert.deepEqual(result, expected);
      else assert.match(typeof result === "string" ? result : result.errorMessage, expected);
    });

  it("changes exactly the named lines, or rejects the patch, for random files and chunks", () => {
    const line = fc.constantFrom("a", "b", "  a", "", "a ", "if (x)", "}", "\ta", "“q”", '"q"');
    const lines = fc.array(line, { minLength: 1, maxLength: 12 });
    const copyFunctions = fc.constantFrom<(text: string) => string>(
      (text) => text,
      (text) => text,
      (text) => text.trimEnd(),
      (text) => (text === "" ? "" : ` ${text}`),
      (text) => text.replace(/[“”]/g, '"'),
    );
    let appliedCount = 0;
    fc.assert(
      fc.property(
        lines,
        fc.nat(),
        fc.nat(),
        fc.nat(),
        copyFunctions,
        fc.boolean(),
        (file, startChoice, sizeChoice, lineChoice, copy, endsWithNewline) => {
          const firstLine = startChoice % file.length;
          const endLine = Math.min(file.length, firstLine + 1 + (sizeChoice % 4));
          const replacedLine = firstLine + (lineChoice % (endLine - firstLine));
          const body = file.slice(firstLine, endLine).flatMap((text, i) => {
            const copiedLine = copy(text);
            return firstLine + i === replacedLine ? [`-${copiedLine}`, "+NEW()"] : [` ${copiedLine}`];
          });
          const lineEnd = endsWithNewline ? "\n" : "";
          const result = applyPatch(`${file.join("\n")}\nlast${lineEnd}`, `@@\n${body.join("\n")}`);
          if (typeof result !== "string") return;
          appliedCount++;
          // Exactly one line has changed. Its surrounding lines must match the patch.
          const resultLines = result.split("\n").slice(0, file.length);
          const changedLines = resultLines.flatMap((text, i) => (text === file[i] ? [] : [i]));
          const changedLine = changedLines[0] ?? -1;
          assert.equal(changedLines.length, 1, JSON.stringify({ file, body, resultLines }));
          assert.equal(resultLines[changedLine]!.trim(), "NEW()");
          const normalizeLine = (text: string): string => text.replace(/[“”]/g, '"').trim();
          for (let i = firstLine; i < endLine; i++)
            assert.equal(
              normalizeLine(file[changedLine - replacedLine + i]!),
              normalizeLine(file[i]!),
              JSON.stringify({ file, body, resultLines }),
            );
          // If lines match the patch exactly, the changed lines are the only exact match.
          const matchesAt = (startLine: number): boolean =>
            file.slice(firstLine, endLine).every((text, i) => copy(text) === file[startLine + i]);
          const exactMatches = file.flatMap((_, startLine) => (matchesAt(startLine) ? [startLine] : []));
          if (exactMatches.length > 0)
            assert.deepEqual(
              exactMatches,
              [changedLine - replacedLine + firstLine],
              JSON.stringify({ file, body, resultLines }),
            );
        },
      ),
      { numRuns: Number(process.env["FUZZ_RUNS"] ?? 3_000) },
    );
    assert.ok(appliedCount > 300, String(appliedCount));
  });
});
