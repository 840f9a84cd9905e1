// Watchers of one session in their own process: `node watch-load.mjs BASE SESSION COUNT`. The last watcher reads one
// byte a second, the others read everything. It prints `{"all":true}` once all are connected. When its standard input
// ends, it prints `{"characters":[...]}` of all except the last.
import { Agent, request } from "node:http";

const [base, sessionId, count] = process.argv.slice(2);
const agent = new Agent({ maxSockets: Infinity });
const characters = [];
let connectedCount = 0;

const watch = (n) => {
  const isSlow = n === Number(count) - 1;
  if (!isSlow) characters.push(0);
  request(`${base}/api/sessions/${sessionId}/events`, { agent }, (response) => {
    if (response.statusCode !== 200) throw new Error(`answered with ${response.statusCode}`);
    connectedCount += 1;
    if (connectedCount === Number(count)) process.stdout.write('{"all":true}\n');
    if (isSlow) return void setInterval(() => response.read(1), 1000);
    let incompleteLine = "";
    response.setEncoding("utf8");
    response.on("data", (piece) => {
      const lines = (incompleteLine + piece).split("\n");
      incompleteLine = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data: ")) continue;
        const { content, message } = JSON.parse(line.slice(6));
        if (message?.role === "assistant") characters[n] += message.content?.length ?? 0;
        else if (typeof content === "string") characters[n] += content.length;
      }
    });
  }).end();
};

for (let n = 0; n < Number(count); n++) watch(n);
process.stdin.resume().on("end", () => {
  process.stdout.write(`${JSON.stringify({ characters })}\n`, () => process.exit());
});
