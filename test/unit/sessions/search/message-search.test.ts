import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Part } from "gantry";
import { findSnippet, parseSearchText, toIndexTerms, toQueryTerms } from "gantry/plugin";

const toMessage = (text: string): { parts: Part[] } => ({ parts: [{ type: "text", text }] });

/** The snippet of a search, with `[` and `]` around its ranges; undefined without a match. */
function findMarked(text: string, query: string): string | undefined {
  const match = findSnippet(toMessage(text), parseSearchText(query));
  if (!match) return undefined;
  return match.ranges
    .toReversed()
    .reduce(
      (snippet, [start, end]) => `${snippet.slice(0, start)}[${snippet.slice(start, end)}]${snippet.slice(end)}`,
      match.snippet,
    );
}

/** Whether the index entry of a text has all terms of a query. */
function hasTerms(text: string, query: string): boolean {
  const terms = toIndexTerms(toMessage(text));
  const queryTerms = toQueryTerms(parseSearchText(query));
  return queryTerms.every((queryTerm) =>
    terms.some((term) => (queryTerm.isPrefix ? term.startsWith(queryTerm.text) : term === queryTerm.text)),
  );
}

describe("the search of a message", () => {
  it("marks the words of the query, and only the typed part of a prefix", () => {
    assert.equal(findMarked("A Disk is full", "full dis"), "A [Dis]k is [full]");
    assert.equal(findMarked("parseHttpBody()", "http"), "parse[Http]Body()");
    assert.equal(findMarked("全文検索です", "検索"), "全文[検索]です");
    assert.equal(findMarked("Crème brûlée", "creme"), "[Crème] brûlée");
  });

  it("joins ranges that overlap", () => {
    assert.equal(findMarked("httpBody", "httpbody body"), "[httpBody]");
  });

  it("puts the snippet on one line, without control characters, and marks omitted text", () => {
    const text = `${"x ".repeat(100)}\u001b[31m\r\n needle \t${"y ".repeat(200)}`;
    const snippet = findMarked(text, "needle") ?? "";
    assert.match(snippet, /^…x .* \[31m \[needle\] y .*y…$/);
    assert.ok(!/\p{Cc}/u.test(snippet));
  });

  it("does not split characters of two code units", () => {
    const text = `${"😀".repeat(99)} needle ${"😀".repeat(99)}`;
    const { snippet } = findSnippet(toMessage(text), parseSearchText("needle")) ?? { snippet: "" };
    assert.ok(!/\p{Surrogate}/u.test(snippet), JSON.stringify(snippet));
  });

  it("ignores text after the first 100,000 characters", () => {
    assert.equal(findMarked(`${"a ".repeat(50_000)}needle`, "needle"), undefined);
    assert.ok(!hasTerms(`${"a ".repeat(50_000)}needle`, "needle"));
  });

  it("gives every match an index entry with all terms", () => {
    const texts = [
      "parseHTTPResponse utf8Text x",
      "foo_bar-baz.qux",
      "ｆｕｌｌ ﬁne ½ ①",
      "検索と全文 hello",
      "한국어 ÉCOLE İstanbul",
    ];
    const queries = [
      "parse",
      "http",
      "httpresponse",
      "response utf8",
      "text",
      "foo bar",
      "baz qu",
      "full",
      "fine",
      "1",
      "検",
      "索と",
      "全文 hel",
      "한국",
      "école",
      "istanbul",
    ];
    for (const text of texts)
      for (const query of queries)
        if (findMarked(text, query) !== undefined) assert.ok(hasTerms(text, query), `${text}: ${query}`);
    assert.ok(queries.every((query) => texts.some((text) => findMarked(text, query) !== undefined)));
  });

  it("limits the terms of long words and of data", () => {
    const data = Array.from({ length: 300 }, (_, n) => `aB${n}`).join("");
    const terms = toIndexTerms(toMessage(`${data} ${"w".repeat(1000)}`));
    assert.deepEqual(
      terms.map(({ length }) => length),
      [64, 64],
    );
    assert.equal(findMarked("w".repeat(1000), "w".repeat(500)) === undefined, false);
  });

  it("has no terms for a query without words", () => {
    assert.deepEqual(parseSearchText(' "*" - () \0 \ud800 '), []);
    assert.equal(findMarked("anything", "..."), undefined);
  });
});
