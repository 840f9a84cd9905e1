import assert from "node:assert/strict";
import { acquireLease, listIds, releaseLease } from "./driver-calls.js";
import { aGrowingMessage, aMessage, aSession, change, joinParts } from "./records.js";
import type { StoreRules } from "./store-under-test.js";

const SPECIAL_TEXTS = [
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
    const parts = SPECIAL_TEXTS.map((text) => ({ type: "text" as const, text }));
    const title = SPECIAL_TEXTS.join(" ");
    await driver.create({
      session: aSession("a", { title, projectDir: "/tmp/ü 'x'\n" }),
      messages: [aMessage("a", 1, { parts })],
    });
    await driver.write("a", change({ add: [aGrowingMessage("a", 2)] }));
    const append = SPECIAL_TEXTS.map((text, part) => ({ messageId: "a-2", part, type: "text" as const, text }));
    await driver.write("a", change({ append }));
    const reopenedDriver = await store.reopen();
    const [firstMessage, secondMessage] = await reopenedDriver.messages("a");
    assert.deepEqual(firstMessage?.parts, parts);
    assert.deepEqual(secondMessage?.parts, parts);
    assert.equal((await reopenedDriver.get("a"))?.title, title);
    assert.deepEqual(await listIds(reopenedDriver, { projectDir: "/tmp/ü 'x'\n", search: "QUOTES ' \"" }), ["a"]);
  },
  "text: a surrogate pair that is split over two appends is joined": async (store) => {
    await store.driver.create({ session: aSession("a"), messages: [aGrowingMessage("a", 1)] });
    for (const text of ["x\ud83d", "\ude00y"]) {
      await store.driver.write("a", change({ append: [{ messageId: "a-1", part: 0, type: "text", text }] }));
    }
    assert.equal(joinParts((await store.driver.messages("a"))[0]), "x😀y");
    assert.equal(joinParts((await (await store.reopen()).messages("a"))[0]), "x😀y");
  },
  "text: a lone surrogate is kept or replaced, and the session can still be found": async (store) => {
    const text = "a\ud800b";
    const message = aMessage("a", 1, {
      parts: [{ type: "text", text }],
      name: text,
      toolCallId: text,
    });
    await store.driver.create({ session: aSession("a", { title: text, alias: text }), messages: [message] });
    await store.driver.write("a", change({ set: { title: text, model: text } }));
    const driver = await store.reopen();
    const expectedTexts = [text, "a\ufffdb"];
    assert.ok(
      expectedTexts.includes((await driver.get("a"))?.title ?? ""),
      "the stored title, or its well-formed version",
    );
    assert.ok(
      expectedTexts.includes(joinParts((await driver.messages("a"))[0])),
      "the stored text, or its well-formed version",
    );
    assert.equal((await driver.get(text))?.id, "a", "the alias finds the session");
    assert.equal((await driver.list({ limit: 9, search: text })).sessions.length, 1);
  },
  "text: stores parts larger than 1 MiB": async (store) => {
    const text = "0123456789abcdeé".repeat(65_536);
    await store.driver.create({
      session: aSession("a"),
      messages: [
        aMessage("a", 1, { parts: [{ type: "file", mediaType: "x/y", filename: "f", data: text }] }),
        aGrowingMessage("a", 2),
      ],
    });
    await store.driver.write("a", change({ append: [{ messageId: "a-2", part: 0, type: "text", text }] }));
    await store.driver.write("a", change({ append: [{ messageId: "a-2", part: 0, type: "text", text: "!" }] }));
    const [firstMessage, secondMessage] = await (await store.reopen()).messages("a");
    assert.equal(firstMessage?.parts[0]?.type === "file" && firstMessage.parts[0].data === text, true);
    assert.equal(joinParts(secondMessage) === `${text}!`, true);
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
      await releaseLease(store.driver, await acquireLease(store.driver, id, "h"));
    }
    const driver = await store.reopen();
    for (const id of ids) {
      assert.equal((await driver.get(id))?.id, id);
      assert.equal((await driver.get(`alias of ${id}`))?.id, id);
      assert.deepEqual((await driver.messages(id)).map(joinParts), ["text 1"]);
    }
    assert.equal(await driver.get("a"), undefined, "not the session A");
    assert.deepEqual((await listIds(driver)).sort(), [...ids].sort());
    await driver.delete(ids);
    assert.deepEqual(await driver.list({ limit: 9 }), { sessions: [], total: 0 });
  },
};
