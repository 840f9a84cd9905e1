import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { patchText, type PatchChunk } from "../../../../src/untrusted/edits/apply-chunks.js";
import { parsePatch } from "../../../../src/tools/files/patch-text.js";
import { fc } from "../../../helpers/properties.js";

const MAX = 10 * 1024 * 1024;

function chunksOf(body: string): readonly PatchChunk[] {
  const [section] = parsePatch(`*** Begin Patch\n*** Update File: a\n${body}\n*** End Patch`);
  assert.ok(section?.action === "update");
  return section.chunks;
}

function outcome(file: string, body: string, name = "a"): string | { refused: string } {
  const patched = patchText({
    content: new Uint8Array(Buffer.from(file)),
    chunks: chunksOf(body),
    name,
    maxBytes: MAX,
  });
  return "refused" in patched ? patched : Buffer.from(patched.content).toString();
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
/** `CLASSES` with another text in one line, counted from 1. */
const changed = (line: number, text: string): string =>
  CLASSES.split("\n")
    .with(line - 1, text)
    .join("\n");

/** A file, the chunks of a patch, and the result. */
const CASES: readonly (readonly [name: string, file: string, body: string, becomes: string | RegExp])[] = [
  ["one piece", "a\nb\nc\n", " a\n-b\n+B\n c", "a\nB\nc\n"],
  [
    "several pieces",
    "line1\nline2\nline3\nline4\n",
    "@@\n-line2\n+changed2\n@@\n-line4\n+changed4",
    "line1\nchanged2\nline3\nchanged4\n",
  ],
  ["lines that only go", "a\nb\nc\n", " a\n-b\n c", "a\nc\n"],
  ["lines that only come", "a\nc\n", " a\n+b\n c", "a\nb\nc\n"],
  ["lines that come beside none", "a\n", "@@\n+b\n+c", "a\nb\nc\n"],
  ["the same in an empty file", "", "@@\n+b", "b\n"],
  ["a file without an end of its last line", "no end", "-no end\n+first\n+second", "first\nsecond\n"],
  ["the same, where that stays", "a\nno end", "-a\n+b\n no end", "b\nno end"],
  ["the same, where a line comes behind", "a\nno end", " no end\n+more", "a\nno end\nmore\n"],
  ["the end of the file", "x\na\nx\na\n", "@@\n x\n-a\n+b\n*** End of File", "x\na\nx\nb\n"],
  ["an end of the file that is none", "a\nb\n", "-a\n+x\n*** End of File", /was not found/],
  [
    "the function that is named",
    CLASSES,
    "@@     def stop(self):\n-        one()\n+        two()",
    changed(7, "        two()"),
  ],
  [
    "a class and a function",
    CLASSES,
    "@@ class B:\n@@     def run(self):\n         one()\n-        return 1\n+        return 2",
    changed(13, "        return 2"),
  ],
  [
    "a header without its indentation",
    CLASSES,
    "@@ def stop(self):\n-        one()\n+        two()",
    changed(7, "        two()"),
  ],
  [
    "a header that is not to its end",
    CLASSES,
    "@@ def stop(\n-        one()\n+        two()",
    changed(7, "        two()"),
  ],
  [
    "a header that is the first line as well",
    CLASSES,
    "@@ class B:\n class B:\n-    def run(self):\n+    def walk(self):",
    changed(11, "    def walk(self):"),
  ],
  [
    "a header with line numbers",
    CLASSES,
    "@@ -10,3 +10,3 @@ class B:\n     def run(self):\n-        one()\n+        two()",
    changed(12, "        two()"),
  ],
  [
    "the same header for two pieces",
    CLASSES,
    "@@ def stop(self):\n-        one()\n+        two()\n@@ def stop(self):\n-        return 1\n+        return 2",
    changed(7, "        two()").replace("two()\n        return 1", "two()\n        return 2"),
  ],
  [
    "lines that are not in the class that is named, and are in another",
    "class A:\n    x = 1\n\nclass B:\n    y = 1\n",
    "@@ class A:\n-    y = 1\n+    y = 2",
    /its lines are at line 5, which is not in "class A:" \(lines 1 to 3\)/,
  ],
  [
    "the same by braces",
    "class A {\n  x = 1;\n#if X\n}\n\nclass B {\n  y = 1;\n}\n",
    "@@ class A {\n-  y = 1;\n+  y = 2;",
    /at line 7, which is not in "class A \{" \(lines 1 to 4\)/,
  ],
  [
    "a function that another class has",
    CLASSES.replace("def stop", "def halt").replaceAll("B:\n    def run", "B:\n    def stop"),
    "@@ class A:\n@@     def stop(self):\n-        one()\n+        two()",
    /no line "def stop\(self\):" in "class A:"/,
  ],
  [
    "a function that two classes have, with these lines",
    CLASSES,
    "@@ def run(self):\n-        one()\n+        two()",
    /2 times there \(from lines 3, 12\)/,
  ],
  [
    "a function that two classes have, one of them with these lines",
    CLASSES.replace("one()", "zero()"),
    "@@ def run(self):\n-        one()\n+        two()",
    changed(12, "        two()").replace("one()", "zero()"),
  ],
  [
    "arguments that have lines of their own, and a text in three quotes",
    'def a(\n    x,\n):\n    """\nfree\n"""\n    y = 1\n\ndef b():\n    pass\n',
    "@@ def a(\n-    y = 1\n+    y = 2",
    'def a(\n    x,\n):\n    """\nfree\n"""\n    y = 2\n\ndef b():\n    pass\n',
  ],
  [
    "a decorator that is named",
    "@app.get(\n    '/a',\n)\ndef a():\n    x = 1\n\ndef b():\n    y = 1\n",
    "@@ @app.get(\n-    x = 1\n+    x = 2",
    "@app.get(\n    '/a',\n)\ndef a():\n    x = 2\n\ndef b():\n    y = 1\n",
  ],
  [
    "a decorator of another function",
    "@app.get('/a')\ndef a():\n    x = 1\n\ndef b():\n    y = 1\n",
    "@@ @app.get('/a')\n-    y = 1\n+    y = 2",
    /not in "@app.get\('\/a'\)" \(lines 1 to 4\)/,
  ],
  [
    "a section that is named",
    "[a]\nx = 1\n\n[b]\ny = 1\nx = 1\n",
    "@@ [b]\n-x = 1\n+x = 2",
    "[a]\nx = 1\n\n[b]\ny = 1\nx = 2\n",
  ],
  [
    "a section of other lines",
    "[A]\nx = 1\n\n[B]\nx = 2\ny = 1\n",
    "@@ [A]\n-y = 1\n+y = 2",
    /not in "\[A\]" \(lines 1 to 3\)/,
  ],
  [
    "lines right behind the one that is named",
    "import a\nimport b\nimport c\n",
    "@@ import a\n import b\n-import c\n+import d",
    "import a\nimport b\nimport d\n",
  ],
  [
    "lines that the one that is named is in",
    "@one\ndef a():\n    x = 1\n\n@one\ndef b():\n    x = 1\n",
    "@@ def b():\n-@one\n+@two\n def b():",
    "@one\ndef a():\n    x = 1\n\n@two\ndef b():\n    x = 1\n",
  ],
  [
    "another branch of what is named",
    "if (a) {\n  x();\n} else {\n  y();\n}\nif (b) {\n  y();\n}\n",
    "@@ if (a) {\n-  y();\n+  z();",
    "if (a) {\n  x();\n} else {\n  z();\n}\nif (b) {\n  y();\n}\n",
  ],
  [
    "the end of what is named, and lines behind it",
    "class A {\n  x = 1;\n}\n\nclass B {\n}\n",
    "@@ class A {\n }\n \n-class B {\n+class C {",
    "class A {\n  x = 1;\n}\n\nclass C {\n}\n",
  ],
  [
    "a rule of a style sheet",
    ".a {\n  x: 1;\n}\n.b {\n  y: 1;\n}\n",
    "@@ .a {\n-  y: 1;\n+  y: 2;",
    /not in "\.a \{" \(lines 1 to 3\)/,
  ],
  [
    "a job of a workflow",
    "jobs:\n  a:\n    steps:\n    - run: x\n    - run: y\n  b:\n    steps:\n    - run: z\n",
    "@@   a:\n@@     steps:\n-    - run: z\n+    - run: w",
    /not in "steps:" \(lines 3 to 5\)/,
  ],
  ["a header that is nowhere", CLASSES, "@@ class C:\n-        one()\n+        two()", /no line "class C:"/],
  [
    "lines that are more than once, and nothing that says which",
    CLASSES,
    "         one()\n-        return 1\n+        return 2",
    /3 times there \(from lines 3, 7, 12\).*after @@/,
  ],
  [
    "pieces in another order",
    "a\nb\nc\nd\n",
    "@@\n-c\n+C\n@@\n-a\n+A",
    /at line 1, before a piece that stands above it/,
  ],
  ["pieces that share a line of context", "a\nb\nc\nd\n", "@@\n-a\n+A\n b\n@@\n b\n-c\n+C", "A\nb\nC\nd\n"],
  ["blank lines between pieces", "a\nb\n\nc\n", "@@\n-a\n+A\n\n@@\n-c\n+C\n", "A\nb\n\nC\n"],
  ["a context line that is empty, without its sign", "a\n\nb\n", " a\n\n-b\n+B", "a\n\nB\n"],
  ["blanks at the ends of lines", "a  \nb\t\nc\n", " a\n-b\n+B\n c", "a  \nB\t\nc\n"],
  [
    "indentation",
    "\tif a {\n\t\tb()\n\t}\n",
    "     if a {\n-        b()\n+        if c {\n+            d()\n+        }\n     }",
    "\tif a {\n\t\tif c {\n\t\t\td()\n\t\t}\n\t}\n",
  ],
  [
    "quotes and dashes of print",
    "# A – “note”\nimport a  # local\n",
    '-# A - "note"\n+# A - "word"\n import a  # local',
    "# A – “word”\nimport a  # local\n",
  ],
  ["context that is printed otherwise stays as it is", "say “a”\nb\n", ' say "a"\n-b\n+c', "say “a”\nc\n"],
  ["loose lines that are twice", "go( a )\nx\ngo( a )\ny\n", " go(  a  )\n+z", /2 times there/],
  ["the exact of two", "one \none\n", "-one\n+two", "one \ntwo\n"],
  [
    "a context that is not there",
    "a\nb\n",
    " a\n-c\n+d",
    /Line 2 is most like it and differs: "b", where the patch has "c"/,
  ],
  ["line ends of Windows", "a\r\nb\r\n", " a\n-b\n+c\n+d", "a\r\nc\r\nd\r\n"],
  ["all that there is", "a\nb\n", "-a\n-b", ""],
  ["a line to add to a function that is named", CLASSES, "@@ class B:\n+    x = 1", /none beside which they go/],
];

describe("pieces of a patch", () => {
  it("are bound to the section of a text that they name", () => {
    const file = "# All\n\n## A\n\n```sh\n# run\n```\n\none\n\n## B\n\ntwo\n";
    const at = (body: string): string | { refused: string } => outcome(file, body, "a.md");
    assert.equal(at("@@ ## A\n-one\n+1"), file.replace("one", "1"));
    assert.equal(at("@@ # All\n-two\n+2"), file.replace("two", "2"));
    assert.match((at("@@ ## A\n-two\n+2") as { refused: string }).refused, /not in "## A" \(lines 3 to 10\)/);
  });

  for (const [name, file, body, becomes] of CASES)
    it(name, () => {
      const got = outcome(file, body);
      if (typeof becomes === "string") assert.deepEqual(got, becomes);
      else assert.match(typeof got === "string" ? got : got.refused, becomes);
    });

  it("change what they name and nothing else, or nothing", () => {
    const line = fc.constantFrom("a", "b", "  a", "", "a ", "if (x)", "}", "\ta", "“q”", '"q"');
    const lines = fc.array(line, { minLength: 1, maxLength: 12 });
    const copied = fc.constantFrom<(text: string) => string>(
      (text) => text,
      (text) => text,
      (text) => text.trimEnd(),
      (text) => (text === "" ? "" : ` ${text}`),
      (text) => text.replace(/[“”]/g, '"'),
    );
    let landed = 0;
    fc.assert(
      fc.property(lines, fc.nat(), fc.nat(), fc.nat(), copied, fc.boolean(), (file, start, size, at, copy, ended) => {
        const from = start % file.length;
        const to = Math.min(file.length, from + 1 + (size % 4));
        const gone = from + (at % (to - from));
        const body = file.slice(from, to).flatMap((text, i) => {
          const copiedLine = copy(text);
          return from + i === gone ? [`-${copiedLine}`, "+NEW()"] : [` ${copiedLine}`];
        });
        const end = ended ? "\n" : "";
        const got = outcome(`${file.join("\n")}\nlast${end}`, `@@\n${body.join("\n")}`);
        if (typeof got !== "string") return;
        landed++;
        // Exactly one line has changed. Its surrounding lines must match the patch.
        const now = got.split("\n").slice(0, file.length);
        const changedLines = now.flatMap((text, i) => (text === file[i] ? [] : [i]));
        const where = changedLines[0] ?? -1;
        assert.equal(changedLines.length, 1, JSON.stringify({ file, body, now }));
        assert.equal(now[where]!.trim(), "NEW()");
        const bare = (text: string): string => text.replace(/[“”]/g, '"').trim();
        for (let i = from; i < to; i++)
          assert.equal(bare(file[where - gone + i]!), bare(file[i]!), JSON.stringify({ file, body, now }));
        // No other place matches the patch exactly.
        const isAt = (place: number): boolean =>
          file.slice(from, to).every((text, i) => copy(text) === file[place + i]);
        const exact = file.flatMap((_, place) => (isAt(place) ? [place] : []));
        if (exact.length > 0) assert.deepEqual(exact, [where - gone + from], JSON.stringify({ file, body, now }));
      }),
      { numRuns: Number(process.env["FUZZ_RUNS"] ?? 3_000) },
    );
    assert.ok(landed > 300, String(landed));
  });
});
