import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { findPaths, suggestFiles, findWordAt } from "../../../adapters/terminal/completion.js";
import { renderDiff } from "../../../adapters/terminal/diff-rows.js";
import { Editor } from "../../../adapters/terminal/editor.js";
import { Keyboard, type KeyInput } from "../../../adapters/terminal/keys.js";
import { getLineText } from "../../../adapters/terminal/spans.js";

describe("terminal input", () => {
  const readInputs = (...chunks: string[]): string[] => {
    const inputs: KeyInput[] = [];
    const keyboard = new Keyboard((input) => inputs.push(input));
    for (const chunk of chunks) keyboard.feed(chunk);
    keyboard.close();
    return inputs.map((keyInput) => {
      if (keyInput.type === "wheel") return `wheel ${keyInput.rows}`;
      if (keyInput.type !== "key") return `${keyInput.type} ${keyInput.text}`;
      return `${keyInput.ctrl ? "C-" : ""}${keyInput.alt ? "M-" : ""}${keyInput.shift ? "S-" : ""}${keyInput.name}`;
    });
  };

  it("is parsed into keys, text, pastes and wheel events, in one piece or by characters", () => {
    const inputText =
      "ä漢\r\u001b[A\u001b[1;5H\u001b[5~\u001bOB\u0003\u001b\r\u001b[13;2u\u001b[<64;1;1M\u001b[200~a\r\nb\u001b[A\u001b[201~\u007f";
    const expectedInputs = [
      "text ä漢",
      "enter",
      "up",
      "C-home",
      "pageup",
      "down",
      "C-c",
      "M-enter",
      "S-enter",
      "wheel 3",
    ];
    expectedInputs.push("paste a\nb\u001b[A", "backspace");
    assert.deepEqual(readInputs(inputText), expectedInputs);
    const inputsByCharacter = readInputs(...inputText.slice(2));
    assert.deepEqual(inputsByCharacter, expectedInputs.slice(1));
    // Mouse reports with button and position as characters type nothing.
    assert.deepEqual(readInputs("\u001b[M !!a", ..."\u001b[M`1mb"), ["text a", "text b"]);
  });

  it("is one paste of any length and in pieces of any size", () => {
    const text = `${"漢字 and words\n".repeat(8_000)}\u001b[20`;
    const pasteInput = `\u001b[200~${text}\u001b[201~x`;
    for (const pieceCharacters of [1, 7, 4096, pasteInput.length]) {
      const pieces = Array.from({ length: Math.ceil(pasteInput.length / pieceCharacters) }, (_, i) =>
        pasteInput.slice(i * pieceCharacters, (i + 1) * pieceCharacters),
      );
      assert.deepEqual(readInputs(...pieces), [`paste ${text}`, "text x"]);
    }
  });

  it("is ignored if it is a terminal report or an incomplete sequence", () => {
    assert.deepEqual(readInputs("\u001b[?1;2c", "\u001b[>0;276;0c", "\u001b[200"), []);
  });
});

describe("the prompt editor", () => {
  it("edits by grapheme and line, drops control characters, and recalls the last prompt", () => {
    const editor = new Editor();
    editor.insert("one 👩‍👩‍👧\u0007\u001b");
    assert.equal(editor.text, "one 👩‍👩‍👧");
    editor.backspace();
    assert.equal(editor.text, "one ");
    editor.insert("two\nthree");
    editor.moveUp();
    editor.moveToLineEnd();
    editor.insert("!");
    assert.equal(editor.text, "one two!\nthree");
    editor.killWord();
    editor.moveDown();
    editor.moveToLineStart();
    editor.yank();
    assert.equal(editor.text, "one \ntwo!three");
    assert.equal(editor.takeText(), "one \ntwo!three");
    editor.insert("draft");
    editor.moveUp();
    assert.equal(editor.text, "one \ntwo!three");
    editor.moveToLineEnd();
    editor.moveDown();
    assert.equal(editor.text, "draft");
  });

  it("completes words after @ and /, and finds the files that a prompt names", () => {
    assert.deepEqual(findWordAt("see @li", 7), { sign: "@", start: 4, word: "li" });
    assert.deepEqual(findWordAt("/mo", 3), { sign: "/", start: 0, word: "mo" });
    assert.equal(findWordAt("mail a@b.c", 10), undefined);
    const files = ["src/index.ts", "lib/a list.ts", "index.html"];
    assert.deepEqual(
      suggestFiles("ind", files).map(({ text }) => text),
      ["@index.html ", "@src/index.ts "],
    );
    assert.deepEqual(findPaths("@lib/a\\ list.ts and @nothing and @index.html", files), [
      "lib/a list.ts",
      "index.html",
    ]);
  });
});

describe("diff rows", () => {
  const renderRows = (oldText: string | null, newText: string, maxRows = 100) =>
    renderDiff({ path: "a", old_text: oldText, new_text: newText }, 40, maxRows).map((row) =>
      getLineText(row).trimEnd(),
    );

  it("show counts, changed lines and their context, and are limited to maxRows", () => {
    assert.deepEqual(renderRows("a\nb\nc\nd\ne\nf\ng\n", "a\nb\nc\nX\ne\nf\ng\n"), [
      "a +1 -1",
      "  ⋯",
      "  b",
      "  c",
      "- d",
      "+ X",
      "  e",
      "  f",
      "  ⋯",
    ]);
    assert.deepEqual(renderRows(null, "one\n"), ["new file a +1 -0", "+ one"]);
    assert.deepEqual(renderRows("one\n", ""), ["a +0 -1", "- one"]);
    assert.equal(renderRows(null, "x\n".repeat(500), 10).length, 10);
    // Texts that are too long to compare are still shown with their counts.
    const createLongText = (name: string) => Array.from({ length: 3000 }, (_, i) => `${name}${i}`).join("\n");
    assert.match(renderRows(createLongText("a"), createLongText("b"))[0] ?? "", /\+3000 -3000/);
  });
});
