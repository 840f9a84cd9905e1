import assert from "node:assert/strict";
import { aMessage, aSession, change, growing, leaseOf, listed, release, textOf, type StoreRules } from "./rule.js";

const HARD = [
  "NUL \0 in the middle",
  "emoji 👩‍👩‍👧‍👦 and flags 🇺🇳",
  "line one\nline two\r\n\u2028\u2029\t",
  "quotes ' \" ` \\ ${x} %s %",
  "\u0007\u001b[31m\u007f\ufeff\uffff",
  "العربية עברית 日本語",
  "__proto__",
];

export const textRules: StoreRules = {
  "text: NUL, emoji, control characters and quotes are stored unchanged": async (store) => {
    const { driver } = store;
    const parts = HARD.map((text) => ({ type: "text" as const, text }));
    const title = HARD.join(" ");
    await driver.create({
      session: aSession("a", { title, projectDir: "/tmp/ü 'x'\n" }),
      messages: [aMessage("a", 1, { parts })],
    });
    await driver.write("a", change({ add: [growing("a", 2)] }));
    const append = HARD.map((text, part) => ({ messageId: "a-2", part, type: "text" as const, text }));
    await driver.write("a", change({ append }));
    const reopened = await store.reopen();
    const [first, second] = await reopened.messages("a");
    assert.deepEqual(first?.parts, parts);
    assert.deepEqual(second?.parts, parts);
    assert.equal((await reopened.get("a"))?.title, title);
    assert.deepEqual(await listed(reopened, { projectDir: "/tmp/ü 'x'\n", search: "QUOTES ' \"" }), ["a"]);
  },
  "text: a surrogate pair that is split over two appends is joined": async (store) => {
    await store.driver.create({ session: aSession("a"), messages: [growing("a", 1)] });
    for (const text of ["x\ud83d", "\ude00y"]) {
      await store.driver.write("a", change({ append: [{ messageId: "a-1", part: 0, type: "text", text }] }));
    }
    assert.equal(textOf((await store.driver.messages("a"))[0]), "x😀y");
    assert.equal(textOf((await (await store.reopen()).messages("a"))[0]), "x😀y");
  },
  "text: a lone surrogate is kept or replaced, and the session can still be found": async (store) => {
    const lone = "a\ud800b";
    const message = aMessage("a", 1, { parts: [{ type: "text", text: lone }], name: lone, toolCallId: lone });
    await store.driver.create({ session: aSession("a", { title: lone, alias: lone }), messages: [message] });
    await store.driver.write("a", change({ set: { title: lone, model: lone } }));
    const driver = await store.reopen();
    const expected = [lone, "a\ufffdb"];
    assert.ok(expected.includes((await driver.get("a"))?.title ?? ""), "the title as it was, or well-formed");
    assert.ok(expected.includes(textOf((await driver.messages("a"))[0])), "the text as it was, or well-formed");
    assert.equal((await driver.get(lone))?.id, "a", "found by what it was stored under");
    assert.equal((await driver.list({ limit: 9, search: lone })).sessions.length, 1);
  },
  "text: stores parts larger than 1 MiB": async (store) => {
    const text = "0123456789abcdeé".repeat(65_536);
    await store.driver.create({
      session: aSession("a"),
      messages: [
        aMessage("a", 1, { parts: [{ type: "file", mediaType: "x/y", filename: "f", data: text }] }),
        growing("a", 2),
      ],
    });
    await store.driver.write("a", change({ append: [{ messageId: "a-2", part: 0, type: "text", text }] }));
    await store.driver.write("a", change({ append: [{ messageId: "a-2", part: 0, type: "text", text: "!" }] }));
    const [first, second] = await (await store.reopen()).messages("a");
    assert.equal(first?.parts[0]?.type === "file" && first.parts[0].data === text, true);
    assert.equal(textOf(second) === `${text}!`, true);
  },
  "ids: may contain quotes, slashes, dots and other characters that are invalid in file names": async (store) => {
    const ids = [
      "../up",
      "..",
      ".",
      "/etc/passwd",
      "a/b\\c",
      "it's; --",
      '"q"',
      "%2e%2e",
      "CON",
      "nul.json",
      "a b\n",
      "__proto__",
      "constructor",
      "ü😀",
      "A",
      "x".repeat(300),
    ];
    for (const [n, id] of ids.entries()) {
      await store.driver.create({
        session: aSession(id, { alias: `alias of ${id}` }),
        messages: [aMessage(id, 1, { id: `m${n}` })],
      });
      await release(store.driver, await leaseOf(store.driver, id, "h"));
    }
    const driver = await store.reopen();
    for (const id of ids) {
      assert.equal((await driver.get(id))?.id, id);
      assert.equal((await driver.get(`alias of ${id}`))?.id, id);
      assert.deepEqual((await driver.messages(id)).map(textOf), ["text 1"]);
    }
    assert.equal(await driver.get("a"), undefined, "not the session A");
    assert.deepEqual((await listed(driver)).sort(), [...ids].sort());
    await driver.delete(ids);
    assert.deepEqual(await driver.list({ limit: 9 }), { sessions: [], total: 0 });
  },
};
