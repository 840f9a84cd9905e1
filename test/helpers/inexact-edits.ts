/** An inexact edit of a model, and its required result. */
export interface InexactEdit {
  /** Kind of inexactness, or a specific case. */
  readonly name: string;
  /** Text of the file before the edit. */
  readonly file: string;
  readonly oldText: string;
  readonly replacementText: string;
  /** Whether all matches are replaced. Default: false. */
  readonly replacesAll?: boolean;
  /**
   * Text of the file after the edit. Undefined: the edit must be refused with a message that matches `expectedError`.
   */
  readonly expectedFileText?: string;
  readonly expectedError?: RegExp;
}

const TS_FILE = `export class Basket {
  private items: Item[] = [];

  add(item: Item): void {
    this.items.push(item);
  }

  total(): number {
    let sum = 0;
    for (const item of this.items) {
      sum += item.price;
    }
    return sum;
  }
}
`;
const PYTHON_FILE = `class Reader:
    def __init__(self, path):
        self.path = path

    def lines(self):
        with open(self.path) as file:
            for line in file:
                yield line.strip()

    def count(self):
        return sum(1 for _ in self.lines())
`;
const GO_FILE = `func Sum(values []int) int {
\ttotal := 0
\tfor _, value := range values {
\t\ttotal += value
\t}
\treturn total
}
`;
const MARKDOWN_FILE = `# Notes

He said “wait – it’s not done” and left.

* one
* two…
`;
const REPEATED_FILE = `def first():
    x = 1
    return x

def second():
    x = 1
    return x
`;

const replaceOnce = (file: string, searchText: string, replacement: string): string => {
  if (file.split(searchText).length !== 2) throw new Error(`not once: ${searchText}`);
  return file.split(searchText).join(replacement);
};

