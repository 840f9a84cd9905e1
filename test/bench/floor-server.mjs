// Reference for a streaming server: it forwards each delta of the model as an event and stores nothing. The argument is
// the model's URL. The process prints its address and exits when its standard input ends.
import { Agent, createServer, request } from "node:http";

const url = `${process.argv[2]}/chat/completions`;
const agent = new Agent({ keepAlive: true, maxSockets: Infinity });

function streamAnswer(message, response) {
  const body = JSON.stringify({ model: "m1", stream: true, messages: [{ role: "user", content: message }] });
  const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  response.writeHead(200, { "content-type": "text/event-stream" });
  const modelRequest = request(url, { method: "POST", agent, headers }, (modelResponse) => {
    let incompleteLine = "";
    modelResponse.setEncoding("utf8");
    modelResponse.on("data", (piece) => {
      const lines = (incompleteLine + piece).split("\n");
      incompleteLine = lines.pop();
      let events = "";
      for (const line of lines) {
        if (!line.startsWith("data: {")) continue;
        const content = JSON.parse(line.slice("data: ".length)).choices[0]?.delta?.content;
        if (content) events += `event: agent\ndata: ${JSON.stringify({ type: "token", content })}\n\n`;
      }
      if (events !== "") response.write(events);
    });
    modelResponse.on("end", () => response.end('event: done\ndata: {"type":"done","done":true}\n\n'));
  });
  modelRequest.on("error", () => response.destroy());
  modelRequest.end(body);
}

const server = createServer((incoming, response) => {
  if (incoming.method === "GET") return response.end('{"status":"ok"}');
  let body = "";
  incoming.on("data", (piece) => (body += piece));
  incoming.on("end", () => streamAnswer(JSON.parse(body).message, response));
});
server.listen(0, "127.0.0.1", 4096, () =>
  process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`),
);
process.stdin.resume().on("end", () => process.exit());
