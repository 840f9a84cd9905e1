import { span, type Span, type SpanStyle } from "./spans.js";

/** Parses `code`, **bold** and *italic* in one line. */
export function parseInline(text: string): Span[] {
  const spans: Span[] = [];
  let index = 0;
  for (const match of text.matchAll(/`([^`]+)`|\*\*([^*]+)\*\*|(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])/g)) {
    const [matchedText, code, bold, italic] = match;
    if (match.index > index) spans.push(span(text.slice(index, match.index)));
    const style: SpanStyle = code !== undefined ? "code" : bold !== undefined ? "bold" : "italic";
    spans.push(span(code ?? bold ?? italic ?? matchedText, style));
    index = match.index + matchedText.length;
  }
  if (index < text.length || spans.length === 0) spans.push(span(text.slice(index)));
  return spans;
}