const blankEdits: InexactEdit[] = [
  {
    name: "trailing blanks in the file",
    file: "if a:   \n    b()\n",
    oldText: "if a:\n    b()\n",
    replacementText: "if a:\n    c()\n",
    expectedFileText: "if a:   \n    c()\n",
  },
  {
    name: "trailing blanks in the edit",
    file: TS_FILE,
    oldText: "    let sum = 0;  \n    for (const item of this.items) {",
    replacementText: "    let sum = 1;  \n    for (const item of this.items) {",
    expectedFileText: replaceOnce(TS_FILE, "let sum = 0;", "let sum = 1;"),
  },
  {
    name: "one line with a trailing blank in the edit",
    file: TS_FILE,
    oldText: "    return sum; ",
    replacementText: "    return sum / 2;",
    expectedFileText: replaceOnce(TS_FILE, "return sum;", "return sum / 2;"),
  },
  {
    name: "a line of blanks only in the file",
    file: "one();\n    \ntwo();\n",
    oldText: "one();\n\ntwo();\n",
    replacementText: "one();\n\nthree();\n",
    expectedFileText: "one();\n    \nthree();\n",
  },
  {
    name: "a line of blanks only in the edit",
    file: "one();\n\ntwo();\n",
    oldText: "one();\n    \ntwo();",
    replacementText: "one();\n    \nthree();",
    expectedFileText: "one();\n\nthree();\n",
  },
  {
    name: "CRLF line endings and trailing blanks in the file",
    file: "one(); \r\ntwo();\r\nthree();\r\n",
    oldText: "one();\ntwo();\n",
    replacementText: "one();\ntwo();\nmore();\n",
    expectedFileText: "one(); \r\ntwo();\r\nmore();\r\nthree();\r\n",
  },
  {
    name: "CRLF line endings in the edit only",
    file: "one();\ntwo();\nthree();\n",
    oldText: "one();\r\ntwo();\r\n",
    replacementText: "one();\r\nmore();\r\ntwo();\r\n",
    expectedFileText: "one();\nmore();\ntwo();\nthree();\n",
  },
  {
    name: "CRLF line endings in the edit, trailing blanks in the file",
    file: "one();  \ntwo();\nthree();\n",
    oldText: "one();\r\ntwo();\r\n",
    replacementText: "one();\r\nmore();\r\ntwo();\r\n",
    expectedFileText: "one();  \nmore();\ntwo();\nthree();\n",
  },
  {
    name: "an old text that starts with a line ending, in a CRLF file",
    file: "one();\r\ntwo();\r\nthree();\r\n",
    oldText: "\ntwo();",
    replacementText: "",
    expectedFileText: "one();\r\nthree();\r\n",
  },
  {
    name: "a line inserted after a CRLF line ending",
    file: "one();\r\ntwo();\r\n",
    oldText: "\ntwo();",
    replacementText: "\nnew();\ntwo();",
    expectedFileText: "one();\r\nnew();\r\ntwo();\r\n",
  },
  {
    name: "two matches with different line endings",
    file: "if (a)\r\n  go();\r\nother();\nif (a)\n  go();\n",
    oldText: "if (a)\n  go();",
    replacementText: "if (b)\n  go();",
    expectedError: /occurs 2 times \(lines 1, 4\)/,
  },
  {
    name: "replacement of all matches with different line endings",
    file: "if (a)\r\n  go();\r\nother();\nif (a)\n  go();\n",
    oldText: "if (a)\n  go();",
    replacementText: "if (b)\n  go();",
    replacesAll: true,
    expectedFileText: "if (b)\r\n  go();\r\nother();\nif (b)\n  go();\n",
  },
  {
    name: "mixed line endings, and an old text that starts with one",
    file: "one();\ntwo();\r\nthree();\nfour();\n",
    oldText: "\ntwo();\nthree();",
    replacementText: "\ntwo();\nthree(3);",
    expectedFileText: "one();\ntwo();\r\nthree(3);\nfour();\n",
  },
  {
    name: "mixed line endings",
    file: "one();\r\ntwo();\nthree();\r\nfour();\n",
    oldText: "one();\ntwo();\nthree();\nfour();",
    replacementText: "one();\ntwo(2);\nthree();\nfour();",
    expectedFileText: "one();\r\ntwo(2);\nthree();\r\nfour();\n",
  },
  {
    name: "two blanks between words in the file and one in the edit",
    file: "int  a   = 1;\nint  bcd = 2;\n",
    oldText: "int a = 1;\nint bcd = 2;",
    replacementText: "int a = 1;\nint bcd = 3;",
    expectedFileText: "int  a   = 1;\nint  bcd = 3;\n",
  },
  {
    name: "a tab between words in the file and a blank in the edit",
    file: "name\tvalue\nport\t80\n",
    oldText: "port 80",
    replacementText: "port 8080",
    expectedFileText: "name\tvalue\nport\t8080\n",
  },
  {
    name: "a Markdown line break, which is preserved",
    file: "A line that breaks  \nand another line\n",
    oldText: "A line that breaks\nand another line",
    replacementText: "A line which breaks\nand another line",
    expectedFileText: "A line which breaks  \nand another line\n",
  },
  {
    name: "two matches with trailing blanks",
    file: "call(one); \nfoo();\ncall(one);\t\nfoo();\n",
    oldText: "call(one);\nfoo();\n",
    replacementText: "call(two);\nfoo();\n",
    expectedError: /2 inexact matches.*lines 1, 3/,
  },
  {
    name: "a trailing blank of the edit that is within a word of the file",
    file: "total=first+second\n",
    oldText: "total=first+sec ",
    replacementText: "total=first+other ",
    expectedError: /not found/,
  },
];

