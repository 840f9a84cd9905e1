// Reference for a turn on a stored session: reads the messages, then requests the model. `node floor-session.mjs
// PRODUCT FILE MODEL ID TIMES` prints the time of each turn in ms, as a line of JSON.
import { Agent, request } from "node:http";
import { createRequire } from "node:module";
import path from "node:path";

const [product, storePath, modelUrl, sessionId, turnCount] = process.argv.slice(2);
const Database = createRequire(path.join(product, "package.json"))("better-sqlite3");
const database = new Database(storePath, { readonly: true });
const selectMessages = database.prepare(
  "SELECT role, parts FROM messages WHERE chain = (SELECT n FROM sessions WHERE id = ?) ORDER BY seq",
);
const agent = new Agent({ keepAlive: true });

const requestModel = (body) =>
  new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const modelRequest = request(`${modelUrl}/chat/completions`, { method: "POST", agent, headers }, (response) => {
      response.resume().on("end", resolve);
    });
    modelRequest.on("error", reject);
    modelRequest.end(body);
  });

const durationsMs = [];
for (let n = 0; n < Number(turnCount); n++) {
  const startMs = performance.now();
  const messages = selectMessages.all(sessionId).map(({ role, parts }) => ({
    role,
    content: JSON.parse(parts)
      .map(({ text }) => text)
      .join(""),
  }));
  if (messages.length === 0) throw new Error("nothing is stored");
  await requestModel(JSON.stringify({ model: "m1", stream: true, messages }));
  durationsMs.push(performance.now() - startMs);
}
process.stdout.write(`${JSON.stringify(durationsMs)}\n`);
process.exit();
