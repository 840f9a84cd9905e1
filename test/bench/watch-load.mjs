// Watchers of one session in their own process: `node watch-load.mjs BASE SESSION COUNT`. The last watcher reads one
// byte a second, the others read everything. The process prints `{"connected":true}` once all watchers are connected.
// When its standard input ends, it prints the number of answer characters that each watcher except the last has
// received: `{"characters":[...]}`.
import { Agent, request } from "node:http";

const [baseUrl, sessionId, watcherCount] = process.argv.slice(2);
const agent = new Agent({ maxSockets: Infinity });
const charactersByWatcher = [];
let connectedCount = 0;

const watch = (n) => {
  const isSlow = n === Number(watcherCount) - 1;
  if (!isSlow) charactersByWatcher.push(0);
  request(`${baseUrl}/api/sessions/${sessionId}/events`, { agent }, (response) => {
    if (response.statusCode !== 200) throw new Error(`the server answered with ${response.statusCode}`);
    connectedCount += 1;
    if (connectedCount === Number(watcherCount)) process.stdout.write('{"connected":true}\n');
    if (isSlow) return void setInterval(() => response.read(1), 1000);
    let incompleteLine = "";
    response.setEncoding("utf8");
    response.on("data", (piece) => {
      const lines = (incompleteLine + piece).split("\n");
      incompleteLine = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data: ")) continue;
        const { content, message } = JSON.parse(line.slice("data: ".length));
        if (message?.role === "assistant") charactersByWatcher[n] += message.content?.length ?? 0;
        else if (typeof content === "string") charactersByWatcher[n] += content.length;
      }
    });
  }).end();
};

for (let n = 0; n < Number(watcherCount); n++) watch(n);
process.stdin.resume().on("end", () => {
  process.stdout.write(`${JSON.stringify({ characters: charactersByWatcher })}\n`, () => process.exit());
});
