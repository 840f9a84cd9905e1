// Fills a store through the product's own driver: `node store.mjs PRODUCT DRIVER OPTIONS PROJECT SESSIONS...`. OPTIONS
// are the driver's as JSON; SESSIONS are `count x messages` (`100000x0`, `1x50000`). It prints the ids of groups with
// fewer than ten sessions, one a line.
import { readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [product, kind, options, projectDir, ...groups] = process.argv.slice(2);
/** Number of writes that run concurrently. */
const TOGETHER = 1000;

const [name, face] = {
  json: ["lowdb-json-driver", "LowdbJsonDriver"],
  sqlite: ["sqlite-driver", "SqliteDriver"],
  postgres: ["postgres-driver", "PostgresDriver"],
}[kind];
const { exports } = JSON.parse(readFileSync(path.join(product, "package.json"), "utf8"));
const file = path.join(product, exports["./adapters/*"].default.replace("*", name));
const { [face]: Driver } = await import(pathToFileURL(file).href);
const driver = new Driver(JSON.parse(options));
await driver.open();

const at = (seconds) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();
const session = (id, seconds) => ({
  id,
  alias: "",
  title: `Session ${id}`,
  hasFinalTitle: true,
  provider: "lab",
  model: "m1",
  reasoningEffort: "",
  mode: "auto",
  permissionGrants: [],
  rewinds: [],
  projectDir,
  parentId: "",
  chain: { root: id, index: 0 },
  lastSeq: 0,
  createdAt: at(seconds),
  updatedAt: at(seconds),
  usage: { promptTokens: 10, completionTokens: 5, totalTokens: 15, cost: 0 },
});
const message = (sessionId, seq) => ({
  id: `${sessionId}-${seq}`,
  sessionId,
  seq,
  role: seq % 2 === 1 ? "user" : "assistant",
  parts: [{ type: "text", text: `What is said as number ${seq} of this conversation.` }],
  toolCallId: "",
  name: "",
  failed: false,
  createdAt: at(seq),
  finished: true,
});

const shown = [];
for (const [group, text] of groups.entries()) {
  const [count, messages] = text.split("x").map(Number);
  let waiting = [];
  for (let n = 0; n < count; n++) {
    const id = `prepared-${group}-${n}`;
    if (count < 10) shown.push(id);
    const storedMessages = Array.from({ length: messages }, (_, index) => message(id, index + 1));
    waiting.push(driver.create({ session: session(id, n), messages: storedMessages }));
    if (waiting.length < TOGETHER) continue;
    await Promise.all(waiting);
    waiting = [];
  }
  await Promise.all(waiting);
}
await driver.close();
process.stdout.write(`${shown.join("\n")}\n`);
