// Reads many concurrent streams in its own process: `node stream-load.mjs BASE COUNT MESSAGE`. It prints `{"all":true}`
// once each stream has sent text. At the end it prints the durations in ms and the number of characters.
import { Agent, request } from "node:http";

const [base, count, message] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
const body = JSON.stringify({ message, stream: true });
const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
const since = performance.now();
const first = [];
let characters = 0;

const runOnce = () =>
  new Promise((resolve, reject) => {
    const runRequest = request(`${base}/api/run`, { method: "POST", agent, headers }, (response) => {
      if (response.statusCode !== 200) return reject(new Error(`answered with ${response.statusCode}`));
      let left = "";
      let talks = false;
      response.setEncoding("utf8");
      response.on("data", (piece) => {
        const lines = (left + piece).split("\n");
        left = lines.pop();
        for (const line of lines) {
          if (!line.startsWith('data: {"type":"token"')) continue;
          if (!talks) {
            talks = true;
            first.push(performance.now() - since);
            if (first.length === Number(count)) process.stdout.write('{"all":true}\n');
          }
          characters += JSON.parse(line.slice(6)).content?.length ?? 0;
        }
      });
      response.on("end", resolve);
      response.on("error", reject);
    });
    runRequest.on("error", reject);
    runRequest.end(body);
  });

await Promise.all(Array.from({ length: Number(count) }, runOnce));
process.stdout.write(`${JSON.stringify({ first, ms: performance.now() - since, characters })}\n`);
process.exit();
