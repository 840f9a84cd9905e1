/** A correct edit of a file that also has similar lines elsewhere. */
interface ExactEdit {
  readonly language: string;
  readonly file: string;
  readonly oldText: string;
  readonly replacementText: string;
}

/** An edit with a slip that models make, and the file that the exact edit gives. */
export interface EditSlip {
  readonly name: string;
  readonly file: string;
  readonly oldText: string;
  readonly replacementText: string;
  /** Undefined: the edit must be refused. */
  readonly expectedFileText?: string;
  /** The file without the lines of the edit. Lines that are similar to them remain. */
  readonly fileWithoutTarget: string;
}

const EXACT_EDITS: readonly ExactEdit[] = [
  {
    language: "TypeScript",
    file: `import { read } from "./read.js";

export class Queue<T> {
  readonly #items: T[] = [];

  push(item: T): void {
    if (this.#items.length >= 10) throw new Error("full – don’t add");
    this.#items.push(item);
  }

  unshift(item: T): void {
    if (this.#items.length >= 10) throw new Error("full – don’t add it");
    this.#items.unshift(item);
  }
}
`,
    oldText: `  push(item: T): void {
    if (this.#items.length >= 10) throw new Error("full – don’t add");
    this.#items.push(item);
  }`,
    replacementText: `  push(item: T): number {
    if (this.#items.length >= 20) throw new Error("full – don’t add");
    return this.#items.push(item);
  }`,
  },
  {
    language: "Python",
    file: `class Store:
    def load(self, path):
        """Load “one” file."""
        with open(path) as file:
            for line in file:
                if not line.strip():
                    continue
                self.add(line)

    def load_all(self, path):
        """Load “all” files."""
        with open(path) as file:
            for line in file:
                if not line.strip():
                    continue
                self.add_all(line)
`,
    oldText: `            for line in file:
                if not line.strip():
                    continue
                self.add(line)`,
    replacementText: `            for number, line in enumerate(file):
                if not line.strip():
                    continue
                self.add(number, line)`,
  },
  {
    language: "Go",
    file: `package main

func open(name string) (*File, error) {
\tf, err := os.Open(name)
\tif err != nil {
\t\treturn nil, fmt.Errorf("open %q: %w", name, err)
\t}
\treturn f, nil
}

func create(name string) (*File, error) {
\tf, err := os.Create(name)
\tif err != nil {
\t\treturn nil, fmt.Errorf("create %q: %w", name, err)
\t}
\treturn f, nil
}
`,
    oldText: `\tf, err := os.Create(name)
\tif err != nil {
\t\treturn nil, fmt.Errorf("create %q: %w", name, err)
\t}`,
    replacementText: `\tf, err := os.Create(filepath.Clean(name))
\tif err != nil {
\t\treturn nil, fmt.Errorf("create %q: %w", name, err)
\t}
\tcount++`,
  },
  {
    language: "YAML",
    file: `jobs:
  build:
    runs-on: ubuntu
    steps:
      - uses: actions/checkout@v4
      - run: npm ci
      - run: npm test -- --grep "it’s fast"
  lint:
    runs-on: ubuntu
    steps:
      - uses: actions/checkout@v4
      - run: npm ci
      - run: npm run lint
`,
    oldText: `      - run: npm ci
      - run: npm run lint`,
    replacementText: `      - run: npm ci
        env:
          CI: "1"
      - run: npm run lint -- --fix`,
  },
  {
    language: "Makefile",
    file: `all: build test

build:
\t@echo "building…"
\tcc -o out main.c \\
\t\t-Wall -O2

test:
\t@echo "testing…"
\t./out --test \\
\t\t--all
`,
    oldText: `test:
\t@echo "testing…"
\t./out --test \\
\t\t--all`,
    replacementText: `test: build
\t@echo "testing…"
\t./out --test \\
\t\t--all --fast`,
  },
  {
    language: "HTML",
    file: `<ul class="menu">
  <li>
    <a href="/one">One &amp; only</a>
  </li>
  <li>
    <a href="/two">Two — café</a>
  </li>
</ul>
`,
    oldText: `  <li>
    <a href="/two">Two — café</a>
  </li>`,
    replacementText: `  <li class="last">
    <a href="/two">Two — café</a>
    <span>new</span>
  </li>`,
  },
  {
    language: "Rust",
    file: `impl Reader {
    pub fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at)?;
        self.at += 1;
        Some(*byte)
    }

    pub fn peek(&self) -> Option<u8> {
        let byte = self.bytes.get(self.at)?;
        Some(*byte)
    }
}
`,
    oldText: `        let byte = self.bytes.get(self.at)?;
        self.at += 1;
        Some(*byte)`,
    replacementText: `        let byte = self.bytes.get(self.at)?;

        self.at += self.step;
        Some(*byte)`,
  },
];

