// Fills a store through the product's own driver: `node store.mjs PRODUCT DRIVER OPTIONS PROJECT SESSIONS...`. OPTIONS
// are the driver's as JSON; SESSIONS are `count x messages` (`100000x0`, `1x50000`). Prints the ids of groups with
// fewer than ten sessions, one a line.
import { readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [product, driverName, options, projectDir, ...groups] = process.argv.slice(2);
/** Number of writes that run concurrently. */
const MAX_CONCURRENT = 1000;

const [adapterName, exportName] = {
  json: ["lowdb-json-driver", "LowdbJsonDriver"],
  sqlite: ["sqlite-driver", "SqliteDriver"],
  postgres: ["postgres-driver", "PostgresDriver"],
}[driverName];
const { exports } = JSON.parse(readFileSync(path.join(product, "package.json"), "utf8"));
const modulePath = path.join(product, exports["./adapters/*"].default.replace("*", adapterName));
const { [exportName]: Driver } = await import(pathToFileURL(modulePath).href);
const driver = new Driver(JSON.parse(options));
await driver.open();

const formatTime = (seconds) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();
const createSession = (id, seconds) => ({
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
  createdAt: formatTime(seconds),
  updatedAt: formatTime(seconds),
  usage: { promptTokens: 10, completionTokens: 5, totalTokens: 15, cost: 0 },
});
const createMessage = (sessionId, seq) => ({
  id: `${sessionId}-${seq}`,
  sessionId,
  seq,
  role: seq % 2 === 1 ? "user" : "assistant",
  parts: [{ type: "text", text: `What is said as number ${seq} of this conversation.` }],
  toolCallId: "",
  name: "",
  failed: false,
  createdAt: formatTime(seq),
  finished: true,
});

const printedIds = [];
for (const [group, groupText] of groups.entries()) {
  const [count, messageCount] = groupText.split("x").map(Number);
  let pendingWrites = [];
  for (let n = 0; n < count; n++) {
    const id = `prepared-${group}-${n}`;
    if (count < 10) printedIds.push(id);
    const storedMessages = Array.from({ length: messageCount }, (_, index) => createMessage(id, index + 1));
    pendingWrites.push(driver.create({ session: createSession(id, n), messages: storedMessages }));
    if (pendingWrites.length < MAX_CONCURRENT) continue;
    await Promise.all(pendingWrites);
    pendingWrites = [];
  }
  await Promise.all(pendingWrites);
}
await driver.close();
process.stdout.write(`${printedIds.join("\n")}\n`);