const indentationEdits: InexactEdit[] = [
  {
    name: "all lines without their indentation",
    file: TS_FILE,
    oldText: "add(item: Item): void {\n  this.items.push(item);\n}",
    replacementText: "add(item: Item): void {\n  if (!item) return;\n  this.items.push(item);\n}",
    expectedFileText: replaceOnce(TS_FILE, "    this.items.push", "    if (!item) return;\n    this.items.push"),
  },
  {
    name: "all lines indented too deep",
    file: PYTHON_FILE,
    oldText: "        def count(self):\n            return sum(1 for _ in self.lines())",
    replacementText: "        def count(self):\n            n = len(list(self.lines()))\n            return n",
    expectedFileText: replaceOnce(
      PYTHON_FILE,
      "        return sum(1 for _ in self.lines())",
      "        n = len(list(self.lines()))\n        return n",
    ),
  },
  {
    name: "all lines one level too shallow, with more levels in the new text",
    file: PYTHON_FILE,
    oldText: "with open(self.path) as file:\n    for line in file:\n        yield line.strip()",
    replacementText:
      "with open(self.path) as file:\n    for line in file:\n        if line:\n            yield line.strip()",
    expectedFileText: replaceOnce(
      PYTHON_FILE,
      "                yield line.strip()",
      "                if line:\n                    yield line.strip()",
    ),
  },
  {
    name: "spaces instead of tabs",
    file: GO_FILE,
    oldText: "    for _, value := range values {\n        total += value\n    }",
    replacementText:
      "    for _, value := range values {\n        if value > 0 {\n            total += value\n        }\n    }",
    expectedFileText: replaceOnce(GO_FILE, "\t\ttotal += value\n", "\t\tif value > 0 {\n\t\t\ttotal += value\n\t\t}\n"),
  },
  {
    name: "two spaces instead of tabs",
    file: GO_FILE,
    oldText: "  for _, value := range values {\n    total += value\n  }",
    replacementText: "  for _, value := range values {\n    total -= value\n  }",
    expectedFileText: replaceOnce(GO_FILE, "total += value", "total -= value"),
  },
  {
    name: "tabs instead of spaces",
    file: PYTHON_FILE,
    oldText: "\t\twith open(self.path) as file:\n\t\t\tfor line in file:",
    replacementText: "\t\twith open(self.path, 'rb') as file:\n\t\t\tprint(file)\n\t\t\tfor line in file:",
    expectedFileText: replaceOnce(
      PYTHON_FILE,
      "with open(self.path) as file:\n",
      "with open(self.path, 'rb') as file:\n            print(file)\n",
    ),
  },
  {
    name: "two spaces instead of four",
    file: PYTHON_FILE,
    oldText: "  def lines(self):\n    with open(self.path) as file:\n      for line in file:",
    replacementText: "  def lines(self):\n    with open(self.path) as file:\n      print(1)\n      for line in file:",
    expectedFileText: replaceOnce(
      PYTHON_FILE,
      "            for line in file:",
      "            print(1)\n            for line in file:",
    ),
  },
  {
    name: "one line with tabs instead of spaces",
    file: PYTHON_FILE,
    oldText: "\t\tself.path = path\n",
    replacementText: "\t\tself.path = path\n\t\tself.open = False\n",
    expectedFileText: replaceOnce(PYTHON_FILE, "self.path = path\n", "self.path = path\n        self.open = False\n"),
  },
  {
    name: "one line with spaces instead of a tab",
    file: GO_FILE,
    oldText: "    total := 0\n",
    replacementText: "    total := 0\n    if len(values) == 0 {\n        return 0\n    }\n",
    expectedFileText: replaceOnce(
      GO_FILE,
      "\ttotal := 0\n",
      "\ttotal := 0\n\tif len(values) == 0 {\n\t\treturn 0\n\t}\n",
    ),
  },
  {
    name: "only the first line without its indentation, and trailing blanks",
    file: "  if (a) { \n    one();\n  }\n",
    oldText: "if (a) {\n    one();\n  }",
    replacementText: "if (b) {\n    one();\n  }",
    expectedFileText: "  if (b) { \n    one();\n  }\n",
  },
  {
    name: "only the first line with another indentation",
    file: "class A:\n    def a(self):\n        one()\n        two()\n",
    oldText: "def a(self):\n        one()\n        two() ",
    replacementText: "def a(self):\n        one()\n        three()",
    expectedFileText: "class A:\n    def a(self):\n        one()\n        three()\n",
  },
  {
    name: "one line that occurs at two depths",
    file: "if a:\n    return value\nfor b in c:\n        return value\n",
    oldText: "\treturn value\n",
    replacementText: "\treturn None\n",
    expectedError: /2 inexact matches.*lines 2, 4/,
  },
  {
    name: "lines on one level that are on two levels in the file",
    file: "if one:\n    call_it()\n        .then()\n",
    oldText: "  call_it()\n  .then()",
    replacementText: "  call_it()\n  .catch()",
    expectedError: /is unclear/,
  },
  {
    name: "new lines whose indentation would be negative",
    file: "function outer() {\n  inner_call();\n}\n",
    oldText: "      inner_call();\n",
    replacementText: "      inner_call();\n  }\n",
    expectedError: /is unclear/,
  },
  {
    name: "a method with inconsistent indentation and blank lines",
    file: TS_FILE,
    oldText: "  }\n\ntotal(): number {\n  let sum = 0;",
    replacementText: "  }\n\ntotal(): number {\n  let sum = 1;",
    expectedError: /is unclear|not found/,
  },
  {
    name: "a YAML list that is indented deeper in the file",
    file: "jobs:\n  build:\n    steps:\n      - run: make\n      - run: make test\n",
    oldText: "steps:\n  - run: make\n  - run: make test\n",
    replacementText: "steps:\n  - run: make\n  - run: make check\n  - run: make test\n",
    expectedFileText:
      "jobs:\n  build:\n    steps:\n      - run: make\n      - run: make check\n      - run: make test\n",
  },
  {
    name: "tabs for indentation and spaces for alignment",
    file: "\tcall(one,\n\t     two)\n\tnext()\n",
    oldText: "    call(one,\n         two)\n",
    replacementText: "    call(one,\n         three)\n",
    expectedFileText: "\tcall(one,\n\t     three)\n\tnext()\n",
  },
  {
    name: "CRLF line endings, and spaces instead of tabs",
    file: GO_FILE.replaceAll("\n", "\r\n"),
    oldText: "    total := 0\n    for _, value := range values {\n        total += value\n",
    replacementText: "    total := 0\n    for _, value := range values {\n        total += value\n        count++\n",
    expectedFileText: replaceOnce(GO_FILE, "\t\ttotal += value\n", "\t\ttotal += value\n\t\tcount++\n").replaceAll(
      "\n",
      "\r\n",
    ),
  },
  {
    name: "a blank line between indented lines, which stays empty",
    file: PYTHON_FILE,
    oldText: "def __init__(self, path):\n    self.path = path\n\ndef lines(self):",
    replacementText: "def __init__(self, path):\n    self.path = path\n    self.n = 0\n\ndef lines(self):",
    expectedFileText: replaceOnce(PYTHON_FILE, "self.path = path\n", "self.path = path\n        self.n = 0\n"),
  },
];

