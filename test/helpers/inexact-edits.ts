/** An inexact edit of a model, and its required result. */
export interface InexactEdit {
  /** Kind of inexactness, or the specific case of it. */
  readonly name: string;
  readonly file: string;
  readonly old: string;
  readonly fresh: string;
  readonly all?: boolean;
  /** The file afterwards. If absent, the edit must be refused with a message that matches `refused`. */
  readonly becomes?: string;
  readonly refused?: RegExp;
}

const TS = `export class Basket {
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
const PY = `class Reader:
    def __init__(self, path):
        self.path = path

    def lines(self):
        with open(self.path) as file:
            for line in file:
                yield line.strip()

    def count(self):
        return sum(1 for _ in self.lines())
`;
const GO = `func Sum(values []int) int {
\ttotal := 0
\tfor _, value := range values {
\t\ttotal += value
\t}
\treturn total
}
`;
const PROSE = `# Notes

He said “wait – it’s not done” and left.

* one
* two…
`;
const TWICE = `def first():
    x = 1
    return x

def second():
    x = 1
    return x
`;

const swap = (file: string, old: string, fresh: string): string => {
  if (file.split(old).length !== 2) throw new Error(`not once: ${old}`);
  return file.split(old).join(fresh);
};

const blanks: InexactEdit[] = [
  {
    name: "blanks at a line's end in the file",
    file: "if a:   \n    b()\n",
    old: "if a:\n    b()\n",
    fresh: "if a:\n    c()\n",
    becomes: "if a:   \n    c()\n",
  },
  {
    name: "blanks at a line's end in the edit",
    file: TS,
    old: "    let sum = 0;  \n    for (const item of this.items) {",
    fresh: "    let sum = 1;  \n    for (const item of this.items) {",
    becomes: swap(TS, "let sum = 0;", "let sum = 1;"),
  },
  {
    name: "one line with a blank behind it",
    file: TS,
    old: "    return sum; ",
    fresh: "    return sum / 2;",
    becomes: swap(TS, "return sum;", "return sum / 2;"),
  },
  {
    name: "a line that holds blanks alone, in the file",
    file: "one();\n    \ntwo();\n",
    old: "one();\n\ntwo();\n",
    fresh: "one();\n\nthree();\n",
    becomes: "one();\n    \nthree();\n",
  },
  {
    name: "a line that holds blanks alone, in the edit",
    file: "one();\n\ntwo();\n",
    old: "one();\n    \ntwo();",
    fresh: "one();\n    \nthree();",
    becomes: "one();\n\nthree();\n",
  },
  {
    name: "line ends of Windows in the file, blanks in both",
    file: "one(); \r\ntwo();\r\nthree();\r\n",
    old: "one();\ntwo();\n",
    fresh: "one();\ntwo();\nmore();\n",
    becomes: "one(); \r\ntwo();\r\nmore();\r\nthree();\r\n",
  },
  {
    name: "line ends of Windows in the edit alone",
    file: "one();\ntwo();\nthree();\n",
    old: "one();\r\ntwo();\r\n",
    fresh: "one();\r\nmore();\r\ntwo();\r\n",
    becomes: "one();\nmore();\ntwo();\nthree();\n",
  },
  {
    name: "line ends of Windows in the edit alone, and blanks",
    file: "one();  \ntwo();\nthree();\n",
    old: "one();\r\ntwo();\r\n",
    fresh: "one();\r\nmore();\r\ntwo();\r\n",
    becomes: "one();  \nmore();\ntwo();\nthree();\n",
  },
  {
    name: "a line end of Windows that the text begins with",
    file: "one();\r\ntwo();\r\nthree();\r\n",
    old: "\ntwo();",
    fresh: "",
    becomes: "one();\r\nthree();\r\n",
  },
  {
    name: "a line end of Windows in front of what is put in",
    file: "one();\r\ntwo();\r\n",
    old: "\ntwo();",
    fresh: "\nnew();\ntwo();",
    becomes: "one();\r\nnew();\r\ntwo();\r\n",
  },
  {
    name: "a text that is there twice, with other line ends",
    file: "if (a)\r\n  go();\r\nother();\nif (a)\n  go();\n",
    old: "if (a)\n  go();",
    fresh: "if (b)\n  go();",
    refused: /occurs 2 times \(lines 1, 4\)/,
  },
  {
    name: "a text that is to be replaced wherever it is, with other line ends",
    file: "if (a)\r\n  go();\r\nother();\nif (a)\n  go();\n",
    old: "if (a)\n  go();",
    fresh: "if (b)\n  go();",
    all: true,
    becomes: "if (b)\r\n  go();\r\nother();\nif (b)\n  go();\n",
  },
  {
    name: "line ends of both kinds, and the end of the line before",
    file: "one();\ntwo();\r\nthree();\nfour();\n",
    old: "\ntwo();\nthree();",
    fresh: "\ntwo();\nthree(3);",
    becomes: "one();\ntwo();\r\nthree(3);\nfour();\n",
  },
  {
    name: "line ends of both kinds",
    file: "one();\r\ntwo();\nthree();\r\nfour();\n",
    old: "one();\ntwo();\nthree();\nfour();",
    fresh: "one();\ntwo(2);\nthree();\nfour();",
    becomes: "one();\r\ntwo(2);\nthree();\r\nfour();\n",
  },
  {
    name: "two blanks between words where there is one",
    file: "int  a   = 1;\nint  bcd = 2;\n",
    old: "int a = 1;\nint bcd = 2;",
    fresh: "int a = 1;\nint bcd = 3;",
    becomes: "int  a   = 1;\nint  bcd = 3;\n",
  },
  {
    name: "a tab between words",
    file: "name\tvalue\nport\t80\n",
    old: "port 80",
    fresh: "port 8080",
    becomes: "name\tvalue\nport\t8080\n",
  },
  {
    name: "a line break of Markdown stays",
    file: "A line that breaks  \nand another line\n",
    old: "A line that breaks\nand another line",
    fresh: "A line which breaks\nand another line",
    becomes: "A line which breaks  \nand another line\n",
  },
  {
    name: "trailing blanks in two places",
    file: "call(one); \nfoo();\ncall(one);\t\nfoo();\n",
    old: "call(one);\nfoo();\n",
    fresh: "call(two);\nfoo();\n",
    refused: /2 inexact matches.*lines 1, 3/,
  },
  {
    name: "the blank that ends it is not in the middle of a word",
    file: "total=first+second\n",
    old: "total=first+sec ",
    fresh: "total=first+other ",
    refused: /not found/,
  },
];

const indentation: InexactEdit[] = [
  {
    name: "all of it without indentation",
    file: TS,
    old: "add(item: Item): void {\n  this.items.push(item);\n}",
    fresh: "add(item: Item): void {\n  if (!item) return;\n  this.items.push(item);\n}",
    becomes: swap(TS, "    this.items.push", "    if (!item) return;\n    this.items.push"),
  },
  {
    name: "all of it too deep",
    file: PY,
    old: "        def count(self):\n            return sum(1 for _ in self.lines())",
    fresh: "        def count(self):\n            n = len(list(self.lines()))\n            return n",
    becomes: swap(
      PY,
      "        return sum(1 for _ in self.lines())",
      "        n = len(list(self.lines()))\n        return n",
    ),
  },
  {
    name: "all of it too shallow by one level, with more levels in the new text",
    file: PY,
    old: "with open(self.path) as file:\n    for line in file:\n        yield line.strip()",
    fresh: "with open(self.path) as file:\n    for line in file:\n        if line:\n            yield line.strip()",
    becomes: swap(
      PY,
      "                yield line.strip()",
      "                if line:\n                    yield line.strip()",
    ),
  },
  {
    name: "spaces for tabs",
    file: GO,
    old: "    for _, value := range values {\n        total += value\n    }",
    fresh: "    for _, value := range values {\n        if value > 0 {\n            total += value\n        }\n    }",
    becomes: swap(GO, "\t\ttotal += value\n", "\t\tif value > 0 {\n\t\t\ttotal += value\n\t\t}\n"),
  },
  {
    name: "two spaces for tabs",
    file: GO,
    old: "  for _, value := range values {\n    total += value\n  }",
    fresh: "  for _, value := range values {\n    total -= value\n  }",
    becomes: swap(GO, "total += value", "total -= value"),
  },
  {
    name: "tabs for spaces",
    file: PY,
    old: "\t\twith open(self.path) as file:\n\t\t\tfor line in file:",
    fresh: "\t\twith open(self.path, 'rb') as file:\n\t\t\tprint(file)\n\t\t\tfor line in file:",
    becomes: swap(
      PY,
      "with open(self.path) as file:\n",
      "with open(self.path, 'rb') as file:\n            print(file)\n",
    ),
  },
  {
    name: "two spaces for four",
    file: PY,
    old: "  def lines(self):\n    with open(self.path) as file:\n      for line in file:",
    fresh: "  def lines(self):\n    with open(self.path) as file:\n      print(1)\n      for line in file:",
    becomes: swap(PY, "            for line in file:", "            print(1)\n            for line in file:"),
  },
  {
    name: "one line of tabs for spaces",
    file: PY,
    old: "\t\tself.path = path\n",
    fresh: "\t\tself.path = path\n\t\tself.open = False\n",
    becomes: swap(PY, "self.path = path\n", "self.path = path\n        self.open = False\n"),
  },
  {
    name: "one line of spaces for a tab",
    file: GO,
    old: "    total := 0\n",
    fresh: "    total := 0\n    if len(values) == 0 {\n        return 0\n    }\n",
    becomes: swap(GO, "\ttotal := 0\n", "\ttotal := 0\n\tif len(values) == 0 {\n\t\treturn 0\n\t}\n"),
  },
  {
    name: "the first line alone without its indentation, and blanks at an end",
    file: "  if (a) { \n    one();\n  }\n",
    old: "if (a) {\n    one();\n  }",
    fresh: "if (b) {\n    one();\n  }",
    becomes: "  if (b) { \n    one();\n  }\n",
  },
  {
    name: "the first line alone with another indentation",
    file: "class A:\n    def a(self):\n        one()\n        two()\n",
    old: "def a(self):\n        one()\n        two() ",
    fresh: "def a(self):\n        one()\n        three()",
    becomes: "class A:\n    def a(self):\n        one()\n        three()\n",
  },
  {
    name: "one line that is the same at two depths",
    file: "if a:\n    return value\nfor b in c:\n        return value\n",
    old: "\treturn value\n",
    fresh: "\treturn None\n",
    refused: /2 inexact matches.*lines 2, 4/,
  },
  {
    name: "lines of one level that are on two",
    file: "if one:\n    call_it()\n        .then()\n",
    old: "  call_it()\n  .then()",
    fresh: "  call_it()\n  .catch()",
    refused: /is unclear/,
  },
  {
    name: "new lines that are less deep than could be said",
    file: "function outer() {\n  inner_call();\n}\n",
    old: "      inner_call();\n",
    fresh: "      inner_call();\n  }\n",
    refused: /is unclear/,
  },
  {
    name: "a whole method, shifted and with blank lines between",
    file: TS,
    old: "  }\n\ntotal(): number {\n  let sum = 0;",
    fresh: "  }\n\ntotal(): number {\n  let sum = 1;",
    refused: /is unclear|not found/,
  },
  {
    name: "lines of a list in YAML that hang deeper",
    file: "jobs:\n  build:\n    steps:\n      - run: make\n      - run: make test\n",
    old: "steps:\n  - run: make\n  - run: make test\n",
    fresh: "steps:\n  - run: make\n  - run: make check\n  - run: make test\n",
    becomes: "jobs:\n  build:\n    steps:\n      - run: make\n      - run: make check\n      - run: make test\n",
  },
  {
    name: "tabs beside spaces that line something up",
    file: "\tcall(one,\n\t     two)\n\tnext()\n",
    old: "    call(one,\n         two)\n",
    fresh: "    call(one,\n         three)\n",
    becomes: "\tcall(one,\n\t     three)\n\tnext()\n",
  },
  {
    name: "Windows line ends and spaces for tabs",
    file: GO.replaceAll("\n", "\r\n"),
    old: "    total := 0\n    for _, value := range values {\n        total += value\n",
    fresh: "    total := 0\n    for _, value := range values {\n        total += value\n        count++\n",
    becomes: swap(GO, "\t\ttotal += value\n", "\t\ttotal += value\n\t\tcount++\n").replaceAll("\n", "\r\n"),
  },
  {
    name: "a blank line between, which stays without blanks",
    file: PY,
    old: "def __init__(self, path):\n    self.path = path\n\ndef lines(self):",
    fresh: "def __init__(self, path):\n    self.path = path\n    self.n = 0\n\ndef lines(self):",
    becomes: swap(PY, "self.path = path\n", "self.path = path\n        self.n = 0\n"),
  },
];

const print: InexactEdit[] = [
  {
    name: "straight quotes for curly ones",
    file: PROSE,
    old: 'He said "wait – it’s not done" and left.',
    fresh: 'He said "wait – it’s not done" and went.',
    becomes: swap(PROSE, "left", "went"),
  },
  {
    name: "an apostrophe and a hyphen",
    file: PROSE,
    old: "wait - it's not done",
    fresh: "wait - it's nearly done",
    becomes: swap(PROSE, "it’s not", "it’s nearly"),
  },
  {
    name: "curly quotes for straight ones",
    file: `print("it's done")\nprint("more")\n`,
    old: "print(“it’s done”)",
    fresh: "print(“it’s over”)",
    becomes: `print("it's over")\nprint("more")\n`,
  },
  {
    name: "a space that does not break",
    file: "width: 10 px;\nheight: 20\u00A0px;\n",
    old: "height: 20 px;",
    fresh: "height: 30 px;",
    becomes: "width: 10 px;\nheight: 30\u00A0px;\n",
  },
  {
    name: "a space that does not break in the edit",
    file: "const total = sum(values);\n",
    old: "const\u00A0total = sum(values);",
    fresh: "const\u00A0total = sum(all);",
    becomes: "const total = sum(all);\n",
  },
  {
    name: "three dots for an ellipsis",
    file: PROSE,
    old: "* one\n* two...\n",
    fresh: "* one\n* two...\n* three\n",
    becomes: `${PROSE}* three\n`,
  },
  {
    name: "a long dash",
    file: "# Setup — first steps\n\ntext\n",
    old: "# Setup - first steps",
    fresh: "# Setup - next steps",
    becomes: "# Setup — next steps\n\ntext\n",
  },
  {
    name: "a sign of no width",
    file: "const na\u200Bme = 1;\n",
    old: "const name = 1;",
    fresh: "const name = 2;",
    becomes: "const na\u200Bme = 2;\n",
  },
  {
    name: "curly quotes and another indentation",
    file: "    say(“hello”);\n    say(“bye”);\n",
    old: '  say("hello");\n  say("bye");',
    fresh: '  say("hello");\n  wait();\n  say("bye");',
    becomes: "    say(“hello”);\n    wait();\n    say(“bye”);\n",
  },
  {
    name: "the quotes are what the edit is about",
    file: "title: “Home”\n",
    old: 'title: "Home"',
    fresh: "title: 'Home'",
    becomes: "title: 'Home'\n",
  },
  {
    name: "quotes of print in two places",
    file: "a: “yes” ok\nb: ‘no’ ok\nc: “yes” ok\n",
    old: '"yes" ok',
    fresh: '"no" ok',
    refused: /2 inexact matches/,
  },
  {
    name: "the exact one of two that look alike",
    file: 'a = “x” + y\nb = "x" + y\n',
    old: '"x" + y',
    fresh: '"z" + y',
    becomes: 'a = “x” + y\nb = "z" + y\n',
  },
  {
    name: "bytes that are no UTF-8 beside it",
    file: "caf\u00E9 = “open”\n",
    old: '= "open"',
    fresh: '= "shut"',
    becomes: "caf\u00E9 = “shut”\n",
  },
];

const escapes: InexactEdit[] = [
  {
    name: "line ends escaped in both texts",
    file: TS,
    old: "    let sum = 0;\\n    for (const item of this.items) {",
    fresh: "    let sum = 1;\\n    for (const item of this.items) {",
    becomes: swap(TS, "let sum = 0;", "let sum = 1;"),
  },
  {
    name: "line ends escaped in the old text alone",
    file: TS,
    old: "    let sum = 0;\\n    for (const item of this.items) {",
    fresh: '    let sum = 1;\n    log("\\n");\n    for (const item of this.items) {',
    becomes: swap(TS, "let sum = 0;\n", 'let sum = 1;\n    log("\\n");\n'),
  },
  {
    name: "quotes escaped",
    file: 'say("hi");\nsay("bye");\n',
    old: 'say(\\"hi\\");',
    fresh: 'say(\\"ho\\");',
    becomes: 'say("ho");\nsay("bye");\n',
  },
  {
    name: "tabs and line ends escaped",
    file: GO,
    old: "\\tfor _, value := range values {\\n\\t\\ttotal += value\\n\\t}",
    fresh: "\\tfor _, value := range values {\\n\\t\\ttotal -= value\\n\\t}",
    becomes: swap(GO, "total += value", "total -= value"),
  },
  {
    name: "all of it escaped once more, what was escaped too",
    file: 'print("a\\n")\nprint("b")\n',
    old: 'print(\\"a\\\\n\\")\\nprint(\\"b\\")',
    fresh: 'print(\\"a\\\\n\\")\\nprint(\\"c\\")',
    becomes: 'print("a\\n")\nprint("c")\n',
  },
  {
    name: "line ends escaped, backslashes not",
    file: "const re = /\\\\d+/;\nuse(re);\n",
    old: "const re = /\\\\d+/;\\nuse(re);",
    fresh: "const re = /\\\\d*/;\\nuse(re);",
    becomes: "const re = /\\\\d*/;\nuse(re);\n",
  },
  {
    name: "a back quote escaped",
    file: "const text = `Hello ${name}`;\n",
    old: "const text = \\`Hello ${name}\\`;",
    fresh: "const text = \\`Bye ${name}\\`;",
    becomes: "const text = `Bye ${name}`;\n",
  },
  {
    name: "a line end in quotes, of which it is not clear what it is",
    file: "first_call()\nsecond_call()\n",
    old: "first_call()\\nsecond_call()",
    fresh: 'print("one\\ntwo")',
    refused: /may be a line ending or part of a quoted text/,
  },
  {
    name: "quotes that are escaped here and not there",
    file: 'x = "a"\n',
    old: 'xyz = \\"abc\\"',
    fresh: 'xyz = "say \\"hi\\""',
    refused: /not found/,
  },
  {
    name: "an escape that the file has is the exact text",
    file: 'log("a\\nb");\nlog("a");\n',
    old: 'log("a\\nb");',
    fresh: 'log("a\\tb");',
    becomes: 'log("a\\tb");\nlog("a");\n',
  },
];

const additions: InexactEdit[] = [
  {
    name: "line numbers as read prints them",
    file: TS,
    old: "9\t    let sum = 0;\n10\t    for (const item of this.items) {",
    fresh: "9\t    let sum = 1;\n10\t    for (const item of this.items) {",
    becomes: swap(TS, "let sum = 0;", "let sum = 1;"),
  },
  {
    name: "line numbers in the old text alone",
    file: TS,
    old: "     9\t    let sum = 0;\n    10\t    for (const item of this.items) {",
    fresh: "    let sum = 1;\n    for (const item of this.items) {",
    becomes: swap(TS, "let sum = 0;", "let sum = 1;"),
  },
  {
    name: "line numbers with an arrow",
    file: TS,
    old: "    13→    return sum;\n",
    fresh: "    13→    return sum + 1;\n",
    becomes: swap(TS, "return sum;", "return sum + 1;"),
  },
  {
    name: "line numbers and blanks at the ends of lines",
    file: "one(); \ntwo();\n",
    old: "1\tone();\n2\ttwo();",
    fresh: "1\tone();\n2\tthree();",
    becomes: "one(); \nthree();\n",
  },
  {
    name: "line numbers in some new lines alone",
    file: TS,
    old: "9\t    let sum = 0;\n10\t    for (const item of this.items) {",
    fresh: "9\t    let sum = 1;\n    let more = 2;\n10\t    for (const item of this.items) {",
    refused: /begin with a line number, some do not/,
  },
  {
    name: "a table whose first column is numbers is no line numbers",
    file: "10\tten\n20\ttwenty\n",
    old: "10\tten",
    fresh: "10\tTEN",
    becomes: "10\tTEN\n20\ttwenty\n",
  },
  {
    name: "a code fence around both texts",
    file: TS,
    old: "```ts\n    return sum;\n```",
    fresh: "```ts\n    return sum * 2;\n```",
    becomes: swap(TS, "return sum;", "return sum * 2;"),
  },
  {
    name: "a code fence around the old text alone",
    file: TS,
    old: "```\n    return sum;\n```\n",
    fresh: "    return sum * 2;\n",
    becomes: swap(TS, "return sum;", "return sum * 2;"),
  },
  {
    name: "a code fence that the file has",
    file: "Text\n\n```sh\nmake\n```\n",
    old: "```sh\nmake\n```",
    fresh: "```sh\nmake test\n```",
    becomes: "Text\n\n```sh\nmake test\n```\n",
  },
  {
    name: "blank lines before and behind",
    file: "one();\ntwo();\nthree();\n",
    old: "\n\ntwo();\n\n",
    fresh: "\n\n2();\n\n",
    becomes: "one();\n2();\nthree();\n",
  },
  {
    name: "a line end at the file's end that it has not",
    file: "one();\nlast();",
    old: "last();\n",
    fresh: "final();\n",
    becomes: "one();\nfinal();",
  },
  {
    name: "a line end that it has not, and lines behind it",
    file: "one();\nlast();",
    old: "last();\n",
    fresh: "last();\nmore();\n",
    becomes: "one();\nlast();\nmore();",
  },
  {
    name: "a blank line behind it that the new text wants too",
    file: "import a\nimport b\ncode()\n",
    old: "import b\n\n",
    fresh: "import b\nimport c\n\n",
    becomes: "import a\nimport b\nimport c\ncode()\n",
  },
  {
    name: "a byte order mark, and blanks",
    file: "\uFEFFusing System; \nusing Other;\n",
    old: "using System;\nusing Other;",
    fresh: "using System;\nusing Another;",
    becomes: "\uFEFFusing System; \nusing Another;\n",
  },
];

const otherEdits: InexactEdit[] = [
  {
    name: "a part of a line that may be a whole one elsewhere",
    file: "{\n    it's\n}\n{\n  it’s total\n",
    old: "{\n  it's",
    fresh: "{\n  its",
    refused: /2 inexact matches.*lines 1, 4/,
  },
  {
    name: "an empty line that it begins with is one",
    file: "first\n\n  some_word \nlast\n    some_word\n",
    old: "\n    some_word \n",
    fresh: "\n    any_word \n",
    becomes: "first\n\n  any_word \nlast\n    some_word\n",
  },
  {
    name: "lines in another order",
    file: "import alpha\nimport beta\nimport gamma\n",
    old: "import beta\nimport alpha\n",
    fresh: "import beta\n",
    refused: /not found.*[Ll]ine \d/,
  },
  {
    name: "a line left out",
    file: TS,
    old: "    let sum = 0;\n      sum += item.price;\n",
    fresh: "    let sum = 0;\n",
    refused: /Line 10 is most similar.*where old_string has "      sum \+= item.price;"/,
  },
  {
    name: "a line too many",
    file: "one();\ntwo();\n",
    old: "one();\nand_a_half();\ntwo();\n",
    fresh: "one();\n",
    refused: /Line 2 .* "two\(\);", where old_string has "and_a_half\(\);"/,
  },
  {
    name: "lines left out, with three dots",
    file: TS,
    old: "  total(): number {\n    ...\n    return sum;",
    fresh: "  total(): number {\n    return 0;",
    refused: /Line 9 .*let sum/,
  },
  {
    name: "a word that is another",
    file: TS,
    old: "    for (const entry of this.items) {",
    fresh: "    for (const one of this.items) {",
    refused: /Line 10 is most similar/,
  },
  {
    name: "a comment that the file has not",
    file: TS,
    old: "    let sum = 0; // start\n",
    fresh: "    let sum = 1;\n",
    refused: /Line 9 is most similar/,
  },
  {
    name: "other case",
    file: "SELECT name FROM users;\n",
    old: "select name from users;",
    fresh: "select id from users;",
    refused: /not found/,
  },
  {
    name: "a piece of a word",
    file: "calculate_totals( items );\n",
    old: "calculate_total(items)",
    fresh: "x()",
    refused: /not found/,
  },
  {
    name: "the same text twice",
    file: TWICE,
    old: "    x = 1\n    return x",
    fresh: "    x = 2\n    return x",
    refused: /occurs 2 times/,
  },
  {
    name: "the same text twice but for its indentation",
    file: TWICE,
    old: "  x = 1\n  return x",
    fresh: "  x = 2\n  return x",
    refused: /2 inexact matches/,
  },
  {
    name: "all of them, where none is to the letter",
    file: TWICE,
    old: "  x = 1\n  return x",
    fresh: "  x = 2\n  return x",
    all: true,
    refused: /2 inexact matches/,
  },
  {
    name: "all of them, where one is to the letter",
    file: "call( one )\ncall(one)\n",
    old: "call(one)",
    fresh: "call(two)",
    all: true,
    becomes: "call( one )\ncall(two)\n",
  },
  {
    name: "a brace alone with blanks that are not there",
    file: "if (a) {\n  b();\n}\n",
    old: "   }   \n",
    fresh: "   };\n",
    refused: /not found/,
  },
  {
    name: "places that share a line",
    file: "go(); \ngo(); \ngo(); \n",
    old: "go();\ngo();",
    fresh: "go();",
    refused: /2 inexact matches/,
  },
  {
    name: "nothing would change",
    file: "one();\ntwo();\n",
    old: "one(); \ntwo();",
    fresh: "one();\ntwo();",
    refused: /would change nothing there/,
  },
];

/** Inexact edits as models make them, each with the required result. */
export const INEXACT_EDITS: readonly InexactEdit[] = [
  ...blanks,
  ...indentation,
  ...print,
  ...escapes,
  ...additions,
  ...otherEdits,
];
