// Reads many concurrent streams in its own process: `node stream-load.mjs BASE COUNT MESSAGE`. The process prints
// `{"all":true}` once each stream has sent text, and at the end the durations in ms and the number of characters.
import { Agent, request } from "node:http";

const [baseUrl, streamCount, message] = process.argv.slice(2);
const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
const body = JSON.stringify({ message, stream: true });
const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
const startMs = performance.now();
const firstTokensMs = [];
let characters = 0;

const runOnce = () =>
  new Promise((resolve, reject) => {
    const runRequest = request(`${baseUrl}/api/run`, { method: "POST", agent, headers }, (response) => {
      if (response.statusCode !== 200) return reject(new Error(`the server answered with ${response.statusCode}`));
      let incompleteLine = "";
      let hasText = false;
      response.setEncoding("utf8");
      response.on("data", (piece) => {
        const lines = (incompleteLine + piece).split("\n");
        incompleteLine = lines.pop();
        for (const line of lines) {
          if (!line.startsWith('data: {"type":"token"')) continue;
          if (!hasText) {
            hasText = true;
            firstTokensMs.push(performance.now() - startMs);
            if (firstTokensMs.length === Number(streamCount)) process.stdout.write('{"all":true}\n');
          }
          characters += JSON.parse(line.slice("data: ".length)).content?.length ?? 0;
        }
      });
      response.on("end", resolve);
      response.on("error", reject);
    });
    runRequest.on("error", reject);
    runRequest.end(body);
  });

await Promise.all(Array.from({ length: Number(streamCount) }, runOnce));
process.stdout.write(`${JSON.stringify({ firstTokensMs, ms: performance.now() - startMs, characters })}\n`);
process.exit();