const typographyEdits: InexactEdit[] = [
  {
    name: "straight quotes instead of curly quotes",
    file: MARKDOWN_FILE,
    oldText: 'He said "wait – it’s not done" and left.',
    replacementText: 'He said "wait – it’s not done" and went.',
    expectedFileText: replaceOnce(MARKDOWN_FILE, "left", "went"),
  },
  {
    name: "a straight apostrophe and a hyphen instead of typographic characters",
    file: MARKDOWN_FILE,
    oldText: "wait - it's not done",
    replacementText: "wait - it's nearly done",
    expectedFileText: replaceOnce(MARKDOWN_FILE, "it’s not", "it’s nearly"),
  },
  {
    name: "curly quotes instead of straight quotes",
    file: `print("it's done")\nprint("more")\n`,
    oldText: "print(“it’s done”)",
    replacementText: "print(“it’s over”)",
    expectedFileText: `print("it's over")\nprint("more")\n`,
  },
  {
    name: "a no-break space in the file",
    file: "width: 10 px;\nheight: 20\u00A0px;\n",
    oldText: "height: 20 px;",
    replacementText: "height: 30 px;",
    expectedFileText: "width: 10 px;\nheight: 30\u00A0px;\n",
  },
  {
    name: "a no-break space in the edit",
    file: "const total = sum(values);\n",
    oldText: "const\u00A0total = sum(values);",
    replacementText: "const\u00A0total = sum(all);",
    expectedFileText: "const total = sum(all);\n",
  },
  {
    name: "three dots instead of an ellipsis character",
    file: MARKDOWN_FILE,
    oldText: "* one\n* two...\n",
    replacementText: "* one\n* two...\n* three\n",
    expectedFileText: `${MARKDOWN_FILE}* three\n`,
  },
  {
    name: "a hyphen instead of an em dash",
    file: "# Setup — first steps\n\ntext\n",
    oldText: "# Setup - first steps",
    replacementText: "# Setup - next steps",
    expectedFileText: "# Setup — next steps\n\ntext\n",
  },
  {
    name: "a zero-width space in the file",
    file: "const na\u200Bme = 1;\n",
    oldText: "const name = 1;",
    replacementText: "const name = 2;",
    expectedFileText: "const na\u200Bme = 2;\n",
  },
  {
    name: "curly quotes and another indentation",
    file: "    say(“hello”);\n    say(“bye”);\n",
    oldText: '  say("hello");\n  say("bye");',
    replacementText: '  say("hello");\n  wait();\n  say("bye");',
    expectedFileText: "    say(“hello”);\n    wait();\n    say(“bye”);\n",
  },
  {
    name: "an edit that changes only the quotes",
    file: "title: “Home”\n",
    oldText: 'title: "Home"',
    replacementText: "title: 'Home'",
    expectedFileText: "title: 'Home'\n",
  },
  {
    name: "two matches with curly quotes",
    file: "a: “yes” ok\nb: ‘no’ ok\nc: “yes” ok\n",
    oldText: '"yes" ok',
    replacementText: '"no" ok',
    expectedError: /2 inexact matches/,
  },
  {
    name: "an exact match beside an inexact match",
    file: 'a = “x” + y\nb = "x" + y\n',
    oldText: '"x" + y',
    replacementText: '"z" + y',
    expectedFileText: 'a = “x” + y\nb = "z" + y\n',
  },
  {
    name: "an accented character on the same line",
    file: "caf\u00E9 = “open”\n",
    oldText: '= "open"',
    replacementText: '= "shut"',
    expectedFileText: "caf\u00E9 = “shut”\n",
  },
];

