import assert from "node:assert/strict";
import type { Message } from "../../ports/message.js";
import type { SessionDriver } from "../../ports/session-driver.js";
import type { MessageMatch, MessageSearchQuery } from "../../ports/session-queries.js";
import { searchMessages } from "../../sessions/search/search-messages.js";
import { expectError } from "../check.js";
import { aGrowingMessage, aMessage, aSession, at, change } from "./records.js";
import type { StoreRules } from "./store-under-test.js";

/** Maximum number of pages of one search, against a driver whose pages never end. */
const MAX_PAGES = 200;

/** Reads all pages of a search. A driver without an index is searched as the kernel searches it. */
async function searchAll(
  driver: SessionDriver,
  text: string,
  query: Partial<MessageSearchQuery> = {},
): Promise<MessageMatch[]> {
  const matches: MessageMatch[] = [];
  let before: string | undefined;
  for (let pageCount = 1; ; pageCount++) {
    const page = await searchMessages(driver, { text, limit: 50, ...query, ...(before !== undefined && { before }) });
    assert.ok(page.matches.length <= (query.limit ?? 50), "a page has at most `limit` matches");
    matches.push(...page.matches);
    if (page.next === undefined) return matches;
    assert.ok(pageCount < MAX_PAGES, "the pages of a search end");
    before = page.next;
  }
}

/** Returns the ids of the matches, sorted. */
async function findIds(driver: SessionDriver, text: string, query?: Partial<MessageSearchQuery>): Promise<string[]> {
  return (await searchAll(driver, text, query)).map(({ messageId }) => messageId).sort();
}

function aText(sessionId: string, seq: number, text: string, fields: Partial<Message> = {}): Message {
  return aMessage(sessionId, seq, { parts: [{ type: "text", text }], ...fields });
}

