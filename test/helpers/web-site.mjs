// A web site in its own process, so that it can run on another network. It serves one page and receives the page's
// reports. The process prints its port and each report as a line of JSON.
import { createServer } from "node:http";

const page = Buffer.from(process.argv[2], "base64");
const server = createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    if (request.method === "POST") process.stdout.write(`${Buffer.concat(chunks).toString("utf8")}\n`);
    response.writeHead(request.url === "/favicon.ico" ? 404 : 200, { "content-type": "text/html" });
    response.end(request.method === "POST" || request.url === "/favicon.ico" ? "" : page);
  });
});
server.listen(0, "0.0.0.0", () => process.stdout.write(`${JSON.stringify({ port: server.address().port })}\n`));
process.stdin.resume().on("end", () => process.exit(0));