const escapeEdits: InexactEdit[] = [
  {
    name: "escaped line endings in both texts",
    file: TS_FILE,
    oldText: "    let sum = 0;\\n    for (const item of this.items) {",
    replacementText: "    let sum = 1;\\n    for (const item of this.items) {",
    expectedFileText: replaceOnce(TS_FILE, "let sum = 0;", "let sum = 1;"),
  },
  {
    name: "escaped line endings in the old text only",
    file: TS_FILE,
    oldText: "    let sum = 0;\\n    for (const item of this.items) {",
    replacementText: '    let sum = 1;\n    log("\\n");\n    for (const item of this.items) {',
    expectedFileText: replaceOnce(TS_FILE, "let sum = 0;\n", 'let sum = 1;\n    log("\\n");\n'),
  },
  {
    name: "escaped quotes",
    file: 'say("hi");\nsay("bye");\n',
    oldText: 'say(\\"hi\\");',
    replacementText: 'say(\\"ho\\");',
    expectedFileText: 'say("ho");\nsay("bye");\n',
  },
  {
    name: "escaped tabs and line endings",
    file: GO_FILE,
    oldText: "\\tfor _, value := range values {\\n\\t\\ttotal += value\\n\\t}",
    replacementText: "\\tfor _, value := range values {\\n\\t\\ttotal -= value\\n\\t}",
    expectedFileText: replaceOnce(GO_FILE, "total += value", "total -= value"),
  },
  {
    name: "all characters escaped twice",
    file: 'print("a\\n")\nprint("b")\n',
    oldText: 'print(\\"a\\\\n\\")\\nprint(\\"b\\")',
    replacementText: 'print(\\"a\\\\n\\")\\nprint(\\"c\\")',
    expectedFileText: 'print("a\\n")\nprint("c")\n',
  },
  {
    name: "escaped line endings and unescaped backslashes",
    file: "const re = /\\\\d+/;\nuse(re);\n",
    oldText: "const re = /\\\\d+/;\\nuse(re);",
    replacementText: "const re = /\\\\d*/;\\nuse(re);",
    expectedFileText: "const re = /\\\\d*/;\nuse(re);\n",
  },
  {
    name: "an escaped back quote",
    file: "const text = `Hello ${name}`;\n",
    oldText: "const text = \\`Hello ${name}\\`;",
    replacementText: "const text = \\`Bye ${name}\\`;",
    expectedFileText: "const text = `Bye ${name}`;\n",
  },
  {
    name: "an escaped line ending within quotes, which is ambiguous",
    file: "first_call()\nsecond_call()\n",
    oldText: "first_call()\\nsecond_call()",
    replacementText: 'print("one\\ntwo")',
    expectedError: /may be a line ending or part of a quoted text/,
  },
  {
    name: "quotes escaped in only one of the texts",
    file: 'x = "a"\n',
    oldText: 'xyz = \\"abc\\"',
    replacementText: 'xyz = "say \\"hi\\""',
    expectedError: /not found/,
  },
  {
    name: "an escape sequence that matches the file exactly",
    file: 'log("a\\nb");\nlog("a");\n',
    oldText: 'log("a\\nb");',
    replacementText: 'log("a\\tb");',
    expectedFileText: 'log("a\\tb");\nlog("a");\n',
  },
];

