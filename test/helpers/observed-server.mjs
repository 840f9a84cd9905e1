// Loaded into a server: what it answered whom, as lines on stderr. Refused and served requests alike.
import { subscribe } from "node:diagnostics_channel";

subscribe("http.server.response.finish", ({ request, response }) => {
  const { host, origin, "sec-fetch-site": site } = request.headers;
  const answered = { method: request.method, url: request.url, status: response.statusCode, host, origin, site };
  process.stderr.write(`ANSWERED ${JSON.stringify(answered)}\n`);
});