export const searchRules: StoreRules = {
  "search: finds messages with all words, in any order, ignoring case and accents; the last word may be a start":
    async ({ driver }) => {
      const texts = ["The Sandbox needs a memory DISK", "sandbox without it", "Café crème", "disk-full: memory.go"];
      await driver.create({ session: aSession("a"), messages: texts.map((text, n) => aText("a", n + 1, text)) });
      assert.deepEqual(await findIds(driver, "sandbox"), ["a-1", "a-2"]);
      assert.deepEqual(await findIds(driver, "disk SANDBOX"), ["a-1"]);
      assert.deepEqual(await findIds(driver, "memory dis"), ["a-1", "a-4"]);
      assert.deepEqual(await findIds(driver, "dis memory"), [], "only the last word may be a start");
      assert.deepEqual(await findIds(driver, "andbox"), [], "the middle of a word");
      assert.deepEqual(await findIds(driver, "cafe CRÈME"), ["a-3"]);
      assert.deepEqual(await findIds(driver, "nothing"), []);
    },
  "search: reads the text parts of every role, as people see them": async ({ driver }) => {
    await driver.create({
      session: aSession("a"),
      messages: [
        aText("a", 1, "expanded template", { parts: [{ type: "text", text: "template", originalText: "/review" }] }),
        aText("a", 2, "", {
          role: "assistant",
          parts: [
            { type: "reasoning", text: "hesitation" },
            { type: "text", text: "verdict" },
            { type: "text", text: "second" },
          ],
        }),
        aText("a", 3, "printed", { role: "tool", toolCallId: "c", name: "bash" }),
      ],
    });
    assert.deepEqual(await findIds(driver, "review"), ["a-1"]);
    assert.deepEqual(await findIds(driver, "template"), []);
    assert.deepEqual(await findIds(driver, "second verdict"), ["a-2"], "words of two parts");
    assert.deepEqual(await findIds(driver, "hesitation"), []);
    assert.deepEqual(await findIds(driver, "printed"), ["a-3"]);
  },
  "search: a match has the fields of its message, and a snippet with the ranges of the words": async ({ driver }) => {
    const text = `${"before ".repeat(40)}the needle\n\tand the Haystack ${"after ".repeat(40)}`;
    await driver.create({ session: aSession("a", { title: "Found" }), messages: [aText("a", 1, "other")] });
    await driver.create({
      session: aSession("a1", { chain: { root: "a", index: 1 }, lastSeq: 1, title: "Follow-up" }),
      messages: [aText("a1", 2, text, { role: "assistant" })],
    });
    const [match, ...otherMatches] = await searchAll(driver, "needle hay");
    assert.deepEqual(otherMatches, []);
    assert.ok(match);
    const { snippet, ranges, ...fields } = match;
    const expectedFields = { sessionId: "a", title: "Found", messageId: "a1-2", seq: 2, createdAt: at(2) };
    assert.deepEqual(fields, { ...expectedFields, role: "assistant" });
    assert.ok(snippet.length < 300 && snippet.includes("the needle and the Haystack"), snippet);
    assert.deepEqual(
      ranges.map(([start, end]) => snippet.slice(start, end)),
      ["needle", "Hay"],
    );
  },
  "search: operators, quotes and wildcards have no meaning; a text without words finds nothing": async ({ driver }) => {
    const messages = ["alpha and beta", "alpha", "NEAR", "100% sure", "it's quoted"].map((text, n) =>
      aText("a", n + 1, text),
    );
    await driver.create({ session: aSession("a"), messages });
    assert.deepEqual(await findIds(driver, "alpha AND beta"), ["a-1"]);
    assert.deepEqual(await findIds(driver, "alpha OR beta"), []);
    assert.deepEqual(await findIds(driver, "alpha NOT beta"), []);
    assert.deepEqual(await findIds(driver, "NEAR"), ["a-3"]);
    assert.deepEqual(await findIds(driver, '"al"pha'), [], "the quotes separate words");
    assert.deepEqual(await findIds(driver, '"alpha" (beta) \\ : & | ! <-> ^ {}'), ["a-1"]);
    assert.deepEqual(await findIds(driver, "it's quoted"), ["a-5"]);
    assert.deepEqual(await findIds(driver, "100% sure"), ["a-4"]);
    for (const text of ["", " ", "*", "%", "_", '"', "'", "-", "\0", "\ud800", "&|!", "()"])
      assert.deepEqual(await findIds(driver, text), [], JSON.stringify(text));
  },
  "search: finds parts of names, and words of every script": async ({ driver }) => {
    const texts = [
      "parseHttpRequest(body)",
      "src/sql_driver/index.ts",
      "全文検索を試す",
      "Проверка кода",
      "𝒳 emoji 😀 done",
      "खोज परिणाम",
      "한국어 검색",
    ];
    await driver.create({ session: aSession("a"), messages: texts.map((text, n) => aText("a", n + 1, text)) });
    for (const query of ["parsehttprequest", "parseHttp", "http", "request body", "httpRequest"])
      assert.deepEqual(await findIds(driver, query), ["a-1"], query);
    for (const query of ["sql_driver", "driver", "index.ts", "src/sql"])
      assert.deepEqual(await findIds(driver, query), ["a-2"], query);
    for (const query of ["検索", "全文", "全文検索", "試", "文検"])
      assert.deepEqual(await findIds(driver, query), ["a-3"], query);
    assert.deepEqual(await findIds(driver, "検全"), [], "characters that are not neighbors");
    assert.deepEqual(await findIds(driver, "КОДА проверка"), ["a-4"]);
    assert.deepEqual(await findIds(driver, "emoji 😀 done"), ["a-5"]);
    assert.deepEqual(await findIds(driver, "परिणाम"), ["a-6"]);
    assert.deepEqual(await findIds(driver, "검색"), ["a-7"]);
  },
  "search: never finds hidden messages, and finds restored ones": async ({ driver }) => {
    const messages = [1, 2, 3].map((seq) => aText("a", seq, `common word${seq}`));
    await driver.create({ session: aSession("a"), messages });
    assert.deepEqual(await findIds(driver, "common"), ["a-1", "a-2", "a-3"]);
    await driver.write("a", change({ revert: { id: "s", after: 1, createdAt: at(1) } }));
    assert.deepEqual(await findIds(driver, "common"), ["a-1"]);
    assert.deepEqual(await findIds(driver, "word2"), []);
    await driver.write("a", change({ add: [aText("a", 4, "common word4")] }));
    assert.deepEqual(await findIds(driver, "common"), ["a-1", "a-4"]);
    await driver.write("a", change({ restore: "s" }));
    assert.deepEqual(await findIds(driver, "common"), ["a-1", "a-2", "a-3", "a-4"]);
  },
  "search: never finds deleted sessions, also if their ids are used again": async ({ driver }) => {
    for (const id of ["a", "b"])
      await driver.create({ session: aSession(id), messages: [aText(id, 1, "secret"), aText(id, 2, `of ${id}`)] });
    assert.deepEqual(await findIds(driver, "secret"), ["a-1", "b-1"]);
    await driver.delete(["b"]);
    assert.deepEqual(await findIds(driver, "secret"), ["a-1"]);
    await driver.create({ session: aSession("b"), messages: [aText("b", 1, "public"), aText("b", 2, "secret again")] });
    assert.deepEqual(await findIds(driver, "secret"), ["a-1", "b-2"]);
    assert.deepEqual(await findIds(driver, "public"), ["b-1"]);
    await driver.delete(["a", "b"]);
    await driver.create({ session: aSession("c"), messages: [aText("c", 1, "new")] });
    assert.deepEqual(await findIds(driver, "secret"), []);
    assert.deepEqual(await findIds(driver, "new"), ["c-1"]);
  },
  "search: finds the current text of growing messages, also of a crashed process": async (store) => {
    const { driver } = store;
    const appendText = (text: string, seq = 1): Promise<unknown> =>
      driver.write("a", change({ append: [{ messageId: `a-${seq}`, part: 0, type: "text", text }] }));
    await driver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1), aGrowingMessage("a", 2)] });
    assert.deepEqual(await findIds(driver, "first"), []);
    await appendText("first thou");
    assert.deepEqual(await findIds(driver, "first"), ["a-1"]);
    await appendText("ght second");
    assert.deepEqual(await findIds(driver, "thought second"), ["a-1"]);
    await driver.write("a", change({ finish: [aText("a", 1, "replaced at the end")] }));
    assert.deepEqual(await findIds(driver, "replaced"), ["a-1"]);
    assert.deepEqual(await findIds(driver, "thought"), []);
    await appendText("interrupted", 2);
    assert.deepEqual(await findIds(await store.reopen(), "interrupted"), ["a-2"]);
  },
  "search: filters by folder and archive state, and omits sessions of subagents": async ({ driver }) => {
    const spawnedBy = { sessionId: "a", runId: "r", callId: "c" };
    for (const [id, fields] of [
      ["a", { projectDir: "/p" }],
      ["b", { projectDir: "/p/q" }],
      ["c", { projectDir: "/p", archived: true }],
      ["d", { projectDir: "/p", spawnedBy }],
    ] as const)
      await driver.create({ session: aSession(id, fields), messages: [aText(id, 1, "word")] });
    assert.deepEqual(await findIds(driver, "word"), ["a-1", "b-1", "c-1"]);
    assert.deepEqual(await findIds(driver, "word", { projectDir: "/p" }), ["a-1", "c-1"]);
    assert.deepEqual(await findIds(driver, "word", { archived: "exclude" }), ["a-1", "b-1"]);
    assert.deepEqual(await findIds(driver, "word", { projectDir: "/p", archived: "only" }), ["c-1"]);
    await driver.write("a", change({ set: { archived: true, projectDir: "/moved" } }));
    assert.deepEqual(await findIds(driver, "word", { archived: "only" }), ["a-1", "c-1"]);
    assert.deepEqual(await findIds(driver, "word", { projectDir: "/moved" }), ["a-1"]);
  },
  "search: pages contain every match once, newest first, despite writes": async ({ driver }) => {
    const expectedIds: string[] = [];
    for (let n = 1; n <= 4; n++) {
      const id = `s${n}`;
      const messages = [1, 2, 3].map((seq) =>
        aText(id, seq, seq === 2 ? "other" : "word", { createdAt: at(n * 10 + seq) }),
      );
      await driver.create({ session: aSession(id, { createdAt: at(n * 10), updatedAt: at(n * 10 + 5) }), messages });
      expectedIds.unshift(`${id}-3`, `${id}-1`);
    }
    const pagedIds: string[] = [];
    let before: string | undefined;
    for (let pageCount = 0; pageCount < MAX_PAGES; pageCount++) {
      const page = await searchMessages(driver, { text: "word", limit: 3, ...(before !== undefined && { before }) });
      pagedIds.push(...page.matches.map(({ messageId }) => messageId));
      before = page.next;
      if (before === undefined) break;
      const newId = `new${pageCount}`;
      const session = aSession(newId, { createdAt: at(100 + pageCount), updatedAt: at(100 + pageCount) });
      await driver.create({ session, messages: [aText(newId, 1, "word", { createdAt: at(100 + pageCount) })] });
    }
    assert.deepEqual(pagedIds, expectedIds);
    assert.equal(before, undefined);
  },
  "search: rejects an invalid cursor and an aborted signal": async ({ driver }) => {
    await driver.create({ session: aSession("a"), messages: [aText("a", 1, "word")] });
    for (const before of ["", "x", "W10", Buffer.from('["a",{}]').toString("base64url")])
      await expectError(
        searchMessages(driver, { text: "word", limit: 1, before }),
        "invalid_input",
        JSON.stringify(before),
      );
    const signal = AbortSignal.abort(new Error("client disconnected"));
    await assert.rejects(searchMessages(driver, { text: "word", limit: 1, signal }), /client disconnected/);
  },
  "search: sees every earlier change of all drivers, while drivers write and search concurrently": async (store) => {
    const drivers = [store.driver, await store.getSecond()];
    await Promise.all(
      drivers.map(async (driver, index) => {
        const id = `s${index}`;
        await driver.create({ session: aSession(id) });
        for (let seq = 1; seq <= 20; seq++) {
          await driver.write(id, change({ add: [aText(id, seq, `shared own${index} n${seq}`)] }));
          const storedIds = Array.from({ length: seq }, (_, n) => `${id}-${n + 1}`).sort();
          assert.deepEqual(await findIds(driver, `own${index}`), storedIds);
        }
        await driver.delete([id === "s0" ? "s0" : "none"]);
      }),
    );
    for (const driver of drivers) {
      assert.equal((await findIds(driver, "shared")).length, 20);
      assert.deepEqual(await findIds(driver, "own0"), []);
      assert.deepEqual(await findIds(driver, "n7 shared"), ["s1-7"]);
    }
  },
};