const additionEdits: InexactEdit[] = [
  {
    name: "line numbers in the format of the read tool",
    file: TS_FILE,
    oldText: "9\t    let sum = 0;\n10\t    for (const item of this.items) {",
    replacementText: "9\t    let sum = 1;\n10\t    for (const item of this.items) {",
    expectedFileText: replaceOnce(TS_FILE, "let sum = 0;", "let sum = 1;"),
  },
  {
    name: "line numbers in the old text only",
    file: TS_FILE,
    oldText: "     9\t    let sum = 0;\n    10\t    for (const item of this.items) {",
    replacementText: "    let sum = 1;\n    for (const item of this.items) {",
    expectedFileText: replaceOnce(TS_FILE, "let sum = 0;", "let sum = 1;"),
  },
  {
    name: "line numbers with an arrow",
    file: TS_FILE,
    oldText: "    13→    return sum;\n",
    replacementText: "    13→    return sum + 1;\n",
    expectedFileText: replaceOnce(TS_FILE, "return sum;", "return sum + 1;"),
  },
  {
    name: "line numbers, and trailing blanks in the file",
    file: "one(); \ntwo();\n",
    oldText: "1\tone();\n2\ttwo();",
    replacementText: "1\tone();\n2\tthree();",
    expectedFileText: "one(); \nthree();\n",
  },
  {
    name: "line numbers in only some of the new lines",
    file: TS_FILE,
    oldText: "9\t    let sum = 0;\n10\t    for (const item of this.items) {",
    replacementText: "9\t    let sum = 1;\n    let more = 2;\n10\t    for (const item of this.items) {",
    expectedError: /begin with a line number, some do not/,
  },
  {
    name: "a table with numbers in its first column, which are not line numbers",
    file: "10\tten\n20\ttwenty\n",
    oldText: "10\tten",
    replacementText: "10\tTEN",
    expectedFileText: "10\tTEN\n20\ttwenty\n",
  },
  {
    name: "a code fence around both texts",
    file: TS_FILE,
    oldText: "```ts\n    return sum;\n```",
    replacementText: "```ts\n    return sum * 2;\n```",
    expectedFileText: replaceOnce(TS_FILE, "return sum;", "return sum * 2;"),
  },
  {
    name: "a code fence around the old text only",
    file: TS_FILE,
    oldText: "```\n    return sum;\n```\n",
    replacementText: "    return sum * 2;\n",
    expectedFileText: replaceOnce(TS_FILE, "return sum;", "return sum * 2;"),
  },
  {
    name: "a code fence that is part of the file",
    file: "Text\n\n```sh\nmake\n```\n",
    oldText: "```sh\nmake\n```",
    replacementText: "```sh\nmake test\n```",
    expectedFileText: "Text\n\n```sh\nmake test\n```\n",
  },
  {
    name: "blank lines before and after the text",
    file: "one();\ntwo();\nthree();\n",
    oldText: "\n\ntwo();\n\n",
    replacementText: "\n\n2();\n\n",
    expectedFileText: "one();\n2();\nthree();\n",
  },
  {
    name: "a final line ending that the file lacks",
    file: "one();\nlast();",
    oldText: "last();\n",
    replacementText: "final();\n",
    expectedFileText: "one();\nfinal();",
  },
  {
    name: "a final line ending that the file lacks, and added lines",
    file: "one();\nlast();",
    oldText: "last();\n",
    replacementText: "last();\nmore();\n",
    expectedFileText: "one();\nlast();\nmore();",
  },
  {
    name: "a trailing blank line in both texts that the file lacks",
    file: "import a\nimport b\ncode()\n",
    oldText: "import b\n\n",
    replacementText: "import b\nimport c\n\n",
    expectedFileText: "import a\nimport b\nimport c\ncode()\n",
  },
  {
    name: "a byte order mark, and trailing blanks",
    file: "\uFEFFusing System; \nusing Other;\n",
    oldText: "using System;\nusing Other;",
    replacementText: "using System;\nusing Another;",
    expectedFileText: "\uFEFFusing System; \nusing Another;\n",
  },
];