const mapLines = (text: string, change: (line: string, index: number) => string): string =>
  text.split("\n").map(change).join("\n");

/** Each slip changes both texts, as a model that reproduces the file inexactly does. */
const SLIPS: Readonly<Record<string, (text: string, isOldText: boolean) => string>> = {
  "blanks at the ends of lines": (text, isOldText) =>
    isOldText ? mapLines(text, (line, i) => (i % 2 === 0 ? `${line}  ` : line)) : text,
  "without the common indentation": (text) => {
    const width = Math.min(...text.split("\n").map((line) => (line === "" ? Infinity : line.search(/\S/))));
    return mapLines(text, (line) => line.slice(width));
  },
  "one level too deep": (text) => mapLines(text, (line) => (line === "" ? "" : `    ${line}`)),
  "only the first line without its indentation": (text) =>
    mapLines(text, (line, i) => (i === 0 ? line.trimStart() : line)),
  "spaces for tabs, and tabs for spaces": (text) =>
    mapLines(text, (line) =>
      line.startsWith("\t")
        ? line.replace(/^\t+/, (tabs) => "    ".repeat(tabs.length))
        : line.replace(/^(?: {2})+/, (blanks) => "\t".repeat(blanks.length / 2)),
    ),
  "CRLF line ends": (text) => text.replaceAll("\n", "\r\n"),
  "line numbers": (text) => mapLines(text, (line, i) => `${String(i + 7).padStart(6)}\t${line}`),
  "a code fence and blank lines": (text) => `\n\`\`\`\n${text}\n\`\`\`\n`,
  "escaped line ends and quotes": (text) => JSON.stringify(text).slice(1, -1),
  "ASCII instead of typographic characters": (text) =>
    text.replaceAll(/[“”]/g, '"').replaceAll("’", "'").replaceAll(/[–—]/g, "-").replaceAll("…", "...").normalize("NFD"),
};

/** Slips whose result would not be certain. They are refused. */
const REFUSED_SLIPS: readonly string[] = [
  // The old text has no quotes, so it does not show whether those of the new text were escaped too.
  "YAML: escaped line ends and quotes",
  // A decomposed accent differs in the number of characters.
  "HTML: ASCII instead of typographic characters",
];

/** 70 edits: each slip in each language. */
export const EDIT_SLIPS: readonly EditSlip[] = EXACT_EDITS.flatMap(({ language, file, oldText, replacementText }) => {
  if (file.split(oldText).length !== 2) throw new Error(`not once: ${oldText}`);
  const expectedFileText = file.split(oldText).join(replacementText);
  return Object.entries(SLIPS).map(([slip, change]) => ({
    name: `${language}: ${slip}`,
    file,
    oldText: change(oldText, true),
    replacementText: change(replacementText, false),
    ...(REFUSED_SLIPS.includes(`${language}: ${slip}`) ? {} : { expectedFileText }),
    fileWithoutTarget: file.split(oldText).join(""),
  }));
});
