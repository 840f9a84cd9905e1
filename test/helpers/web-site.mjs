// A web site, in a process of its own so that it can be on another network: one page, and what the page reports.
// Prints a line of JSON for its port and one for each report.
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