const otherEdits: InexactEdit[] = [
  {
    name: "part of one line that is also part of another line",
    file: "{\n    it's\n}\n{\n  it’s total\n",
    oldText: "{\n  it's",
    replacementText: "{\n  its",
    expectedError: /2 inexact matches.*lines 1, 4/,
  },
  {
    name: "an old text that starts with an empty line",
    file: "first\n\n  some_word \nlast\n    some_word\n",
    oldText: "\n    some_word \n",
    replacementText: "\n    any_word \n",
    expectedFileText: "first\n\n  any_word \nlast\n    some_word\n",
  },
  {
    name: "lines in a different order",
    file: "import alpha\nimport beta\nimport gamma\n",
    oldText: "import beta\nimport alpha\n",
    replacementText: "import beta\n",
    expectedError: /not found.*[Ll]ine \d/,
  },
  {
    name: "a missing line",
    file: TS_FILE,
    oldText: "    let sum = 0;\n      sum += item.price;\n",
    replacementText: "    let sum = 0;\n",
    expectedError: /Line 10 is most similar.*where old_string has "      sum \+= item.price;"/,
  },
  {
    name: "an extra line",
    file: "one();\ntwo();\n",
    oldText: "one();\nand_a_half();\ntwo();\n",
    replacementText: "one();\n",
    expectedError: /Line 2 .* "two\(\);", where old_string has "and_a_half\(\);"/,
  },
  {
    name: "missing lines, replaced by three dots",
    file: TS_FILE,
    oldText: "  total(): number {\n    ...\n    return sum;",
    replacementText: "  total(): number {\n    return 0;",
    expectedError: /Line 9 .*let sum/,
  },
  {
    name: "a different word",
    file: TS_FILE,
    oldText: "    for (const entry of this.items) {",
    replacementText: "    for (const one of this.items) {",
    expectedError: /Line 10 is most similar/,
  },
  {
    name: "a comment that the file lacks",
    file: TS_FILE,
    oldText: "    let sum = 0; // start\n",
    replacementText: "    let sum = 1;\n",
    expectedError: /Line 9 is most similar/,
  },
  {
    name: "different letter case",
    file: "SELECT name FROM users;\n",
    oldText: "select name from users;",
    replacementText: "select id from users;",
    expectedError: /not found/,
  },
  {
    name: "part of a word, and different blanks",
    file: "calculate_totals( items );\n",
    oldText: "calculate_total(items)",
    replacementText: "x()",
    expectedError: /not found/,
  },
  {
    name: "two exact matches",
    file: REPEATED_FILE,
    oldText: "    x = 1\n    return x",
    replacementText: "    x = 2\n    return x",
    expectedError: /occurs 2 times/,
  },
  {
    name: "two matches with different indentation",
    file: REPEATED_FILE,
    oldText: "  x = 1\n  return x",
    replacementText: "  x = 2\n  return x",
    expectedError: /2 inexact matches/,
  },
  {
    name: "replacement of all matches, none of them exact",
    file: REPEATED_FILE,
    oldText: "  x = 1\n  return x",
    replacementText: "  x = 2\n  return x",
    replacesAll: true,
    expectedError: /2 inexact matches/,
  },
  {
    name: "replacement of all matches, one of them exact",
    file: "call( one )\ncall(one)\n",
    oldText: "call(one)",
    replacementText: "call(two)",
    replacesAll: true,
    expectedFileText: "call( one )\ncall(two)\n",
  },
  {
    name: "a single brace with blanks that the file lacks",
    file: "if (a) {\n  b();\n}\n",
    oldText: "   }   \n",
    replacementText: "   };\n",
    expectedError: /not found/,
  },
  {
    name: "overlapping matches",
    file: "go(); \ngo(); \ngo(); \n",
    oldText: "go();\ngo();",
    replacementText: "go();",
    expectedError: /2 inexact matches/,
  },
  {
    name: "an edit without a change",
    file: "one();\ntwo();\n",
    oldText: "one(); \ntwo();",
    replacementText: "one();\ntwo();",
    expectedError: /would change nothing there/,
  },
];

/** Inexact edits as models make them, each with the required result. */
export const INEXACT_EDITS: readonly InexactEdit[] = [
  ...blankEdits,
  ...indentationEdits,
  ...typographyEdits,
  ...escapeEdits,
  ...additionEdits,
  ...otherEdits,
];
