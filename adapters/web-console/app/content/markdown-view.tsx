import { useLayoutEffect, useRef } from "preact/hooks";
import { toClipboard } from "../parts/clipboard.js";
import { blocksOf, blocksOfGrown, singleBlockOf, type MarkdownBlock } from "./blocks.js";
import { highlightIn } from "./highlighting.js";
import { showBlock } from "./markdown.js";
import { usePaced } from "./paced.js";
import "./markdown.css";

/** A link reference definition. */
const DEFINITION = /^ {0,3}\[[^\]\n]+\]:/m;

/** Renders Markdown. While the text grows, only its last blocks are rendered again. */
export function Markdown({ text: fullText, grows = false }: { text: string; grows?: boolean }) {
  const text = usePaced(fullText, grows);
  const parsedText = useRef<ParsedText>({ text: "", blocks: [], grew: false, times: 0 });
  if (parsedText.current.text !== text) {
    const { text: before, blocks, times } = parsedText.current;
    const anew = before === "" && !grows;
    parsedText.current = {
      text,
      blocks: anew ? singleBlockOf(text) : blocksOfGrown(before, blocks, text),
      grew: !anew,
      times,
    };
  }
  // Blocks shown before a link definition arrived could not use it: parse the whole text once it is complete.
  if (!grows && parsedText.current.grew && text === fullText) {
    const { times } = parsedText.current;
    parsedText.current.grew = false;
    if (DEFINITION.test(text)) parsedText.current = { text, blocks: blocksOf(text), grew: false, times: times + 1 };
  }
  const { blocks, times } = parsedText.current;
  return (
    <div class="markdown">
      {blocks.map((block, index) => (
        <BlockView key={index} block={block} times={times} grows={grows && index === blocks.length - 1} />
      ))}
    </div>
  );
}

interface ParsedText {
  text: string;
  blocks: readonly MarkdownBlock[];
  /** Whether the text arrived in pieces and was not parsed as a whole since. */
  grew: boolean;
  /** Number of parses of the whole text after it had grown. */
  times: number;
}

/** One block. It is rendered again only if its source changed or the whole text was parsed again. */
function BlockView({ block, times, grows }: { block: MarkdownBlock; times: number; grows: boolean }) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return;
    showBlock(element, block);
    for (const pre of element.querySelectorAll("pre")) addTools(pre);
  }, [block.raw, times]);
  useLayoutEffect(() => (grows || !place.current ? undefined : highlightIn(place.current)), [block.raw, times, grows]);
  return <div class={`markdown-block markdown-${block.type}`} ref={place} />;
}

/** Adds the language and a copy button above code. */
function addTools(pre: HTMLPreElement): void {
  const code = pre.querySelector("code");
  if (!code) return;
  const language = /language-(\S+)/.exec(code.className)?.[1] ?? "";
  const frame = document.createElement("div");
  frame.className = "code";
  const head = document.createElement("div");
  head.className = "code-head";
  const name = document.createElement("span");
  name.textContent = language === "none" ? "" : language;
  const copy = document.createElement("button");
  copy.type = "button";
  copy.className = "code-copy";
  copy.textContent = "Copy";
  copy.setAttribute("aria-label", "Copy this code");
  copy.addEventListener("click", () => {
    void toClipboard(code.textContent).then((done) => {
      copy.textContent = done ? "Copied" : "Not allowed";
      setTimeout(() => (copy.textContent = "Copy"), 1500);
    });
  });
  head.append(name, copy);
  pre.replaceWith(frame);
  // Focusable, so that the keyboard can scroll it sideways.
  pre.tabIndex = 0;
  frame.append(head, pre);
}
