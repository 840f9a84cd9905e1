// Watchers of one session, in a process of their own: `node watch-load.mjs BASE SESSION COUNT`. The last of them takes a
// byte a second, the others all there is. Prints `{"all":true}` when each watches, and `{"characters":[...]}` of each but the
// last when its standard input ends.
import { Agent, request } from "node:http";

const [base, session, count] = process.argv.slice(2);
const agent = new Agent({ maxSockets: Infinity });
const characters = [];
let watching = 0;

const one = (n) => {
  const isSlow = n === Number(count) - 1;
  if (!isSlow) characters.push(0);
  request(`${base}/api/sessions/${session}/events`, { agent }, (response) => {
    if (response.statusCode !== 200) throw new Error(`answered with ${response.statusCode}`);
    watching += 1;
    if (watching === Number(count)) process.stdout.write('{"all":true}\n');
    if (isSlow) return void setInterval(() => response.read(1), 1000);
    let left = "";
    response.setEncoding("utf8");
    response.on("data", (piece) => {
      const lines = (left + piece).split("\n");
      left = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data: ")) continue;
        const { content, message } = JSON.parse(line.slice(6));
        if (message?.role === "assistant") characters[n] += message.content?.length ?? 0;
        else if (typeof content === "string") characters[n] += content.length;
      }
    });
  }).end();
};

for (let n = 0; n < Number(count); n++) one(n);
process.stdin.resume().on("end", () => {
  process.stdout.write(`${JSON.stringify({ characters })}\n`, () => process.exit());
});
