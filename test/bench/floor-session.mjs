// Reference for a turn on a stored session: reads its rows, then requests the model. `node floor-session.mjs PRODUCT
// FILE MODEL ID TIMES` prints the time of each turn in ms, as a line of JSON.
import { Agent, request } from "node:http";
import { createRequire } from "node:module";
import path from "node:path";

const [product, file, model, id, times] = process.argv.slice(2);
const Database = createRequire(path.join(product, "package.json"))("better-sqlite3");
const database = new Database(file, { readonly: true });
const rows = database.prepare(
  "SELECT role, parts FROM messages WHERE chain = (SELECT n FROM sessions WHERE id = ?) ORDER BY seq",
);
const agent = new Agent({ keepAlive: true });

const ask = (body) =>
  new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const modelRequest = request(`${model}/chat/completions`, { method: "POST", agent, headers }, (response) => {
      response.resume().on("end", resolve);
    });
    modelRequest.on("error", reject);
    modelRequest.end(body);
  });

const took = [];
for (let n = 0; n < Number(times); n++) {
  const since = performance.now();
  const messages = rows.all(id).map(({ role, parts }) => ({
    role,
    content: JSON.parse(parts)
      .map(({ text }) => text)
      .join(""),
  }));
  if (messages.length === 0) throw new Error("nothing is stored");
  await ask(JSON.stringify({ model: "m1", stream: true, messages }));
  took.push(performance.now() - since);
}
process.stdout.write(`${JSON.stringify(took)}\n`);
process.exit();
